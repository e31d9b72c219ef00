"""What a performer makes of one output: a part of its range, turned round, as a gate, a toggle, in steps.

The shaper itself is the core's.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyanticip._core import Shaper
from pyanticip.errors import OptionError

__all__ = ["Shape", "Shaper"]

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
