"""Tables of what shapes the controls: smoothing, shapes, events, silence, the performer."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from pyanticip.controls import BEAT_LEAD_MS, NEUTRAL, EventTrigger, LastMoment, Shape, Smoothing
from pyanticip.options import Options
from pyanticip.vocabulary import CANONICAL_JOINTS, EVENTS, PARAMETERS
from realtime.config import Seconds, Unit, named
from realtime.mapping.performer import PerformerRange, Reach

__all__ = [
    "EventsRig",
    "PerformerRig",
    "ShapeRig",
    "Shapes",
    "SilenceRig",
    "SmoothingRig",
    "Smoothings",
    "smoothings",
]


class SmoothingRig(Options):
    """Smoothing of one parameter; see :class:`pyanticip.controls.Smoothing`."""

    kind: Literal["spring", "one-euro", "none"] = "spring"
    half_life: Annotated[float, Field(gt=0.0, le=60.0)] = 0.02
    min_cutoff: Annotated[float, Field(gt=0.0, le=1000.0)] = 2.0
    beta: Annotated[float, Field(ge=0.0, le=1000.0)] = 4.0

    def build(self) -> Smoothing:
        """The setting that :class:`pyanticip.controls.Smoother` takes."""
        return Smoothing(self.kind, self.half_life, self.min_cutoff, self.beta)


#: Smoothing by parameter; ``default`` stands for those without their own.
Smoothings = Annotated[dict[str, SmoothingRig], named(*PARAMETERS, "default")]


def smoothings(table: Smoothings) -> list[Smoothing]:
    """One setting for each parameter."""
    default = table.get("default", SmoothingRig())
    return [table.get(name, default).build() for name in PARAMETERS]


class ShapeRig(Options):
    """How one output is shaped; see :class:`pyanticip.controls.Shape`, whose ``span`` is ``in`` here."""

    model_config = ConfigDict(populate_by_name=True)

    span: tuple[float, float] = Field(default=(0.0, 1.0), alias="in")
    invert: bool = False
    threshold: float | None = None
    hysteresis: float = 0.05
    toggle: bool = False
    steps: int | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> ShapeRig:
        self.build()
        return self

    def build(self) -> Shape:
        """The shape itself."""
        return Shape(self.span, self.invert, self.threshold, self.hysteresis, self.toggle, self.steps)


#: Shapes by parameter, or ``taught/<name>`` of what a mapping teaches, which is known while it plays.
Shapes = Annotated[dict[str, ShapeRig], named(*PARAMETERS, also="taught/")]


class EventsRig(Options):
    """When events are announced; see :class:`pyanticip.controls.LastMoment`, and for the other rule
    :class:`pyanticip.controls.EventTrigger`."""

    rule: Literal["last-moment", "reach"] = "last-moment"
    lead_ms: Annotated[float, Field(ge=0.0, le=400.0)] = BEAT_LEAD_MS
    threshold: Annotated[dict[str, Unit], named(*EVENTS)] = {}
    refractory: Annotated[dict[str, Seconds], named(*EVENTS)] = {}
    theta: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8
    max_buffer: Annotated[int, Field(ge=1, le=100)] = 5
    reach_ms: Annotated[float, Field(ge=20.0, le=500.0)] = 200.0
    sure: Unit = 0.95

    def build(self) -> EventTrigger:
        """The rule itself."""
        options: dict[str, Any] = {
            "threshold": self.threshold,
            "refractory": self.refractory,
            "theta": self.theta,
            "max_buffer": self.max_buffer,
            "reach_ms": self.reach_ms,
        }
        if self.rule == "reach":
            return EventTrigger(**options)
        return LastMoment(lead_ms=self.lead_ms, sure=self.sure, **options)


class SilenceRig(Options):
    """What happens while the source is silent; see :class:`pyanticip.controls.Presence`."""

    hold: Seconds = 1.0
    fade: Annotated[float, Field(gt=0.0, le=3600.0)] = 2.0
    catch_up: Seconds = 0.4
    neutral: Annotated[dict[str, Unit], named(*PARAMETERS)] = {}

    def neutral_vector(self) -> tuple[float, ...]:
        """The eight neutral values in order."""
        return tuple(self.neutral.get(n, d) for n, d in zip(PARAMETERS, NEUTRAL, strict=True))


Degrees = Annotated[float, Field(ge=0.0, le=30.0)]
_JOINTS = len(CANONICAL_JOINTS)
Jitter = Annotated[tuple[Degrees, ...], Field(min_length=_JOINTS, max_length=_JOINTS)]


class PerformerRig(Options):
    """Who plays: how much the suit trembles, and the range of the parameters that are stretched.

    ``noise`` is the jitter of the 22 canonical joints in degrees; ``loudness`` and ``brightness`` are still,
    low and high as the model says them. `pyanticip calibrate` writes all three.
    """

    enabled: bool = True
    steady: bool = True
    frozen: bool = False
    noise: Jitter | None = None
    loudness: tuple[Unit, Unit, Unit] | None = None
    brightness: tuple[Unit, Unit, Unit] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> PerformerRig:
        self.reaches()
        return self

    @property
    def jitter(self) -> list[float] | None:
        """The noise in radians."""
        return None if self.noise is None else [math.radians(degrees) for degrees in self.noise]

    def reaches(self) -> dict[str, Reach]:
        """The ranges that are known."""
        known = {"loudness": self.loudness, "brightness": self.brightness}
        return {name: Reach(*values) for name, values in known.items() if values is not None}

    def build(self) -> PerformerRange | None:
        """What stretches the parameters; None where it is not wanted."""
        return PerformerRange(self.reaches(), frozen=self.frozen) if self.enabled else None
