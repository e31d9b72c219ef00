"""Settings of how a control value is smoothed, held through silence, shaped and mapped to a range.

They are a rig's tables; the core applies them.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from pyanticip.options import Options

_Seconds = Annotated[float, Field(ge=0.0, le=3600.0)]
_Limit = Annotated[float, Field(ge=-1e30, le=1e30)]
# Smallest limit of an exponential range: the ratio to the largest one (1e30) still is finite.
_MIN_EXPONENTIAL = 1e-30


class Presence(Options):
    """What the output does while the source is silent; all times in seconds.

    For ``hold`` after the last frame the values stand still, then they fade to neutral within ``fade``; when
    frames resume, the output catches up within ``catch_up``.

    Raises pydantic's ValidationError for a value out of its range.
    """

    hold: _Seconds = 1.0
    fade: Annotated[float, Field(gt=0.0, le=3600.0)] = 2.0
    catch_up: _Seconds = 0.4


class Range(Options):
    """The range that a receiver expects of one value: ``low`` at 0, ``high`` at 1, along a curve.

    ``curve`` is ``linear``, ``exponential`` (equal ratios, for frequencies; both ends > 0) or ``power``
    (``value ** exponent``). ``low`` may be greater than ``high`` to invert a parameter.

    Raises pydantic's ValidationError for a value out of its range.
    """

    low: _Limit = 0.0
    high: _Limit = 1.0
    curve: Literal["linear", "exponential", "power"] = "linear"
    exponent: Annotated[float, Field(gt=0.0, le=100.0)] = 2.0

    @model_validator(mode="after")
    def _makes_sense(self) -> Range:
        if self.curve == "exponential" and not min(self.low, self.high) >= _MIN_EXPONENTIAL:
            expected = f"expected both ends > 0 ({_MIN_EXPONENTIAL:g} at least)"
            raise ValueError(f"exponential range: {expected}, got {self.low}..{self.high}")
        return self

    def __call__(self, value: float) -> float:
        """Map ``value`` in 0..1 (clipped) into the range."""
        v = min(max(value, 0.0), 1.0)
        if self.curve == "exponential":
            return float(self.low * (self.high / self.low) ** v)
        if self.curve == "power":
            v = v**self.exponent
        return self.low * (1.0 - v) + self.high * v


# A critically damped step response (1 + wt) exp(-wt) reaches one half at wt = 1.6783.
_HALF = 1.6783469900166605


class Smoothing(Options):
    """How one parameter is smoothed.

    ``spring``: a critically damped second-order low-pass that covers half of a step in ``half_life``
    seconds. ``one-euro``: Casiez, Roussel and Vogel (CHI 2012), ``min_cutoff`` Hz at rest, opened by
    ``beta`` per unit/second of speed; steady when still, quick when moved. ``none``: unsmoothed.

    Raises pydantic's ValidationError for a value out of its range.
    """

    kind: Literal["spring", "one-euro", "none"] = "spring"
    half_life: Annotated[float, Field(gt=0.0, le=60.0)] = 0.02
    min_cutoff: Annotated[float, Field(gt=0.0, le=1000.0)] = 2.0
    beta: Annotated[float, Field(ge=0.0, le=1000.0)] = 4.0

    @property
    def lag(self) -> float:
        """Delay of a steady ramp, seconds; for ``one-euro`` of a ramp of 1 unit/second."""
        if self.kind == "none":
            return 0.0
        if self.kind == "spring":
            return 2.0 * self.half_life / _HALF
        return 1.0 / (2.0 * math.pi * (self.min_cutoff + self.beta))


_MOST_STEPS = 1024


class Shape(Options):
    """How one output is shaped, in the order of the fields; all values are in 0..1.

    ``span``, in a rig ``in``, is the part of the range that is used: it becomes 0..1, values outside are
    clipped. ``invert`` reverses it. ``threshold`` makes a gate of it: 1 from the threshold on, until it
    falls below the threshold less ``hysteresis``, else 0. ``toggle`` changes between 0 and 1 whenever that
    gate opens (at 0.5 where no threshold is given). ``steps`` quantises to this many values, evenly spaced
    from 0 to 1.

    Raises pydantic's ValidationError for a value out of its range.
    """

    model_config = ConfigDict(populate_by_name=True)

    span: tuple[float, float] = Field(default=(0.0, 1.0), alias="in")
    invert: bool = False
    threshold: float | None = None
    hysteresis: float = 0.05
    toggle: bool = False
    steps: int | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Shape:
        low, high = self.span
        if not 0.0 <= low < high <= 1.0:
            raise ValueError(f"in: expected 0 <= low < high <= 1, got {low:g}, {high:g}")
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise ValueError(f"threshold: expected 0 to 1 (above 0), got {self.threshold:g}")
        if not 0.0 <= self.hysteresis < self.opens:
            raise ValueError(
                f"hysteresis: expected 0 to less than the threshold ({self.opens:g}), got {self.hysteresis:g}"
            )
        if self.steps is not None and not 2 <= self.steps <= _MOST_STEPS:
            raise ValueError(f"steps: expected 2 to {_MOST_STEPS}, got {self.steps}")
        return self

    @property
    def opens(self) -> float:
        """Value from which the gate is open."""
        return 0.5 if self.threshold is None else self.threshold
