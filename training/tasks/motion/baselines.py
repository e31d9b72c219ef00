"""The two rivals: hold what the causal twin says, or carry its slope on in a straight line.

Both get their best chance: the twin's delays, the stretch that the slope is taken from and its gain are
chosen on the training subjects, for each parameter at each horizon by itself.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.untrusted import read_json
from pyanticip.vocabulary import PARAMETERS, RATE
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.teacher.filters import causal_twin
from training.teacher.kinematic_targets import EDGE, TEACHER_VERSION

Array = NDArray[np.float64]
T = TypeVar("T")

DELAYS_S: Final = (0.0, 0.02, 0.04, 0.07, 0.11, 0.16, 0.25, 0.4)
MOTION_DELAYS_S: Final = (0.0, 0.02, 0.04)
SLOPE_FRAMES: Final = (1, 2, 4, 8)
GAINS: Final = (0.15, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2)


@dataclass(frozen=True)
class Setting:
    """One rival for one parameter at one horizon. ``gain`` 0 holds."""

    delay_s: float
    motion_delay_s: float
    slope_frames: int = 1
    gain: float = 0.0


def table_of(kind: Callable[..., T], rows: Any) -> tuple[tuple[T, ...], ...]:
    """Settings from what JSON says of each."""
    return tuple(tuple(kind(**one) for one in row) for row in rows)


def write_tuned(path: Path, **content: Any) -> None:
    """Write settings as JSON, with the teacher they were tuned for."""
    path.write_text(json.dumps({"teacher_version": TEACHER_VERSION, **content}) + "\n", encoding="utf-8")


def read_tuned(path: Path, what: str, made: Callable[[Any], T]) -> T:
    """What ``made`` makes of what :func:`write_tuned` wrote.

    Raises:
        FormatError: not such a file, or one for another teacher.
    """
    content = read_json(path)
    try:
        version = content["teacher_version"]
        found = made(content) if version == TEACHER_VERSION else None
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: not a file of tuned {what} ({error})") from error
    if found is None:
        raise FormatError(f"{path}: tuned for teacher {version}, expected {TEACHER_VERSION}")
    return found


@dataclass(frozen=True)
class ParameterBaselines:
    """The tuned settings: ``hold[k][i]`` and ``linear[k][i]`` for parameter k at horizon i."""

    hold: tuple[tuple[Setting, ...], ...]
    linear: tuple[tuple[Setting, ...], ...]

    def save(self, path: Path) -> None:
        """Write as JSON."""
        tables = {
            name: [[asdict(setting) for setting in row] for row in table]
            for name, table in (("hold", self.hold), ("linear", self.linear))
        }
        write_tuned(path, parameters=PARAMETERS, horizon_frames=HORIZONS, **tables)

    @classmethod
    def load(cls, path: Path) -> "ParameterBaselines":
        """Read what :meth:`save` wrote.

        Raises:
            FormatError: not such a file, or one for another teacher.
        """
        names = ("hold", "linear")
        return read_tuned(path, "rivals", lambda known: cls(*(table_of(Setting, known[n]) for n in names)))


def extrapolate(twin: NDArray[np.floating], setting: Setting, horizon: int) -> Array:
    """The twin's parameters (T, ...) carried ``horizon`` frames on; inside 0..1.

    The slope over the last n frames lies n/2 + the delays back: it is carried over that as well.
    """
    y = np.asarray(twin, dtype=np.float64)
    if setting.gain == 0.0:
        return y
    n = setting.slope_frames
    slope = np.zeros_like(y)
    slope[n:] = (y[n:] - y[:-n]) / n
    lag = setting.delay_s * RATE
    return np.clip(y + setting.gain * slope * (horizon + lag + n / 2.0), 0.0, 1.0)


def judged(frames: int, horizon: int) -> slice:
    """The frames t of a clip that are judged at a horizon: neither t nor t + horizon at the clip's edges."""
    return slice(EDGE, max(frames - EDGE - horizon, EDGE))


