"""Configurations: what they refuse, and the effect of each option of the motion model, off by default."""

import pytest
import torch

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig
from pyanticip.models.config import REMOVED_OPTIONS


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("positions", "rotary", "one of none, sinusoidal"),
        ("bias", "geometric", "'trajectory', 'none' or 'random'"),
        ("alpha", "exp", "'softplus' or 'raw'"),
        ("vocab", 100, "needs vocab and max_seq_len"),
        ("max_seq_len", 100, "needs vocab and max_seq_len"),
        ("control_field", "on", "control_field must be"),
        ("planning", "yes", "planning must be"),
        ("slow_stride", 0, "greater than or equal to 1, got 0"),
        ("slow_stride", 2.5, "valid integer, got 2.5"),
        ("heads", 3, "multiple of heads"),
        ("heads", 16, "divide 56"),
        ("dropout", 1.0, "less than 1, got 1.0"),
        ("dist_scale", float("nan"), "dist_scale"),
    ],
)
def test_refuses_what_does_not_exist(field, value, words):
    with pytest.raises(OptionError, match=words):
        ModelConfig(**{field: value})


def test_the_context_of_token_models_follows_their_length():
    cfg = ModelConfig.small(slow_stride=8)
    assert cfg.pools == 32
    for changes in ({"slow_stride": 1}, {"max_seq_len": 1024}, {"max_seq_len": 64, "slow_stride": 7}):
        assert cfg.replace(**changes).pools == ModelConfig.small(**{"slow_stride": 8, **changes}).pools
    assert cfg.replace(slow_stride=1, pools=5).pools == 5
    assert cfg.replace(pools=5).replace(slow_stride=1).pools == 5
    assert ModelConfig().replace(slow_stride=1).pools == 64
    with pytest.raises(OptionError, match="max_seq_len must be"):
        cfg.replace(max_seq_len="long")


def test_unknown_field_gets_a_suggestion():
    with pytest.raises(OptionError, match="did you mean slow_stride"):
        ModelConfig.from_dict({"slow_strid": 3})


def test_the_defaults_are_what_older_checkpoints_mean(build, tiny_config):
    """A description older than these options gives the same model with the same weights."""
    cfg = tiny_config()
    older = {
        name: value
        for name, value in cfg.to_dict().items()
        if name not in ("mixing", "gated_events", "strokes", "pose_window")
    }
    assert ModelConfig.from_dict({**older, **REMOVED_OPTIONS}) == cfg
    names = set(build().state_dict())
    assert {"trunk.pathway.linear.weight", "trunk.slow.0.up.weight"} <= names
    assert not any("visible" in name for name in names)


@torch.no_grad()
def test_what_is_off_is_off(build):
    x = torch.randn(1, 30, 231, dtype=torch.float64)
    alone = build(slow_layers=0)
    assert not any("slow" in name or "pathway" in name for name in alone.state_dict())
    assert torch.equal(alone(x).share, torch.ones(1, 30, dtype=torch.float64))
    even = build(mixing="mean")
    assert not any("pathway" in name for name in even.state_dict())
    assert torch.equal(even(x).share, torch.full((1, 30), 0.5, dtype=torch.float64))
    free = build(gated_events=False)
    hidden = torch.randn(1, 3, 32, dtype=torch.float64)
    shut, opened = (free.control(hidden, torch.full((1, 3, 1), g).double())[1] for g in (0.0, 1.0))
    assert torch.equal(shut, opened)


@torch.no_grad()
def test_scalars_never_enter_the_embedding(build):
    x = torch.randn(1, 30, 231, dtype=torch.float64)
    other = x.clone()
    other[..., 220:227] = torch.rand(1, 30, 7)
    blind = build()
    assert torch.equal(blind(x).initial, blind(other).initial)
    every = torch.ones(1, 30, dtype=torch.bool)
    assert torch.equal(blind(x, predicted=every).hidden, blind(x, mode="initial").hidden)


def test_what_cannot_be_is_refused():
    for wrong in ({"gated_events": False}, {"twin": True}, {"taps": 12}, {"control_hidden": 16}):
        with pytest.raises(OptionError, match=f"{next(iter(wrong))} is an option of the motion model"):
            ModelConfig.small(**wrong)
    with pytest.raises(OptionError, match="planning must be"):
        ModelConfig.small(planning=1)
    with pytest.raises(OptionError, match="mixing"):
        ModelConfig(mixing="half")
