"""A live memory: mixes the model's forecast with what followed similar moments before, and follows rehearsed
takes to send their cues.
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

#: Place in a take: index of the take, seconds in it, tempo relative to the rehearsal, trust 0..1.
Place = tuple[int, float, float, float]

Shared = Mapping[tuple[str, str], Moments]
"""Result of :func:`pyanticip.memory.alignment.shared_moments`."""

_DEFAULT_AHEAD_MS = 200.0


def check_cues(cues: Sequence[Cue], seconds: Mapping[str, float]) -> None:
    """Raise an OptionError unless every cue is within one of the takes, whose durations are ``seconds``."""
    for cue in cues:
        if cue.take not in seconds:
            hint = suggestion(cue.take, seconds) or f"; there are {', '.join(seconds)}"
            raise OptionError(f"cue {cue.name}: no take {cue.take!r} was rehearsed{hint}")
        if cue.at > (length := seconds[cue.take]):
            raise OptionError(f"cue {cue.name}: take {cue.take} is {length:.2f} s long, got at = {cue.at:g}")


class Following:
    """Follows the performer through rehearsed takes (T, 22, 4), by name.

    ``place`` is that of the newest frame (None: in none of the takes). ``takes`` reads the takes back from
    the follower, which keeps every second pose because they are large. ``seconds`` is the duration of each.
    """

    def __init__(self, takes: Mapping[str, npt.NDArray[np.float32]], cues: Sequence[Cue] = ()) -> None:
        self._names = list(takes)
        self.seconds: dict[str, float] = {}
        self.cues: tuple[Cue, ...] = ()
        self.place: Place | None = None
        #: The core's follower.
        self.core = Follower(self._iterate_takes(takes))
        self.takes = KeptTakes({name: partial(self.core.poses, n) for n, name in enumerate(self._names)})
        self._due: list[Event] = []
        self._shared: Shared = {}
        check_cues(cues, self.seconds)
        self.set_cues(cues, self.shared(cues))

    def _iterate_takes(
        self, takes: Mapping[str, npt.NDArray[np.float32]]
    ) -> Iterator[npt.NDArray[np.float32]]:
        for name, quats in takes.items():
            # Every second pose is kept, so that the length is only known to an even number of frames.
            self.seconds[name] = (len(quats) + len(quats) % 2) / RATE
            yield quats

    def shared(self, cues: Sequence[Cue]) -> Shared:
        """Find the cues' moments in the other takes; too slow to be done between two frames."""
        return shared_moments(self.takes, cues)

    def set_cues(self, cues: Sequence[Cue], shared: Shared) -> None:
        """Replace the cues; they are also sent in other takes whose moments are ``shared``.

        Raises an OptionError, and changes nothing, if a cue is in no take.
        """
        check_cues(cues, self.seconds)
        self._shared = shared
        self._arm(cues)

    def _arm(self, cues: Sequence[Cue], here: Cue | None = None) -> None:
        """Replace the cues; those that were sent already, and the one that is ``here``, are due in the next
        pass."""
        old_cues = [(cue.name, cue.take, cue.at) for cue in self.cues]
        old_indices = [old_cues.index(w) if (w := (c.name, c.take, c.at)) in old_cues else None for c in cues]
        also = [
            (index, self._names.index(take), float(np.interp(cue.at, *moments)))
            for index, cue in enumerate(cues)
            for (of, take), moments in self._shared.items()
            if of == cue.take and moments[0][0] <= cue.at <= moments[0][-1]
        ]
        core_cues = Cues([(self._names.index(c.take), c.at, c.ahead_ms / 1000.0) for c in cues], also)
        if here is not None:
            core_cues.passed(cues.index(here))
        self.core.arm(core_cues, old_indices)
        self.cues = tuple(cues)

    def update(self, place: Place | None, due: Sequence[tuple[int, float, float]]) -> None:
        """Take the place of the newest frame and the cues due in it: index, trust, seconds ahead."""
        self.place = place
        self._due += [(f"cue/{self.cues[index].name}", trust, ahead) for index, trust, ahead in due]

    def take_due(self) -> list[Event]:
        """Return the cues due since the last call, as events: name, trust, seconds ahead."""
        due, self._due = self._due, []
        return due

    def cue_here(self, name: str) -> Cue:
        """A cue at the performer's current place. Raises OptionError if that is unknown."""
        if self.place is None:
            raise OptionError("cue/set: expected a performer within what was rehearsed")
        take, seconds, *_ = self.place
        return Cue(name=name, take=self._names[take], at=round(seconds, 2), ahead_ms=self.ahead_ms(name))

    def ahead_ms(self, name: str) -> float:
        """How many milliseconds ahead a cue of this name is sent: as before, or the default."""
        return next((cue.ahead_ms for cue in self.cues if cue.name == name), _DEFAULT_AHEAD_MS)

    def set(self, cue: Cue, *, here: bool = False) -> None:
        """Add a cue, replacing one of the same name; one that is ``here`` is due in the next pass."""
        check_cues([cue], self.seconds)
        self._arm((*self._others(cue.name), cue), cue if here else None)

    def remove(self, name: str) -> None:
        """Remove a cue. Raises OptionError if there is none of this name."""
        if len(others := self._others(name)) == len(self.cues):
            known = [cue.name for cue in self.cues]
            hint = suggestion(name, known) or f"; there are {', '.join(known) or 'none'}"
            raise OptionError(f"cue/remove: no cue {name!r}{hint}")
        self._arm(others)

    def _others(self, name: str) -> tuple[Cue, ...]:
        return tuple(cue for cue in self.cues if cue.name != name)


