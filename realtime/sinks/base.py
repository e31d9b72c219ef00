"""The control frame that every sink receives, and the protocols that sinks implement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyanticip._core import FrontOutput, StepResult
from pyanticip.controls import Event

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from pydantic import BaseModel

    F32 = npt.NDArray[np.float32]

#: Prefixes of events that change a lasting state (a label, a gesture): sent even if they are overdue.
STATE_EVENTS = ("class/", "gesture/")

Tempo = tuple[float, float, float]
"""The performer's beat: beats per minute (0: none known yet), phase 0..1 (0 on the beat), trust 0..1 (0: no
beat now; the tempo is then the last one known)."""


def beat_at(leading_beat: tuple[float, float], t_ns: int) -> Tempo:
    """Evaluate a leading beat (beats per minute, phase at clock time 0) at ``t_ns``, with full trust."""
    bpm, phase = leading_beat
    return bpm, (phase + t_ns * bpm / 60e9) % 1.0, 1.0


@dataclass(slots=True)
class ControlFrame:
    """One frame of control values: plain floats, ready to send.

    Attributes:
        seq: Index of the 50 Hz frame since the stream began, never decreasing; -1 marks a frame that carries
            ``status`` only, sent once a second.
        seconds: Source time since the stream began.
        scalars: The seven scalars.
        params: The eight parameters, 0..1.
        events: (name, strength 0..1, seconds ahead) each. A cue is named ``cue/<name>``, its strength the
            trust in the place. ``<name>/cancel`` withdraws an event announced for that many seconds ahead.
            ``class/<name>/enter:<label>`` and ``class/<name>/leave:<label>``: a label begins or ceases to
            apply. ``gesture/<name>/enter`` and ``.../leave``: a gesture is recognised or no longer is, with
            its progress and the seconds until it ends.
        status: State and counters, as ``name=value`` strings.
        extras: Taught outputs beyond the eight parameters, 0..1 (see :class:`Extra`).
        field: Trust 0..1 and curvature, of a model with a control field.
        plan: (code, weight) that a planning model expects, heaviest first.
        trust: Share of each parameter that is foreseen at 100, 200 and 400 ms (24 numbers), with a memory.
        place: Position in the rehearsed material: take (-1: nowhere), seconds in it, tempo, trust.
        classes: (class, current label, probability) of each taught class.
        t_ns: When the frame leaves, on the clock of the arrivals.
        wall_ns: The same moment as Unix time; set when the frame is sent, and only if it has events.
        state: ``playing``, ``silent``, ``frozen``, ``stopped`` or ``panic``.
        tempo: The beat at the frame's own time, see :data:`Tempo`.
        body: Front output of the frame that a datagram brought; None for a bridged frame.
        step: Model output, if there was a model step.
        limbs: Speed, height and stroke of left hand, right hand, left foot and right foot (12 numbers, 0..1).
            A bridged frame repeats the last ones; a stroke appears once, in its own frame or the first one
            sent after it. Empty in silence.
        gestures: (name, progress 0..1, seconds until it ends, probability 0..1) of each gesture in progress.
    """

    seq: int
    seconds: float
    scalars: Sequence[float]
    params: Sequence[float]
    events: Sequence[Event] = ()
    status: tuple[str, ...] = ()
    extras: Sequence[float] = ()
    field: Sequence[float] = ()
    plan: Sequence[tuple[int, float]] = ()
    trust: Sequence[float] = ()
    place: tuple[int, float, float, float] | None = None
    classes: Sequence[tuple[str, str, float]] = ()
    t_ns: int = 0
    wall_ns: int = 0
    state: str = "playing"
    tempo: Tempo = (0.0, 0.0, 0.0)
    body: FrontOutput | None = None
    step: StepResult | None = None
    limbs: Sequence[float] = ()
    gestures: Sequence[tuple[str, float, float, float]] = ()

    @property
    def pose(self) -> F32 | None:
        """Joint rotations (22, 4), quaternions w, x, y, z; None in a frame without a body."""
        return None if self.body is None else self.body.poses[-1]

    @property
    def root(self) -> F32 | None:
        """Root position (3,), metres; None in a frame without a body."""
        return None if self.body is None else self.body.root

    @property
    def forecast(self) -> F32 | None:
        """Parameters at the model's horizons (8, 5), for display; None without a model step."""
        return None if self.step is None else self.step.params


