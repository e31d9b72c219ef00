"""Models run in other precisions than the one they are trained in, and where that is torch's default."""

import copy

import pytest
import torch
from support import models
from support.models import inputs

from pyanticip.models import ModelConfig, MotionTransformer

LOWER = {torch.bfloat16: 0.1, torch.float16: 0.02}


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.parametrize(
    "changes", [{"planning": True}, {"planning": True, "plan_paper": True}, models.PRISM]
)
@torch.no_grad()
def test_half_precision_says_about_the_same(changes, dtype):
    exact = models.build("anticipatory", **changes)
    half, ids = copy.deepcopy(exact).to(dtype), inputs("anticipatory", 2, 20)
    wanted, said = exact(ids), half(ids, plan=exact(ids).plan)
    assert said.logits.dtype == dtype
    error = (said.logits.double() - wanted.logits).abs().max() / wanted.logits.abs().max()
    assert float(error) < LOWER[dtype]
    state = half.initial_state(2)
    assert bool(half.step(ids[:, 0], state)[0].logits.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_plans_are_simulated_in_every_precision(dtype):
    model = models.build("anticipatory", dtype, planning=True)
    ids = inputs("anticipatory", 2, 20)
    out = model(ids[:, :18], plan=model.planning.simulate(ids, 18))
    found = model.planning.judged(out.anticipation, ids)
    found.simulator.backward()
    assert bool(found.simulator.isfinite())


@pytest.mark.parametrize(
    "options",
    [
        {"twin": True, "pose_window": 6, "strokes": True},
        {"planning": True, "positions": "prism"},
        {"control_field": {"input": True}},
    ],
)
@torch.no_grad()
def test_models_are_built_in_the_default_precision(options):
    torch.set_default_dtype(torch.float64)
    try:
        model = MotionTransformer(ModelConfig(fast_layers=1, slow_layers=1, **options)).eval()
        assert model(torch.randn(1, 3, 279)).params.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
