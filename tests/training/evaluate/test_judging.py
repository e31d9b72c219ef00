"""Shares of the best rival, calibration, the gate, and smaller suits."""

import numpy as np
import pytest

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from training.data.batches import HORIZONS
from training.data.examples import plain
from training.evaluate import fewer_joints
from training.evaluate.calibration import calibration, chance_within, comes_within, reliability
from training.evaluate.gating import AT_ONCE, gate_curves
from training.evaluate.rules import live
from training.evaluate.shares import BARS, compare, shares
from training.evaluate.source import Held
from training.tasks.motion.scores import Predictions, measure
from training.teacher.handmade import EDGE, teach

TINY = ModelConfig(d_model=28, heads=4, fast_layers=1, slow_layers=1, ff=32, control_hidden=32, pools=4)


def off_by(examples, sizes):
    """Errors of someone who is wrong by ``sizes`` (8,) everywhere."""
    wrong = np.asarray(sizes)[None, :, None]
    return measure(
        examples,
        lambda e: (np.stack([np.roll(e.params, -h, axis=0) for h in HORIZONS], -1) + wrong).astype(
            np.float32
        ),
    )


def test_both_readings_of_the_share_are_what_they_say():
    ours = np.tile(np.array([[1.0], [3.0]]), 5)
    one, two = np.tile(np.array([[2.0], [9.0]]), 5), np.tile(np.array([[4.0], [6.0]]), 5)
    found = shares([ours, one, two])
    np.testing.assert_allclose(found[0], (1.0 + 3.0) / (2.0 + 6.0))
    np.testing.assert_allclose(found[1], (1.0 / 2.0 + 3.0 / 6.0) / 2.0)


def test_the_comparison_takes_the_best_rival_of_each_parameter(example_of):
    examples = [example_of(200, seed=s, subject=f"0{s}") for s in range(2)]
    half = np.r_[np.full(4, 0.02), np.full(4, 0.04)]
    errors = {
        "model": off_by(examples, np.full(8, 0.01)),
        "hold": off_by(examples, half),
        "linear": off_by(examples, half[::-1]),
        "tracker": off_by(examples, np.full(8, 0.04)),
    }
    found = compare(errors, draws=20)
    assert found["not_beaten"] == []
    for share in found["shares"]:
        assert share["bar"] == BARS[share["horizon_ms"]]
        for reading in ("ratio_of_means", "mean_of_ratios"):
            assert share[reading]["value"] == pytest.approx(0.5, abs=1e-3)
            assert share[reading]["low"] <= share[reading]["value"] <= share[reading]["high"]
            assert share[reading]["met"]
    errors["model"] = off_by(examples, np.r_[np.full(7, 0.01), 0.03])
    found = compare(errors, draws=20)
    assert found["not_beaten"] == ["pulse at 100 ms", "pulse at 200 ms", "pulse at 400 ms"]
    errors["model"] = off_by(examples, np.full(8, 0.03))
    assert not any(share["ratio_of_means"]["met"] for share in compare(errors, draws=20)["shares"])


def test_probabilities_within_a_time_follow_from_hazards():
    hazards = np.array([[0.5, 0.2, 0.9]])
    np.testing.assert_allclose(chance_within(hazards, 2), [1.0 - 0.5 * 0.8])
    events = np.array([7, 20, 21])
    found = comes_within(events, 30, 5)
    expected = [any(t < e <= t + 5 for e in events) for t in range(30)]
    assert found.tolist() == expected


def test_reliability_of_a_known_forecaster():
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.0, 1.0, 40000)
    honest = reliability(chance, rng.uniform(size=40000) < chance)
    assert honest["ece"] < 0.02
    assert honest["skill"] == pytest.approx(1.0 - (1.0 / 6.0) / 0.25, abs=0.02)
    boastful = reliability(np.full(1000, 0.9), np.arange(1000) < 500)
    assert boastful["ece"] == pytest.approx(0.4)
    assert boastful["brier"] == pytest.approx(0.41)
    assert boastful["skill"] < 0.0
    never = reliability(np.full(10, 0.1), np.zeros(10, dtype=bool))
    assert never["skill"] is None


