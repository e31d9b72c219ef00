"""The hidden state that heads are read on: told by every backend alike, taught and played on any model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.clips import LEFT_ARM, swing

from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import Project
from realtime.mapping.live_mapping import open_mapping
from realtime.step.open import open_backend
from realtime.teaching.checking import check_project
from realtime.teaching.fitting import fit_project


def test_backends_tell_the_same_hidden_state() -> None:
    rust, reference = open_backend("rust"), open_backend("torch")
    rows = swing(1, seed=3).features()
    told = []
    for t in range(len(rows)):
        one, two = rust.step(rows[t : t + 1]), reference.step(rows[t : t + 1])
        assert one.hidden is not None
        assert two.hidden is not None
        told.append(one.hidden)
        # The core keeps weights in bytes (docs/model.md).
        assert one.hidden == pytest.approx(two.hidden, abs=0.04)
    assert np.shape(told) == (50, read_manifest().config.d_model)
    assert np.std(told, axis=0).max() > 0.1, "each step's own, not one array told again and again"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A little model with a control field, which torch alone steps."""
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
    return save_checkpoint(tmp_path / "checkpoint", model)


def test_a_model_of_any_configuration_is_taught(tmp_path: Path, checkpoint: Path) -> None:
    project = Project.create(tmp_path / "mine", (Output("brightness"), Output("cutoff", 200, 8000)))
    project.add_take("right", swing(1), values={"brightness": 0.9, "cutoff": 6000})
    project.add_take("left", swing(1, joint=LEFT_ARM, level=1.0), values={"brightness": 0.1, "cutoff": 300})
    options = FitOptions(kind="ridge", inputs=("hidden",))
    report = fit_project(project.folder, options, checkpoint=checkpoint)
    assert report["model"] is not None
    assert check_project(project.folder, checkpoint=checkpoint)["fine"]
    backend = open_backend("torch", checkpoint)
    try:
        assert open_mapping(report["mapping"], backend).names == ["brightness", "cutoff"]
    finally:
        backend.close()
