"""The trust in beats: what the measures of it must say of beats that hold and of beats that do not."""

import numpy as np
import pytest

from training.beats import (
    DEFINITIONS,
    LEAD_FRAMES,
    agreement,
    arrivals,
    cut_short,
    ends_of,
    foreseen,
    known_at,
    lowest_frames,
    main,
    middles,
    shaken,
    speed_of,
)
from training.evaluate.events import score_clip
from training.teacher.handmade import teach


@pytest.fixture(scope="module")
def clips(move):
    return [move(400, seed=s) for s in range(3)]


def test_arrivals_are_the_teachers_beats(clips):
    for quats in clips:
        beats = arrivals(speed_of(ends_of(quats)))
        assert len(beats) > 3
        assert np.array_equal(beats, teach(quats).times("onset"))


@pytest.mark.parametrize("tilt", [-0.03, 0.0, 0.03])
def test_a_trough_with_two_bottoms_has_its_middle_whichever_is_lower(tilt):
    t = np.arange(200)
    # Two bottoms 8 frames apart at 96 and 104, with a low ridge between them; 3 % tell them apart.
    near = (t - 100) / 4.0
    speed = 1.0 - 0.75 * np.exp(-(((t - 100) / 8.0) ** 4))
    speed *= 1.0 + 0.1 * np.exp(-(near**2) * 2.0) + tilt * np.tanh(near)
    (beat,) = middles(speed)
    assert abs(beat - 100) <= 1
    (low,) = lowest_frames(speed)
    assert tilt == 0.0 or abs(low - 100) >= 2


def test_an_arrival_is_a_fall_from_the_highest_speed_and_needs_a_new_stroke_for_the_next():
    curve = np.array([0.0, 0.2, 1.0, 0.8, 0.69, 0.2, 0.4, 0.1, 0.3, 0.45, 0.1, 0.5, 0.3, 0.1])
    speed = np.repeat(2.0**curve, 8) - 0.1
    # 0.69 lies 0.3 under 1.0; from 0.2 to 0.4 is no rise of 0.3; from 0.1 to 0.45 is one.
    assert arrivals(speed).tolist() == [32, 80, 104]
    # None of them is that fast; only the first was.
    assert arrivals(speed, least=2.0).tolist() == []
    assert arrivals(speed, least=1.7).tolist() == [32]
    # A clip that begins in the middle of a stroke.
    assert arrivals(np.linspace(2.0, 0.5, 60)).tolist()[0] < 30
    assert arrivals(np.full(50, 2.0)).tolist() == []


def test_what_comes_after_an_arrival_does_not_move_it(clips):
    ends = ends_of(clips[0])
    for beat in arrivals(speed_of(ends))[2:5]:
        # The kernels reach 17 frames ahead.
        assert beat in arrivals(speed_of(ends[: beat + 18]))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_beats_agree_with_themselves_without_noise(clips, name):
    speeds = [speed_of(ends_of(quats)) for quats in clips]
    again = [speed_of(ends_of(shaken(quats, 0.0, np.random.default_rng(0)))) for quats in clips]
    score = agreement(speeds, again, DEFINITIONS[name])
    assert score.true > 5
    assert score.hits == score.true == score.reported


def test_beats_that_follow_the_noise_do_not_agree(clips):
    def fickle(speed):
        # Any noise at all changes the seed, as it changes which of two bottoms is lower.
        return np.sort(np.random.default_rng(int(speed.sum() * 1e9)).choice(400, 8, replace=False))

    speeds = [speed_of(ends_of(quats)) for quats in clips]
    noisy = [speed_of(ends_of(shaken(quats, 0.3, np.random.default_rng(0)))) for quats in clips]
    steady = agreement(speeds, noisy, arrivals)
    assert agreement(speeds, noisy, fickle).f1 < 0.6 < steady.f1


def test_troughs_are_found_at_their_lowest_frame_and_in_their_middle(clips):
    speed = speed_of(ends_of(clips[0]))
    low, middle = lowest_frames(speed), middles(speed)
    assert len(low) == len(middle) > 3
    assert np.abs(low - middle).max() < 25


def test_the_speed_of_a_clip_cut_short_is_that_of_the_shorter_clip(clips):
    ends = ends_of(clips[0])
    cut = cut_short(ends)
    for frame in (0, 5, 60, 399):
        short = speed_of(ends[: frame + 1])[-24:]
        np.testing.assert_allclose(cut[frame, 24 - len(short) :], short, atol=1e-9)
        assert np.isnan(cut[frame, : 24 - len(short)]).all()


def test_an_arrival_is_known_before_the_trough_that_follows_it(clips):
    """What the docs say: with 200 ms of the future arrivals can be announced, troughs cannot."""
    scores = {}
    for beats in (middles, arrivals):
        found = []
        for quats in clips:
            ends = ends_of(quats)
            speed = speed_of(ends)
            told = foreseen(known_at(speed, cut_short(ends), beats), 13)
            assert (told.times - told.decided >= LEAD_FRAMES).all()
            found.append(score_clip(told, beats(speed), 400, LEAD_FRAMES)[0].f1)
        scores[beats] = np.mean(found)
    assert scores[arrivals] > 0.9
    assert scores[middles] < 0.6


def test_the_command_prints_a_line_for_each_definition(data_dir, tmp_path, capsys):
    (tmp_path / "05_01.bvh").symlink_to(data_dir / "cmu" / "05_01.bvh")
    main(["--data", str(tmp_path), "--split", "train"])
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 1 + len(DEFINITIONS)
    assert all("knowing 100, 200" in line for line in told[1:])
