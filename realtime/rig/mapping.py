"""Tables of settings that affect the controls: smoothing, shapes, events, silence, performer, memory."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pyanticip.controls import BEAT_LEAD_MS, NEUTRAL, EventTrigger, LastMoment, Presence, Shape, Smoothing
from pyanticip.options import Options, PathText, option
from pyanticip.vocabulary import CANONICAL_JOINTS, EVENTS, PARAMETERS
from realtime.config import Seconds, Unit, known_keys
from realtime.mapping.performer import PerformerRange, Reach

#: Smoothing by parameter; ``default`` applies to those without their own.
Smoothings = Annotated[dict[str, Smoothing], known_keys(*PARAMETERS, "default")]


def smoothings(table: Smoothings) -> list[Smoothing]:
    """The smoothing of each parameter, in order."""
    default = table.get("default", Smoothing())
    return [table.get(name, default) for name in PARAMETERS]


#: Shapes by parameter, or ``taught/<name>`` for the outputs of a mapping, which are known only while it
#: plays.
Shapes = Annotated[dict[str, Shape], known_keys(*PARAMETERS, also="taught/")]


class EventsRig(Options):
    """When events are sent: by :class:`pyanticip.controls.LastMoment`, or by the rule ``reach``,
    :class:`pyanticip.controls.EventTrigger`."""

    rule: Literal["last-moment", "reach"] = "last-moment"
    lead_ms: Annotated[float, Field(ge=0.0, le=400.0)] = BEAT_LEAD_MS
    threshold: Annotated[dict[str, Unit], known_keys(*EVENTS)] = {}
    refractory: Annotated[dict[str, Seconds], known_keys(*EVENTS)] = {}
    theta: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8
    max_buffer: Annotated[int, Field(ge=1, le=100)] = 5
    reach_ms: Annotated[float, Field(ge=20.0, le=500.0)] = 200.0
    sure: Unit = 0.95

    def build(self) -> EventTrigger:
        """Build the rule."""
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


class SilenceRig(Presence):
    """Hold and fade while the source is silent, and the values to fade to."""

    neutral: Annotated[dict[str, Unit], known_keys(*PARAMETERS)] = {}

    def neutral_vector(self) -> tuple[float, ...]:
        """The eight neutral values in order."""
        return tuple(self.neutral.get(n, d) for n, d in zip(PARAMETERS, NEUTRAL, strict=True))

    def stopped_vector(self) -> tuple[float, ...]:
        """The eight values of a stopped show: neutral, but without loudness."""
        return tuple(
            0.0 if n == "loudness" else v for n, v in zip(PARAMETERS, self.neutral_vector(), strict=True)
        )


Degrees = Annotated[float, Field(ge=0.0, le=30.0)]
_JOINTS = len(CANONICAL_JOINTS)
Jitter = Annotated[tuple[Degrees, ...], Field(min_length=_JOINTS, max_length=_JOINTS)]


class PerformerRig(Options):
    """The performer: noise of the suit, and ranges of the parameters that are stretched.

    ``noise`` is the jitter of the 22 canonical joints in degrees; ``loudness`` and ``brightness`` are still,
    low and high on the model's scale. `pyanticip calibrate` writes all three.
    """

    enabled: bool = True
    steady: bool = True
    frozen: bool = False
    noise: Jitter | None = None
    loudness: tuple[Unit, Unit, Unit] | None = None
    brightness: tuple[Unit, Unit, Unit] | None = None

    @model_validator(mode="after")
    def _check_values(self) -> PerformerRig:
        self.reaches()
        return self

    @property
    def jitter(self) -> list[float] | None:
        """The noise in radians."""
        return None if self.noise is None else [math.radians(degrees) for degrees in self.noise]

    def reaches(self) -> dict[str, Reach]:
        """The calibrated ranges, by parameter."""
        reaches = {}
        for name, values in (("loudness", self.loudness), ("brightness", self.brightness)):
            if values is not None:
                try:
                    reaches[name] = Reach(*values)
                except ValueError as error:
                    raise ValueError(str(error).replace("range", name, 1)) from None
        return reaches

    def build(self) -> PerformerRange | None:
        """Build the range that stretches the parameters; None if disabled."""
        return PerformerRange(self.reaches(), frozen=self.frozen) if self.enabled else None


class MemoryRig(Options):
    """The memory of a rehearsal, mixed into the forecast by measured skill. ``learn`` adds the show to it;
    ``sha256``, if given, must be that of the file."""

    enabled: bool = True
    file: PathText | None = option("Memory file written by `rehearse`.", None, metavar="PATH")
    learn: bool = True
    sha256: str | None = None