class Extra(Protocol):
    """A taught output beyond the eight parameters: a name, optionally its own address, and a range.

    A name with a slash, such as ``class/pose/crouch``, is the probability of a class label.
    """

    @property
    def name(self) -> str:
        """Name of the output."""
        ...

    @property
    def address(self) -> str | None:
        """OSC address; None: ``/anticip/param/<name>``, or ``/anticip/<name>`` if the name has a slash."""
        ...

    @property
    def range(self) -> Callable[[float], float]:
        """Maps 0..1 to the output's own unit."""
        ...


class Sink(Protocol):
    """A receiver of control frames. ``send`` never blocks and never raises; failures are counted.

    By default, a subclass ignores taught outputs, counts nothing and has nothing to close.
    """

    name: str

    if TYPE_CHECKING:

        @property
        def trouble(self) -> str:
            """Why the receiver is not reached; empty if it is, or if that cannot be known."""
            return ""
    else:
        trouble = ""  # subclasses may assign it

    def announce(self, extras: Sequence[Extra]) -> None:
        """Set the taught outputs that ``ControlFrame.extras`` holds from the next frame on."""
        return

    def send(self, frame: ControlFrame) -> None:
        """Send one frame, or drop and count it."""
        ...

    def counters(self) -> dict[str, int]:
        """Totals so far: sent, dropped, refused, failed."""
        return {}

    def close(self) -> None:
        """Release the resources."""
        return


class DeferredSink:
    """A sink without a deadline: :meth:`Sink.send` only stores the frame, and the work is done once every
    other sink has sent it."""

    name: str

    def run_deferred(self) -> None:
        """Process the frames stored since the last call."""


class DatagramSink(DeferredSink):
    """A deferred sink that also receives the incoming datagrams."""

    def on_datagram(self, sender: str, datagram: bytes) -> None:
        """Called with every datagram from any sender, after the frame that it completed was sent."""


class Prewarmed:
    """A sink that can warm the CPU caches for its next send."""

    def prewarm(self, frame: ControlFrame) -> None:
        """Repeat the work of sending ``frame``, the last one sent, but send nothing; called shortly before
        the next frame."""


class SlowClosingSink:
    """A sink that takes a while to close."""

    def begin_close(self) -> None:
        """Start closing, without waiting; :meth:`Sink.close` follows."""


class LeadingSink:
    """A sink whose receivers keep a beat that may lead the performer's; it is polled once a second."""

    def beat(self) -> tuple[float, float] | None:
        """Beats per minute and phase (0..1) now; None if no beat leads."""


class SinkType(Protocol):
    """Factory for sinks of one kind: usually the sink class, with its rig table as ``Config``."""

    @property
    def Config(self) -> type[BaseModel]:
        """The keys of a ``[[sink]]`` table besides ``kind``."""
        ...

    def __call__(self, config: Any, /) -> Sink:
        """Open a sink from an instance of :attr:`Config`; raises a :class:`MotionError` on failure."""
        ...


class Pace:
    """Rate limit for slow receivers: allows at most ``max_rate`` sends per second; None: no limit."""

    def __init__(self, max_rate: float | None) -> None:
        self._due_ns = -(1 << 62)
        self.limit(max_rate)

    def limit(self, max_rate: float | None) -> None:
        """Change the rate."""
        self._interval_ns = round(1e9 / max_rate) if max_rate else 0

    def is_due(self, now_ns: int | None = None) -> bool:
        """Whether a send is allowed at ``now_ns`` (default: the monotonic clock); if so, it is counted."""
        if not self._interval_ns:
            return True
        now = time.monotonic_ns() if now_ns is None else now_ns
        overdue_ns = now - self._due_ns
        if overdue_ns < 0:
            return False
        self._due_ns = (self._due_ns if overdue_ns < self._interval_ns else now) + self._interval_ns
        return True
