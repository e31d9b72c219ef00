"""Takes from a performer who is playing: frames as they come, with what is wanted at each of them.

The last seconds before a take are always kept: they lead in, so that the model has seen when the take is
learnt what it will have seen live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import Clip
from pyanticip.teach.labels import check_labels
from pyanticip.teach.outputs import Output, known_output
from pyanticip.teach.project import Project
from pyanticip.teach.state import LONGEST, TakeEntry, check_take_name
from pyanticip.vocabulary import RATE
from realtime.teaching.adding import LEAD_IN, SHORTEST

__all__ = ["PlayedTake", "TakeRecorder"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PlayedTake:
    """A take that has been played and is not stored yet."""

    name: str
    clip: Clip
    begin: int
    values: Mapping[str, float]
    columns: Mapping[str, F64]
    source: str
    cut: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Whether the suit had told its skeleton; until it does a standard body stands in.
    has_skeleton: bool = True

    @property
    def warning(self) -> str:
        """What its performer should know of it; empty: nothing."""
        said = []
        if self.cut:
            said.append("the signal was lost or the skeleton changed: the take ends there")
        if not self.has_skeleton:
            said.append(
                "the suit had not told its skeleton: the take is of a standard body, "
                "play it again once it has (mocopi: after some seconds)"
            )
        return "; ".join(said)

    def store(self, project: Project) -> TakeEntry:
        """Add it to the project; the first take of one without outputs makes them."""
        return project.add_take(
            self.name,
            self.clip,
            begin=self.begin,
            values=self.values,
            columns=self.columns,
            labels=self.labels,
            source=self.source,
        )


_Kept = tuple[F32, F32, dict[str, float]]


class Body(Protocol):
    """Whose frames they are; a :class:`pyanticip._core.LiveFront` is one."""

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which canonical joints there are, (22,)."""
        ...

    @property
    def has_skeleton(self) -> bool:
        """Whether the suit has told its skeleton."""
        ...


