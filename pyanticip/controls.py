"""The sound parameters: names, ranges and curves, smoothing, silence, events. Pure NumPy, no torch.

A control vector has eight values in 0..1, always in the order of :data:`PARAMETERS`. The model gives it
at five :data:`HORIZONS_MS`; :func:`at_lead` picks one, a :class:`Smoother` takes the edges off,
:class:`Presence` holds and fades it when the performer's signal is lost, a :class:`Range` maps one value
to what a receiver wants. All times are seconds unless the name says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError, ShapeError

__all__ = [
    "EVENTS",
    "HORIZONS_MS",
    "NEUTRAL",
    "PARAMETERS",
    "Crossfade",
    "EventTrigger",
    "Presence",
    "Range",
    "Smoother",
    "Smoothing",
    "at_lead",
    "scalar_mapping",
]

Vector = npt.NDArray[np.float64]

PARAMETERS = ("pitch", "loudness", "brightness", "roughness", "density", "space", "pan", "pulse")
EVENTS = ("onset", "phrase")
HORIZONS_MS = (0, 40, 100, 200, 400)
#: Where the parameters go when there is nobody to follow: silent, centred, dry.
NEUTRAL = (0.5, 0.0, 0.5, 0.0, 0.0, 0.5, 0.5, 0.0)
#: Width of one hazard bin in milliseconds: bin b covers (20 b, 20 (b + 1)] ms ahead.
BIN_MS = 20.0

_N = len(PARAMETERS)


def at_lead(params: npt.ArrayLike, lead_ms: float) -> Vector:
    """Parameters ``lead_ms`` ahead: linear between the model's horizons.

    ``params`` is (8, 5) in 0..1, one column per entry of :data:`HORIZONS_MS`; returns (8,) clipped to
    0..1. Raises :class:`OptionError` for a lead outside 0..400 ms, :class:`ShapeError` for another shape.
    """
    p = np.asarray(params, dtype=np.float64)
    if p.shape != (_N, len(HORIZONS_MS)):
        raise ShapeError(f"parameters: expected shape ({_N}, {len(HORIZONS_MS)}), got {p.shape}")
    if not HORIZONS_MS[0] <= lead_ms <= HORIZONS_MS[-1]:
        raise OptionError(f"lead_ms: expected {HORIZONS_MS[0]} to {HORIZONS_MS[-1]}, got {lead_ms!r}")
    k = 0
    while k < len(HORIZONS_MS) - 2 and lead_ms > HORIZONS_MS[k + 1]:
        k += 1
    low, high = HORIZONS_MS[k], HORIZONS_MS[k + 1]
    w = (lead_ms - low) / (high - low)
    return _unit(p[:, k] + w * (p[:, k + 1] - p[:, k]))


def _unit(values: Vector) -> Vector:
    """Clip to 0..1; NaN becomes 0 (fmax and fmin prefer the number)."""
    out: Vector = np.fmin(np.fmax(values, 0.0), 1.0)
    return out


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
        self._n = len(settings)
        self._spring = np.array([s.kind == "spring" for s in settings])
        self._euro = np.array([s.kind == "one-euro" for s in settings])
        self._omega = np.array([_HALF / s.half_life for s in settings])
        self._cutoff = np.array([s.min_cutoff for s in settings])
        self._beta = np.array([s.beta for s in settings])
        self._any_spring, self._any_euro = bool(self._spring.any()), bool(self._euro.any())
        self._all_spring = bool(self._spring.all())
        self._amount = 1.0
        self._value: Vector | None = None
        self._speed = np.zeros(self._n)
        self._decay_key = (-1.0, -1.0)
        self._decay = np.ones(self._n)
        self._rate = self._omega

    @property
    def amount(self) -> float:
        """Factor on every time constant: 0 is no smoothing, 1 as set, 4 four times as slow."""
        return self._amount

    @amount.setter
    def amount(self, value: float) -> None:
        if not (math.isfinite(value) and 0 <= value <= 100):
            raise OptionError(f"smoothing amount: expected 0 to 100, got {value}")
        self._amount = float(value)

    def reset(self, value: npt.ArrayLike | None = None) -> None:
        """Forget the past; with a value, start from there at rest."""
        self._value = None if value is None else np.array(value, dtype=np.float64)
        self._speed = np.zeros(self._n)

    def step(self, target: npt.ArrayLike, dt: float) -> Vector:
        """The smoothed vector ``dt`` seconds after the last call; a target that is not finite is held."""
        goal = np.asarray(target, dtype=np.float64)
        if goal.shape != (self._n,):
            raise ShapeError(f"smoothing: expected shape ({self._n},), got {goal.shape}")
        x = self._value
        if x is None:
            self._value = np.where(np.isfinite(goal), goal, 0.0)
            return self._value.copy()
        if not np.isfinite(goal).all():
            goal = np.where(np.isfinite(goal), goal, x)
        dt = max(dt, 0.0)
        if self._amount == 0.0:
            out, speed = goal.copy(), np.zeros(self._n)
        elif self._all_spring:
            out, speed = self._spring_step(x, goal, dt)
        else:
            out, speed = goal.copy(), np.zeros(self._n)
            if self._any_spring:
                sx, sv = self._spring_step(x, goal, dt)
                out, speed = np.where(self._spring, sx, out), np.where(self._spring, sv, speed)
            if self._any_euro:
                ex, ev = self._euro_step(x, goal, dt)
                out, speed = np.where(self._euro, ex, out), np.where(self._euro, ev, speed)
        self._value, self._speed = out, speed
        return out.copy()

    def _spring_step(self, x: Vector, goal: Vector, dt: float) -> tuple[Vector, Vector]:
        if self._decay_key != (dt, self._amount):
            self._rate = self._omega / self._amount
            self._decay = np.exp(-self._rate * dt)
            self._decay_key = (dt, self._amount)
        y = x - goal
        c = self._speed + self._rate * y
        y1 = (y + c * dt) * self._decay
        v1 = (self._speed - c * (self._rate * dt)) * self._decay
        through = y * y1 < 0.0
        if through.any():
            y1 = np.where(through, 0.0, y1)
            v1 = np.where(through, 0.0, v1)
        return goal + y1, v1

    def _euro_step(self, x: Vector, goal: Vector, dt: float) -> tuple[Vector, Vector]:
        if dt < 1e-6:  # two frames at one time say nothing about speed
            return x.copy(), self._speed
        raw = (goal - x) / dt
        a = dt / (dt + 1.0 / (2.0 * math.pi * _SPEED_CUTOFF))
        speed = self._speed + a * (raw - self._speed)
        cutoff = (self._cutoff + self._beta * np.abs(speed)) / self._amount
        alpha = dt / (dt + 1.0 / (2.0 * math.pi * cutoff))
        return x + alpha * (goal - x), speed


def _ease(u: float) -> float:
    """Smoothstep on 0..1: flat at both ends, steepest slope 1.5."""
    u = min(max(u, 0.0), 1.0)
    return u * u * (3.0 - 2.0 * u)


class Crossfade:
    """From where the output stands to whatever comes now, without a jump.

    After :meth:`start` the output moves from the given vector to the live one within ``seconds``.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._from: Vector | None = None
        self._at = 0.0

    def start(self, current: Vector) -> None:
        """Begin at ``current``; a fade already running starts anew from there."""
        self._from = np.array(current, dtype=np.float64)
        self._at = 0.0

    @property
    def running(self) -> bool:
        """True until the live vector passes unchanged."""
        return self._from is not None

    def step(self, live: Vector, dt: float) -> Vector:
        """The vector ``dt`` seconds on."""
        if self._from is None:
            return live
        self._at += max(dt, 0.0)
        if self._at >= self.seconds:
            self._from = None
            return live
        return self._from + _ease(self._at / self.seconds) * (live - self._from)


