"""The page on the model family: its table of options is correct, and its inline configurations step."""

import ast
import re
from pathlib import Path

import pytest
import torch

from pyanticip.models import AnticipatoryTransformer, ModelConfig, MotionTransformer
from pyanticip.vocabulary import FEATURES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
SMALL = {"d_model": 16, "heads": 4, "fast_layers": 1, "slow_layers": 1, "ff": 24, "window": 8, "pools": 4}
MOTION = {**SMALL, "taps": 6, "control_hidden": 8, "kinematics": False}
NEEDS = {
    "field_": {"control_field": True},
    "plan_": {"planning": True},
    "strokes": {"kinematics": True, "d_model": 32},
    "pose_window": {"kinematics": True, "d_model": 32, "twin": True},
}


def configurations():
    """Every ``ModelConfig(...)`` in the text, and every option at the start of a table row."""
    text = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"`ModelConfig\((.*?)\)`", text)
    return found + re.findall(r"^\| `(\w+=[^`]+)` \|", text, flags=re.MULTILINE) + ["field_input=True"]


@pytest.mark.parametrize("words", configurations())
def test_inline_configurations_make_models_that_step(words):
    call = ast.parse(f"f({words})", mode="eval").body
    options = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    for prefix, needed in NEEDS.items():
        if any(name.startswith(prefix) for name in options):
            options = needed | options
    cfg = ModelConfig(**(MOTION | options))
    model = MotionTransformer(cfg).eval()
    if model.codebook is not None:
        model.codebook.fit(torch.randn(2 * cfg.planning.codes, 231), rounds=1)
    with torch.no_grad():
        out, _ = model.step(torch.randn(1, 231), model.initial_state(1))
    assert torch.isfinite(out.params).all()
    assert (out.field is not None) == (cfg.control_field is not None)


def options():
    """Name and values of each row of the table of options."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .*\|$", PAGE, flags=re.MULTILINE)
    names = set(ModelConfig.model_fields)
    return [
        (name, value) for name, values in rows if name in names for value in re.findall(r"`(.*?)`", values)
    ]


@pytest.mark.parametrize(("name", "value"), options())
def test_options_take_the_values_that_the_page_names(name, value):
    value = {"True": True, "False": False}.get(value, int(value) if value.isdigit() else value)
    motion = name in ("gated_events", "strokes", "pose_window")
    cfg = (
        ModelConfig(**(MOTION | NEEDS.get(name, {}) | {name: value}))
        if motion
        else ModelConfig.small(**(SMALL | {name: value}))
    )
    found = getattr(cfg, name)
    if name in ("positions", "control_field", "planning"):
        assert (found is None) == (value in (False, "none"))
        assert value in (True, False, "none") or found.kind == value
    else:
        assert found == value
    model = MotionTransformer(cfg) if motion else AnticipatoryTransformer(cfg)
    x = torch.randn(1, 3, FEATURES) if motion else torch.zeros(1, 3, dtype=torch.int64)
    with torch.no_grad():
        model.eval()(x)


def test_what_the_page_lists_is_what_there_is():
    assert len(configurations()) >= 14
    assert len({name for name, _ in options()}) >= 11
