"""The MLP beside the trunk: its inputs from the last poses, and the model's output with it."""

import numpy as np
import pytest
import torch
from support.models import build

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import ModelConfig, save_checkpoint
from pyanticip.models.motion.pose_window import PLACES, PoseWindow
from pyanticip.vocabulary import SCALAR_COLUMNS
from realtime.step import rust
from realtime.step.open import open_backend

BODY = {"kinematics": True, "d_model": 32, "taps": 12, "twin": True}


def joined(window, places):
    return window.joined(torch.from_numpy(places)[None], None)


def paths_of(window, places):
    """Coefficients (T, 66, 5) of the paths after every frame."""
    steps = len(places)
    told = window.inputs(joined(window, places), torch.zeros(1, steps, 7), torch.zeros(1, steps, 279))
    return told[0, :, PLACES:-59].unflatten(1, (PLACES, -1)).numpy()


def test_paths_are_told_relative_to_where_joints_are():
    window = PoseWindow(12)
    still = np.full((30, PLACES), 0.7, np.float32)
    assert np.abs(paths_of(window, still)).max() < 1e-5
    # Uniform motion has only the first coefficient.
    pace = np.linspace(-1.0, 1.0, PLACES, dtype=np.float32)
    steady = 0.1 * np.arange(30, dtype=np.float32)[:, None] * pace
    found = paths_of(window, steady)
    expected = (
        0.1 * pace * np.sqrt(12 * (12**2 - 1) / 12)
    )  # of unit length: sum of squares of 0 to 11 less the mean
    np.testing.assert_allclose(found[11:, :, 0], np.tile(expected, (19, 1)), rtol=1e-4, atol=1e-5)
    assert np.abs(found[11:, :, 1:]).max() < 1e-5
    assert np.abs(found[0]).max() < 1e-6


def test_what_came_before_the_window_is_not_seen():
    window = PoseWindow(8)
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 20, PLACES)).astype(np.float32)
    two[12:] = one[12:]
    a, b = paths_of(window, one), paths_of(window, two)
    np.testing.assert_array_equal(a[19], b[19])
    assert not np.allclose(a[18], b[18])


def test_the_model_says_the_mean_of_both_and_all_else_is_the_trunks():
    model = build("motion", **BODY, pose_window=9)
    alone = build("motion", **BODY)
    alone.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("poses.")})
    x = torch.randn(2, 30, 279, dtype=torch.float64)
    with torch.no_grad():
        both, one = model(x), alone(x)
        places = model.normalised(x)[..., 279 : 279 + PLACES]
        second = model.poses(model.poses.joined(places, None), x[..., slice(*SCALAR_COLUMNS)], x)
    torch.testing.assert_close(both.params, 0.5 * (one.params + second))
    assert not torch.allclose(both.params, one.params, atol=1e-2)
    for name in ("events", "scalars", "gate", "hidden"):
        assert torch.equal(getattr(both, name), getattr(one, name))


@pytest.mark.parametrize(
    "wrong", [{}, {"twin": True, "kinematics": False}, {"twin": True, "positions": "rope"}, {"vocab": 5}]
)
def test_models_that_cannot_have_one(wrong):
    with pytest.raises(OptionError, match="pose_window needs a motion model with twin=True and kinematics"):
        ModelConfig(pose_window=20, **wrong)


def test_a_window_that_is_too_short():
    with pytest.raises(OptionError, match="pose_window must be over 5 frames, or 0, got 5"):
        ModelConfig(twin=True, pose_window=5)


def test_weights_of_another_window_are_refused(tmp_path, monkeypatch):
    folder = save_checkpoint(tmp_path / "tiny", build("motion", torch.float32, **BODY, pose_window=9))
    for other in (0, 8):
        model = build("motion", torch.float32, **BODY, pose_window=other)
        tensors = {name: value.numpy() for name, value in model.state_dict().items()}
        monkeypatch.setattr(rust.safetensors.numpy, "load", lambda data, tensors=tensors: tensors)
        monkeypatch.setattr(rust, "_cached", None)  # clear the cache of the last checkpoint
        with pytest.raises(CheckpointError, match="a perceptron for 9 frames of poses must be there"):
            open_backend("rust", folder)
