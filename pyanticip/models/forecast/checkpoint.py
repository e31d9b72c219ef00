"""Save and load forecasters: safetensors and JSON, never pickle, as every checkpoint here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from pyanticip.models.checkpoint.files import draft_folder, fill, finite_weights, write_description
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_verified
from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import FORECAST_FORMAT, FORECAST_VERSION, read_forecast_manifest


def save_forecaster(
    path: str | Path,
    model: PoseForecaster,
    *,
    training: Mapping[str, Any] | None = None,
) -> Path:
    """Write a checkpoint folder (``model.safetensors``, ``model.json``); an older one is replaced whole.

    :param training: what to note about how it was trained; JSON values.
    :raises CheckpointError: weights that are not finite.
    """
    folder = Path(path)
    tensors = finite_weights(model, folder)
    with draft_folder(folder) as draft:
        (draft / WEIGHTS).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))
        content = {
            "format": FORECAST_FORMAT,
            "version": FORECAST_VERSION,
            "config": model.cfg.to_dict(),
            "parameter_count": sum(p.numel() for p in model.parameters()),
            "training": dict(training or {}),
        }
        write_description(draft, content, "pyanticip", "torch")
        read_forecast_manifest(draft)
    return folder


def load_forecaster(path: str | Path, *, device: str | torch.device = "cpu") -> PoseForecaster:
    """Load a forecaster in evaluation mode.

    :raises CheckpointError: missing, damaged, from a newer version, or not a forecaster's.
    """
    manifest = read_forecast_manifest(path)
    model = PoseForecaster(manifest.config)
    data = read_verified(manifest.folder, WEIGHTS, manifest.sha256)
    fill(model, data, f"checkpoint {manifest.folder}")
    return model.to(device).eval()
