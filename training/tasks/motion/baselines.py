"""The two simplest baselines: hold the value of the causal twin, or extrapolate it linearly.

The twin's delays, the window of the slope and its gain are tuned on the training subjects, separately for
each parameter and horizon.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.motion.atomic import write_file
from pyanticip.untrusted import read_json
from pyanticip.vocabulary import PARAMETERS, RATE
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.teacher.filters import causal_twin
from training.teacher.kinematic_targets import EDGE, TEACHER_VERSION

Array = NDArray[np.float64]
T = TypeVar("T")

# Values that are tried.
DELAYS_S: Final = (0.0, 0.02, 0.04, 0.07, 0.11, 0.16, 0.25, 0.4)
MOTION_DELAYS_S: Final = (0.0, 0.02, 0.04)
SLOPE_FRAMES: Final = (1, 2, 4, 8)
GAINS: Final = (0.15, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2)


@dataclass(frozen=True)
class Setting:
    """Settings of one baseline for one parameter at one horizon; ``gain`` 0 holds."""

    delay_s: float
    motion_delay_s: float
    slope_frames: int = 1
    gain: float = 0.0


Table = tuple[tuple[T, ...], ...]
"""Settings ``table[k][i]`` for parameter k at horizon i."""


def table_of(kind: Callable[..., T], rows: Any) -> Table[T]:
    """Build a table of settings from rows of JSON objects."""
    return tuple(tuple(kind(**one) for one in row) for row in rows)


def rows_of(table: Table[Any]) -> list[list[dict[str, Any]]]:
    """Rows of JSON objects of a table of settings."""
    return [[asdict(setting) for setting in row] for row in table]


def write_tuned(path: Path, **content: Any) -> None:
    """Write settings as JSON, with the version of the teacher they were tuned for."""
    write_file(path, (json.dumps({"teacher_version": TEACHER_VERSION, **content}) + "\n").encode())


def read_tuned(path: Path, what: str, build: Callable[[Any], T]) -> T:
    """Read a file of :func:`write_tuned` and build an object from its content with ``build``.

    Raises:
        FormatError: the file is invalid, or tuned for another teacher.
    """
    content = read_json(path)
    try:
        version = content["teacher_version"]
        result = build(content) if version == TEACHER_VERSION else None
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: not a file of tuned {what} ({error})") from error
    if result is None:
        raise FormatError(f"{path}: tuned for teacher {version}, expected {TEACHER_VERSION}")
    return result


@dataclass(frozen=True)
class ParameterBaselines:
    """The tuned settings."""

    hold: Table[Setting]
    linear: Table[Setting]

    def save(self, path: Path) -> None:
        """Write as JSON."""
        tables = {"hold": rows_of(self.hold), "linear": rows_of(self.linear)}
        write_tuned(path, parameters=PARAMETERS, horizon_frames=HORIZONS, **tables)

    @classmethod
    def load(cls, path: Path) -> "ParameterBaselines":
        """Read what :meth:`save` wrote.

        Raises:
            FormatError: the file is invalid, or tuned for another teacher.
        """
        names = ("hold", "linear")
        return read_tuned(
            path, "rivals", lambda content: cls(*(table_of(Setting, content[n]) for n in names))
        )


def extrapolate(twin: NDArray[np.floating], setting: Setting, horizon: int) -> Array:
    """Extrapolate the twin's parameters (T, ...) by ``horizon`` frames; clipped to 0..1.

    The slope over the last n frames is delayed by n/2 frames and the twin's delay, which is compensated.
    """
    y = np.asarray(twin, dtype=np.float64)
    if setting.gain == 0.0:
        return y
    n = setting.slope_frames
    slope = np.zeros_like(y)
    slope[n:] = (y[n:] - y[:-n]) / n
    lag = setting.delay_s * RATE
    return np.clip(y + setting.gain * slope * (horizon + lag + n / 2.0), 0.0, 1.0)


def evaluated_frames(frames: int, horizon: int) -> slice:
    """The evaluated frames t of a clip at a horizon: neither t nor t + horizon lies at the clip's edges."""
    return slice(EDGE, max(frames - EDGE - horizon, EDGE))


