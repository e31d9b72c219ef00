"""A forecaster as the evaluator calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from pyanticip.errors import CheckpointError
from pyanticip.models.forecast.checkpoint import load_forecaster
from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import read_forecast_manifest
from training.tasks.forecast.cmu import OBSERVED, PREDICTED, TARGET, Array
from training.tasks.forecast.metrics import PositionPredictor, hold


def predictor(model: PoseForecaster) -> PositionPredictor:
    """The model as the evaluator calls it; joints that it does not predict stay."""

    def predict(observed: Array) -> Array:
        said = hold(observed)
        seen = torch.from_numpy(observed[:, :, list(PREDICTED)].astype(np.float32))
        with torch.inference_mode():
            parts = [model.predict(part) for part in torch.split(seen, 1024)]
        said[:, :, list(PREDICTED)] = torch.cat(parts).numpy()
        return said

    return predict


def load_predictor(folder: Path) -> PositionPredictor:
    """The predictor of a run of ``train forecast``, or of a checkpoint folder.

    Raises:
        CheckpointError: there is none, or it is not one of this benchmark's.
    """
    inner = folder / "checkpoint"
    model = load_forecaster(inner if inner.is_dir() else folder)
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
    inner = folder / "checkpoint"
    manifest = read_forecast_manifest(inner if inner.is_dir() else folder)
    return [str(name) for name in manifest.training.get("trained_on", ())]
