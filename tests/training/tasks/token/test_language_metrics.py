"""Metrics on arrays with known results."""

import math

import numpy as np
import pytest

from pyanticip.errors import OptionError, ShapeError
from training.tasks.token import metrics


def test_perplexity_of_a_uniform_model_is_its_vocabulary():
    loss = np.full((5, 7), math.log(50.0))
    mask = np.ones((5, 7), bool)
    found = metrics.perplexity(loss, mask)
    assert found.value == pytest.approx(50.0)
    assert found.low == pytest.approx(50.0)
    assert found.high == pytest.approx(50.0)


def test_masked_positions_count_nowhere():
    rng = np.random.default_rng(0)
    loss, other = rng.random((6, 10)), rng.random((6, 10))
    mask = rng.random((6, 10)) < 0.6
    dirty, dirty_other = loss.copy(), other.copy()
    dirty[~mask], dirty_other[~mask] = 1e6, -1e6
    assert metrics.perplexity(dirty, mask) == metrics.perplexity(loss, mask)
    assert metrics.correlation(dirty, dirty_other, mask).value == pytest.approx(
        np.corrcoef(loss[mask], other[mask])[0, 1], abs=1e-9
    )
    assert metrics.selective(dirty, other, mask) == metrics.selective(loss, other, mask)


def test_correlation_and_its_interval():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(200, 20)) + 1e4
    b = 0.6 * (a - 1e4) + 0.8 * rng.normal(size=(200, 20))
    found = metrics.correlation(a, b, np.ones_like(a, bool))
    assert found.value == pytest.approx(np.corrcoef(a.ravel(), b.ravel())[0, 1], abs=1e-9)
    assert found.low < 0.6 < found.high
    assert found.high - found.low < 0.06


def test_the_interval_is_over_sequences_not_positions():
    rng = np.random.default_rng(2)
    x, y = (np.repeat(v, 50, axis=1) for v in rng.normal(size=(2, 30, 1)))
    wide = metrics.correlation(x, y, np.ones_like(x, bool))
    free = metrics.correlation(*rng.normal(size=(2, 30, 50)), np.ones_like(x, bool))
    assert wide.high - wide.low > 3 * (free.high - free.low)


def test_a_constant_gate_has_no_correlation():
    a = np.random.default_rng(3).random((4, 9))
    found = metrics.correlation(a, np.full_like(a, 0.7), np.ones_like(a, bool))
    assert math.isnan(found.value)
    assert found.to_dict() == {"value": None, "low": None, "high": None}


def test_scalar_errors_beside_the_mean_of_the_position():
    rng = np.random.default_rng(4)
    given = rng.random((40, 12, 7))
    mask = rng.random((40, 12)) < 0.8
    mean = given.mean(0)
    report = metrics.scalar_errors(np.broadcast_to(mean, given.shape), given, mask, mean)
    for row in report.values():
        assert row["ratio"]["value"] == pytest.approx(1.0)
        assert row["mse"] == row["position_mean_mse"] > 0
    said = given + 0.5 * (mean - given)
    quarter = metrics.scalar_errors(said, given, mask, mean)
    assert quarter["stability"]["ratio"]["value"] == pytest.approx(0.25)
    with pytest.raises(ShapeError, match=r"mean: expected shape \(12, 7\)"):
        metrics.scalar_errors(said, given, mask, mean[:3])


def test_heads_that_look_at_one_scalar_each():
    weight = np.zeros((56, 7))
    for h, k in enumerate((6, 0, 3, 1)):
        weight[14 * h : 14 * (h + 1), k] = -0.3
    report = metrics.heads(weight, 4)
    assert report["penalty"] == report["excess"] == report["floor"] == 0.0
    assert report["different"] == 4
    assert report["dominant"] == ["stability", "commitment", "recovery_margin", "uncertainty"]
    same = metrics.heads(np.ones((56, 7)), 8)
    assert same["penalty"] == pytest.approx(56.0)
    assert same["floor"] == pytest.approx(64 / 7 - 8, abs=1e-6)
    assert same["different"] == 1


def test_selective_risk():
    loss = np.array([[0.0, 1.0, 2.0, 3.0]])
    mask = np.ones_like(loss, bool)
    assert metrics.selective(loss, -loss, mask, 0.5) == 0.5
    assert metrics.selective(loss, loss, mask, 0.5) == 2.5
    assert metrics.selective(loss, np.zeros_like(loss), mask, 0.5) == 1.5
    with pytest.raises(OptionError, match="share"):
        metrics.selective(loss, loss, mask, 0.0)


def test_calibration_error():
    rng = np.random.default_rng(5)
    confidence = rng.random((100, 100))
    right = rng.random((100, 100)) < confidence
    mask = np.ones_like(right)
    assert metrics.calibration(right, confidence, mask) < 0.02
    assert metrics.calibration(right, np.full_like(confidence, 0.9), mask) == pytest.approx(0.4, abs=0.03)


def test_spread_counts_only_what_is_known():
    assert metrics.spread([1.0, None, 3.0, float("nan")]) == {
        "runs": 2,
        "mean": 2.0,
        "std": pytest.approx(math.sqrt(2.0), abs=1e-6),
        "min": 1.0,
        "max": 3.0,
    }
    assert metrics.spread([None])["mean"] is None


def test_arrays_that_do_not_fit_are_refused():
    loss = np.zeros((2, 3))
    yes = np.ones((2, 3), bool)
    with pytest.raises(ShapeError, match=r"gate: expected shape \(2, 3\)"):
        metrics.Predictions(loss, yes, yes, gate=np.zeros((2, 4)))
    with pytest.raises(ShapeError, match="no position counts"):
        metrics.Predictions(loss, yes, ~yes)
