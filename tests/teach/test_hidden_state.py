"""The hidden state that heads are read on: told by every backend alike, taught and played on any model."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.swinging import swing

from pyanticip.errors import CheckpointError
from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint
from pyanticip.models.checkpoint.export import quiet_exporter
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED, read_manifest
from pyanticip.teach.options import FitOptions
from pyanticip.teach.project import Project
from realtime.mapping.live_mapping import open_mapping
from realtime.step.open import open_backend
from realtime.teaching.checking import check_project
from realtime.teaching.fitting import fit_project


def test_backends_tell_the_same_hidden_state() -> None:
    onnx, reference = open_backend("onnx"), open_backend("torch")
    rows = swing(2, seed=3).features()
    told = []
    for t in range(len(rows)):
        one, two = onnx.step(rows[t : t + 1]), reference.step(rows[t : t + 1])
        assert one.hidden is not None
        assert two.hidden is not None
        told.append(one.hidden)
        assert one.hidden == pytest.approx(two.hidden, abs=1e-4)
    assert np.shape(told) == (100, read_manifest().config.d_model)
    assert np.std(told, axis=0).max() > 0.1, "each step's own, not one array told again and again"


def test_a_checkpoint_with_older_graphs_is_named_and_teaches_on_the_body(
    tmp_path: Path, project: Project
) -> None:
    older = tmp_path / "older"
    shutil.copytree(SHIPPED, older)
    manifest = json.loads((older / MANIFEST).read_text())
    (older / MANIFEST).write_text(json.dumps({**manifest, "version": 2}))
    with pytest.raises(CheckpointError, match=r"graphs are of version 2, .*save_checkpoint"):
        fit_project(project.folder, FitOptions(kind="ridge"), checkpoint=older)
    report = fit_project(project.folder, FitOptions(kind="ridge"), checkpoint=older, model=False)
    assert report["model"] is None
    assert report["parts"][0]["inputs"] == ["body"]


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
