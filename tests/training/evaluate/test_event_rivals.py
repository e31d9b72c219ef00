"""The rivals in foreseeing events: what they find, and that they do not see ahead."""

from dataclasses import replace

import numpy as np
import pytest

from pyanticip.errors import FormatError
from training.evaluate import event_tuning
from training.evaluate.event_tuning import EventRivals
from training.evaluate.events import score_clip
from training.evaluate.extrapolator import (
    Detector,
    Extrapolator,
    best_lag,
    detect,
    extrapolate,
    fire,
    past_events,
    places,
    speed_curve,
    valleys,
)
from training.evaluate.rivals import SETTINGS
from training.teacher.handmade import teach

PERIOD = Extrapolator(0.02, 0.04, 3.0, agreement=0.5, window=50, depth=0.3)


@pytest.fixture(scope="module")
def line(swinging):
    """Linear prediction fitted to other swings of the same kind."""
    curve = speed_curve(places(swinging), 0, 0.02, 0.02)
    weights = event_tuning.fit([curve[:250], curve[30:280], np.zeros(10)], 0)
    return Extrapolator(0.02, 0.02, 2.0, fall=0.3, weights=weights)


DETECTOR = Detector(0.02, 0.02, 0.3, 2.0)


@pytest.fixture(scope="module")
def swinging():
    """Arms that swing about the vertical with 1 Hz: the ends stand still twice a second."""
    t = np.arange(400) / 50.0
    quats = np.zeros((400, 22, 4))
    quats[..., 0] = 1.0
    angle = 0.9 * np.sin(2.0 * np.pi * t)
    for joint in (7, 11):
        quats[:, joint] = np.column_stack([np.cos(angle / 2), 0 * t, np.sin(angle / 2), 0 * t])
    return quats


def test_valleys_are_found_once_they_have_risen():
    curve = np.array([5.0, 4.0, 3.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.9, 5.0, 1.0, 3.0])
    at, confirmed = valleys(curve, 1.5, 1)
    assert at.tolist() == [3.0, 10.0]
    assert confirmed.tolist() == [5, 11]
    assert valleys(curve, 1.5, 8)[0].tolist() == [3.0]
    # A trough with two bottoms is where its middle is, whichever is lower.
    for low, other in ((1.0, 1.1), (1.1, 1.0)):
        twice = np.array([5.0, 3.0, low, 1.5, 1.4, 1.5, other, 3.0, 5.0, 5.0])
        assert valleys(twice, 2.0, 1)[0].tolist() == [4.0]


def test_past_beats_are_falls_and_past_phrases_are_valleys(swinging):
    curve = speed_curve(places(swinging), 0, 0.02, 0.02)
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
    truth = teach(swinging).times("onset")
    assert len(truth) >= 12
    told = extrapolate(places(swinging), 0, lead, PERIOD)
    late = truth[truth > 150]
    score, leads = score_clip(told, late, 400, lead)
    assert score.recall == 1.0
    assert leads.min() >= lead


@pytest.mark.parametrize("lead", [0, 5, 10])
def test_an_arrival_that_is_predicted_is_announced(swinging, line, lead):
    truth = teach(swinging).times("onset")
    told = extrapolate(places(swinging), 0, lead, line)
    score, leads = score_clip(told, truth[truth > 100], 400, lead)
    assert score.recall == 1.0
    assert leads.min() >= lead


def test_too_short_clips_fit_no_line():
    assert event_tuning.fit([np.zeros(30)], 0) == ()


def test_the_detector_is_late_and_right_in_hindsight(swinging):
    truth = teach(swinging).times("onset")
    now, then = detect(places(swinging), 0, DETECTOR)
    assert np.array_equal(now.decided, then.decided)
    score, leads = score_clip(then, truth, 400)
    assert score.f1 > 0.9
    assert leads.max() < 0.0
    assert score_clip(then, truth, 400, 0.0)[0].hits == 0


@pytest.mark.parametrize("means", ["period", "line"])
def test_rivals_do_not_see_ahead(move, swinging, line, means):
    settings, quats = (PERIOD, move(300, 4)) if means == "period" else (line, swinging[:300])
    other = quats.copy()
    other[200:] = move(300, 5)[200:]
    told = [extrapolate(places(q), 0, 5.0, settings) for q in (quats, other)]
    kept = [[p for p in zip(t.decided, t.times, strict=True) if p[0] < 200] for t in told]
    assert kept[0] == kept[1]
    assert len(kept[0]) >= 2
    found = [detect(places(q), 0, DETECTOR)[1].decided for q in (quats, other)]
    assert np.array_equal(found[0][found[0] < 200], found[1][found[1] < 200])


def test_an_announcement_is_made_once():
    expected = np.full(60, np.inf)
    expected[20:40] = 40.0 + 0.3 * np.sin(np.arange(20))
    told = fire(expected, 5.0, 2.0, 8)
    assert len(told) == 1
    assert 33 <= told.decided[0] <= 35


def test_tuning_finds_settings_that_work_and_survives_saving(swinging, example_of, monkeypatch, tmp_path):
    lesson = teach(swinging)
    example = replace(
        example_of(400),
        quats=swinging.astype(np.float32),
        params=lesson.params,
        onsets=lesson.times("onset"),
        phrases=lesson.times("phrase"),
    )
    for name, values in (("WINDOWS", (50,)), ("AGREEMENTS", (0.5,)), ("FALLS", ((0.2,), (0.4,)))):
        monkeypatch.setattr(event_tuning, name, values)
    rivals = event_tuning.tune([example])
    told = extrapolate(places(example.quats), 0, 5.0, rivals.extrapolators[0][1])
    assert score_clip(told, example.onsets, 400, 5.0)[0].f1 > 0.8
    rivals.save(tmp_path / "e.json")
    assert EventRivals.load(tmp_path / "e.json") == rivals
    (tmp_path / "e.json").write_text("[]")
    with pytest.raises(FormatError, match="event rivals"):
        EventRivals.load(tmp_path / "e.json")


def test_the_packaged_settings_load():
    rivals = EventRivals.load(SETTINGS / "events.json")
    assert [len(row) for row in rivals.extrapolators] == [3, 3]
    assert len(rivals.detectors) == 2


def test_the_curve_falls_with_the_speed(swinging):
    curve = speed_curve(places(swinging), 0, 0.0, 0.0)
    speed = np.abs(np.cos(2.0 * np.pi * np.arange(400) / 50.0))
    assert np.corrcoef(curve[60:], speed[60:])[0, 1] > 0.8
