"""How control vectors are smoothed: critically damped springs, one-euro filters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pyanticip.errors import OptionError

__all__ = ["Smoothing"]

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
