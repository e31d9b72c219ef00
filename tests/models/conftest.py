import pytest
import torch
from support import models, new_parts

from pyanticip.models import save_checkpoint
from pyanticip.models.parts.registry import PARTS


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


SIZES = {"d_model": 32, "slow_layers": 2, "window": 12, "pools": 5, "slow_stride": 3}
SIZES |= {"taps": 12, "control_hidden": 16, "kinematics": True}


def tiny_config(**changes):
    """A configuration small enough that rings wrap within a hundred frames."""
    return models.config("motion", **{**SIZES, **changes})


def build(dtype=torch.float64, seed=0, **changes):
    """A model with weights far enough from their initial values that every part matters."""
    return models.as_kept(models.build("motion", dtype, seed=seed, **{**SIZES, **changes}))


@pytest.fixture(scope="session", name="build")
def build_fixture():
    return build


@pytest.fixture(scope="session", name="tiny_config")
def tiny_config_fixture():
    return tiny_config


@pytest.fixture(scope="session", name="saved")
def saved_fixture(tmp_path_factory):
    """A small checkpoint; copy it before changing it."""
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    return save_checkpoint(folder, build(torch.float32), training={"command": "none", "steps": 0})


@pytest.fixture
def registered(monkeypatch):
    """Parts of another package."""
    monkeypatch.setitem(PARTS["positions"], "leaky", new_parts.LEAKY)
    monkeypatch.setitem(PARTS["control_field"], "surprise", new_parts.SURPRISE)
