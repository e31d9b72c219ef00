"""What a control field is taught about bad frames."""

import pytest
import torch

from pyanticip.models.parts.field.control_field import FieldOutput, FieldTrace
from pyanticip.models.parts.field.risk import risk_loss, surprise


def block(risk):
    return FieldOutput(risk, risk, risk, risk, risk)


def test_the_risk_is_taught_as_logistic_regression():
    torch.manual_seed(0)
    logits = torch.randn(3, 20, dtype=torch.float64, requires_grad=True)
    bad = (torch.rand(3, 20) < 0.3).double()
    weight = (torch.rand(3, 20) < 0.8).double()
    found = risk_loss(FieldTrace((block(torch.nn.functional.softplus(logits)),)), bad, weight, 10)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits, bad, weight, reduction="sum")
    assert found.item() == pytest.approx((wanted / weight.sum()).item(), rel=1e-9)
    (gradient,) = torch.autograd.grad(found, logits)
    torch.testing.assert_close(gradient, (torch.sigmoid(logits) - bad).detach() * weight / weight.sum())
    assert torch.isfinite(surprise(torch.zeros(4), torch.tensor([0.0, 1.0, 0.0, 1.0]))).all()


def test_a_pool_is_bad_if_one_of_its_frames_is_and_parts_add_up():
    torch.manual_seed(1)
    fast, slow = torch.rand(4, 25), torch.rand(4, 2)
    bad = torch.zeros(4, 25)
    bad[0, 13] = 1.0
    weight = torch.ones(4, 25)
    weight[3] = 0.0
    found = risk_loss(FieldTrace((block(fast),), (block(slow),)), bad, weight, 10)
    labels = torch.zeros(4, 2)
    labels[0, 1] = 1.0
    quick = (surprise(fast, bad) * weight).sum() / weight.sum()
    pooled = 10.0 * (surprise(slow, labels)[:3]).sum() / weight.sum()
    assert float(found) == pytest.approx(float((quick + pooled) / 2), rel=1e-6)
    halves = [
        risk_loss(
            FieldTrace((block(fast[rows]),), (block(slow[rows]),)), bad[rows], weight[rows], 10, divisor=37.5
        )
        for rows in (slice(0, 2), slice(2, 4))
    ]
    assert float(found) == pytest.approx(float(sum(halves)) / 2, rel=1e-6)
