"""Smoothing of control vectors: critically damped springs, one-euro filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyanticip.controls.vectors import ArrayLike, Vector, as_vector
from pyanticip.errors import OptionError

__all__ = ["Smoother", "Smoothing"]


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


# A critically damped step response (1 + wt) exp(-wt) reaches one half at wt = 1.6783.
_HALF = 1.6783469900166605
# One-euro: the speed estimate is itself low-passed at 1 Hz (the paper's d_cutoff).
_SPEED_CUTOFF = 1.0


class Smoother:
    """Per-parameter smoothing of a vector, aware of the time between frames.

    The output never leaves the hull of the targets it was given since :meth:`reset`, and a constant target
    is approached from one side only: the exact solution of the critically damped spring is used, and
    a spring that would run through a target that moved towards it stops there instead.
    """

    def __init__(self, settings: Sequence[Smoothing]) -> None:
        self._settings = list(settings)
        self._amount = 1.0
        self._value: Vector | None = None
        self._speed = [0.0] * len(self._settings)
        self._made_for = (-1.0, -1.0)
        self._springs: list[tuple[float, float]] = []

    @property
    def amount(self) -> float:
        """Factor on every time constant: 0 is no smoothing, 1 as set, 4 four times as slow."""
        return self._amount

    @amount.setter
    def amount(self, value: float) -> None:
        if not (math.isfinite(value) and 0 <= value <= 100):
            raise OptionError(f"smoothing amount: expected 0 to 100, got {value}")
        self._amount = float(value)

    def retune(self, settings: Sequence[Smoothing]) -> None:
        """Smooth by other settings, as many, from where each value stands."""
        self._settings = list(settings)
        self._made_for = (-1.0, -1.0)

    def reset(self, value: ArrayLike | Sequence[float] | None = None) -> None:
        """Forget the past; with a value, start from there at rest."""
        self._value = None if value is None else as_vector(value, len(self._settings), "smoothing")
        self._speed = [0.0] * len(self._settings)

    def step(self, target: ArrayLike | Sequence[float], dt: float) -> Vector:
        """The smoothed vector ``dt`` seconds after the last call; a target that is not finite is held."""
        goals = as_vector(target, len(self._settings), "smoothing")
        before = self._value
        if before is None:
            self._value = [g if math.isfinite(g) else 0.0 for g in goals]
            return list(self._value)
        dt = max(dt, 0.0)
        if self._made_for != (dt, self._amount):
            self._prepare(dt)
        out: Vector = []
        for i, setting in enumerate(self._settings):
            x, goal = before[i], goals[i]
            if not math.isfinite(goal):
                goal = x
            if setting.kind == "none" or self._amount == 0.0:
                x, v = goal, 0.0
            elif setting.kind == "spring":
                x, v = self._spring(x, self._speed[i], goal, dt, *self._springs[i])
            else:
                x, v = self._one_euro(x, self._speed[i], goal, dt, setting)
            out.append(x)
            self._speed[i] = v
        self._value = out
        return list(out)

    def _prepare(self, dt: float) -> None:
        """Rate and decay of each spring for this time step: most steps are alike."""
        self._made_for = (dt, self._amount)
        if self._amount > 0.0:
            rates = [_HALF / s.half_life / self._amount for s in self._settings]
            self._springs = [(rate, math.exp(-rate * dt)) for rate in rates]

    @staticmethod
    def _spring(x: float, v: float, goal: float, dt: float, rate: float, decay: float) -> tuple[float, float]:
        y = x - goal
        c = v + rate * y
        y1 = (y + c * dt) * decay
        if y * y1 < 0.0:
            return goal, 0.0
        return goal + y1, (v - c * rate * dt) * decay

    def _one_euro(self, x: float, v: float, goal: float, dt: float, s: Smoothing) -> tuple[float, float]:
        if dt < 1e-6:  # two frames at one time say nothing about speed
            return x, v
        v += dt / (dt + 1.0 / (2.0 * math.pi * _SPEED_CUTOFF)) * ((goal - x) / dt - v)
        cutoff = (s.min_cutoff + s.beta * abs(v)) / self._amount
        return x + dt / (dt + 1.0 / (2.0 * math.pi * cutoff)) * (goal - x), v
