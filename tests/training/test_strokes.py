"""Strokes: the numbers follow the definition and see no future, a head learns from them, a rule waits."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pyanticip.last_moment import LastMoment
from pyanticip.models import ModelConfig, MotionTransformer
from training import beat_strokes, strokes
from training.beats import arrivals
from training.evaluate.events import score_clip
from training.evaluate.rules import live
from training.strokes import STROKES, Heard, stands, teach_beats
from training.tasks.motion.scores import Said


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "heads": 2, "fast_layers": 1, "slow_layers": 1, "ff": 32, "control_hidden": 48}
    return MotionTransformer(ModelConfig(**sizes)).eval()


def swings(frames=600, period=50.0):
    """Ends that all move with one speed, which rises and falls between 0.1 and 1.1 m/s."""
    speed = 0.6 + 0.5 * np.sin(2.0 * np.pi * np.arange(frames) / period)
    velocity = np.zeros((frames, 15))
    velocity[:, :5] = speed[:, None]
    return velocity, speed


def test_a_stroke_turns_where_the_teacher_of_arrivals_has_one():
    _, speed = swings()
    told = stands(np.log2(speed + 0.1))
    falls = np.flatnonzero((told[1:, 0] == 0.0) & (told[:-1, 0] == 1.0)) + 1
    assert np.array_equal(falls, arrivals(speed))
    assert len(falls) == 12
    before = told[falls - 1]
    assert (before[:, 4] == 1.0).all()
    assert (before[:, 1] <= 0.3).all()
    assert (told[:, 1] * told[:, 2] == 0.0).all()


def test_strokes_see_no_future_and_start_afresh():
    velocity, speed = swings()
    told = strokes.strokes(velocity)
    assert told.shape == (600, STROKES)
    cut = velocity.copy()
    cut[300:] = 0.0
    np.testing.assert_array_equal(strokes.strokes(cut)[:300], told[:300])
    assert (told[0, 1 : 1 + len(strokes.LAGS)] == 0.0).all()
    # One frame of delay: the curve is that of the frame before, but for a little.
    np.testing.assert_allclose(told[100:, 0], np.log2(speed[99:-1] + 0.1), atol=0.1)
    back = told[200:, 1 + strokes.LAGS.index(24)] + told[200:, 0]
    np.testing.assert_allclose(back, told[176:-24, 0])


def test_a_head_learns_thresholds_and_is_the_same_for_the_same_seed(monkeypatch):
    monkeypatch.setattr(strokes, "FRAMES", 256)
    velocity, speed = swings(1500)
    seen = torch.from_numpy(strokes.strokes(velocity)).half()
    heard = Heard(torch.cat((seen, torch.zeros(1500, 4)), 1), STROKES, torch.ones(1500), torch.ones(1500))
    beats = arrivals(speed)
    bins, known = beat_strokes.beat_probe.asked([beats], [1500])
    one, two, other = (teach_beats(heard, bins, known, steps=300, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.head.first.weight, two.head.first.weight)
    assert not torch.equal(one.head.first.weight, other.head.first.weight)

    class Clip:
        name = "swings"

        def __len__(self):
            return 1500

    said = one.said(heard, [Clip()])["swings"]
    told = live(said, 0, LastMoment(), lead_ms=100.0)
    assert score_clip(told, beats, 1500, 5)[0].f1 > 0.9


def sure_of(events, frames, chance):
    """Hazards that hold so much of every event, and the gate shut."""
    hazards = np.zeros((frames, 2, 25), np.float32)
    for event in events:
        for b in range(25):
            if 0 <= event - 1 - b < frames:
                hazards[event - 1 - b, 0, b] = chance
    nothing = np.zeros((frames, 0), np.float32)
    return Said(nothing, hazards, nothing, np.zeros(frames, np.float32))


@pytest.mark.parametrize("lead_ms", [0, 100, 200])
def test_what_is_likely_waits_for_the_last_moment_and_what_is_certain_does_not(lead_ms):
    events, lead = np.array([60, 110, 150]), lead_ms // 20
    likely = live(sure_of(events, 200, 0.6), 0, LastMoment(), lead_ms=float(lead_ms))
    assert score_clip(likely, events, 200, lead)[0].f1 == 1.0
    assert (likely.times - likely.decided == lead + 2.5).all()
    certain = live(sure_of(events, 200, 0.99), 0, LastMoment(), lead_ms=float(lead_ms))
    assert score_clip(certain, events, 200, lead)[0].f1 == 1.0
    assert (events - certain.decided > events - likely.decided).all()
    assert not len(live(sure_of(events, 200, 0.3), 0, LastMoment(), lead_ms=float(lead_ms)))


def test_what_is_heard_is_strokes_measures_and_units(model, example_of):
    clips = [example_of(120, seed, "a") for seed in range(2)]
    heard = beat_strokes.listen(model, clips)
    assert heard.seen.shape == (240, heard.close + 48)
    assert heard.close == STROKES + model.control.recent.in_features
    kept = strokes.strokes_of(model, clips[1:])
    assert torch.equal(heard.seen[120:, :STROKES], kept)


def test_hurried_copies_are_shorter_and_keep_who_it_is(piece_of):
    piece = piece_of(300, seed=2)
    (one, two) = beat_strokes.hurried([piece], 2)
    usual = len(beat_strokes.plain(piece))
    for copy in (one, two):
        assert copy.subject == piece.subject
        assert usual / 1.62 < len(copy) < usual / 1.13
    assert len(one) != len(two)
    assert not list(beat_strokes.hurried([replace(piece, quats=piece.quats[:60], root=piece.root[:60])], 1))


def test_nobody_to_judge_is_one_line(data_dir, tmp_path, capsys, model, monkeypatch):
    monkeypatch.setattr(beat_strokes, "load_motion_model", lambda path: model)
    (tmp_path / "05_01.bvh").symlink_to(data_dir / "cmu" / "05_01.bvh")
    assert beat_strokes.main(["--data", str(tmp_path), "--without", "05"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