def said_of(example, rng, gate=None):
    frames = len(example)
    return Predictions(
        rng.uniform(0.0, 1.0, (frames, 8, 5)).astype(np.float32),
        rng.uniform(0.0, 0.15, (frames, 2, 25)).astype(np.float32),
        np.zeros((frames, 7), np.float32),
        (rng.uniform(0.0, 1.0, frames) if gate is None else np.full(frames, gate)).astype(np.float32),
    )


def test_calibration_has_a_row_for_each_event_and_time(example_of):
    examples = [example_of(200, seed=s, subject=f"0{s}") for s in range(3)]
    rng = np.random.default_rng(1)
    rows = calibration(examples, [said_of(e, rng) for e in examples], draws=30)
    assert [(r["event"], r["within_ms"]) for r in rows] == [
        (event, ms) for event in ("onset", "phrase") for ms in (100, 200, 400)
    ]
    for row in rows[:3]:
        assert sum(b["frames"] for b in row["bins"]) == row["frames"]
        assert row["skill_low"] <= row["skill_high"]
    assert rows[0]["frames"] == 3 * (200 - 2 * EDGE - 5)


def test_the_gate_as_veto_and_as_deferral(example_of):
    examples = [example_of(300, seed=s, subject=f"0{s}") for s in range(2)]
    rng = np.random.default_rng(2)
    curves = gate_curves(examples, [said_of(e, rng) for e in examples])
    told = [line["announced"] for line in curves["veto"]]
    assert told == sorted(told, reverse=True)
    assert told[0] == curves["at_once"]["announced"] > told[-1]
    shut = [said_of(e, rng, gate=0.0) for e in examples]
    never = gate_curves(examples, shut)
    # A shut gate defers by five frames whatever theta is, and as a veto lets nothing pass.
    assert {line["announced"] for line in never["veto"]} == {0}
    assert len({line["announced"] for line in never["deferral"]}) == 1
    said = said_of(examples[0], rng, gate=0.99)
    from pyanticip.controls import EventTrigger

    assert np.array_equal(
        live(said, 0, EventTrigger(theta=AT_ONCE)).times, live(said, 0, EventTrigger()).times
    )


def test_suits_mask_what_they_lack_and_keep_the_rest(piece_of):
    piece = piece_of(120, seed=3)
    held = Held(plain(piece), piece.root, piece.mask, "other")
    full, own = fewer_joints.in_suit(held, fewer_joints.JOINTS_OF[22])
    np.testing.assert_allclose(own.features, held.example.features, atol=1e-6)
    full, own = fewer_joints.in_suit(held, fewer_joints.JOINTS_OF[6])
    assert own.features is full.features
    assert np.array_equal(full.params, held.example.params)
    np.testing.assert_allclose(own.params, teach(own.quats).params)
    mask = own.features[:, 198:220]
    assert set(np.flatnonzero(mask[0]).tolist()) == set(fewer_joints.JOINTS_OF[6])
    lacking = [joint for joint in range(22) if joint not in fewer_joints.JOINTS_OF[6]]
    assert (own.quats[:, lacking] == np.array([1.0, 0.0, 0.0, 0.0])).all()
    assert not np.allclose(own.params, full.params, atol=0.05)


def test_suits_are_asked_for_by_their_number():
    assert fewer_joints.parse("22,10, 6,1") == (22, 10, 6, 1)
    for bad in ("5", "two", "22,x"):
        with pytest.raises(OptionError, match=r"22,10,6,1, given"):
            fewer_joints.parse(bad)


def test_rows_of_suits(piece_of):
    held = [
        Held(plain(p), p.root, p.mask, "other")
        for p in (piece_of(140, seed=s, subject=f"0{s}") for s in range(2))
    ]
    rows = fewer_joints.suit_rows(MotionTransformer(TINY), held, (22, 1))
    assert [(r["joints"], r["place_known"]) for r in rows] == [(22, True), (1, True), (1, False)]
    assert rows[0]["full_body"] == rows[0]["own_body"]
    assert rows[1]["full_body"] != rows[1]["own_body"]
    assert all(len(r["own_body"]["mean"]) == 5 for r in rows)
