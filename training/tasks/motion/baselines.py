"""The two rivals: hold what the causal twin says, or carry its slope on in a straight line.

Both get their best chance: the twin's delays, the stretch that the slope is taken from and its gain are
chosen on the training subjects, for each parameter at each horizon by itself.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.untrusted import read_json
from pyanticip.vocabulary import PARAMETERS, RATE
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.teacher.filters import causal_twin
from training.teacher.handmade import EDGE, PARAMETERS_SINCE, TEACHER_VERSION

Array = NDArray[np.float64]

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


@dataclass(frozen=True)
class Rivals:
    """The tuned settings: ``hold[k][i]`` and ``linear[k][i]`` for parameter k at horizon i."""

    hold: tuple[tuple[Setting, ...], ...]
    linear: tuple[tuple[Setting, ...], ...]

    def save(self, path: Path) -> None:
        """Write as JSON."""
        content = {"teacher_version": TEACHER_VERSION, "parameters": PARAMETERS, "horizon_frames": HORIZONS}
        tables = {
            name: [[asdict(setting) for setting in row] for row in table]
            for name, table in (("hold", self.hold), ("linear", self.linear))
        }
        path.write_text(json.dumps(content | tables) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Rivals":
        """Read what :meth:`save` wrote.

        Raises:
            FormatError: not such a file, or one for another teacher.
        """
        try:
            content = read_json(path)
            version = content["teacher_version"]
            # The rivals play parameters, which later versions may have left alone.
            if not PARAMETERS_SINCE <= version <= TEACHER_VERSION:
                raise FormatError(
                    f"{path}: tuned for teacher {version}, expected {PARAMETERS_SINCE} to {TEACHER_VERSION}"
                )
            hold, linear = (
                tuple(tuple(Setting(**setting) for setting in row) for row in content[name])
                for name in ("hold", "linear")
            )
        except (KeyError, TypeError) as error:
            raise FormatError(f"{path}: not a file of tuned rivals ({error})") from error
        return cls(hold, linear)


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


def tune(
    examples: Sequence[Example],
    *,
    delays: Sequence[float] = DELAYS_S,
    motion_delays: Sequence[float] = MOTION_DELAYS_S,
    slope_frames: Sequence[int] = SLOPE_FRAMES,
    gains: Sequence[float] = GAINS,
    on_twin: Callable[[], None] | None = None,
) -> Rivals:
    """The settings with the least mean absolute error, mean over the subjects of ``examples``.

    Args:
        examples: of training subjects.
        delays: delays of the measures to try, seconds.
        motion_delays: delays before the differences to try, seconds.
        slope_frames: stretches of the slope to try.
        gains: gains of the slope to try.
        on_twin: called after each pair of delays (progress bars).
    """
    size = (len(PARAMETERS), len(HORIZONS))
    best = {name: np.full(size, np.inf) for name in ("hold", "linear")}
    found: dict[str, list[list[Setting]]] = {
        name: [[Setting(0.0, 0.0)] * size[1] for _ in range(size[0])] for name in best
    }
    for delay in delays:
        for motion_delay in motion_delays:
            twins = [causal_twin(example.quats, delay, motion_delay) for example in examples]
            trials = [Setting(delay, motion_delay)]
            trials += [Setting(delay, motion_delay, n, g) for n in slope_frames for g in gains]
            for setting in trials:
                kind = "linear" if setting.gain else "hold"
                errors = np.stack([_clip_error(e, w, setting) for e, w in zip(examples, twins, strict=True)])
                counts = np.array([[_judged_frames(e, h) for h in HORIZONS] for e in examples])
                subjects = sorted({example.subject for example in examples})
                rows = []
                for subject in subjects:
                    mine = np.array([example.subject == subject for example in examples])
                    count = counts[mine].sum(axis=0)
                    rows.append(np.where(count > 0, errors[mine].sum(axis=0) / np.maximum(count, 1), np.nan))
                mean = np.nanmean(np.stack(rows), axis=0)
                better = mean < best[kind]
                best[kind][better] = mean[better]
                for k, i in zip(*np.nonzero(better), strict=True):
                    found[kind][k][i] = setting
            if on_twin is not None:
                on_twin()
    hold, linear = (tuple(tuple(row) for row in found[name]) for name in ("hold", "linear"))
    return Rivals(hold, linear)


def _judged_frames(example: Example, horizon: int) -> int:
    span = judged(len(example), horizon)
    return max(int(span.stop) - int(span.start), 0)


def _clip_error(example: Example, twin: NDArray[np.float32], setting: Setting) -> Array:
    """Sum of absolute errors (8, 5) over the judged frames of a clip, the same setting everywhere."""
    total = np.zeros((len(PARAMETERS), len(HORIZONS)))
    for i, horizon in enumerate(HORIZONS):
        span = judged(len(twin), horizon)
        if span.stop > span.start:
            ahead = example.params[span.start + horizon : span.stop + horizon]
            total[:, i] = np.abs(extrapolate(twin, setting, horizon)[span] - ahead).sum(axis=0)
    return total


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
