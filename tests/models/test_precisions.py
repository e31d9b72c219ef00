"""Models run in other precisions than float32, and where such a precision is torch's default."""

import copy

import pytest
import torch
from support import models
from support.models import inputs

from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.models.core.part import LossContext
from pyanticip.models.parts.field.reduction import GATE_FLOOR, log_gates

LOWER = {torch.bfloat16: 0.1, torch.float16: 0.02}


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.parametrize(
    "changes", [{"planning": True}, {"planning": True, "plan_paper": True}, models.PRISM]
)
def test_half_precision_says_about_the_same(changes, dtype):
    exact = models.build("anticipatory", **changes)
    half, ids = copy.deepcopy(exact).to(dtype), inputs("anticipatory", 2, 20)
    expected, output = exact(ids), half(ids, plan=exact(ids).plan)
    assert output.logits.dtype == dtype
    error = (output.logits.double() - expected.logits).abs().max() / expected.logits.abs().max()
    assert float(error.detach()) < LOWER[dtype]
    output.logits.float().square().mean().backward()
    assert all(bool(p.grad.isfinite().all()) for p in half.parameters() if p.grad is not None)
    with torch.no_grad():
        assert bool(half.step(ids[:, 0], half.initial_state(2))[0].logits.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_plans_are_simulated_in_every_precision(dtype):
    model = models.build("anticipatory", dtype, planning=True)
    ids = inputs("anticipatory", 2, 20)
    out = model(ids[:, :18], plan=model.planning.simulate(ids, 18))
    found = model.planning.losses(LossContext(out, codes=ids))["simulator"]
    found.backward()
    assert bool(found.isfinite())


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


@torch.no_grad()
def test_a_token_model_is_built_in_the_default_precision():
    torch.set_default_dtype(torch.float64)
    try:
        model = models.KINDS["anticipatory"](models.config("anticipatory", planning=True)).eval()
        assert model(inputs("anticipatory", 2, 3)).logits.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@torch.no_grad()
def test_scalars_of_another_precision_are_taken():
    model, x = models.build("motion", torch.float32), inputs("motion", 2, 5, torch.float32)
    scalars = torch.rand(2, 5, 7)
    assert torch.equal(model(x, scalars=scalars.double()).params, model(x, scalars=scalars).params)


@torch.no_grad()
def test_a_stream_of_plans_keeps_its_precision():
    model, x = models.build("motion", torch.bfloat16, planning=True), inputs("motion", 2, 3, torch.bfloat16)
    state = model.initial_state(2)
    before = [tensor.dtype for tensor in state.tensors()]
    _, state = model(x, state)
    assert [tensor.dtype for tensor in state.tensors()] == before


@torch.no_grad()
def test_a_linear_bias_tells_the_steps_of_a_long_sequence_apart_in_half_precision():
    exact = models.build("baseline", torch.float32, 0.1, positions="alibi", max_seq_len=1024)
    half, ids = copy.deepcopy(exact).bfloat16(), inputs("baseline", 1, 1024)
    errors = []
    for reference in (False, True):
        half.reference = reference
        errors.append(float((half(ids).logits.float() - exact(ids).logits).abs().mean()))
    assert errors[0] < 1.5 * errors[1]


def test_a_gate_of_any_risk_is_above_zero_in_half_precision():
    gates = log_gates(torch.tensor([0.0, 100.0]).half(), torch.zeros(()).half())
    torch.testing.assert_close(
        gates.double().exp(), torch.tensor([0.5, GATE_FLOOR]).double(), rtol=1e-2, atol=0
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "rope", "control_field": True, "slow_stride": 3},
        {"positions": "alibi", "planning": {"inference": "passes"}},
        {"planning": {"inference": "recurrent"}, "positions": "trajectory"},
        {**models.PRISM, "control_field": True, "prism_copy": True},
    ],
)
@pytest.mark.parametrize("kind", models.KINDS)
@torch.no_grad()
def test_steps_and_chunks_run_in_mixed_precision(kind, changes):
    model, x = models.build(kind, torch.float32, noise=0.05, **changes), inputs(kind, 2, 14, torch.float32)
    exact = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first, state = model(x[:, :5], state=model.initial_state(2))
        expected = [tensor.dtype for tensor in model.initial_state(2).tensors() if tensor.ndim > 3]
        outs = [first]
        for i in range(5, 14):
            out, state = model.step(x[:, i], state)
            outs.append(out)
    assert [
        tensor.dtype for tensor in state.tensors() if tensor.ndim > 3
    ] == expected  # rings keep their dtype
    hidden = torch.cat([out.hidden for out in outs], 1).float()
    assert float((hidden - exact.hidden).abs().mean()) < 0.05 * float(exact.hidden.abs().mean())


@torch.no_grad()
def test_fast_movement_overflows_nothing_in_half_precision():
    x = torch.randn(1, 30, 231, generator=torch.Generator().manual_seed(0))
    model = models.build("motion", torch.float16, noise=0.02, kinematics=True, d_model=32, taps=12)
    out = model(x.half())
    assert all(bool(tensor.isfinite().all()) for tensor in (out.params, out.events, out.hidden))
