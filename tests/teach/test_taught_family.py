"""A mapping for a model with more parts than the packaged one: fitted on it, and played by it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint
from pyanticip.models.checkpoint.export import quiet_exporter
from pyanticip.teach.fit import FitOptions
from pyanticip.teach.project import Project
from realtime.mapping.live_mapping import open_mapping
from realtime.step.open import open_backend
from realtime.teaching.checking import check_project
from realtime.teaching.fitting import fit_project


@pytest.fixture
def checkpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    """A little model with a control field, whose graphs are not of the packaged kind."""
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "d_model": 32,
        "heads": 4,
        "fast_layers": 1,
        "slow_layers": 1,
        "ff": 24,
        "window": 12,
    }
    model = MotionTransformer(ModelConfig(**sizes, slow_stride=1, control_field=True, dropout=0.0)).eval()
    with quiet_exporter(), caplog.at_level(logging.ERROR):
        save_checkpoint(tmp_path / "checkpoint", model)
    return tmp_path / "checkpoint"


def test_a_model_of_any_configuration_is_taught(project: Project, checkpoint: Path) -> None:
    options = FitOptions(kind="ridge", inputs=("hidden",))
    report = fit_project(project.folder, options, checkpoint=checkpoint)
    assert report["model"] is not None
    assert check_project(project.folder, checkpoint=checkpoint)["fine"]
    backend = open_backend("onnx", checkpoint)
    try:
        assert open_mapping(report["mapping"], backend).names == ["brightness", "cutoff"]
    finally:
        backend.close()
