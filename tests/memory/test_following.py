"""The bindings of the follower and of cues; what they do is tested in the core."""

import numpy as np
import pytest
from support.clips import LEFT_ARM, RIGHT_ARM, turning

from pyanticip import _core
from pyanticip.errors import OptionError, ShapeError
from pyanticip.memory.alignment import shared_moments
from pyanticip.memory.cues import Cue


@pytest.fixture(scope="module")
def take():
    """(500, 22, 4): ten seconds in which both arms swing in rhythms that do not meet."""
    time = np.arange(500) / 50.0
    pace = {LEFT_ARM: 1.7, RIGHT_ARM: 2.9}
    return turning({arm: 1.2 * np.sin(time * each) + 0.04 * time for arm, each in pace.items()})


def test_frame_by_frame_is_all_at_once_and_says_where_it_is(take):
    rows = _core.Follower([take[::-1], take]).push_many(take)
    follower = _core.Follower([take[::-1], take])
    np.testing.assert_array_equal(rows, np.concatenate([follower.push_many(frame[None]) for frame in take]))
    settled = rows[100:450]
    assert (settled[:, 0] == 1).all()
    assert np.abs(settled[:, 1] - np.arange(100, 450) / 50.0).max() < 0.04
    assert settled[:, 3].min() > 0.9


def test_every_second_pose_of_a_take_is_kept_and_takes_are_read_one_by_one(take):
    follower = _core.Follower(iter([take[:7], take]))
    for number, kept in enumerate((take[:7:2], take[::2])):
        poses = follower.poses(number)
        assert poses.dtype == np.int16
        assert poses.shape == kept.shape
        assert np.abs(poses / 32767.0 - kept).max() < 2e-5
    with pytest.raises(OptionError, match="there is no take 2"):
        follower.poses(2)


def test_a_cue_that_is_passed_is_said_in_the_next_pass():
    for start in np.linspace(5.0, 6.0, 20):
        cues = _core.Cues([(0, round(start, 2), 0.2)])
        cues.passed(0)
        straight = [(0, start + 0.02 * i, 1.0, 1.0) for i in range(-60, 60)]
        assert sum(len(cues.push(place)) for place in straight[60:]) == 0
        assert sum(len(cues.push(place)) for place in straight) == 1
    with pytest.raises(OptionError, match="passed: expected the index of a cue"):
        cues.passed(1)


def test_moments_of_takes_that_show_the_same_are_found(take):
    longer = np.concatenate([np.repeat(take[:1], 60, 0), take[:400], take[::-1][:100]])
    found = shared_moments(
        {"a": longer, "b": take[50:350], "c": take[::-1]}, [Cue(name="x", take="a", at=3.0)]
    )
    assert list(found) == [("a", "b")]
    assert np.interp(4.0, *found["a", "b"]) == pytest.approx(4.0 - 1.2 - 1.0, abs=0.06)


@pytest.mark.parametrize("takes", [[], [np.zeros((0, 22, 4))], [np.zeros((5, 21, 4))], ["no take"]])
def test_what_is_no_take_is_refused(takes):
    with pytest.raises(ShapeError):
        _core.Follower(takes)


@pytest.mark.parametrize("cue", [(0, -1.0, 0.2), (0, np.nan, 0.2), (0, 1.0, 3.0)])
def test_what_is_no_time_is_refused(cue):
    with pytest.raises(OptionError, match="expected"):
        _core.Cues([cue])
    with pytest.raises(OptionError, match="also"):
        _core.Cues([], [(0, 1, 4.0)])
