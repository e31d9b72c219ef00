"""Real files: the same motion as AMC and as BVH, and clips of all subjects of the CMU selection."""

from itertools import groupby

import numpy as np
import pytest

import pyanticip as pa
from pyanticip.motion.rotations import angle_between

BVH_NAMES = {
    "root": "Hips",
    "lowerback": "LowerBack",
    "upperback": "Spine",
    "thorax": "Spine1",
    "lowerneck": "Neck",
    "upperneck": "Neck1",
    "head": "Head",
}
for _side, _Side, _S in (("l", "Left", "L"), ("r", "Right", "R")):
    BVH_NAMES |= {
        f"{_side}hipjoint": f"{_S}HipJoint",
        f"{_side}femur": f"{_Side}UpLeg",
        f"{_side}tibia": f"{_Side}Leg",
        f"{_side}foot": f"{_Side}Foot",
        f"{_side}toes": f"{_Side}ToeBase",
        f"{_side}clavicle": f"{_Side}Shoulder",
        f"{_side}humerus": f"{_Side}Arm",
        f"{_side}radius": f"{_Side}ForeArm",
        f"{_side}wrist": f"{_Side}Hand",
        f"{_side}hand": f"{_Side}FingerBase",
        f"{_side}fingers": f"{_Side}HandIndex1",
        f"{_side}thumb": f"{_S}Thumb",
    }


def load_pair(data_dir, name):
    """A clip from AMC and from BVH, with the joints in the order of the AMC's."""
    amc = pa.load_motion(data_dir / "cmu" / f"{name}.amc")
    bvh = pa.load_motion(data_dir / "cmu" / f"{name}.bvh", keep_tpose=True)
    joints = [bvh.skeleton.index(BVH_NAMES[joint]) for joint in amc.skeleton.names]
    return amc, bvh, joints


@pytest.mark.parametrize("name", ["05_01", "05_02", "05_06"])
def test_amc_frame_i_is_bvh_frame_i_plus_1(data_dir, name):
    amc, bvh, joints = load_pair(data_dir, name)
    assert len(bvh) == len(amc) + 1
    apart = angle_between(amc.global_rotations(), bvh.global_rotations()[1:, joints])
    assert apart.shape == (len(amc), 31)
    assert np.degrees(apart).max() < 0.02
    np.testing.assert_allclose(amc.root, bvh.root[1:], atol=1e-5)
    # The legs have the same parents in both; the BVH has no bones from thorax to neck and shoulders.
    legs = [amc.skeleton.index(joint) for joint in ("lfemur", "ltibia", "lfoot", "ltoes", "rfoot", "rtoes")]
    ours = amc.positions()[:, legs]
    theirs = bvh.positions()[1:, [joints[joint] for joint in legs]]
    assert np.abs(ours - theirs).max() < 1e-4


def test_another_fit_of_the_same_walk_agrees_roughly(data_dir):
    # The BVH of 02_01 was fitted separately to the markers: other bones, no T-pose, the same frames.
    amc, bvh, joints = load_pair(data_dir, "02_01")
    assert len(bvh) == len(amc) == 343
    assert bvh.warnings == ()
    apart = {
        shift: np.median(
            np.degrees(
                angle_between(
                    amc.global_rotations()[10:330],
                    bvh.global_rotations()[10 + shift : 330 + shift][:, joints],
                )
            )
        )
        for shift in (-8, 0, 8)
    }
    assert apart[0] < 5.0
    assert apart[0] < apart[-8]
    assert apart[0] < apart[8]
    assert np.abs(amc.root - bvh.root).max() < 0.12


@pytest.mark.slow
def test_clips_of_every_subject_load(data_dir):
    files = sorted(path for path in (data_dir / "cmu").iterdir() if path.suffix in (".bvh", ".amc"))
    assert len(files) == 225
    of_each = groupby(files, lambda path: path.name.partition("_")[0])
    for path in (path for _, clips in of_each for path in list(clips)[::7]):
        clip = pa.load_motion(path)
        assert clip.rate == 120.0
        assert clip.quats.shape == (len(clip), 31, 4)
        # Plausible for a person: hips to fingertips, and the hips' height even when climbing or jumping.
        assert 0.8 < clip.skeleton.reach() < 1.4, path
        assert np.median(clip.root[:, 1]) < 2.6, path
        steps = np.degrees(angle_between(clip.quats[1:2], clip.quats[:1])).max()
        assert steps < 60.0 or path.stem in ("02_06",), (path, steps)


@pytest.mark.slow
def test_a_tracking_jump_inside_a_clip_is_kept(data_dir):
    clip = pa.load_motion(data_dir / "cmu" / "03_02.amc")
    speed = np.linalg.norm(np.diff(clip.root, axis=0), axis=1) * clip.rate
    assert speed.max() == pytest.approx(13.7, abs=0.5)
