"""Detection of a T-pose in the first frame, and of the motion's start."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.motions import posed

from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.tpose import MAX_LEAD_IN, has_t_shape, lead_in

BODY = canonical_skeleton()


POSES: dict[str, tuple[bool, dict[str, Any]]] = {
    "as it is": (True, {}),
    "turned about the vertical": (True, {"hips": (0, 130, 0)}),
    "arms a little down": (True, {"left_upper_arm": (0, 0, -4), "right_upper_arm": (0, 0, 4)}),
    "arms lower": (False, {"left_upper_arm": (0, 0, -20), "right_upper_arm": (0, 0, 20)}),
    "one arm a little down": (True, {"left_upper_arm": (0, 0, -5)}),
    "legs a little ahead": (True, {f"{s}_upper_leg": (-15, 0, 0) for s in ("left", "right")}),
    "legs ahead": (False, {f"{s}_upper_leg": (-20, 0, 0) for s in ("left", "right")}),
    "one arm lower": (False, {"left_upper_arm": (0, 0, -25)}),
    "arms hang": (False, {"left_upper_arm": (0, 0, -80), "right_upper_arm": (0, 0, 80)}),
    "arms up": (False, {"left_upper_arm": (0, 0, 60), "right_upper_arm": (0, 0, -60)}),
    "arms ahead": (False, {"left_upper_arm": (0, -80, 0), "right_upper_arm": (0, 80, 0)}),
    "elbows bent": (False, {"left_lower_arm": (0, -75, 0), "right_lower_arm": (0, 75, 0)}),
    "sitting": (False, {f"{s}_upper_leg": (-90, 0, 0) for s in ("left", "right")}),
    "kneeling": (False, {f"{s}_lower_leg": (90, 0, 0) for s in ("left", "right")}),
    "on the head": (False, {"hips": (180, 0, 0)}),
    "lying": (False, {"hips": (-90, 0, 0)}),
}


@pytest.mark.parametrize("pose", POSES)
def test_a_t_pose_is_known_by_its_shape(pose: str) -> None:
    expected, turns = POSES[pose]
    assert has_t_shape(BODY, posed(turns)) == expected
    large = Skeleton(BODY.names, BODY.parents, BODY.offsets * 100.0)
    assert has_t_shape(large, posed(turns)) == expected, "whatever the unit"


@pytest.mark.parametrize(("length", "expected"), [(0.35, False), (0.5, True), (1.7, True), (1.85, False)])
def test_nobody_is_half_as_tall_or_twice_as_tall_as_wide(length: float, expected: bool) -> None:
    offsets = np.array(BODY.offsets)
    offsets[14:] *= length
    assert has_t_shape(Skeleton(BODY.names, BODY.parents, offsets), posed({})) == expected


def test_a_body_without_height_or_without_width_is_in_none() -> None:
    for axis in range(3):
        flat = np.array(BODY.offsets)
        flat[:, axis] = 0.0
        assert has_t_shape(Skeleton(BODY.names, BODY.parents, flat), posed({})) == (axis == 2)


def motion(*degrees: float) -> NDArray[np.float32]:
    """Frames of a body with one knee bent by these angles."""
    return np.array([posed({"left_lower_leg": (d, 0, 0)} if d else {}) for d in degrees])


def test_the_motion_begins_where_it_jumps_away_from_the_first_frame() -> None:
    walk = [60.0 + frame for frame in range(30)]
    for lead in (1, 2, 7, MAX_LEAD_IN):
        assert lead_in(motion(*[0.0] * lead, *walk)) == lead
    assert lead_in(motion(*[0.0] * (MAX_LEAD_IN + 1), *walk)) == 0, "that is the performer's own"
    assert lead_in(motion(5.0, 5.0, 0.0, *walk)) == 3, "frames without any rotation are no motion"
    assert lead_in(motion(*range(0, 300, 3))) == 0, "it flows out of it"
    assert lead_in(motion(0.0, *[25.0 + 6.0 * n for n in range(30)])) == 1
    assert lead_in(motion(0.0, *[25.0 + 6.5 * n for n in range(20)])) == 0, "it moves as fast as it jumped"
    assert lead_in(motion(0.0, *[20.5 + 0.1 * n for n in range(30)])) == 1
    assert lead_in(motion(0.0, *[19.5 + 0.1 * n for n in range(30)])) == 0
    assert lead_in(motion(0.0, 60.0, 61.0)) == 1
    assert lead_in(motion(0.0, 60.0)) == lead_in(motion(0.0)) == lead_in(motion(*[0.0] * 40)) == 0
    # A single later jump, or one half a second later, does not affect the result.
    assert lead_in(motion(0.0, *walk[:5], *[100.0] * 20, *[100.0 + 30.0 * n for n in range(30)])) == 1
    assert lead_in(motion(5.0, 0.0, *walk, 180.0)) == 2
