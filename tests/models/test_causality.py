"""Nothing looks ahead: gradients are exactly zero, perturbations leave the past bit-identical, noise stays
noise."""

import math

import pytest
import torch

CHANGES = [{}, {"slow_stride": 1}, {"bias": "none"}]


@pytest.mark.parametrize("mode", ["external", "initial", "refined_prev"])
@pytest.mark.parametrize("changes", CHANGES, ids=["default", "stride-1", "no-bias"])
def test_gradient_of_the_past_by_the_future_is_exactly_zero(build, changes, mode):
    model = build(**changes)
    x = torch.randn(1, 20, 231, dtype=torch.float64, requires_grad=True)
    out = model(x, mode=mode)
    for t in (0, 4, 5, 11, 18):
        total = sum(getattr(out, n)[:, t].sum() for n in ("params", "events", "scalars", "initial", "gate"))
        (gradient,) = torch.autograd.grad(total, x, retain_graph=True)
        assert torch.count_nonzero(gradient[:, t + 1 :]) == 0
        assert torch.count_nonzero(gradient[:, t]) > 0


@pytest.mark.parametrize("mode", ["external", "initial", "refined_prev"])
@pytest.mark.parametrize("changes", CHANGES, ids=["default", "stride-1", "no-bias"])
@torch.no_grad()
def test_perturbing_the_future_leaves_the_past_bit_identical(build, changes, mode):
    model = build(torch.float32, **changes)
    x = torch.randn(2, 40, 231)
    before = model(x, mode=mode)
    for t in (1, 7, 12, 30, 39):
        other = x.clone()
        other[:, t:] = 3.0 * torch.randn(2, 40 - t, 231)
        after = model(other, mode=mode)
        for name in ("params", "events", "scalars", "initial", "gate", "hidden"):
            assert torch.equal(getattr(before, name)[:, :t], getattr(after, name)[:, :t])


def test_no_leak_on_independent_noise(tiny_config):
    """Trained to foretell independent coin flips from frames that show each flip only as it happens, the
    model cannot beat ln 2; that it does learn the flip of the current frame shows that it could have."""
    from pyanticip.models import MotionTransformer

    torch.manual_seed(0)
    model = MotionTransformer(tiny_config())
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    code = torch.randn(231)

    def batch(rows):
        bits = torch.randint(0, 2, (rows, 49)).float()
        x = (2 * bits[..., None] - 1) * code + 0.1 * torch.randn(rows, 49, 231)
        x[..., 220:227] = torch.rand(rows, 49, 7)
        return x[:, :48], bits[:, :48], bits[:, 1:]

    def losses(rows):
        x, now, ahead = batch(rows)
        out = model(x)
        bce = torch.nn.functional.binary_cross_entropy_with_logits
        return bce(out.events[..., 0, 0], now), bce(out.events[..., 0, 1], ahead)

    for _ in range(90):
        now, ahead = losses(12)
        optimiser.zero_grad()
        (now + ahead).backward()
        optimiser.step()
    model.eval()
    with torch.no_grad():
        now, ahead = losses(256)
    assert now < 0.1
    assert ahead >= math.log(2) - 0.01
