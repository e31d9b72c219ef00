"""The event extrapolator and the trackers: their results, and that they are causal."""

from dataclasses import replace

import numpy as np
import pytest
from support.clips import LEFT_ARM, RIGHT_ARM, turning

from pyanticip.errors import FormatError
from training.data.batches import HORIZONS
from training.evaluate import event_tuning, trackers
from training.evaluate.baselines import SETTINGS, Twins
from training.evaluate.event_tuning import EventBaselines
from training.evaluate.events import score_clip
from training.evaluate.extrapolator import (
    AHEAD,
    BEHIND,
    TAPS,
    Extrapolator,
    best_lag,
    extrapolate,
    fire,
    inputs,
    joint_positions,
    next_by_line,
    past_events,
    predicted,
    speed_curve,
    valleys,
)
from training.evaluate.trackers import Tracker, carry, forecast, kalman, one_euro, tracked
from training.tasks.motion.baselines import predict
from training.tasks.motion.scores import measure
from training.teacher.kinematic_targets import compute_targets

PERIOD = Extrapolator(0.02, 0.04, 3.0, agreement=0.5, window=50, depth=0.3)


@pytest.fixture(scope="module")
def line(swinging):
    """Weights of the linear prediction, fitted to other swings of the same kind."""
    curve = speed_curve(joint_positions(swinging), 0, 0.02, 0.02)
    weights = event_tuning.fit([curve[:250], curve[30:280], np.zeros(10)], 0)
    return Extrapolator(0.02, 0.02, 2.0, fall=0.3, weights=weights)


@pytest.fixture(scope="module")
def swinging():
    """Arms that swing about the vertical at 1 Hz: the hands stand still twice per second."""
    angle = 0.9 * np.sin(2.0 * np.pi * np.arange(400) / 50.0)
    return turning({LEFT_ARM: angle, RIGHT_ARM: angle}, axis=1)


def test_valleys_are_found_once_they_have_risen():
    curve = np.array([5.0, 4.0, 3.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.9, 5.0, 1.0, 3.0])
    at, confirmed = valleys(curve, 1.5, 1)
    assert at.tolist() == [3.0, 10.0]
    assert confirmed.tolist() == [5, 11]
    assert valleys(curve, 1.5, 8)[0].tolist() == [3.0]
    # A trough with two minima is located at its middle, whichever is lower.
    for low, other in ((1.0, 1.1), (1.1, 1.0)):
        twice = np.array([5.0, 3.0, low, 1.5, 1.4, 1.5, other, 3.0, 5.0, 5.0])
        assert valleys(twice, 2.0, 1)[0].tolist() == [4.0]


def test_past_beats_are_falls_and_past_phrases_are_valleys(swinging):
    curve = speed_curve(joint_positions(swinging), 0, 0.02, 0.02)
    beats, known = past_events(curve, 0, 0.3)
    assert len(beats) >= 14
    assert np.array_equal(beats, known)
    valley, confirmed = past_events(curve, 1, 0.3)
    assert np.array_equal(valley, valleys(curve, 0.3, 50)[0])
    assert (confirmed > valley).all()


def test_the_best_lag_is_the_period():
    t = np.arange(300)
    lags, agreement = best_lag(np.sin(2.0 * np.pi * t / 40.0) + 0.001 * t, 50)
    assert set(lags[150:].tolist()) == {40}
    assert agreement[150:].min() > 0.95
    assert (agreement[:20] == -1.0).all()


@pytest.mark.parametrize("lead", [0, 5, 10])
def test_a_steady_swing_is_extrapolated(swinging, lead):
    truth = compute_targets(swinging).times("onset")
    assert len(truth) >= 12
    announced = extrapolate(joint_positions(swinging), 0, lead, PERIOD)
    late = truth[truth > 150]
    score, leads = score_clip(announced, late, 400, lead)
    assert score.recall == 1.0
    assert leads.min() >= lead


@pytest.mark.parametrize("lead", [0, 5, 10])
def test_an_arrival_that_is_predicted_is_announced(swinging, line, lead):
    truth = compute_targets(swinging).times("onset")
    announced = extrapolate(joint_positions(swinging), 0, lead, line)
    score, leads = score_clip(announced, truth[truth > 100], 400, lead)
    assert score.recall == 1.0
    assert leads.min() >= lead