#: The engine's memory output for a frame: trust, place, due cues.
Remembered = tuple[Sequence[float], Place | None, Sequence[tuple[int, float, float]]]

_NO_PLACE: Place = (-1, 0.0, 0.0, 0.0)
_MOMENTS_PER_MINUTE = 1500  # at 25 moments per second


class LiveMemory:
    """A :class:`pyanticip._core.Memory` in a live pipeline; the engine feeds it every frame.

    ``name`` and ``sha256`` are those of the file it was loaded from, empty without one. ``trust`` is how far
    each parameter of the newest frame at 100, 200 and 400 ms is forecast rather than held, 24 numbers,
    parameter by parameter.
    """

    def __init__(
        self, memory: Memory, name: str = "", sha256: str = "", following: Following | None = None
    ) -> None:
        self.memory = memory
        self.following = following
        self.name = name
        self.sha256 = sha256
        self.trust: Sequence[float] = ()
        #: Whether it is being written to a file.
        self.saving = False

    def check_unsaved(self, command: str) -> None:
        """Raise an OptionError while it is being saved, so that it cannot be cleared or replaced."""
        if self.saving:
            raise OptionError(f"{command}: a save is under way")

    @property
    def numbers(self) -> list[int]:
        """The memory's indices of the takes that are followed."""
        known = self.memory.takes
        return [] if self.following is None else [known.index(take) for take in self.following.takes]

    def update(self, remembered: Remembered) -> None:
        """Take the engine's output for a frame: trust, place, due cues."""
        self.trust, place, due = remembered
        if self.following is not None:
            self.following.update(place, due)

    def imagine(self, step: StepResult) -> StepResult:
        """Mix the model's output for an imagined frame as for a real one, without changing the memory."""
        return self.memory.imagine(step)

    @property
    def place(self) -> Place | None:
        """The performer's place in the rehearsed takes (take -1: in none); None if none was rehearsed."""
        if self.following is None:
            return None
        return self.following.place or _NO_PLACE

    def status_words(self) -> list[str]:
        """Words of the status."""
        minutes = len(self.memory) / _MOMENTS_PER_MINUTE
        state = "learns" if self.memory.learning else "frozen"
        return [f"memory={printable(self.name) or 'own'} {minutes:.1f} min {state}"]


def open_memory(
    file: str | Path | None, sha256: str | None = None, *, learn: bool = True, cues: Sequence[Cue] = ()
) -> LiveMemory:
    """Open a memory file, or an empty memory.

    Raises:
        FormatError: Not a usable memory.
        OptionError: A cue is in a take that was not rehearsed.
        CheckpointError: The file does not have this ``sha256``.
    """
    if file is None:
        live = LiveMemory(Memory())
    else:
        path = Path(file)
        memory, takes, file_sha256 = load_rehearsal(path)
        if sha256 not in (None, file_sha256):
            raise CheckpointError(
                f"{path}: is another memory than expected: sha256 {sha256[:12]}, got {file_sha256[:12]}"
            )
        following = Following(takes, cues) if takes else None
        live = LiveMemory(memory, path.name, file_sha256, following)
    if cues and live.following is None:
        missing = "; expected [memory] file in the rig, or --memory" if file is None else ""
        raise OptionError(f"cue {cues[0].name}: no take was rehearsed that can be followed{missing}")
    live.memory.learning = learn
    return live
