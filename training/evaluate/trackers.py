"""The tracker baseline: filters the causal twin and extrapolates it.

Either a steady-state Kalman filter of a damped local trend (Gardner and McKenzie 1985 in state-space form;
without damping it is the constant-velocity filter), or a one-euro filter (Casiez, Roussel and Vogel, CHI
2012) extrapolated with its own speed estimate. The type of filter and all settings are tuned on the training
subjects, separately for each parameter and horizon, as for hold and line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_are
from scipy.signal import lfilter, lfilter_zi

from pyanticip.vocabulary import PARAMETERS, RATE
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.tasks.motion.baselines import (
    DELAYS_S,
    MOTION_DELAYS_S,
    Array,
    Best,
    Judge,
    Table,
    read_tuned,
    rows_of,
    table_of,
    write_tuned,
)
from training.teacher.filters import causal_twin

DT: Final = 1.0 / RATE


@dataclass(frozen=True)
class Tracker:
    """One tracker for one parameter at one horizon."""

    kind: str
    """``kalman`` or ``one-euro``."""
    delay_s: float
    motion_delay_s: float
    noise: float = 1.0
    """Kalman: spectral density of the trend's noise over the variance of the measurements, 1/s^3."""
    memory_s: float = 0.0
    """Kalman: time constant of the trend's decay; 0: no decay."""
    min_cutoff: float = 1.0
    """One-euro: cutoff at rest, Hz."""
    beta: float = 0.0
    """One-euro: increase of the cutoff with speed, Hz per unit/s."""
    gain: float = 1.0
    """One-euro: factor on the speed in the extrapolation."""


