"""Tables of the benchmark: predictors with and without training, and published results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from pyanticip.errors import CheckpointError, FormatError, OptionError
from pyanticip.models.forecast.forecaster import PoseForecaster, load_forecaster
from pyanticip.models.forecast.manifest import read_forecast_manifest
from training.tasks.forecast.cmu import (
    HORIZONS,
    NOMINAL_MS,
    OBSERVED,
    PREDICTED,
    SHORTEST,
    TARGET,
    TRUE_MS,
    Array,
    Take,
    all_windows,
    load_split,
    per_action,
    sampled_windows,
)
from training.tasks.forecast.metrics import (
    PositionPredictor,
    angle_error,
    error_curve,
    extrapolate,
    extrapolate_maps,
    hold,
)

LEFT_OUT: Final = "basketball_signal"
"""Action that is not in the averages, because its test file is not available."""

ZERO: Final = "zero velocity"
CONSTANT: Final = "constant velocity"

PUBLISHED: Final[Mapping[str, tuple[float, ...]]] = {
    "Res-sup (Martinez 2017)": (24.79, 45.30, 80.96, 95.26, 115.86, 150.20),
    "DMGNN (Li 2020)": (15.36, 26.61, 49.58, 60.77, 78.29, 111.80),
    "LTD (Mao 2019)": (10.89, 19.70, 36.40, 44.23, 58.03, 85.84),
    "MSR-GCN (Dang 2021)": (9.54, 17.28, 33.17, 41.22, 55.72, 83.02),
    "PGBIG (Ma 2022)": (8.99, 16.91, 32.89, 40.51, 53.97, 80.48),
}
"""Published MPJPE on the test files, all windows, averaged over the seven actions' rows."""

PUBLISHED_ZERO: Final = (21.83, 41.77, 77.63, 93.31, 119.84, 161.63)
"""MPJPE of zero velocity on the same test files, which converts published rows to ratios."""


def published_ratios() -> dict[str, list[float]]:
    """The published rows as ratios (6,) to zero velocity, both on the test files."""
    zero = np.array(PUBLISHED_ZERO)
    return {name: (np.array(row) / zero).round(4).tolist() for name, row in PUBLISHED.items()}


def evaluate_forecast(
    folder: Path,
    *,
    split: str = "test",
    predictors: Mapping[str, PositionPredictor] | None = None,
    known: Collection[str] = (),
) -> dict[str, Any]:
    """Evaluate both metrics on one split of a folder in the benchmark's layout.

    Args:
        folder: folder with ``train/`` and ``test/``.
        split: ``"train"`` or ``"test"``.
        predictors: further predictors of positions, by name.
        known: names of the training files that these were trained on.

    Returns:
        The report: for each predictor the MPJPE by action and on average, the ratio to zero velocity, and the
        average at every target frame; angle errors of the two predictors without training, empty if no file
        is long enough for them; missing files, and files that are too short for a window, which do not count.

    Raises:
        FormatError: there are no such files, one cannot be read, or all are too short for a window.
        OptionError: unknown split.
    """
    if split not in ("train", "test"):
        raise OptionError(f"split must be 'train' or 'test', got {split!r}")
    found, missing = load_split(folder, split)
    takes = [take for take in found if len(all_windows(len(take.rows)))]
    if not takes:
        raise FormatError(f"{folder / split}: no file has the {SHORTEST} rows that a window needs")
    angle_takes = [take for take in takes if len(sampled_windows(len(take.rows)))]
    all_predictors: dict[str, PositionPredictor] = {ZERO: hold, CONSTANT: extrapolate, **(predictors or {})}
    rows: dict[str, dict[str, list[float]]] = {}
    average_curves: dict[str, Array] = {}
    for name, predict in all_predictors.items():
        curves = curves_by_action(takes, predict)
        rows[name] = with_average({action: at_horizons(curve) for action, curve in curves.items()})
        average_curves[name] = average(curves)
    zero = at_horizons(average_curves[ZERO])
    return {
        "benchmark": "cmu",
        "split": split,
        "files": len(takes),
        "missing": missing,
        "too_short": [take.name for take in found if not len(all_windows(len(take.rows)))],
        "trained_on": [take.name for take in takes if split == "train" and take.name in known],
        "horizons": list(HORIZONS),
        "nominal_ms": list(NOMINAL_MS),
        "true_ms": list(TRUE_MS),
        "mpjpe": rows,
        "ratio": {
            name: (at_horizons(curve) / zero).round(4).tolist() for name, curve in average_curves.items()
        },
        "curves": {name: curve.round(3).tolist() for name, curve in average_curves.items()},
        "angle": {
            name: with_average(by_action(angle_takes, partial(angle_error, predict=predict)))
            for name, predict in {ZERO: hold, CONSTANT: extrapolate_maps}.items()
            if angle_takes
        },
        "published": {name: list(row) for name, row in PUBLISHED.items()},
        "published_ratio": published_ratios(),
    }


