"""Records takes from a running show: frames as they arrive, with the target values at each of them.

The last seconds before a take are always buffered. They lead in, so that the model's state at the take's
first frame is what it will be live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import Clip
from pyanticip.teach.labels import check_labels
from pyanticip.teach.outputs import Output, check_outputs, find_output
from pyanticip.teach.project import Project
from pyanticip.teach.state import MAX_TAKE_FRAMES, TakeEntry
from pyanticip.vocabulary import RATE
from realtime.teaching.adding import LEAD_IN, MIN_FRAMES

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PlayedTake:
    """A take that was recorded and is not stored yet."""

    name: str
    clip: Clip
    begin: int
    values: Mapping[str, float]
    columns: Mapping[str, F64]
    source: str
    #: Whether it ended early, because the signal was lost or the skeleton changed.
    cut: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Whether the suit had sent its skeleton; until then a standard body is used.
    has_skeleton: bool = True

    @property
    def warning(self) -> str:
        """A warning for the performer; ``""``: none."""
        warnings = []
        if self.cut:
            warnings.append("the signal was lost or the skeleton changed: the take ends there")
        if not self.has_skeleton:
            warnings.append(
                "the suit had not sent its skeleton: the take is of a standard body, "
                "record it again once it has (mocopi: after some seconds)"
            )
        return "; ".join(warnings)

    def store(self, project: Project) -> TakeEntry:
        """Add it to the project; in a project without outputs this creates them."""
        return project.add_take(
            self.name,
            self.clip,
            begin=self.begin,
            values=self.values,
            columns=self.columns,
            labels=self.labels,
            source=self.source,
        )


_Frame = tuple[F32, F32, dict[str, float]]
"""Rotations (22, 4), root (3,), target values."""


class TakeRecorder:
    """Records takes of a performer.

    Targets (:meth:`set_targets`) that change during a take become curves. A take that could not be stored is
    kept by :meth:`add_unstored`.

    Args:
        project: read for its outputs and the names of its takes.
        body: has the source's joints, and whether its skeleton came; None: all joints, and a skeleton.
        source: noted in the takes.
        on_full: called when a take has reached its length, or has to end.
    """

    def __init__(
        self,
        project: Project,
        *,
        body: _core.LiveFront | None = None,
        source: str = "live",
        on_full: Callable[[], None] = lambda: None,
    ) -> None:
        self.project = project
        self.targets: dict[str, float] = {}
        self.labels: dict[str, str] = {}
        #: Shown as the state while no take runs, such as ``fitting``.
        self.busy = ""
        self._body = body
        # As of the newest frame of the take.
        self._mask, self._has_skeleton = np.ones(0, np.bool_), True
        self._source = source
        self._on_full = on_full
        self._recent: deque[_Frame] = deque(maxlen=LEAD_IN)
        self._take: list[_Frame] | None = None
        self._unstored: list[PlayedTake] = []
        self._lead_in: list[_Frame] = []
        self._take_labels: dict[str, str] = {}
        self._name = ""
        self._max_frames = MAX_TAKE_FRAMES
        self._cut = False

    @property
    def state(self) -> str:
        """``recording NAME SECONDS``, ``not stored: NAME``, :attr:`busy`, or ``idle``."""
        if self._take is not None:
            return f"recording {self._name} {self.seconds:.1f}s"
        if self._unstored:
            return f"not stored: {self._unstored[0].name}"
        return self.busy or "idle"

    @property
    def has_take(self) -> bool:
        """Whether a take is running, or one could not be stored; :meth:`stop` returns it."""
        return self._take is not None or bool(self._unstored)

    @property
    def seconds(self) -> float:
        """Length of the running take so far."""
        return len(self._take or ()) / RATE

    def set_targets(self, values: Mapping[str, float]) -> None:
        """Set target values from the next frame on; outputs not named keep theirs.

        In a project without outputs any name is accepted, with a range of 0..1.

        Raises:
            OptionError: an unknown output, a value outside its range, or a name that a class or render has.
        """
        self.project.refresh()
        outputs = self.project.state.outputs
        for name, value in values.items():
            output = find_output(outputs, name) if outputs else Output(name)
            check_outputs([output], outputs)
            if not output.contains(value):
                raise OptionError(f"{name}: expected {output.low:g} to {output.high:g}, got {value:g}")
        targets = {**self.targets, **values}
        self._check_names(targets, self.labels)
        self.targets = targets

    def set_labels(self, labels: Mapping[str, str]) -> None:
        """Set the labels of takes that begin from now on; classes not named keep theirs.

        Raises:
            OptionError: an invalid name, or one that an output has.
        """
        new_labels = {**self.labels, **check_labels(dict(labels))}
        self.project.refresh()
        self._check_names(self.targets, new_labels)
        self.labels = new_labels

    def _check_names(self, targets: Mapping[str, float], labels: Mapping[str, str]) -> None:
        """Check that a take can have these labels; in a project without outputs the targets become some."""
        if labels:
            outputs = {} if self.project.state.outputs else targets
            self.project.check_new_take(self._free_name(), outputs, labels)

    def clear_targets(self) -> None:
        """Forget all targets and labels."""
        self.targets, self.labels = {}, {}

    def start(self, name: str | None = None, seconds: float | None = None) -> str:
        """Begin a take with the next frame, and return its name.

        Args:
            name: None: the next free ``take-001``.
            seconds: length after which it ends by itself; None: :meth:`stop` ends it.

        Raises:
            OptionError: a take is running or not stored, no targets, an unknown output, a name in use, or
                an invalid length.
        """
        if self._take is not None:
            raise OptionError(f"take {self._name} is being recorded; stop it first")
        if self._unstored:
            unstored = self._unstored[0].name
            raise OptionError(f"take {unstored} is not stored yet: stop tries again, cancel throws it away")
        if not (self.targets or self.labels):
            raise OptionError("nothing to record yet: give values first, as brightness=.8, or a class")
        try:
            self.set_targets(self.targets)  # checked again: the outputs may have changed
        except OptionError as error:
            raise OptionError(f"{error}: teach/output NAME or teach/clear") from None
        name = self._free_name() if name is None else name
        self.project.check_new_take(name, self.targets, self.labels)
        if seconds is not None and not 0.5 <= seconds <= MAX_TAKE_FRAMES / RATE:
            raise OptionError(f"seconds: expected 0.5 to {MAX_TAKE_FRAMES / RATE:g}, got {seconds:g}")
        self._name, self._take, self._lead_in, self._cut = name, [], list(self._recent), False
        self._take_labels = self.labels
        # The lead-in counts as well: a longer take could not be stored.
        self._max_frames = MAX_TAKE_FRAMES - len(self._lead_in)
        if seconds is not None:
            self._max_frames = min(self._max_frames, round(seconds * RATE))
        return name

    def _free_name(self) -> str:
        used_names = {take.name for take in self.project.state.takes}
        number = len(used_names) + 1
        while (name := f"take-{number:03d}") in used_names:
            number += 1
        return name

    def add_frame(self, out: _core.FrontOutput) -> None:
        """Add a frame of the performer."""
        if out.reset:
            self._recent.clear()
            if not self._take:
                self._lead_in = []
            elif not self._cut:
                # After a long gap another movement begins: the take ends here.
                self._cut = True
                self._on_full()
        # All poses that this frame completed; lost frames in between are interpolated.
        poses, root = out.poses, out.root
        last_root = self._recent[-1][1] if self._recent else root
        roots = np.linspace(last_root, root, len(poses) + 1, dtype=np.float32)[1:]
        for pose, pose_root in zip(poses, roots, strict=True):
            frame = (pose, pose_root, self.targets)
            self._recent.append(frame)
            if self._take is not None and not self._cut and len(self._take) < self._max_frames:
                self._take.append(frame)
                if self._body is not None:
                    self._mask, self._has_skeleton = self._body.mask, self._body.has_skeleton
                if len(self._take) == self._max_frames:
                    self._on_full()

    def cancel(self) -> str:
        """Discard the running take, or else one that could not be stored, and return its name.

        Raises:
            OptionError: there is neither.
        """
        if self._take is None and self._unstored:
            return self._unstored.pop(0).name
        if self._take is None:
            raise OptionError("no take is being recorded")
        self._take = None
        return self._name

    def add_unstored(self, played: PlayedTake) -> None:
        """Keep a take that could not be stored: the next :meth:`stop` returns it again."""
        self._unstored.append(played)

    def stop(self) -> PlayedTake:
        """End the running take and return it; if none runs, one that could not be stored.

        Raises:
            OptionError: no take, or one of less than half a second.
        """
        if self._take is None and self._unstored:
            return self._unstored.pop(0)
        frames = self._take
        name = self.cancel()
        if frames is None or len(frames) < MIN_FRAMES:
            raise OptionError(
                f"take {name}: {len(frames or ()) / RATE:.2f} s are too short; expected at least 0.5 s"
            )
        motion = [*self._lead_in, *frames]
        quats, root = np.stack([frame[0] for frame in motion]), np.stack([frame[1] for frame in motion])
        values, columns = _constants_and_curves(frames)
        return PlayedTake(
            name,
            Clip(quats, root, RATE, canonical_skeleton(), name=name, mask=self._mask),
            len(self._lead_in),
            values,
            columns,
            self._source,
            self._cut,
            self._take_labels,
            self._has_skeleton,
        )


def _constants_and_curves(frames: list[_Frame]) -> tuple[dict[str, float], dict[str, F64]]:
    """Targets of a take: constants, and curves (frames,) of the outputs that changed.

    An output without a target in the first frames has its first value there.
    """
    names = list(dict.fromkeys(name for *_, targets in frames for name in targets))
    values: dict[str, float] = {}
    columns: dict[str, F64] = {}
    for name in names:
        points = [(t, targets[name]) for t, (*_, targets) in enumerate(frames) if name in targets]
        distinct = {value for _, value in points}
        if len(distinct) == 1:
            values[name] = distinct.pop()
        else:
            t, v = zip(*points, strict=True)
            columns[name] = np.interp(np.arange(len(frames)), t, v)
    return values, columns