class Presence:
    """Hold, fade and come back: what the output does while the source is silent.

    For ``hold`` seconds after the last frame the values stand still, then they go to ``neutral`` within
    ``fade`` seconds; when frames come again the output catches up within ``catch_up`` seconds.
    """

    def __init__(
        self,
        *,
        hold: float = 1.0,
        fade: float = 2.0,
        catch_up: float = 0.4,
        gap: float = 0.1,
        neutral: Sequence[float] = NEUTRAL,
    ) -> None:
        if not (hold >= 0 and fade > 0 and catch_up >= 0):
            raise OptionError(
                f"silence: expected hold >= 0, fade > 0, catch_up >= 0, got {hold}, {fade}, {catch_up}"
            )
        self.hold, self.fade, self.gap = hold, fade, gap
        self._neutral = np.array(neutral, dtype=np.float64)
        self._catch = Crossfade(catch_up)
        self._held = self._neutral.copy()
        self._out = self._neutral.copy()
        self._silent = 0.0

    @property
    def silent(self) -> float:
        """Seconds since the last live vector."""
        return self._silent

    @property
    def output(self) -> Vector:
        """The vector given last."""
        return self._out

    def live(self, values: Vector, dt: float) -> Vector:
        """A frame came: its values, eased in if there was a gap before it."""
        if self._silent > self.gap:
            self._catch.start(self._out)
        self._silent = 0.0
        self._out = self._catch.step(values, dt)
        self._held = self._out
        return self._out

    def silence(self, dt: float) -> Vector:
        """No frame for another ``dt`` seconds: the held or fading vector."""
        self._silent += max(dt, 0.0)
        w = _ease((self._silent - self.hold) / self.fade)
        self._out = self._held + w * (self._neutral - self._held)
        return self._out

    def restart(self) -> None:
        """Ease into the next live vector from where the output stands."""
        self._catch.start(self._out)


