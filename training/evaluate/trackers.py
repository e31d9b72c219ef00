"""The third rival: a filter that tracks the causal twin and says where it is going.

Either a Kalman filter of a damped local trend (Gardner and McKenzie 1985 in state-space form; without
damping it is the constant-velocity filter) in its steady state, or a one-euro filter (Casiez, Roussel and
Vogel, CHI 2012) carried on along its own speed estimate. Which of the two, and every setting, is chosen on
the training subjects, for each parameter at each horizon by itself, as for the other two rivals.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
    Judge,
    Made,
    read_tuned,
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
    """Kalman: spectral density of the trend's noise over the variance of a measurement, 1/s^3."""
    memory_s: float = 0.0
    """Kalman: time constant of the trend; 0: it lasts."""
    min_cutoff: float = 1.0
    """One-euro: Hz at rest."""
    beta: float = 0.0
    """One-euro: Hz per unit/s of speed."""
    gain: float = 1.0
    """One-euro: factor on the speed that is carried on."""


NOISES: Final = (1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
MEMORIES_S: Final = (0.0, 0.05, 0.1, 0.2, 0.5)
CUTOFFS: Final = (1.0, 3.0, 8.0)
BETAS: Final = (0.0, 4.0, 16.0)
GAINS: Final = (0.0, 0.3, 0.6, 1.0)
SPEED_CUTOFF: Final = 1.0
"""Hz of the one-euro filter's own smoothing of the speed: the paper's."""


@lru_cache(maxsize=256)
def kalman_filter(noise: float, memory_s: float) -> tuple[Array, Array, Array]:
    """Numerators of value and speed, and their common denominator, of the filter in its steady state."""
    keep = np.exp(-DT / memory_s) if memory_s else 1.0
    move = np.array([[1.0, _carried(DT, memory_s)], [0.0, keep]])
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


def _carried(seconds: float, memory_s: float) -> float:
    """How long a trend of that memory is carried on within a time, as seconds of its present speed."""
    return float(memory_s * -np.expm1(-seconds / memory_s)) if memory_s else seconds


def kalman(y: Array, noise: float, memory_s: float) -> tuple[Array, Array]:
    """Value and speed (per second), both like ``y`` (T, C); it starts at rest at the first value."""
    value, speed, bottom = kalman_filter(noise, memory_s)
    out = []
    for top in (value, speed):
        start = lfilter_zi(top, bottom)[:, None] * y[:1]
        out.append(np.asarray(lfilter(top, bottom, y, axis=0, zi=start)[0], dtype=np.float64))
    return out[0], out[1]


def one_euro(clips: Sequence[Array], min_cutoff: float, beta: float) -> list[tuple[Array, Array]]:
    """Value and speed of each clip (T, C), clips of any length side by side."""
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
    found: list[tuple[Array, Array]] = [(value, speed)] * len(clips)
    for row, n in enumerate(order):
        found[n] = (value[: lengths[row], row], speed[: lengths[row], row])
    return found


def tracked(clips: Sequence[Array], tracker: Tracker) -> list[tuple[Array, Array]]:
    """Value and speed of each clip by a tracker."""
    if tracker.kind == "kalman":
        return [kalman(y, tracker.noise, tracker.memory_s) for y in clips]
    return one_euro(clips, tracker.min_cutoff, tracker.beta)


def carry(value: Array, speed: Array, tracker: Tracker, horizon: int) -> Array:
    """The value ``horizon`` frames, and the twin's own delay, on; inside 0..1."""
    seconds = horizon * DT + tracker.delay_s
    if tracker.kind == "kalman":
        return np.clip(value + speed * _carried(seconds, tracker.memory_s), 0.0, 1.0)
    return np.clip(value + tracker.gain * speed * seconds, 0.0, 1.0)


Table = tuple[tuple[Tracker, ...], ...]
"""``table[k][i]`` for parameter k at horizon i."""


def save(table: Table, path: Path) -> None:
    """Write as JSON."""
    rows = [[asdict(tracker) for tracker in row] for row in table]
    write_tuned(path, parameters=PARAMETERS, horizon_frames=HORIZONS, trackers=rows)


def load(path: Path) -> Table:
    """Read what :func:`save` wrote.

    Raises:
        FormatError: not such a file, or one for another teacher.
    """
    return read_tuned(path, "trackers", lambda content: table_of(Tracker, content["trackers"]))


def candidates(delay: float, motion_delay: float) -> list[Tracker]:
    """Every setting that is tried on one twin."""
    found = [Tracker("kalman", delay, motion_delay, q, memory) for q in NOISES for memory in MEMORIES_S]
    found += [
        Tracker("one-euro", delay, motion_delay, min_cutoff=c, beta=b, gain=g)
        for c in CUTOFFS
        for b in BETAS
        for g in GAINS
    ]
    return found


def tune(
    examples: Sequence[Example],
    *,
    delays: Sequence[float] = DELAYS_S,
    motion_delays: Sequence[float] = MOTION_DELAYS_S,
) -> Table:
    """The trackers with the least mean absolute error, mean over the subjects of ``examples``."""
    judge = Judge(examples)
    best = np.full((len(PARAMETERS), len(HORIZONS)), np.inf)
    found = [[Tracker("kalman", 0.0, 0.0)] * len(HORIZONS) for _ in PARAMETERS]
    for delay in delays:
        for motion_delay in motion_delays:
            twins = [
                causal_twin(example.quats, delay, motion_delay).astype(np.float64) for example in examples
            ]
            known: dict[tuple[float, ...], tuple[Array, Array]] = {}
            for tracker in candidates(delay, motion_delay):
                key = (tracker.noise, tracker.memory_s, tracker.min_cutoff, tracker.beta)
                if key not in known:
                    pairs = tracked(twins, tracker)
                    known = {
                        key: (np.concatenate([x for x, _ in pairs]), np.concatenate([v for _, v in pairs]))
                    }
                value, speed = known[key]
                mean = judge.errors(partial(_predicted, value, speed, tracker))
                better = mean < best
                best[better] = mean[better]
                for k, i in zip(*np.nonzero(better), strict=True):
                    found[k][i] = tracker
    return tuple(tuple(row) for row in found)


def _predicted(value: Array, speed: Array, tracker: Tracker, rows: NDArray[np.int64], horizon: int) -> Array:
    return carry(value[rows], speed[rows], tracker, horizon)


def predict(example: Example, table: Table, twins: Made | None = None) -> NDArray[np.float32]:
    """What tuned trackers say (T, 8, 5) about a clip; twins that were made before are not made again."""
    out = np.zeros((len(example), len(PARAMETERS), len(HORIZONS)), dtype=np.float32)
    twins = {} if twins is None else twins
    for k, row in enumerate(table):
        for i, tracker in enumerate(row):
            key = (tracker.delay_s, tracker.motion_delay_s)
            if key not in twins:
                twins[key] = causal_twin(example.quats, *key)
            value, speed = tracked([twins[key][:, k : k + 1].astype(np.float64)], tracker)[0]
            out[:, k, i] = carry(value, speed, tracker, HORIZONS[i])[:, 0]
    return out
