import subprocess
import sys

import pytest

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig


def test_fields_of_the_family_and_round_trip():
    cfg = ModelConfig(slow_stride=12, heads=2)
    assert {"positions", "bias", "control_field", "planning", "slow_stride"} <= set(cfg.to_dict())
    assert ModelConfig.from_dict(cfg.to_dict()) == cfg


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


def test_unknown_field_gets_a_suggestion():
    with pytest.raises(OptionError, match="did you mean 'slow_stride'"):
        ModelConfig.from_dict({"slow_strid": 3})


def test_config_needs_no_torch():
    code = "import sys; from pyanticip.models import ModelConfig as C; C(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