Event = tuple[str, float, float]


class EventTrigger:
    """Turns hazards and the commitment gate into events, each announced once.

    ``hazards`` (2, 25) are the probabilities that the event falls into 20 ms bin b if it has not come
    before it. An event is *pending* while the probability that it comes within ``lead_ms`` (and at least
    ``reach_ms``) exceeds ``threshold``. A pending event is emitted when the gate exceeds
    ``theta (1 - n / (2 max_buffer))`` after n frames of waiting (.80 .72 .64 .56 .48 .40 by default), at
    the latest after ``max_buffer`` frames; each frame waited brings new context. After an emission the
    same event is not announced again before the announced moment plus its refractory time.
    """

    def __init__(
        self,
        *,
        threshold: Mapping[str, float] | None = None,
        refractory: Mapping[str, float] | None = None,
        theta: float = 0.8,
        max_buffer: int = 5,
        reach_ms: float = 60.0,
    ) -> None:
        if not (0 < theta <= 1 and max_buffer >= 1):
            raise OptionError(f"events: expected theta in 0..1, max_buffer >= 1, got {theta}, {max_buffer}")
        levels = {"onset": 0.5, "phrase": 0.5} | dict(threshold or {})
        pauses = {"onset": 0.12, "phrase": 1.0} | dict(refractory or {})
        for name in (*levels, *pauses):
            if name not in EVENTS:
                raise OptionError(f"events: expected one of {', '.join(EVENTS)}, got {name!r}")
        self._levels = [levels[name] for name in EVENTS]
        self._pauses = [pauses[name] for name in EVENTS]
        self.theta, self.max_buffer, self.reach_ms = theta, max_buffer, reach_ms
        self.reset()

    def reset(self) -> None:
        """Forget what was pending or announced."""
        self._waited = [-1] * len(EVENTS)
        self._quiet = [0.0] * len(EVENTS)

    def step(self, hazards: npt.ArrayLike, gate: float, lead_ms: float, dt: float) -> list[Event]:
        """Events of this frame, ``dt`` seconds after the last: (name, strength 0..1, seconds ahead)."""
        h = _unit(np.asarray(hazards, dtype=np.float64))
        if h.ndim != 2 or h.shape[0] != len(EVENTS):
            raise ShapeError(f"hazards: expected shape ({len(EVENTS)}, bins), got {h.shape}")
        bins = min(max(math.ceil(max(lead_ms, self.reach_ms) / BIN_MS), 1), h.shape[1])
        survive = np.cumprod(1.0 - h[:, :bins], axis=1)
        chance = (1.0 - survive[:, -1]).tolist()
        out: list[Event] = []
        for e, name in enumerate(EVENTS):
            self._quiet[e] = max(self._quiet[e] - dt, 0.0)
            if self._quiet[e] > 0.0 or chance[e] < self._levels[e]:
                self._waited[e] = -1
                continue
            self._waited[e] += 1
            n = self._waited[e]
            if gate > self.theta * (1.0 - 0.5 * n / self.max_buffer) or n >= self.max_buffer:
                ahead = _expected_seconds(h[e, :bins], survive[e], chance[e])
                out.append((name, float(chance[e]), ahead))
                self._waited[e] = -1
                self._quiet[e] = ahead + self._pauses[e]
        return out


def _expected_seconds(hazard: Vector, survive: Vector, chance: float) -> float:
    """Mean time of the event given that it comes within the bins, at bin centres."""
    mass = hazard.copy()
    mass[1:] *= survive[:-1]
    centres = (np.arange(len(mass)) + 0.5) * (BIN_MS / 1000.0)
    return float(mass @ centres / max(chance, 1e-12))


def scalar_mapping(scalars: npt.ArrayLike) -> Vector:
    """Control vector from the seven scalars alone: what plays when there is no model or it is late.

    ``scalars`` (7,) in the order commitment, uncertainty, transition pressure, recovery margin, phase
    stiffness, novelty, stability. A still performer is silent, novelty away from the centre of the recent
    range is loud, an uncertain course is dense, an unsteady one rough. Returns (8,) in 0..1.
    """
    s = np.asarray(scalars, dtype=np.float64)
    if s.shape != (7,):
        raise ShapeError(f"scalars: expected shape (7,), got {s.shape}")
    c, u, t, r, p, n, st = np.nan_to_num(s).tolist()
    reach = 1.0 - r
    loud = math.sqrt(max(n * reach, 0.0))
    return _unit(
        np.array(
            [c, loud, 0.5 * (reach + loud), 1.0 - st, loud * (0.3 + 0.7 * u), r, 0.5 + 0.5 * t, p * loud]
        )
    )
