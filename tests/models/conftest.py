import pytest
import torch

from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


def tiny_config(**changes):
    """Small enough that rings wrap within a hundred frames."""
    sizes = {
        "d_model": 32,
        "heads": 4,
        "fast_layers": 2,
        "slow_layers": 2,
        "ff": 24,
        "window": 12,
        "pools": 5,
        "slow_stride": 3,
        "taps": 12,
    }
    return ModelConfig(**{**sizes, "control_hidden": 16, "dropout": 0.0, **changes})


def build(dtype=torch.float64, seed=0, **changes):
    """A model with weights far enough from their start that every part matters."""
    torch.manual_seed(seed)
    model = MotionTransformer(tiny_config(**changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.set_normalisation(torch.randn(231), torch.rand(231) + 0.5)
    return model.to(dtype)


@pytest.fixture(scope="session", name="build")
def build_fixture():
    return build


@pytest.fixture(scope="session", name="tiny_config")
def tiny_config_fixture():
    return tiny_config


@pytest.fixture(scope="session", name="saved")
def saved_fixture(tmp_path_factory):
    """A small checkpoint with both graphs; copy it before changing it."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    return save_checkpoint(folder, build(torch.float32), training={"command": "none", "steps": 0})