@pytest.mark.parametrize(("kind", "stride"), [(0, 2), (1, 6)])
def test_a_line_is_predicted_from_what_is_behind_it_and_follows_what_was(kind: int, stride: int) -> None:
    curve = 0.5 * np.arange(200.0)
    given = inputs(curve, kind)
    wanted = [*(-0.5 * stride * n for n in range(1, TAPS)), curve[150], 1.0]
    np.testing.assert_allclose(given[150], wanted)
    np.testing.assert_array_equal(given[0], [*np.zeros(TAPS - 1), 0.0, 1.0])
    # The curve continues to rise as it did over the last stride.
    weights = np.zeros((TAPS + 1, AHEAD[kind]))
    weights[0] = -np.arange(1, AHEAD[kind] + 1) / stride
    path = predicted(curve, kind, weights)
    np.testing.assert_allclose(path[100], 0.5 * (100 + np.arange(1 - BEHIND, AHEAD[kind] + 1)))
    np.testing.assert_array_equal(path[2, : BEHIND - 2], 0.0)


def come(path: np.ndarray, kind: int, lead: float, **settings: float) -> float:
    """Predicted time of an event, frames ahead, for a path whose first frame is ``BEHIND - 1`` ago."""
    when = next_by_line(path[None], Extrapolator(0.0, 0.0, 3.0, aim_frames=4.0, **settings), lead, kind)
    return float(when[0])


def test_a_trough_in_what_is_predicted_comes_at_its_middle_less_what_the_curve_is_late() -> None:
    ahead = np.arange(BEHIND + AHEAD[1]) - (BEHIND - 1)
    deep = 0.1 * np.abs(ahead - 25.0)
    assert come(deep, 1, 20.0) == come(deep, 1, 22.4) == 22.0
    assert come(deep, 1, 22.6) == np.inf, "it comes before the lead"
    assert come(deep, 1, 11.0) == np.inf, "there is time left"
    assert come(deep, 1, 20.0, fall=1.19) == come(deep, 1, 20.0, rise=1.19) == 22.0
    assert come(deep, 1, 20.0, fall=1.21) == come(deep, 1, 20.0, rise=1.21) == np.inf
    # A flat trough with its minimum at one end: half as deep as the lower side, from 19 to 32.
    skew = np.where(ahead < 25, 0.1 * (25 - ahead), 0.1 * np.maximum(ahead - 26, 0) + 0.01 * (ahead > 25))
    assert come(skew, 1, 20.0) == pytest.approx(0.5 * (20 + 31) - 3.0)
    assert come(-deep, 1, 20.0) == np.inf
    assert come(deep, 1, 12.0) == 22.0
    assert come(deep, 1, 11.9) == np.inf, "there is time left until the last that is looked at"
    # Followed by a single frame, the last predicted one.
    late = 0.1 * np.abs(ahead - (AHEAD[1] - 1.0))
    assert come(late, 1, 60.0, rise=0.05) == AHEAD[1] - 1 - 3


def test_an_arrival_in_what_is_predicted_comes_where_the_path_has_fallen() -> None:
    ahead = np.arange(BEHIND + AHEAD[0]) - (BEHIND - 1)
    falls = 2.0 - 0.1 * np.maximum(ahead - 20, 0)
    assert come(falls, 0, 16.0, fall=0.25) == 20.0
    assert come(falls, 0, 16.0, fall=0.35) == 21.0
    assert come(falls, 0, 20.4, fall=0.25) == 20.0
    assert come(falls, 0, 20.6, fall=0.25) == np.inf, "it comes before the lead"
    assert come(falls, 0, 8.0, fall=0.25) == np.inf, "there is time left"
    assert come(falls, 0, 10.5, fall=0.25) == 20.0
    assert come(falls, 0, 9.5, fall=0.25) == np.inf, "there is time left until the last that is looked at"
    assert come(falls - 4.0, 0, 16.0, fall=0.25) == np.inf, "what is so slow is no stroke"
    assert come(np.full_like(falls, 2.0), 0, 16.0) == np.inf


def test_too_short_clips_fit_no_line():
    assert event_tuning.fit([np.zeros(30)], 0) == ()


@pytest.mark.parametrize("means", ["period", "line"])
def test_rivals_do_not_see_ahead(move, swinging, line, means):
    settings, quats = (PERIOD, move(300, 4)) if means == "period" else (line, swinging[:300])
    other = quats.copy()
    other[200:] = move(300, 5)[200:]
    told = [extrapolate(joint_positions(q), 0, 5.0, settings) for q in (quats, other)]
    kept = [[p for p in zip(t.decided, t.times, strict=True) if p[0] < 200] for t in told]
    assert kept[0] == kept[1]
    assert len(kept[0]) >= 2


