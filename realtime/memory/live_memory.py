"""A memory at work: every frame is heard, and what the model foresees is mixed with what followed before.

Beside it where the performer is in what was rehearsed, and the cues that are due there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyanticip._core import Cues, Follower, Memory
from pyanticip.controls import Event
from pyanticip.errors import CheckpointError, OptionError, printable, suggestion
from pyanticip.memory import load_rehearsal
from pyanticip.memory.alignment import Moments, shared_moments
from pyanticip.memory.cues import Cue
from pyanticip.memory.files import KeptTakes
from pyanticip.vocabulary import RATE
from realtime.step.base import StepResult

__all__ = ["Following", "LiveMemory", "Place", "check_cues", "open_memory"]

#: Take, seconds in it, tempo against the rehearsal, trust 0..1.
Place = tuple[int, float, float, float]

Shared = Mapping[tuple[str, str], Moments]
"""What :func:`pyanticip.memory.alignment.shared_moments` finds."""

_AHEAD_MS = 200.0


def check_cues(cues: Sequence[Cue], seconds: Mapping[str, float]) -> None:
    """Whether every cue is within one of the takes, which are so many seconds long. Raises OptionError."""
    for cue in cues:
        if cue.take not in seconds:
            hint = suggestion(cue.take, seconds) or f"; there are {', '.join(seconds)}"
            raise OptionError(f"cue {cue.name}: no take {cue.take!r} was rehearsed{hint}")
        if cue.at > (length := seconds[cue.take]):
            raise OptionError(f"cue {cue.name}: take {cue.take} is {length:.2f} s long, got at = {cue.at:g}")


class Following:
    """Follows takes (T, 22, 4), by name; ``place`` is that of the newest frame, None: in none of them.

    ``takes`` are these takes, read back from what follows, which keeps every second pose: they are large.
    ``seconds`` is how long each is.
    """

    def __init__(self, takes: Mapping[str, npt.NDArray[np.float32]], cues: Sequence[Cue] = ()) -> None:
        self._names = list(takes)
        self.seconds: dict[str, float] = {}
        self.cues: tuple[Cue, ...] = ()
        self.place: Place | None = None
        #: What follows, and tells the cues.
        self.core = Follower(self._told(takes))
        self.takes = KeptTakes({name: partial(self.core.poses, n) for n, name in enumerate(self._names)})
        self._due: list[Event] = []
        self._shared: Shared = {}
        check_cues(cues, self.seconds)
        self.say(cues, self.shared(cues))

    def _told(self, takes: Mapping[str, npt.NDArray[np.float32]]) -> Iterator[npt.NDArray[np.float32]]:
        for name, quats in takes.items():
            # Every second pose is kept: whether one was behind the last nobody knows any more.
            self.seconds[name] = (len(quats) + len(quats) % 2) / RATE
            yield quats

    def shared(self, cues: Sequence[Cue]) -> Shared:
        """Which moments of their takes other takes show as well; it takes too long for between two frames."""
        return shared_moments(self.takes, cues)

    def say(self, cues: Sequence[Cue], shared: Shared) -> None:
        """Say these and no others, also in the takes where what they are at is ``shared``.

        Raises an OptionError, and goes on as before, where one is in no take.
        """
        check_cues(cues, self.seconds)
        self._shared = shared
        self._arm(cues)

    def _arm(self, cues: Sequence[Cue], here: Cue | None = None) -> None:
        """Say these from now on; those that were said, and the one that is ``here``, in the next pass."""
        where = [(cue.name, cue.take, cue.at) for cue in self.cues]
        same = [where.index(w) if (w := (c.name, c.take, c.at)) in where else None for c in cues]
        also = [
            (index, self._names.index(take), float(np.interp(cue.at, *moments)))
            for index, cue in enumerate(cues)
            for (of, take), moments in self._shared.items()
            if of == cue.take and moments[0][0] <= cue.at <= moments[0][-1]
        ]
        armed = Cues([(self._names.index(c.take), c.at, c.ahead_ms / 1000.0) for c in cues], also)
        if here is not None:
            armed.passed(cues.index(here))
        self.core.arm(armed, same)
        self.cues = tuple(cues)

    def update(self, place: Place | None, due: Sequence[tuple[int, float, float]]) -> None:
        """Where the newest frame is, and the cues that are due in it: number, trust, seconds ahead."""
        self.place = place
        self._due += [(f"cue/{self.cues[index].name}", trust, ahead) for index, trust, ahead in due]

    def due(self) -> list[Event]:
        """The cues since the last call, as events: name, trust, seconds ahead."""
        due, self._due = self._due, []
        return due

    def here(self, name: str) -> Cue:
        """A cue of this name where the performer is now. Raises OptionError where that is not known."""
        if self.place is None:
            raise OptionError("cue/set: expected a performer within what was rehearsed")
        take, seconds, *_ = self.place
        return Cue(name=name, take=self._names[take], at=round(seconds, 2), ahead_ms=self.ahead_ms(name))

    def ahead_ms(self, name: str) -> float:
        """How long before it a cue of this name is said: as it was until now."""
        return next((cue.ahead_ms for cue in self.cues if cue.name == name), _AHEAD_MS)

    def set(self, cue: Cue, *, here: bool = False) -> None:
        """Say this one as well, in place of another of its name; one that is ``here``, in the next pass."""
        check_cues([cue], self.seconds)
        self._arm((*self._others(cue.name), cue), cue if here else None)

    def remove(self, name: str) -> None:
        """Say the one of this name no more. Raises OptionError where there is none."""
        if len(others := self._others(name)) == len(self.cues):
            known = [cue.name for cue in self.cues]
            hint = suggestion(name, known) or f"; there are {', '.join(known) or 'none'}"
            raise OptionError(f"cue/remove: no cue {name!r}{hint}")
        self._arm(others)

    def _others(self, name: str) -> tuple[Cue, ...]:
        return tuple(cue for cue in self.cues if cue.name != name)


#: What the engine tells of a frame.
Remembered = tuple[Sequence[float], Place | None, Sequence[tuple[int, float, float]]]

_NOWHERE: Place = (-1, 0.0, 0.0, 0.0)
_MINUTE = 1500  # moments, of which there are 25 a second


class LiveMemory:
    """The live face of a :class:`pyanticip._core.Memory`, which the engine lets hear every frame.

    ``name`` and ``sha256`` of the file it was loaded from, empty without one. ``trust``: what share of each
    parameter at 100, 200 and 400 ms of the newest frame is foreseen rather than held, 24 numbers, parameter
    by parameter.
    """

    def __init__(
        self, memory: Memory, name: str = "", sha256: str = "", following: Following | None = None
    ) -> None:
        self.memory = memory
        self.following = following
        self.name = name
        self.sha256 = sha256
        self.trust: Sequence[float] = ()
        #: Whether it is being written into a file.
        self.saving = False

    def check_unsaved(self, command: str) -> None:
        """Whether it may go. Raises an OptionError while it is being saved."""
        if self.saving:
            raise OptionError(f"{command}: a save is under way")

    @property
    def numbers(self) -> list[int]:
        """The takes that are followed, by the numbers that the memory has for them."""
        known = self.memory.takes
        return [] if self.following is None else [known.index(take) for take in self.following.takes]

    def update(self, remembered: Remembered) -> None:
        """What came of a frame: trust, place, cues that are due."""
        self.trust, place, due = remembered
        if self.following is not None:
            self.following.update(place, due)

    def imagine(self, step: StepResult) -> StepResult:
        """What the model says of a guessed frame, mixed as that of a true one is; leaves no trace."""
        return self.memory.imagine(step)

    @property
    def place(self) -> Place | None:
        """Where the performer is in what was rehearsed: take -1 in none of it; None where nothing was."""
        if self.following is None:
            return None
        return self.following.place or _NOWHERE

    def words(self) -> list[str]:
        """What the status says of it."""
        minutes = len(self.memory) / _MINUTE
        state = "learns" if self.memory.learning else "frozen"
        return [f"memory={printable(self.name) or 'own'} {minutes:.1f} min {state}"]


def open_memory(
    file: str | Path | None, sha256: str | None = None, *, learn: bool = True, cues: Sequence[Cue] = ()
) -> LiveMemory:
    """A memory file at work, or an empty memory.

    Raises:
        FormatError: no usable memory.
        OptionError: a cue in a take that was not rehearsed.
        CheckpointError: another file than the one with this ``sha256``.
    """
    if file is None:
        live = LiveMemory(Memory())
    else:
        path = Path(file)
        memory, takes, found = load_rehearsal(path)
        if sha256 not in (None, found):
            raise CheckpointError(
                f"{path}: is another memory than expected: sha256 {sha256[:12]}, got {found[:12]}"
            )
        following = Following(takes, cues) if takes else None
        live = LiveMemory(memory, path.name, found, following)
    if cues and live.following is None:
        missing = "; expected [memory] file in the rig, or --memory" if file is None else ""
        raise OptionError(f"cue {cues[0].name}: no take was rehearsed that can be followed{missing}")
    live.memory.learning = learn
    return live