def counted(actions: Iterable[str]) -> list[str]:
    """The actions that count in averages: all but :data:`LEFT_OUT`, unless there are no others."""
    names = list(actions)
    return [action for action in names if action != LEFT_OUT] or names


def average(rows: Mapping[str, Array]) -> Array:
    """Mean over the actions that count in averages."""
    return np.asarray(np.mean([rows[action] for action in counted(rows)], axis=0))


def by_action(takes: Sequence[Take], measure: Callable[[Take], Array]) -> dict[str, Array]:
    """Mean of a measure over the takes of each action."""
    return {
        action: np.mean([measure(take) for take in members], axis=0) for action, members in per_action(takes)
    }


def curves_by_action(takes: Sequence[Take], predict: PositionPredictor) -> dict[str, Array]:
    """Error (25,) at every target frame, by action."""
    return by_action(takes, lambda take: error_curve(take, predict))


def average_curve(takes: Sequence[Take], predict: PositionPredictor) -> Array:
    """Error (25,) at every target frame, averaged over the actions that count."""
    names = counted(take.action for take in takes)
    return average(curves_by_action([take for take in takes if take.action in names], predict))


def at_horizons(curve: Array) -> Array:
    """The part (6,) of a curve (25,) that is reported."""
    return curve[list(HORIZONS)]


def with_average(rows: Mapping[str, Array]) -> dict[str, list[float]]:
    """Rows by action, and their average, rounded."""
    return {
        name: [round(float(v), 4) for v in row] for name, row in {**rows, "average": average(rows)}.items()
    }


def predictor(model: PoseForecaster) -> PositionPredictor:
    """Wrap a model as a predictor; joints that it does not predict keep their last position."""

    def predict(observed: Array) -> Array:
        result = hold(observed)
        inputs = torch.from_numpy(observed[:, :, list(PREDICTED)].astype(np.float32))
        with torch.inference_mode():
            parts = [model.predict(part) for part in torch.split(inputs, 1024)]
        result[:, :, list(PREDICTED)] = torch.cat(parts).numpy()
        return result

    return predict


def load_predictor(folder: Path) -> PositionPredictor:
    """Load the predictor of a run of ``train forecast`` or of a checkpoint folder.

    Raises:
        CheckpointError: there is none, or it is not for this benchmark.
    """
    model = load_forecaster(_checkpoint_in(folder))
    sizes = (model.cfg.joints, model.cfg.observed, model.cfg.target)
    if sizes != (len(PREDICTED), OBSERVED, TARGET):
        raise CheckpointError(
            f"checkpoint {folder}: expected {len(PREDICTED)} joints, {OBSERVED} observed and {TARGET} target "
            f"frames, got {sizes[0]}, {sizes[1]} and {sizes[2]}"
        )
    return predictor(model)


def trained_on(folder: Path) -> list[str]:
    """Names of the files that a run or checkpoint was trained on.

    Raises:
        CheckpointError: there is none.
    """
    training = read_forecast_manifest(_checkpoint_in(folder)).training
    return [str(name) for name in training.get("trained_on", ())]


def _checkpoint_in(folder: Path) -> Path:
    """The checkpoint of a run, or the folder itself."""
    inner = folder / "checkpoint"
    return inner if inner.is_dir() else folder