def test_an_announcement_is_made_once():
    expected = np.full(60, np.inf)
    expected[20:40] = 40.0 + 0.3 * np.sin(np.arange(20))
    announced = fire(expected, 5.0, 2.0, 8)
    assert len(announced) == 1
    assert 33 <= announced.decided[0] <= 35


def test_tuning_finds_settings_that_work_and_survives_saving(swinging, example_of, monkeypatch, tmp_path):
    targets = compute_targets(swinging)
    example = replace(
        example_of(400),
        quats=swinging.astype(np.float32),
        params=targets.params,
        onsets=targets.times("onset"),
        phrases=targets.times("phrase"),
    )
    for name, values in (("WINDOWS", (50,)), ("AGREEMENTS", (0.5,)), ("FALLS", ((0.2,), (0.4,)))):
        monkeypatch.setattr(event_tuning, name, values)
    baselines = event_tuning.tune([example])
    announced = extrapolate(joint_positions(example.quats), 0, 5.0, baselines.extrapolators[0][1])
    assert score_clip(announced, example.onsets, 400, 5.0)[0].f1 > 0.8
    baselines.save(tmp_path / "e.json")
    assert EventBaselines.load(tmp_path / "e.json") == baselines
    (tmp_path / "e.json").write_text("[]")
    with pytest.raises(FormatError, match="event rivals"):
        EventBaselines.load(tmp_path / "e.json")


def test_the_curve_falls_with_the_speed(swinging):
    curve = speed_curve(joint_positions(swinging), 0, 0.0, 0.0)
    speed = np.abs(np.cos(2.0 * np.pi * np.arange(400) / 50.0))
    assert np.corrcoef(curve[60:], speed[60:])[0, 1] > 0.8


KALMAN = Tracker("kalman", 0.02, 0.02, 1e3, 0.2)
EURO = Tracker("one-euro", 0.0, 0.04, min_cutoff=2.0, beta=4.0, gain=0.5)


def test_the_filter_is_the_textbook_recursion():
    """The filter equals the steady state of the covariance recursion, applied frame by frame."""
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


@pytest.mark.parametrize("kind", ["kalman", "one-euro"])
def test_what_a_twin_is_late_is_carried_on_as_well(kind):
    """With a twin delayed by five frames, a forecast 10 frames ahead equals one 15 frames ahead without."""
    value, speed = np.full((9, 1), 0.5), np.full((9, 1), 0.4)
    late, early = (Tracker(kind, delay, 0.0, memory_s=0.2, gain=0.6) for delay in (0.1, 0.0))
    np.testing.assert_allclose(carry(value, speed, late, 10), carry(value, speed, early, 15), rtol=1e-12)


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
    best = measure(examples, lambda e: predict(Twins(e.quats), table, forecast)).mean()
    for tracker in (Tracker("kalman", 0.08, 0.04, 1e3, 0.1), Tracker("one-euro", 0.0, 0.04, min_cutoff=3.0)):
        other = tuple((tracker,) * len(HORIZONS) for _ in range(8))
        assert (
            best <= measure(examples, lambda e, t=other: predict(Twins(e.quats), t, forecast)).mean() + 1e-6
        ).all()
    trackers.save(table, tmp_path / "t.json")
    assert trackers.load(tmp_path / "t.json") == table
    text = (tmp_path / "t.json").read_text()
    (tmp_path / "t.json").write_text(text.replace('"teacher_version": ', '"teacher_version": 9'))
    with pytest.raises(FormatError, match=r"teacher 93, expected 3$"):
        trackers.load(tmp_path / "t.json")
    (tmp_path / "t.json").write_text('{"trackers": []}')
    with pytest.raises(FormatError, match="not a file of tuned trackers"):
        trackers.load(tmp_path / "t.json")
    with pytest.raises(FormatError, match=r"nowhere\.json: no such file"):
        trackers.load(tmp_path / "nowhere.json")


def test_the_packaged_trackers_use_both_kinds_of_delay():
    table = trackers.load(SETTINGS / "trackers.json")
    assert [len(row) for row in table] == [len(HORIZONS)] * 8
    assert len({tracker for row in table for tracker in row}) > 10
