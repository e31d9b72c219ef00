"""What is made of a control value on its way out: smoothed, held through silence, shaped, put into a range.

These are the settings; what goes by them is the core's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pyanticip._core import Shaper
from pyanticip.errors import OptionError

__all__ = ["Presence", "Range", "Shape", "Shaper", "Smoothing"]


@dataclass(frozen=True, slots=True)
class Presence:
    """Hold, fade and come back: what the output does while the source is silent, in seconds.

    For ``hold`` after the last frame the values stand still, then they go to neutral within ``fade``; when
    frames come again the output catches up within ``catch_up``.

    :raises OptionError: a time that is out of range.
    """

    hold: float = 1.0
    fade: float = 2.0
    catch_up: float = 0.4

    def __post_init__(self) -> None:
        if not (self.hold >= 0 and self.fade > 0 and self.catch_up >= 0):
            raise OptionError(
                "silence: expected hold >= 0, fade > 0, catch_up >= 0, "
                f"got {self.hold}, {self.fade}, {self.catch_up}"
            )


@dataclass(frozen=True, slots=True)
class Range:
    """What a receiver expects of one value: ``low`` at 0, ``high`` at 1, along a curve.

    ``curve`` is ``linear``, ``exponential`` (equal ratios: frequencies; both ends > 0) or ``power``
    (``value ** exponent``). ``low`` may be greater than ``high`` to turn a parameter round.
    """

    low: float = 0.0
    high: float = 1.0
    curve: Literal["linear", "exponential", "power"] = "linear"
    exponent: float = 2.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise OptionError(f"range: expected finite ends, got {self.low}..{self.high}")
        if self.curve == "exponential" and not (self.low > 0 and self.high > 0):
            raise OptionError(f"exponential range: expected both ends > 0, got {self.low}..{self.high}")
        if not (math.isfinite(self.exponent) and self.exponent > 0):
            raise OptionError(f"range exponent: expected a number > 0, got {self.exponent}")

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


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How one parameter is smoothed.

    ``spring``: a critically damped second-order low-pass that covers half of a step in ``half_life``
    seconds. ``one-euro``: Casiez, Roussel and Vogel (CHI 2012), ``min_cutoff`` Hz at rest, opened by
    ``beta`` per unit/second of speed; steady when still, quick when moved. ``none``: as it comes.
    """

    kind: Literal["spring", "one-euro", "none"] = "spring"
    half_life: float = 0.02
    min_cutoff: float = 2.0
    beta: float = 4.0

    def __post_init__(self) -> None:
        if self.kind not in ("spring", "one-euro", "none"):
            raise OptionError(f"smoothing: expected spring, one-euro or none, got {self.kind!r}")
        if not 0 < self.half_life <= 60:
            raise OptionError(f"smoothing half_life: expected 0..60 s (above 0), got {self.half_life}")
        if not 0 < self.min_cutoff <= 1000:
            raise OptionError(f"smoothing min_cutoff: expected 0..1000 Hz (above 0), got {self.min_cutoff}")
        if not 0 <= self.beta <= 1000:
            raise OptionError(f"smoothing beta: expected 0..1000, got {self.beta}")

    @property
    def lag(self) -> float:
        """By how many seconds a steady rise leaves late; of ``one-euro`` one of 1 unit/second."""
        if self.kind == "none":
            return 0.0
        if self.kind == "spring":
            return 2.0 * self.half_life / _HALF
        return 1.0 / (2.0 * math.pi * (self.min_cutoff + self.beta))


_MOST_STEPS = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """How one output is shaped, in the order of the fields; all is in 0..1.

    ``span`` is the part of the range that is used: it becomes 0..1, what is outside is clipped. ``invert``
    turns it round. ``threshold`` makes a gate of it: 1 from the threshold on, and until it falls below the
    threshold less ``hysteresis``, else 0. ``toggle`` changes between 0 and 1 whenever that gate opens (of
    0.5 where no threshold is given). ``steps`` leaves so many values, evenly from 0 to 1.

    :raises OptionError: a field that is out of range.
    """

    span: tuple[float, float] = (0.0, 1.0)
    invert: bool = False
    threshold: float | None = None
    hysteresis: float = 0.05
    toggle: bool = False
    steps: int | None = None

    def __post_init__(self) -> None:
        low, high = self.span
        if not 0.0 <= low < high <= 1.0:
            raise OptionError(f"in: expected 0 <= low < high <= 1, got {low:g}, {high:g}")
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise OptionError(f"threshold: expected 0 to 1 (above 0), got {self.threshold:g}")
        if not 0.0 <= self.hysteresis < self.opens:
            raise OptionError(
                f"hysteresis: expected 0 to less than the threshold ({self.opens:g}), got {self.hysteresis:g}"
            )
        if self.steps is not None and not 2 <= self.steps <= _MOST_STEPS:
            raise OptionError(f"steps: expected 2 to {_MOST_STEPS}, got {self.steps}")

    @property
    def opens(self) -> float:
        """From where on a gate is open."""
        return 0.5 if self.threshold is None else self.threshold
