"""What a receiver expects of one value: ranges along curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pyanticip.errors import OptionError

__all__ = ["Range"]


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