class Judge:
    """Mean errors over subjects of all clips laid end to end."""

    def __init__(self, examples: Sequence[Example]) -> None:
        lengths = np.array([len(example) for example in examples])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        params = np.concatenate([example.params for example in examples]).astype(np.float64)
        owners = np.array([example.subject for example in examples])
        self.where, self.targets, self.weights = [], [], []
        for horizon in HORIZONS:
            spans = [judged(n, horizon) for n in lengths]
            rows = [np.arange(s.start, s.stop) + at for s, at in zip(spans, starts, strict=True)]
            frames = np.concatenate(rows)
            who = np.concatenate([np.full(len(r), o) for r, o in zip(rows, owners, strict=True)])
            names, index, counts = np.unique(who, return_inverse=True, return_counts=True)
            self.where.append(frames)
            self.targets.append(params[frames + horizon])
            self.weights.append(1.0 / counts[index] / len(names))

    def errors(self, predicted: Callable[[NDArray[np.int64], int], Array]) -> Array:
        """(8, 5) of what is said (n, 8) at some frames, so many frames ahead."""
        out = np.zeros((len(PARAMETERS), len(HORIZONS)))
        for i, horizon in enumerate(HORIZONS):
            out[:, i] = self.weights[i] @ np.abs(predicted(self.where[i], horizon) - self.targets[i])
        return out


def tune(
    examples: Sequence[Example],
    *,
    delays: Sequence[float] = DELAYS_S,
    motion_delays: Sequence[float] = MOTION_DELAYS_S,
    slope_frames: Sequence[int] = SLOPE_FRAMES,
    gains: Sequence[float] = GAINS,
) -> ParameterBaselines:
    """The settings with the least mean absolute error, mean over the subjects of ``examples``.

    Args:
        examples: of training subjects.
        delays: delays of the measures to try, seconds.
        motion_delays: delays before the differences to try, seconds.
        slope_frames: stretches of the slope to try.
        gains: gains of the slope to try.
    """
    judge = Judge(examples)
    size = (len(PARAMETERS), len(HORIZONS))
    best = {name: np.full(size, np.inf) for name in ("hold", "linear")}
    found: dict[str, list[list[Setting]]] = {
        name: [[Setting(0.0, 0.0)] * size[1] for _ in range(size[0])] for name in best
    }
    for delay in delays:
        for motion_delay in motion_delays:
            # End to end: the slope at a frame that is judged does not reach into the clip before.
            twins = np.concatenate([causal_twin(example.quats, delay, motion_delay) for example in examples])
            trials = [Setting(delay, motion_delay)]
            trials += [Setting(delay, motion_delay, n, g) for n in slope_frames for g in gains]
            for setting in trials:
                kind = "linear" if setting.gain else "hold"
                mean = judge.errors(partial(_predicted, twins, setting))
                better = mean < best[kind]
                best[kind][better] = mean[better]
                for k, i in zip(*np.nonzero(better), strict=True):
                    found[kind][k][i] = setting
    hold, linear = (tuple(tuple(row) for row in found[name]) for name in ("hold", "linear"))
    return ParameterBaselines(hold, linear)


def _predicted(twins: NDArray[np.float32], setting: Setting, rows: NDArray[np.int64], horizon: int) -> Array:
    return extrapolate(twins, setting, horizon)[rows]


Made = dict[tuple[float, float], NDArray[np.float32]]
"""Causal twins (T, 8) of one clip by their two delays."""


def predict(
    example: Example, settings: tuple[tuple[Setting, ...], ...], twins: Made | None = None
) -> NDArray[np.float32]:
    """What tuned rivals say (T, 8, 5) about a clip; twins that were made before are not made again."""
    out = np.zeros((len(example), len(PARAMETERS), len(HORIZONS)), dtype=np.float32)
    twins = {} if twins is None else twins
    for k, row in enumerate(settings):
        for i, setting in enumerate(row):
            key = (setting.delay_s, setting.motion_delay_s)
            if key not in twins:
                twins[key] = causal_twin(example.quats, *key)
            out[:, k, i] = extrapolate(twins[key][:, k], setting, HORIZONS[i])
    return out