# Values that are tried.
NOISES: Final = (1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
MEMORIES_S: Final = (0.0, 0.05, 0.1, 0.2, 0.5)
CUTOFFS: Final = (1.0, 3.0, 8.0)
BETAS: Final = (0.0, 4.0, 16.0)
GAINS: Final = (0.0, 0.3, 0.6, 1.0)
SPEED_CUTOFF: Final = 1.0
"""Cutoff of the one-euro filter's speed estimate, Hz, as in the paper."""


@lru_cache(maxsize=256)
def kalman_filter(noise: float, memory_s: float) -> tuple[Array, Array, Array]:
    """Steady-state Kalman filter as transfer functions: numerators of value and speed, and denominator."""
    keep = np.exp(-DT / memory_s) if memory_s else 1.0
    move = np.array([[1.0, _decayed_seconds(DT, memory_s)], [0.0, keep]])
    driven = noise * np.array([[DT**3 / 3.0, DT**2 / 2.0], [DT**2 / 2.0, DT]])
    seen = np.array([[1.0, 0.0]])
    spread = solve_discrete_are(move.T, seen.T, driven, np.eye(1))
    gain = spread @ seen.T / (seen @ spread @ seen.T + 1.0)
    a = move - gain @ seen @ move
    # x_t = A x_(t-1) + K y_t: both states are filters of y with the denominator det(I - A/z).
    bottom = np.array([1.0, -np.trace(a), np.linalg.det(a)])
    k0, k1 = gain[:, 0]
    value = np.array([k0, a[0, 1] * k1 - a[1, 1] * k0, 0.0])
    speed = np.array([k1, a[1, 0] * k0 - a[0, 0] * k1, 0.0])
    return value, speed, bottom


def _decayed_seconds(seconds: float, memory_s: float) -> float:
    """Displacement of a decaying trend within a time, in units of its current speed (seconds)."""
    return float(memory_s * -np.expm1(-seconds / memory_s)) if memory_s else seconds


def kalman(y: Array, noise: float, memory_s: float) -> tuple[Array, Array]:
    """Value and speed per second, both shaped like ``y`` (T, C); starts at rest at the first value."""
    value, speed, bottom = kalman_filter(noise, memory_s)
    out = []
    for top in (value, speed):
        start = lfilter_zi(top, bottom)[:, None] * y[:1]
        out.append(np.asarray(lfilter(top, bottom, y, axis=0, zi=start)[0], dtype=np.float64))
    return out[0], out[1]


def one_euro(clips: Sequence[Array], min_cutoff: float, beta: float) -> list[tuple[Array, Array]]:
    """Value and speed of each clip (T, C); clips of any length are processed in parallel."""
    order = sorted(range(len(clips)), key=lambda n: -len(clips[n]))
    longest = len(clips[order[0]])
    lengths = np.array([len(clips[n]) for n in order])
    padded = np.zeros((longest, len(clips), clips[0].shape[1]))
    for row, n in enumerate(order):
        padded[: len(clips[n]), row] = clips[n]
    value, speed = padded.copy(), np.zeros_like(padded)
    speed_gain = DT / (DT + 1.0 / (2.0 * np.pi * SPEED_CUTOFF))
    for t in range(1, longest):
        live = slice(0, int(np.searchsorted(-lengths, -t, side="left")))
        x, v, y = value[t - 1, live], speed[t - 1, live], padded[t, live]
        v = v + speed_gain * ((y - x) / DT - v)
        cutoff = min_cutoff + beta * np.abs(v)
        value[t, live] = x + (y - x) * (DT / (DT + 1.0 / (2.0 * np.pi * cutoff)))
        speed[t, live] = v
    results: list[tuple[Array, Array]] = [(value, speed)] * len(clips)
    for row, n in enumerate(order):
        results[n] = (value[: lengths[row], row], speed[: lengths[row], row])
    return results


def tracked(clips: Sequence[Array], tracker: Tracker) -> list[tuple[Array, Array]]:
    """Run a tracker; returns value and speed of each clip."""
    if tracker.kind == "kalman":
        return [kalman(y, tracker.noise, tracker.memory_s) for y in clips]
    return one_euro(clips, tracker.min_cutoff, tracker.beta)


def carry(value: Array, speed: Array, tracker: Tracker, horizon: int) -> Array:
    """Extrapolate by ``horizon`` frames plus the twin's delay; clipped to 0..1."""
    seconds = horizon * DT + tracker.delay_s
    if tracker.kind == "kalman":
        return np.clip(value + speed * _decayed_seconds(seconds, tracker.memory_s), 0.0, 1.0)
    return np.clip(value + tracker.gain * speed * seconds, 0.0, 1.0)


def save(table: Table[Tracker], path: Path) -> None:
    """Write as JSON."""
    write_tuned(path, parameters=PARAMETERS, horizon_frames=HORIZONS, trackers=rows_of(table))


def load(path: Path) -> Table[Tracker]:
    """Read what :func:`save` wrote.

    Raises:
        FormatError: the file is invalid, or tuned for another teacher.
    """
    return read_tuned(path, "trackers", lambda content: table_of(Tracker, content["trackers"]))


def candidates(delay: float, motion_delay: float) -> list[Tracker]:
    """All settings that are tried on one twin."""
    trackers = [Tracker("kalman", delay, motion_delay, q, memory) for q in NOISES for memory in MEMORIES_S]
    trackers += [
        Tracker("one-euro", delay, motion_delay, min_cutoff=c, beta=b, gain=g)
        for c in CUTOFFS
        for b in BETAS
        for g in GAINS
    ]
    return trackers


def tune(
    examples: Sequence[Example],
    *,
    delays: Sequence[float] = DELAYS_S,
    motion_delays: Sequence[float] = MOTION_DELAYS_S,
) -> Table[Tracker]:
    """Find the trackers with the lowest mean absolute error, averaged over the subjects of ``examples``."""
    judge = Judge(examples)
    best = Best(Tracker("kalman", 0.0, 0.0))
    for delay in delays:
        for motion_delay in motion_delays:
            twins = [
                causal_twin(example.quats, delay, motion_delay).astype(np.float64) for example in examples
            ]
            cached: dict[tuple[float, ...], tuple[Array, Array]] = {}
            for tracker in candidates(delay, motion_delay):
                key = (tracker.noise, tracker.memory_s, tracker.min_cutoff, tracker.beta)
                if key not in cached:
                    pairs = tracked(twins, tracker)
                    cached = {
                        key: (np.concatenate([x for x, _ in pairs]), np.concatenate([v for _, v in pairs]))
                    }
                value, speed = cached[key]
                best.offer(tracker, judge.errors(partial(_predicted, value, speed, tracker)))
    return best.table()


def _predicted(value: Array, speed: Array, tracker: Tracker, rows: NDArray[np.int64], horizon: int) -> Array:
    return carry(value[rows], speed[rows], tracker, horizon)


def forecast(twin: NDArray[np.float32], tracker: Tracker, horizon: int) -> Array:
    """Forecasts (T,) of one parameter from its twin (T,)."""
    value, speed = tracked([twin[:, None].astype(np.float64)], tracker)[0]
    return carry(value, speed, tracker, horizon)[:, 0]
