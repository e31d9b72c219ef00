"""Rest poses from motion: hinge axes of limbs, and detection of T-poses."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from support.motions import posed
from support.odd_rigs import limb_errors, local_axes, walker

import pyanticip as pa
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rest import MotionSample, find_t_pose, hinge_axis, is_t_pose
from pyanticip.motion.rotations import angle_between, from_vectors, multiply
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.understand import understand

Array = NDArray[np.float64]
BODY = canonical_skeleton()
UPPER, LOWER, END = (BODY.index(f"left_{name}") for name in ("upper_arm", "lower_arm", "hand"))


def bending(degrees: Array, axes: Array, turned: Rotation) -> MotionSample:
    """An arm along x whose elbow bends about ``axes``, rotated as a whole by ``turned``."""
    frames = len(degrees)
    places = np.full((frames, 22, 3), np.nan)
    places[:, UPPER] = (5.0, 1.0, -2.0)
    places[:, LOWER] = places[:, UPPER] + turned.apply((0.3, 0.0, 0.0))
    fore = Rotation.from_rotvec(np.radians(degrees)[:, None] * axes).apply((0.25, 0.0, 0.0))
    places[:, END] = places[:, LOWER] + turned.apply(fore)
    turns = np.full((frames, 22, 4), np.nan)
    turns[:, UPPER] = turned.as_quat()[[3, 0, 1, 2]]
    turns[:, LOWER] = (1.0, 0.0, 0.0, 0.0)
    return MotionSample(np.zeros((frames, 22, 4), np.float32), places, turns)


TURNED = Rotation.from_rotvec((0.4, -1.2, 0.7))


@pytest.mark.parametrize("axis", [(0.0, -1.0, 0.0), (0.0, 0.6, 0.8)])
def test_a_limb_bends_about_an_axis_that_is_told_in_its_own_frame(axis: tuple[float, float, float]) -> None:
    sample = bending(np.linspace(0.0, 120.0, 50), np.array([axis]), TURNED)
    found = hinge_axis(sample, "left_upper_arm")
    assert found is not None
    np.testing.assert_allclose(found, axis, atol=1e-9)
    other = hinge_axis(sample, "left_upper_arm", of="left_lower_arm")
    assert other is not None
    np.testing.assert_allclose(other, TURNED.apply(axis), atol=1e-9)


@pytest.mark.parametrize(
    ("most", "times", "seen"), [(19.0, 100, False), (21.0, 5, True), (21.0, 4, False), (170.0, 4, False)]
)
def test_a_limb_that_hardly_ever_bends_shows_no_axis(most: float, times: int, seen: bool) -> None:
    degrees = np.where(np.arange(100) < times, most, 3.0)
    sample = bending(degrees, np.array([[0.0, 1.0, 0.0]]), TURNED)
    assert (hinge_axis(sample, "left_upper_arm") is not None) == seen


@pytest.mark.parametrize(("apart", "seen"), [(59.0, True), (61.0, False)])
def test_a_limb_that_bends_both_ways_shows_no_axis(apart: float, seen: bool) -> None:
    sides = np.radians(np.where(np.arange(40) % 2, apart, -apart))
    axes = np.stack([0.0 * sides, np.cos(sides), np.sin(sides)], -1)
    found = hinge_axis(bending(np.full(40, 60.0), axes, TURNED), "left_upper_arm")
    assert (found is not None) == seen


def lowered(degrees: float) -> NDArray[np.float32]:
    """Both arms lowered by an angle."""
    return posed({"left_upper_arm": (0, 0, -degrees), "right_upper_arm": (0, 0, degrees)})


def test_of_several_poses_the_one_most_like_a_t_pose_is_taken_if_any_is_within_25_degrees() -> None:
    assert is_t_pose(BODY)
    for degrees, wanted in ((0.0, True), (15.0, True), (60.0, False)):
        assert is_t_pose(BODY, lowered(degrees)) == wanted
    poses = np.stack([lowered(degrees) for degrees in (60.0, 12.0, 4.0, 9.0)])
    np.testing.assert_array_equal(find_t_pose(BODY, poses), poses[2])
    assert find_t_pose(BODY, poses[:1]) is None


def test_a_limb_of_two_bones_with_axes_of_their_own_is_straight_in_the_rest_pose(tmp_path) -> None:
    # As in Daz's figures (lShldrBend, lShldrTwist) and Rigify's (thigh.L, thigh.L.001).
    clip = walker()
    body, quats = clip.skeleton, clip.quats
    names, parents, offsets = list(body.names), body.parents.tolist(), body.offsets.copy()
    for limb, below in (("UpperArm", "LowerArm"), ("LowerLeg", "Foot")):
        for side in ("Left", "Right"):
            upper, lower = names.index(side + limb), names.index(side + below)
            names.insert(lower, f"{side}{limb}2")
            parents = [p + (p >= lower) for p in parents]
            parents.insert(lower, upper)
            parents[lower + 1] = lower
            offsets[lower] /= 2.0
            offsets = np.insert(offsets, lower, offsets[lower], axis=0)
            quats = np.insert(quats, lower, (1.0, 0.0, 0.0, 0.0), axis=1)
    ends = {names.index(body.names[joint]): tip for joint, tip in body.tips.items()}
    divided = pa.Clip(quats, clip.root, clip.rate, Skeleton(tuple(names), parents, offsets, tips=ends))
    for seed in range(3):
        save_bvh(local_axes(divided, seed), tmp_path / "clip.bvh")
        read = pa.load_motion(tmp_path / "clip.bvh")
        assert max(limb_errors(tmp_path / "clip.bvh", read.retarget("humanoid")).values()) < 1.0


def test_toes_with_axes_of_their_own_stand_as_the_performer_does(tmp_path) -> None:
    # As in Character Studio's Biped, whose bones point along x: an end's axes show in the stance alone.
    clip = walker()
    save_bvh(clip, tmp_path / "plain.bvh")
    toes = [joint for joint, name in enumerate(clip.skeleton.names) if name.lower().endswith("toes")]
    assert len(toes) == 2
    quats = clip.quats.copy()
    quats[:, toes] = multiply(quats[:, toes], from_vectors(np.radians((110.0, 0.0, 0.0))))
    save_bvh(replace(clip, quats=quats), tmp_path / "turned.bvh")
    plain, turned = (pa.load_motion(tmp_path / f"{name}.bvh") for name in ("plain", "turned"))
    warning = "feet or toes of the zero pose are turned: put right by how the performer stands"
    assert (plain.warnings, turned.warnings) == ((), (warning,))
    off = angle_between(turned.retarget("humanoid").quats, plain.retarget("humanoid").quats)
    assert np.degrees(off).max() < 15.0


DOG = {
    "Hips": ("", (0, 0, 0)),
    "Spine": ("Hips", (0, 6, 36)),
    "Head": ("Spine", (0, 15, 20)),
    "{}UpLeg": ("Hips", (7, -3, -3)),
    "{}Leg": ("{}UpLeg", (0, -22, -6)),
    "{}Foot": ("{}Leg", (0, -18, 4)),
    "{}Arm": ("Spine", (8, -20, 4)),
    "{}ForeArm": ("{}Arm", (0, -18, -1)),
    "{}Hand": ("{}ForeArm", (0, -12, 2)),
}


def test_an_animal_with_the_names_of_a_body_is_said():
    names, parents, offsets = [], [], []
    for side, sign in (("Left", 1), ("Right", -1)):
        for name, (parent, (x, y, z)) in DOG.items():
            if (own := name.format(side)) not in names:
                parents.append(names.index(parent.format(side)) if parent else -1)
                names.append(own)
                offsets.append((0.01 * sign * x, 0.01 * y, 0.01 * z))
    quats = np.tile(np.float32([1, 0, 0, 0]), (30, len(names), 1))
    root = np.tile(np.float32([0, 0.45, 0]), (30, 1))
    clip = understand(pa.Clip(quats, root, 30, Skeleton(tuple(names), parents, offsets)))
    assert [line for line in clip.warnings if "on all fours" in line]
    assert not understand(walker()).warnings