class TakeRecorder:
    """Listens to a performer and takes down takes.

    ``project`` is read for its outputs alone; ``body`` tells which joints the source has, and whether it has
    told its skeleton (none: all, and it has); ``full`` is called when a take has reached its length. What is
    wanted (:meth:`want`) may change while a take runs: then it becomes a curve. One that could not be stored
    is given back (:meth:`keep`).
    """

    def __init__(
        self,
        project: Project,
        *,
        body: Body | None = None,
        source: str = "live",
        full: Callable[[], None] = lambda: None,
    ) -> None:
        self.project = project
        self.wanted: dict[str, float] = {}
        self.labels: dict[str, str] = {}
        self.busy = ""
        self._body = body
        # As it was in the newest frame of the take.
        self._mask, self._has_skeleton = np.ones(0, np.bool_), True
        self._source = source
        self._full = full
        self._past: deque[_Kept] = deque(maxlen=LEAD_IN)
        self._take: list[_Kept] | None = None
        self._unstored: list[PlayedTake] = []
        self._led: list[_Kept] = []
        self._name = ""
        self._frames = LONGEST
        self._cut = False

    @property
    def state(self) -> str:
        """idle, what it is busy with, the take that is being played and its seconds so far, or one that could
        not be stored."""
        if self._take is not None:
            return f"recording {self._name} {self.seconds:.1f}s"
        if self._unstored:
            return f"not stored: {self._unstored[0].name}"
        return self.busy or "idle"

    @property
    def has_take(self) -> bool:
        """Whether a take is being played, or one could not be stored: :meth:`stop` gives it."""
        return self._take is not None or bool(self._unstored)

    @property
    def seconds(self) -> float:
        """Length so far of the take that is being played."""
        return len(self._take or ()) / RATE

    def want(self, values: Mapping[str, float]) -> None:
        """From the next frame on these values are wanted; outputs not named keep theirs. In a project without
        outputs any name will do, and is 0..1. Raises OptionError."""
        self.project.refresh()
        outputs = self.project.state.outputs
        for name, value in values.items():
            output = known_output(outputs, name) if outputs else Output(name)
            if not output.contains(value):
                raise OptionError(f"{name}: expected {output.low:g} to {output.high:g}, got {value:g}")
        self.wanted = {**self.wanted, **values}

    def show(self, labels: Mapping[str, str]) -> None:
        """Takes that end from now on show these labels; classes not named keep theirs. Raises OptionError."""
        self.labels = {**self.labels, **check_labels(dict(labels))}

    def want_nothing(self) -> None:
        """Forget what is wanted, and the labels."""
        self.wanted, self.labels = {}, {}

    def start(self, name: str | None = None, seconds: float | None = None) -> str:
        """Begin a take with the next frame; its name. ``seconds``: it ends by itself."""
        if self._take is not None:
            raise OptionError(f"take {self._name} is being played; stop it first")
        if self._unstored:
            kept = self._unstored[0].name
            raise OptionError(f"take {kept} is not stored yet: stop tries again, cancel throws it away")
        if not (self.wanted or self.labels):
            raise OptionError("nothing is wanted yet: give values first, as brightness=.8, or a class")
        try:
            self.want(self.wanted)  # the outputs may be others by now
        except OptionError as error:
            raise OptionError(f"{error}: teach/output NAME or teach/clear") from None
        taken = {take.name for take in self.project.state.takes}
        number = len(taken) + 1
        while name is None:
            name = None if f"take-{number:03d}" in taken else f"take-{number:03d}"
            number += 1
        check_take_name(name)
        if name in taken:
            raise OptionError(f"take {name!r} is there already: choose another name, or remove it first")
        if seconds is not None and not 0.5 <= seconds <= LONGEST / RATE:
            raise OptionError(f"seconds: expected 0.5 to {LONGEST / RATE:g}, got {seconds:g}")
        self._frames = LONGEST - LEAD_IN if seconds is None else round(seconds * 50)
        self._name, self._take, self._led, self._cut = name, [], list(self._past), False
        return name

    def frame(self, out: _core.FrontOutput) -> None:
        """A frame that was played."""
        if out.reset:
            self._past.clear()
            if self._take:
                # What comes after a long gap is another movement: the take ends here.
                self._cut = True
                self._full()
            else:
                self._led = []
        # All that it completed: frames that were lost are filled, those that were left out had been heard.
        poses, root = out.poses, out.root
        before = self._past[-1][1] if self._past else root
        roots = np.linspace(before, root, len(poses) + 1, dtype=np.float32)[1:]
        for pose, place in zip(poses, roots, strict=True):
            kept = (pose, place, self.wanted)
            self._past.append(kept)
            if self._take is not None and not self._cut and len(self._take) < self._frames:
                self._take.append(kept)
                if self._body is not None:
                    self._mask, self._has_skeleton = self._body.mask, self._body.has_skeleton
                if len(self._take) == self._frames:
                    self._full()

    def cancel(self) -> str:
        """Throw the running take away, or else one that could not be stored; its name."""
        if self._take is None and self._unstored:
            return self._unstored.pop(0).name
        if self._take is None:
            raise OptionError("no take is being played")
        self._take = None
        return self._name

    def keep(self, played: PlayedTake) -> None:
        """It could not be stored: the next :meth:`stop` gives it once more."""
        self._unstored.append(played)

    def stop(self) -> PlayedTake:
        """End the running take; what was played. Where none runs, one that could not be stored.

        Raises:
            OptionError: no take, or one of less than half a second.
        """
        if self._take is None and self._unstored:
            return self._unstored.pop(0)
        frames = self._take
        name = self.cancel()
        if frames is None or len(frames) < SHORTEST:
            raise OptionError(
                f"take {name}: {len(frames or ()) / RATE:.2f} s are too short; expected at least 0.5 s"
            )
        kept = [*self._led, *frames]
        quats, root = np.stack([k[0] for k in kept]), np.stack([k[1] for k in kept])
        begin = len(self._led)
        clip = Clip(quats, root, RATE, canonical_skeleton(), name=name, mask=self._mask)
        values, columns = _wanted(frames)
        told = values, columns, self._source, self._cut, dict(self.labels), self._has_skeleton
        return PlayedTake(name, clip, begin, *told)


def _wanted(frames: list[_Kept]) -> tuple[dict[str, float], dict[str, F64]]:
    """Constants, and curves for what changed; an output wanted later than the first frame holds backwards."""
    names = list(dict.fromkeys(name for *_, wanted in frames for name in wanted))
    values: dict[str, float] = {}
    columns: dict[str, F64] = {}
    for name in names:
        given = [(t, wanted[name]) for t, (*_, wanted) in enumerate(frames) if name in wanted]
        level = {value for _, value in given}
        if len(level) == 1:
            values[name] = level.pop()
        else:
            t, v = zip(*given, strict=True)
            columns[name] = np.interp(np.arange(len(frames)), t, v)
    return values, columns
