"""The ONNX graph of a forecaster: a window in, the forecast out; its weights stay in the safetensors file."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from pyanticip.models.checkpoint.export import export_graph
from pyanticip.models.checkpoint.manifest import STEP_GRAPH
from pyanticip.models.forecast.forecaster import PoseForecaster


class _Window(nn.Module):
    def __init__(self, model: PoseForecaster) -> None:
        super().__init__()
        self.model = model

    def forward(self, window: Tensor) -> tuple[Tensor, ...]:
        """The forecast (1, target, joints, 3) after a window (1, observed, joints, 3)."""
        return (self.model.predict(window),)


def export_forecaster(model: PoseForecaster, folder: Path) -> None:
    """Write ``step.onnx`` beside ``model.safetensors``, which must hold this model's weights.

    :raises CheckpointError: the graph's output differs from torch by more than 1e-3.
    """
    cfg = model.cfg
    generator = torch.Generator().manual_seed(0)
    shape = (1, cfg.observed, cfg.joints, 3)
    window = float(model.unit) * torch.randn(shape, generator=generator).cumsum(1)
    graph = _Window(model).eval()
    export_graph(graph, {"window": window}, ("forecast",), folder / STEP_GRAPH, tolerance=1e-3)
