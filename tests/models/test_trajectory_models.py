"""Trajectory positions in the models: equal to sinusoids at zero strength, kept in checkpoints, counted."""

import pytest
import torch

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models import ModelConfig, build_language_model, load_checkpoint, save_checkpoint
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions

SIZES = {"d_model": 32, "ff": 24, "vocab": 50, "max_seq_len": 40, "dropout": 0.0}


def language(kind, **changes):
    torch.manual_seed(0)
    model = build_language_model(ModelConfig.small(**{**SIZES, **changes}), kind).eval()
    with torch.no_grad():
        model.token.weight.mul_(10.0)
    return model


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
@pytest.mark.parametrize(
    "options", [{"trajectory_strength": 0.0}, {"trajectory_content": "random"}], ids=["given", "auto"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_zero_strength_is_the_sinusoidal_model_bit_for_bit(kind, options, dtype):
    ids = torch.randint(50, (2, 40))
    plain = language(kind, positions="sinusoidal").to(dtype)
    still = language(kind, positions="trajectory", **options).to(dtype)
    moved = language(kind, positions="trajectory").to(dtype)
    assert torch.equal(plain(ids).logits, still(ids).logits)
    assert not torch.equal(plain(ids).logits[:, 1:], moved(ids).logits[:, 1:])
    assert torch.equal(plain(ids[:, :1]).logits, moved(ids[:, :1]).logits)
    out, _ = still(ids, state=still.initial_state(2))
    torch.testing.assert_close(out.logits, plain(ids).logits, atol=1e-5, rtol=0)


@torch.no_grad()
def test_zero_strength_on_motion_too(build):
    x = torch.randn(2, 30, 231)
    plain = build(torch.float32, positions="sinusoidal")
    still = build(torch.float32, positions="trajectory", trajectory_strength=0.0)
    assert torch.equal(plain(x).params, still(x).params)


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
def test_a_stream_ends_where_the_longest_sequence_does(kind):
    model = language(kind, positions="trajectory")
    ids = torch.randint(50, (1, 40))
    _, state = model(ids, state=model.initial_state(1))
    with pytest.raises(ShapeError, match="max_seq_len"):
        model.step(ids[:, 0], state)


def test_options_reach_the_module_and_the_checkpoint(tmp_path):
    options = {
        "trajectory_content": "code",
        "trajectory_magnitude": 0.5,
        "trajectory_interpolation": "linear",
        "trajectory_scale": "rms",
        "trajectory_cache": 7,
    }
    model = language("anticipatory", positions="trajectory", **options)
    moved = model.trunk.positions
    assert isinstance(moved, TrajectoryPositions)
    assert (moved.strength, moved.magnitude, moved.scale) == (0.25, 0.5, "rms")
    assert (moved.places.interpolation, moved.places.rows, moved.cache.entries) == ("linear", 51, 7)
    assert not any("positions" in name for name in model.state_dict())
    again = load_checkpoint(save_checkpoint(tmp_path / "model", model))
    assert again.cfg == model.cfg
    ids = torch.randint(50, (2, 40))
    with torch.no_grad():
        assert torch.equal(model(ids).logits, again(ids).logits)
        model(ids)
    assert moved.counters.hits == 2


def test_descriptions_without_the_options_mean_the_defaults():
    cfg = ModelConfig.small()
    older = {k: v for k, v in cfg.to_dict().items() if k != "planning"}
    assert ModelConfig.from_dict(older) == cfg


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"trajectory_strength": 1.5}, "less than or equal to 1"),
        ({"trajectory_strength": "strong"}, "auto"),
        ({"trajectory_strength": True}, "auto"),
        ({"trajectory_magnitude": 0.0}, "greater than 0"),
        ({"trajectory_interpolation": "nearest"}, "cubic"),
        ({"trajectory_scale": "max"}, "rms"),
        ({"trajectory_cache": -1}, "cache must be"),
        ({"trajectory_content": ""}, "at least 1 character"),
        ({"trajectory_content": "code", "trajectory_strength": 0.2}, "given"),
        ({"positions": "rope", "trajectory_scale": "rms"}, "positions='rope'"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(OptionError, match=said):
        ModelConfig.small(**{"positions": "trajectory", **wrong})
