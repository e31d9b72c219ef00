"""Who is told the next moments of a movement: what they can announce, by the teacher's definition."""

import numpy as np
import pytest

from training.evaluate.events import score_clip
from training.evaluate.oracle import LEAD_FRAMES, arrivals, cut_short, ends_of, foreseen, known_at, speed_of
from training.teacher.handmade import teach


@pytest.fixture(scope="module")
def clips(move):
    return [move(400, seed=s) for s in range(3)]


def test_arrivals_are_the_teachers_beats(clips):
    for quats in clips:
        beats = arrivals(speed_of(ends_of(quats)))
        assert len(beats) > 3
        assert np.array_equal(beats, teach(quats).times("onset"))


def test_an_arrival_is_a_fall_from_the_highest_speed_and_needs_a_new_stroke_for_the_next():
    curve = np.array([0.0, 0.2, 1.0, 0.8, 0.69, 0.2, 0.4, 0.1, 0.3, 0.45, 0.1, 0.5, 0.3, 0.1])
    speed = np.repeat(2.0**curve, 8) - 0.1
    # 0.69 lies 0.3 under 1.0; from 0.2 to 0.4 is no rise of 0.3; from 0.1 to 0.45 is one.
    assert arrivals(speed).tolist() == [32, 80, 104]
    # Slower than a stroke all the time.
    assert arrivals(0.3 * speed).tolist() == []
    # A clip that begins in the middle of a stroke.
    assert arrivals(np.linspace(2.0, 0.5, 60)).tolist()[0] < 30
    assert arrivals(np.full(50, 2.0)).tolist() == []


def test_what_comes_after_an_arrival_does_not_move_it(clips):
    ends = ends_of(clips[0])
    for beat in arrivals(speed_of(ends))[2:5]:
        # The kernels reach 17 frames ahead.
        assert beat in arrivals(speed_of(ends[: beat + 18]))


def test_the_speed_of_a_clip_cut_short_is_that_of_the_shorter_clip(clips):
    ends = ends_of(clips[0])
    cut = cut_short(ends)
    for frame in (0, 5, 60, 399):
        short = speed_of(ends[: frame + 1])[-24:]
        np.testing.assert_allclose(cut[frame, 24 - len(short) :], short, atol=1e-9)
        assert np.isnan(cut[frame, : 24 - len(short)]).all()


def test_200_ms_of_the_future_tell_of_an_arrival_in_time_and_40_ms_do_not(clips):
    f1 = {}
    for ahead in (2, 13):
        found = []
        for quats in clips:
            ends = ends_of(quats)
            speed = speed_of(ends)
            announced = foreseen(known_at(speed, cut_short(ends)), ahead)
            assert (announced.times - announced.decided >= LEAD_FRAMES).all()
            found.append(score_clip(announced, arrivals(speed), 400, LEAD_FRAMES)[0].f1)
        f1[ahead] = np.mean(found)
    assert f1[13] > 0.9
    assert f1[2] < 0.6