class Judge:
    """Computes errors, averaged over subjects, of predictions for all clips laid end to end."""

    def __init__(self, examples: Sequence[Example]) -> None:
        lengths = np.array([len(example) for example in examples])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        params = np.concatenate([example.params for example in examples]).astype(np.float64)
        people = np.array([example.subject for example in examples])
        self.frames, self.targets, self.weights = [], [], []
        for horizon in HORIZONS:
            spans = [evaluated_frames(n, horizon) for n in lengths]
            rows = [np.arange(s.start, s.stop) + at for s, at in zip(spans, starts, strict=True)]
            frames = np.concatenate(rows)
            person_of_frame = np.concatenate([np.full(len(r), o) for r, o in zip(rows, people, strict=True)])
            names, index, counts = np.unique(person_of_frame, return_inverse=True, return_counts=True)
            self.frames.append(frames)
            self.targets.append(params[frames + horizon])
            self.weights.append(1.0 / counts[index] / len(names))

    def errors(self, predicted: Callable[[NDArray[np.int64], int], Array]) -> Array:
        """Mean absolute errors (8, 5) of a function from frames (n,) and a horizon to predictions (n, 8)."""
        out = np.zeros((len(PARAMETERS), len(HORIZONS)))
        for i, horizon in enumerate(HORIZONS):
            out[:, i] = self.weights[i] @ np.abs(predicted(self.frames[i], horizon) - self.targets[i])
        return out


class Best(Generic[T]):
    """The best setting so far for each parameter and horizon.

    Args:
        none: the setting where nothing was tried.
    """

    def __init__(self, none: T) -> None:
        self.errors = np.full((len(PARAMETERS), len(HORIZONS)), np.inf)
        self.settings = [[none] * len(HORIZONS) for _ in PARAMETERS]

    def offer(self, setting: T, errors: Array) -> None:
        """Keep a setting where its errors (8, 5) are lower."""
        better = errors < self.errors
        self.errors[better] = errors[better]
        for k, i in zip(*np.nonzero(better), strict=True):
            self.settings[k][i] = setting

    def table(self) -> Table[T]:
        """The settings."""
        return tuple(map(tuple, self.settings))


def tune(
    examples: Sequence[Example],
    *,
    delays: Sequence[float] = DELAYS_S,
    motion_delays: Sequence[float] = MOTION_DELAYS_S,
    slope_frames: Sequence[int] = SLOPE_FRAMES,
    gains: Sequence[float] = GAINS,
) -> ParameterBaselines:
    """Find the settings with the lowest mean absolute error, averaged over the subjects of ``examples``.

    Args:
        examples: clips of training subjects.
        delays: delays of the measures to try, seconds.
        motion_delays: delays before differentiation to try, seconds.
        slope_frames: windows of the slope to try, frames.
        gains: gains of the slope to try.
    """
    judge = Judge(examples)
    hold, linear = Best(Setting(0.0, 0.0)), Best(Setting(0.0, 0.0))
    for delay in delays:
        for motion_delay in motion_delays:
            # Laid end to end: the slope at an evaluated frame does not reach into the previous clip.
            twins = np.concatenate([causal_twin(example.quats, delay, motion_delay) for example in examples])
            trials = [Setting(delay, motion_delay)]
            trials += [Setting(delay, motion_delay, n, g) for n in slope_frames for g in gains]
            for setting in trials:
                best = linear if setting.gain else hold
                best.offer(setting, judge.errors(partial(_predicted, twins, setting)))
    return ParameterBaselines(hold.table(), linear.table())


def _predicted(twins: NDArray[np.float32], setting: Setting, rows: NDArray[np.int64], horizon: int) -> Array:
    return extrapolate(twins, setting, horizon)[rows]


class Twins:
    """Causal twins of one clip at any delays, each computed once.

    Args:
        quats: (T, 22, 4).
    """

    def __init__(self, quats: NDArray[np.floating]) -> None:
        self.quats = quats
        self._cache: dict[tuple[float, float], NDArray[np.float32]] = {}

    def delayed(self, delay_s: float, motion_delay_s: float) -> NDArray[np.float32]:
        """(T, 8): the twin with these delays."""
        key = (delay_s, motion_delay_s)
        if key not in self._cache:
            self._cache[key] = causal_twin(self.quats, *key)
        return self._cache[key]


def predict(
    twins: Twins, table: Table[Any], forecast: Callable[[NDArray[np.float32], Any, int], Array]
) -> NDArray[np.float32]:
    """Forecasts (T, 8, 5) of tuned baselines for a clip.

    Args:
        twins: the clip's twins.
        table: the baselines' settings.
        forecast: function of one parameter's twin (T,), its setting and a horizon, giving (T,).
    """
    out = np.zeros((len(twins.quats), len(PARAMETERS), len(HORIZONS)), dtype=np.float32)
    for k, row in enumerate(table):
        for i, setting in enumerate(row):
            twin = twins.delayed(setting.delay_s, setting.motion_delay_s)
            out[:, k, i] = forecast(twin[:, k], setting, HORIZONS[i])
    return out
