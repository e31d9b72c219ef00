"""What goes from the pipeline to every sink, and what every sink can do."""

from __future__ import annotations

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

__all__ = [
    "ControlFrame",
    "DatagramSink",
    "DeferredSink",
    "Extra",
    "LeadingSink",
    "Prewarmed",
    "Sink",
    "SinkType",
    "SlowClosingSink",
    "Tempo",
    "beat_at",
]

Tempo = tuple[float, float, float]
"""The beat that the body keeps: beats a minute (0: none was ever known), phase 0..1 (0 at the beat), trust
0..1 (0: the body keeps none, and the first number is the last known)."""


def beat_at(led: tuple[float, float], t_ns: int) -> Tempo:
    """A beat that leads (beats a minute, and the phase at 0 of the clock) at a moment."""
    bpm, phase = led
    return bpm, (phase + t_ns * bpm / 60e9) % 1.0, 1.0


@dataclass(slots=True)
class ControlFrame:
    """One frame of control: plain floats, ready to be sent.

    ``seq`` counts 50 Hz frames since the stream began and never goes back; -1: the ``status`` alone, once a
    second. ``seconds`` is the source's time since then; ``scalars`` are the seven, ``params`` the eight in
    0..1; ``events`` are (name, strength 0..1, seconds ahead); ``extras`` are the taught
    outputs that are none of the eight, in 0..1 (see :class:`Extra`);
    ``field`` are trust 0..1 and curvature of a model with control field, and ``plan`` the codes that a
    planning model expects, with their weights, heaviest first; ``trust`` is what share of each parameter at
    100, 200 and 400 ms is foreseen, 24 numbers, where there is a memory; ``place`` is where the performer is
    in what was rehearsed: take (-1: nowhere), seconds in it, tempo, trust; ``classes`` are a taught class,
    the label that is shown, and how likely that is, each; ``t_ns`` is when it leaves, on the clock of the
    arrivals, and ``wall_ns`` the same moment as Unix time, looked up when it is sent and only
    where there are events; ``tempo`` is the beat at the frame's own time, see :data:`Tempo`. ``pose``
    (22, 4) and ``root`` (3,) are the body where a datagram brought it, for who draws it, and ``step`` is what
    the model says, if it does. ``limbs`` are speed, height and stroke of left hand, right hand, left foot and
    right foot, 12 numbers in 0..1, in a bridged frame as they were last: a stroke once, in the first frame
    that leaves from its own on; none in silence. A cue is an event called ``cue/<name>``, its strength the
    trust of the place. An event called ``<name>/cancel`` says that what was announced for so many seconds
    ahead will not come; one called ``class/<name>/enter:<label>`` or ``class/<name>/leave:<label>`` that a
    label is shown from now on, or no more. ``gestures`` are under way: name, progress 0..1, seconds until it
    ends, how likely 0..1, each; an event called ``gesture/<name>/enter`` or ``.../leave`` says that one was
    recognised or is no more, with its progress and the seconds until it ends. ``state`` is playing, silent,
    frozen, stopped or panic.
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
        """(22, 4), where a datagram brought it."""
        return None if self.body is None else self.body.poses[-1]

    @property
    def root(self) -> F32 | None:
        """(3,), where a datagram brought it."""
        return None if self.body is None else self.body.root

    @property
    def forecast(self) -> F32 | None:
        """What the model says of the parameters at its horizons, (8, 5); for who draws it."""
        return None if self.step is None else self.step.params


class Extra(Protocol):
    """A taught output that is none of the eight: a name, perhaps an address of its own, a range.

    A name with a stroke in it, as ``class/pose/crouch``, is how likely a label of a class is.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def address(self) -> str | None:
        """Where it is sent; None: ``/anticip/param/<name>``, or ``/anticip/<name>`` with a stroke in it."""
        ...

    @property
    def range(self) -> Callable[[float], float]:
        """From 0..1 to its own unit."""
        ...


class Sink(Protocol):
    """A receiver of control frames. ``send`` never blocks and never raises; what fails is counted."""

    name: str

    if TYPE_CHECKING:

        @property
        def trouble(self) -> str:
            """Why it does not reach its receiver; empty where it does, or cannot know."""
            ...
    else:
        trouble = ""  # which who derives from this may set

    def announce(self, extras: Sequence[Extra]) -> None:
        """From the next frame on these outputs come beside the eight."""
        ...

    def send(self, frame: ControlFrame) -> None:
        """Send one frame, or drop and count it."""
        ...

    def counters(self) -> dict[str, int]:
        """What happened so far: sent, dropped, refused, failed."""
        ...

    def close(self) -> None:
        """Give the resources back."""
        ...


class DeferredSink:
    """A sink that is in no hurry: :meth:`Sink.send` keeps the frame alone, and the work is done when the
    frame has left for everybody else."""

    name: str

    def run_deferred(self) -> None:
        """Do the work of the frames since the last call."""


class DatagramSink(DeferredSink):
    """One that hears what comes as well."""

    def on_datagram(self, sender: str, datagram: bytes) -> None:
        """A datagram has come, of whoever; the frame that it completed was sent before."""


class Prewarmed:
    """A sink that has work to do for a frame before it can be sent."""

    def prewarm(self, frame: ControlFrame) -> None:
        """Do that work for this frame, which was sent, once more: shortly before the next one, for caches."""


class SlowClosingSink:
    """A sink that takes a while to close."""

    def leave(self) -> None:
        """Begin to close, without waiting; :meth:`Sink.close` follows."""


class LeadingSink:
    """A sink whose receivers keep a beat that may lead the body's; it is asked once a second."""

    def beat(self) -> tuple[float, float] | None:
        """Beats a minute and phase at this moment; None: none leads."""


class SinkType(Protocol):
    """What opens sinks of one kind: a class with its table of the rig, usually."""

    @property
    def Config(self) -> type[BaseModel]:
        """The keys that stand beside ``kind`` in a ``[[sink]]`` table."""
        ...

    def __call__(self, config: Any, /) -> Sink:
        """Open one, from an instance of :attr:`Config`; a :class:`MotionError` where that cannot be."""
        ...
