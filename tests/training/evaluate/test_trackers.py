"""The third rival: Kalman and one-euro trackers of the twin, and their tuning."""

import numpy as np
import pytest

from pyanticip.errors import FormatError
from training.data.batches import HORIZONS
from training.evaluate import trackers
from training.evaluate.rivals import SETTINGS
from training.evaluate.trackers import Tracker, carry, kalman, one_euro, predict, tracked
from training.tasks.motion.scores import measure

KALMAN = Tracker("kalman", 0.02, 0.02, 1e3, 0.2)
EURO = Tracker("one-euro", 0.0, 0.04, min_cutoff=2.0, beta=4.0, gain=0.5)


def test_the_filter_is_the_textbook_recursion():
    """The steady state of the covariance recursion, and its gain, frame by frame."""
    noise, memory, dt = 300.0, 0.15, 0.02
    keep = np.exp(-dt / memory)
    move = np.array([[1.0, memory * (1.0 - keep)], [0.0, keep]])
    driven = noise * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    spread = np.eye(2)
    for _ in range(2000):
        spread = move @ spread @ move.T + driven
        gain = spread[:, 0] / (spread[0, 0] + 1.0)
        spread = spread - np.outer(gain, spread[0])
    y = np.random.default_rng(0).uniform(0.0, 1.0, (80, 1))
    state, expected = np.array([y[0, 0], 0.0]), []
    for seen in y[:, 0]:
        state = move @ state
        state = state + gain * (seen - state[0])
        expected.append(state)
    value, speed = kalman(y, noise, memory)
    np.testing.assert_allclose(np.column_stack([value[:, 0], speed[:, 0]]), expected, atol=1e-9)


def test_a_ramp_is_carried_on_exactly_once_found():
    ramp = 0.1 + 0.004 * np.arange(150.0)[:, None]
    tracker = Tracker("kalman", 0.0, 0.0, 1e3, 0.0)
    value, speed = kalman(ramp, tracker.noise, tracker.memory_s)
    said = carry(value, speed, tracker, 20)
    np.testing.assert_allclose(said[100:, 0], ramp[100:, 0] + 0.004 * 20, atol=1e-6)
    assert carry(value, 100.0 * speed, tracker, 20).max() == 1.0


def test_one_euro_is_the_papers_and_clips_do_not_touch_each_other():
    rng = np.random.default_rng(1)
    clips = [rng.uniform(0.0, 1.0, (n, 3)) for n in (40, 90, 15)]
    together = one_euro(clips, 1.5, 4.0)
    for clip, (value, speed) in zip(clips, together, strict=True):
        x, v = clip[0].copy(), np.zeros(3)
        for t in range(1, len(clip)):
            a = 0.02 / (0.02 + 1.0 / (2.0 * np.pi * 1.0))
            v = v + a * ((clip[t] - x) / 0.02 - v)
            cutoff = 1.5 + 4.0 * np.abs(v)
            x = x + 0.02 / (0.02 + 1.0 / (2.0 * np.pi * cutoff)) * (clip[t] - x)
        np.testing.assert_allclose(value[-1], x)
        np.testing.assert_allclose(speed[-1], v)


@pytest.mark.parametrize("tracker", [KALMAN, EURO])
def test_trackers_do_not_see_ahead(tracker):
    rng = np.random.default_rng(2)
    clip = rng.uniform(0.0, 1.0, (120, 2))
    other = clip.copy()
    other[70:] = 0.5
    for one, two in zip(*(tracked([c], tracker)[0] for c in (clip, other)), strict=True):
        assert np.array_equal(one[:70], two[:70])
        assert not np.allclose(one[70:], two[70:])


def test_tuning_beats_untuned_settings_and_survives_saving(example_of, tmp_path):
    examples = [example_of(260, seed=s, subject=f"0{s}") for s in range(2)]
    table = trackers.tune(examples, delays=(0.0, 0.08), motion_delays=(0.04,))
    best = measure(examples, lambda e: predict(e, table)).mean()
    for tracker in (Tracker("kalman", 0.08, 0.04, 1e3, 0.1), Tracker("one-euro", 0.0, 0.04, min_cutoff=3.0)):
        other = tuple((tracker,) * len(HORIZONS) for _ in range(8))
        assert (best <= measure(examples, lambda e, t=other: predict(e, t)).mean() + 1e-6).all()
    trackers.save(table, tmp_path / "t.json")
    assert trackers.load(tmp_path / "t.json") == table
    text = (tmp_path / "t.json").read_text()
    (tmp_path / "t.json").write_text(text.replace('"teacher_version": ', '"teacher_version": 9'))
    with pytest.raises(FormatError, match=r"teacher 9., expected 1 to "):
        trackers.load(tmp_path / "t.json")
    with pytest.raises(FormatError, match="not a file of tuned trackers"):
        trackers.load(tmp_path / "nowhere.json")


def test_the_packaged_trackers_use_both_kinds_of_delay():
    table = trackers.load(SETTINGS / "trackers.json")
    assert [len(row) for row in table] == [len(HORIZONS)] * 8
    assert len({tracker for row in table for tracker in row}) > 10
