"""Held-out bad stretches, and how well a field finds them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pyanticip.models.parts.field.control_field import FieldOutput, FieldTrace
from training.data.examples import Example
from training.data.glitches import KINDS
from training.study import glitched
from training.study.glitched import AFTERMATH, Clip, auc, corrupted, mean_error
from training.tasks.motion.risk import risk_loss, surprise


@pytest.fixture
def example():
    """A clip whose joints turn at their own rates."""
    frames = 400
    angle = np.sin(np.arange(frames)[:, None] / (8.0 + np.arange(22)))
    quats = np.zeros((frames, 22, 4), dtype=np.float32)
    quats[..., 0], quats[..., 1] = np.cos(angle / 2), np.sin(angle / 2)
    features = np.ones((frames, 231), dtype=np.float32)
    params = np.linspace(0, 1, frames)[:, None].repeat(8, 1).astype(np.float32)
    none = np.array([], dtype=np.int64)
    return Example("clip", "06", quats, features, params, none, none)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_clip_is_always_the_same_and_is_taught_as_the_clean_one(example, kind):
    root = np.zeros((len(example), 3), dtype=np.float32)
    one, two = (corrupted(example, root, kind) for _ in range(2))
    np.testing.assert_array_equal(one.example.features, two.example.features)
    np.testing.assert_array_equal(one.example.params, example.params)
    assert one.bad.any()
    np.testing.assert_array_equal(one.example.quats[~one.bad], example.quats[~one.bad])
    assert (one.example.quats != example.quats).any()
    for frame in range(len(example)):
        assert one.near[frame] == one.bad[max(frame - AFTERMATH, 0) : frame + 1].any()
    other = corrupted(replace(example, name="other"), root, kind)
    assert (other.bad != one.bad).any()


def test_area_under_the_curve_is_the_chance_that_a_bad_frame_stands_out():
    rng = np.random.default_rng(0)
    values, bad = rng.integers(0, 6, 60).astype(float), rng.random(60) < 0.3
    pairs = values[bad][:, None] - values[~bad][None]
    assert auc(values, bad) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    assert auc(bad.astype(float), bad) == 1.0
    assert auc(-bad.astype(float), bad) == 0.0


def test_errors_are_those_of_the_frames_asked_about(example):
    clip = Clip(example, example, np.zeros(400, bool), np.zeros(400, bool))
    said = np.repeat(example.params[..., None], 5, axis=2)
    said[100:150, 3] += 0.25
    ahead = np.array([0, 2, 5, 10, 20]) / 399  # how far the parameters are at each horizon
    everywhere = np.array(mean_error([clip], [(said, None)], [np.ones(400, bool)]))
    np.testing.assert_allclose(everywhere[0], ahead, atol=1e-5)
    chosen = np.zeros(400, bool)
    chosen[110:140] = True
    there = np.array(mean_error([clip], [(said, None)], [chosen]))
    np.testing.assert_allclose(there[0], ahead, atol=1e-5)
    np.testing.assert_allclose(there[3], np.abs(0.25 - ahead), atol=1e-5)
    assert mean_error([clip], [(said, None)], [np.zeros(400, bool)]) is None


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


def test_the_detector_that_learns_nothing_sees_a_jump(example):
    rows = np.zeros((50, 231), dtype=np.float32)
    rows[20, glitched.VELOCITIES] = 5.0
    found = glitched.jump(replace(example, features=rows, params=np.zeros((50, 8), dtype=np.float32)))
    assert set(np.flatnonzero(found)) == {20, 21}
