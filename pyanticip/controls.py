"""The sound parameters: names, ranges and curves, smoothing, silence, events. Pure, no torch.

A control vector has eight values in 0..1, always in the order of :data:`pyanticip.vocabulary.PARAMETERS`. The
model gives it at five horizons; :func:`at_lead` picks one, a :class:`Smoother` takes the edges off,
:class:`Presence` holds and fades it when the performer's signal is lost, a :class:`Range` maps one value to
what a receiver wants. All times are seconds unless the name says otherwise.

Vectors here are lists of Python floats, not arrays: eight numbers at 50 Hz are far cheaper that way. A
paced frame finds every cache cold, and each NumPy call then costs microseconds of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import BIN_MS, EVENTS, HORIZONS_MS, PARAMETERS

__all__ = [
    "NEUTRAL",
    "Crossfade",
    "Event",
    "EventTrigger",
    "Presence",
    "Range",
    "Smoother",
    "Smoothing",
    "at_lead",
    "bin_chances",
    "scalar_mapping",
]

Vector = list[float]

#: Where the parameters go when there is nobody to follow: silent, centred, dry.
NEUTRAL = (0.5, 0.0, 0.5, 0.0, 0.0, 0.5, 0.5, 0.0)

_N = len(PARAMETERS)

# Of events: how long one may wait to be announced; how much of the reach is looked at, in bins; what makes
# one pending that could also come sooner; how far around a bin its neighbours count. All were chosen with the
# threshold.
_WAIT_MS = 100.0
_SPAN = 7
_SURE = 0.6
_BESIDE = 2


class Array(Protocol):
    """An array that can turn itself into lists (NumPy's, torch's)."""

    def tolist(self) -> Any:
        """The values as nested lists."""
        ...


def _lists(values: Array | Sequence[Any]) -> list[Any]:
    found: Any = values if isinstance(values, list | tuple) else values.tolist()  # type: ignore[union-attr]
    return list(found)


def _vector(values: Array | Sequence[float], length: int, what: str) -> Vector:
    found = _lists(values)
    if len(found) != length or (found and isinstance(found[0], list)):
        raise ShapeError(f"{what}: expected shape ({length},), got {_shape(found)}")
    return found


def _shape(values: Any) -> tuple[int, ...]:
    return (len(values), *_shape(values[0])) if isinstance(values, list) and values else ()


def at_lead(params: Array | Sequence[Sequence[float]], lead_ms: float) -> Vector:
    """Parameters ``lead_ms`` ahead: linear between the model's horizons.

    ``params`` is (8, 5) in 0..1, one column per entry of :data:`HORIZONS_MS`; returns 8 values clipped to
    0..1. Raises :class:`OptionError` for a lead outside 0..400 ms, :class:`ShapeError` for another shape.
    """
    rows = _lists(params)
    if len(rows) != _N or any(not isinstance(r, list | tuple) or len(r) != len(HORIZONS_MS) for r in rows):
        raise ShapeError(f"parameters: expected shape ({_N}, {len(HORIZONS_MS)}), got {_shape(rows)}")
    if not HORIZONS_MS[0] <= lead_ms <= HORIZONS_MS[-1]:
        raise OptionError(f"lead_ms: expected {HORIZONS_MS[0]} to {HORIZONS_MS[-1]}, got {lead_ms!r}")
    k = 0
    while k < len(HORIZONS_MS) - 2 and lead_ms > HORIZONS_MS[k + 1]:
        k += 1
    low, high = HORIZONS_MS[k], HORIZONS_MS[k + 1]
    w = (lead_ms - low) / (high - low)
    return [_unit(row[k] + w * (row[k + 1] - row[k])) for row in rows]


def _unit(value: float) -> float:
    """Clip to 0..1; NaN becomes 0."""
    return 0.0 if not value > 0.0 else 1.0 if value > 1.0 else value


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

    def reset(self, value: Array | Sequence[float] | None = None) -> None:
        """Forget the past; with a value, start from there at rest."""
        self._value = None if value is None else _vector(value, len(self._settings), "smoothing")
        self._speed = [0.0] * len(self._settings)

    def step(self, target: Array | Sequence[float], dt: float) -> Vector:
        """The smoothed vector ``dt`` seconds after the last call; a target that is not finite is held."""
        goals = _vector(target, len(self._settings), "smoothing")
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


def _ease(u: float) -> float:
    """Smoothstep on 0..1: flat at both ends, steepest slope 1.5."""
    u = min(max(u, 0.0), 1.0)
    return u * u * (3.0 - 2.0 * u)


def _mix(a: Sequence[float], b: Sequence[float], w: float) -> Vector:
    return [x + w * (y - x) for x, y in zip(a, b, strict=True)]


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
        self._from = list(current)
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
        return _mix(self._from, live, _ease(self._at / self.seconds))


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
        self._neutral = list(neutral)
        self._catch = Crossfade(catch_up)
        self._held = list(neutral)
        self._out = list(neutral)
        self._silent = 0.0

    @property
    def catch_up(self) -> float:
        """Seconds to catch up within when frames come again."""
        return self._catch.seconds

    @property
    def silent(self) -> float:
        """Seconds since the last live vector, as far as :meth:`silence` was told."""
        return self._silent

    @property
    def output(self) -> Vector:
        """The vector given last."""
        return self._out

    def live(self, values: Vector, dt: float) -> Vector:
        """A frame came, ``dt`` seconds after the last one: its values, eased in if there was a gap.

        What comes out depends on the ``dt`` of the frames alone, not on how often :meth:`silence` was
        called between them.
        """
        if dt > self.gap:
            self._catch.start(self._after(dt))
            dt = self.gap / 5.0
        self._silent = 0.0
        self._out = self._catch.step(values, dt)
        self._held = self._out
        return self._out

    def silence(self, dt: float) -> Vector:
        """No frame for another ``dt`` seconds: the held or fading vector."""
        self._silent += max(dt, 0.0)
        self._out = self._after(self._silent)
        return self._out

    def _after(self, seconds: float) -> Vector:
        """What is played so long after the last frame."""
        return _mix(self._held, self._neutral, _ease((seconds - self.hold) / self.fade))

    def begin(self, values: Vector) -> None:
        """As if these values had just been played."""
        self._held = self._out = list(values)

    def restart(self) -> None:
        """Ease into the next live vector from where the output stands."""
        self._catch.start(self._out)


Event = tuple[str, float, float]


class EventTrigger:
    """Turns hazards and the commitment gate into events, each announced once.

    ``hazards`` (2, 25) are the probabilities that the event falls into 20 ms bin b if it has not come
    before it. An event is *pending* while the probability that it comes in the last 140 ms of the reach
    exceeds ``threshold``, or that it comes within it at all exceeds 0.6 as well, bins nearer than ``lead_ms``
    left out. The reach is ``reach_ms``, or ``lead_ms`` and the 100 ms that waiting may take where that is
    longer. Near bins count for less because they hold a little of everything where a movement does not
    repeat. A pending event is emitted when the gate exceeds ``theta (1 - n / (2 max_buffer))`` after n frames
    of waiting (.80 .72 .64 .56 .48 .40 by default), at the latest after ``max_buffer`` frames; each frame
    waited brings new context. It is said to come in the middle of the 100 ms that it most probably falls
    into. After an emission the same event is not announced again before the announced moment plus its
    refractory time.

    With the default reach of 200 ms an event that was foreseen is announced 100 to 200 ms ahead: waiting
    takes up to 100 ms of it.
    """

    def __init__(
        self,
        *,
        threshold: Mapping[str, float] | None = None,
        refractory: Mapping[str, float] | None = None,
        theta: float = 0.8,
        max_buffer: int = 5,
        reach_ms: float = 200.0,
    ) -> None:
        if not (0 < theta <= 1 and max_buffer >= 1):
            raise OptionError(f"events: expected theta in 0..1, max_buffer >= 1, got {theta}, {max_buffer}")
        # Chosen on the validation subjects by the F1 of what is decided at least 100 and 200 ms ahead.
        levels = {"onset": 0.5, "phrase": 0.2} | dict(threshold or {})
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

    def step(
        self, hazards: Array | Sequence[Sequence[float]], gate: float, lead_ms: float, dt: float
    ) -> list[Event]:
        """Events of this frame, ``dt`` seconds after the last: (name, strength 0..1, seconds ahead)."""
        rows = _lists(hazards)
        if len(rows) != len(EVENTS) or not all(isinstance(row, list | tuple) and row for row in rows):
            raise ShapeError(f"hazards: expected shape ({len(EVENTS)}, bins), got {_shape(rows)}")
        out: list[Event] = []
        for e, (name, row) in enumerate(zip(EVENTS, rows, strict=True)):
            self._quiet[e] = max(self._quiet[e] - dt, 0.0)
            found = self._due(e, row, gate, lead_ms)
            if found is not None:
                chance, ahead = found
                out.append((name, min(chance, 1.0), ahead))
                self._waited[e] = -1
                self._quiet[e] = ahead + self._pauses[e]
        return out

    def _due(self, e: int, row: Sequence[float], gate: float, lead_ms: float) -> tuple[float, float] | None:
        """The chance and the seconds ahead of event ``e``, if it is announced in this frame."""
        reach_ms = max(lead_ms + _WAIT_MS, self.reach_ms) if lead_ms > 0.0 else self.reach_ms
        last = max(math.ceil(reach_ms / BIN_MS), 1)
        first, nearest = max(last - _SPAN, 0), min(round(lead_ms / BIN_MS), last - 1)
        masses = bin_chances(row[: last + _BESIDE])
        level, begin, chance = self._levels[e], first, sum(masses[first:last])
        if chance < level:
            level, begin, chance = max(level, _SURE), nearest, sum(masses[nearest:last])
        if self._quiet[e] > 0.0 or chance < level:
            self._waited[e] = -1
            return None
        self._waited[e] += 1
        if not self._opens(e, gate):
            return None
        return chance, _likeliest(masses, max(begin - _BESIDE, 0)) * (BIN_MS / 1000.0)

    def _opens(self, e: int, gate: float) -> bool:
        """Whether the gate lets an event out that has waited so long."""
        n = self._waited[e]
        return gate > self.theta * (1.0 - 0.5 * n / self.max_buffer) or n >= self.max_buffer


def bin_chances(row: Sequence[float]) -> list[float]:
    """The probability of each bin, of its hazards; whatever is no probability counts as 0 or 1."""
    survival, masses = 1.0, []
    for hazard in row:
        masses.append(survival * _unit(hazard))
        survival -= masses[-1]
    return masses


def _likeliest(masses: Sequence[float], first: int) -> float:
    """The middle, in bins, of the five neighbours from ``first`` on that hold the most together; of several
    that hold alike, their middle."""
    held = [sum(masses[max(b - _BESIDE, first) : b + _BESIDE + 1]) for b in range(first, len(masses))]
    most = max(held, default=0.0)
    alike = [b for b, mass in enumerate(held) if mass >= most - 1e-9]
    return first + 0.5 * (alike[0] + alike[-1] + 1) if alike else first + 0.5


def scalar_mapping(scalars: Array | Sequence[float]) -> Vector:
    """Control vector from the seven scalars alone: what plays when there is no model or it is late.

    ``scalars`` (7,) in the order commitment, uncertainty, transition pressure, recovery margin, phase
    stiffness, novelty, stability. A still performer is silent, novelty away from the centre of the recent
    range is loud, an uncertain course is dense, an unsteady one rough. Returns 8 values in 0..1.
    """
    given = _vector(scalars, 7, "scalars")
    c, u, t, r, p, n, st = (x if math.isfinite(x) else 0.0 for x in given)
    reach = 1.0 - r
    loud = math.sqrt(max(n * reach, 0.0))
    mapped = (c, loud, 0.5 * (reach + loud), 1.0 - st, loud * (0.3 + 0.7 * u), r, 0.5 + 0.5 * t, p * loud)
    return [_unit(x) for x in mapped]
