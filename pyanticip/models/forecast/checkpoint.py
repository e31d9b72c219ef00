"""Save and load forecasters: safetensors and JSON, never pickle, as every checkpoint here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from pyanticip.models.checkpoint.export import export_graph
from pyanticip.models.checkpoint.files import draft_folder, fill, finite_weights, write_description
from pyanticip.models.checkpoint.manifest import STEP_GRAPH, WEIGHTS, read_verified
from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import FORECAST_FORMAT, FORECAST_VERSION, read_forecast_manifest


def save_forecaster(
    path: str | Path,
    model: PoseForecaster,
    *,
    training: Mapping[str, Any] | None = None,
    graph: bool = False,
) -> Path:
    """Write a checkpoint folder (``model.safetensors``, ``model.json``); an older one is replaced whole.

    :param training: what to note about how it was trained; JSON values.
    :param graph: also write ``step.onnx`` for a live stream, which needs ``onnx`` and ``onnxscript``.
    :raises CheckpointError: weights that are not finite, or a graph that does not do what the model does.
    """
    folder = Path(path)
    tensors = finite_weights(model, folder)
    with draft_folder(folder) as draft:
        (draft / WEIGHTS).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))
        if graph:
            copy = PoseForecaster(model.cfg)
            copy.load_state_dict(tensors)
            export_forecaster(copy.eval(), draft)
        content = {
            "format": FORECAST_FORMAT,
            "version": FORECAST_VERSION,
            "config": model.cfg.to_dict(),
            "parameter_count": sum(p.numel() for p in model.parameters()),
            "training": dict(training or {}),
        }
        write_description(draft, content, "pyanticip", "torch")
        manifest = read_forecast_manifest(draft)
        if graph:
            manifest.graph()
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


class _Window(nn.Module):
    def __init__(self, model: PoseForecaster) -> None:
        super().__init__()
        self.model = model

    def forward(self, window: Tensor) -> tuple[Tensor, ...]:
        """The forecast (1, target, joints, 3) after a window (1, observed, joints, 3)."""
        return (self.model.predict(window),)


def export_forecaster(model: PoseForecaster, folder: Path) -> None:
    """Write ``step.onnx``, a window in and the forecast out, beside ``model.safetensors``, which must hold
    this model's weights.

    :raises CheckpointError: the graph's output differs from torch by more than 1e-3.
    """
    cfg = model.cfg
    generator = torch.Generator().manual_seed(0)
    shape = (1, cfg.observed, cfg.joints, 3)
    window = float(model.unit) * torch.randn(shape, generator=generator).cumsum(1)
    graph = _Window(model).eval()
    export_graph(graph, {"window": window}, ("forecast",), folder / STEP_GRAPH, tolerance=1e-3)
