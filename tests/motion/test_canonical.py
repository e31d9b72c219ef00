"""The canonical body, alone and against a reference implementation of its definition."""

import numpy as np
import pytest
from support.clips import walking_clip
from support.motion_files import write_bvh

import pyanticip as pa
from pyanticip.errors import SkeletonError
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton, mirror_order
from pyanticip.motion.rotations import angle_between, conjugate, multiply, rotate
from pyanticip.motion.skeleton import Skeleton


def test_resampling_keeps_the_length_and_the_path():
    clip = walking_clip(2.0)
    fifty = clip.resample(50.0)
    assert fifty.rate == 50.0
    assert len(fifty) == 100
    # 120 Hz frame 12 k is 50 Hz frame 5 k.
    assert np.degrees(angle_between(fifty.quats[::5], clip.quats[::12])).max() < 1e-3
    np.testing.assert_allclose(fifty.root[::5], clip.root[::12], atol=1e-6)
    assert clip.resample(120.0) is clip


def test_an_unknown_skeleton_is_refused(tmp_path):
    clip = pa.load_motion(write_bvh(tmp_path))
    with pytest.raises(SkeletonError) as caught:
        clip.retarget("humanoid")
    assert "\n" not in str(caught.value)
    with pytest.raises(SkeletonError, match="canonical"):
        clip.mirror()


def test_mirroring_reflects_every_position():
    clip = walking_clip(0.5)
    mirrored = clip.mirror()
    assert angle_between(clip.quats, mirrored.quats).max() > 0.1
    reflected = clip.positions()[:, mirror_order()] * np.array([-1.0, 1.0, 1.0], np.float32)
    np.testing.assert_allclose(mirrored.positions(), reflected, atol=1e-5)
    np.testing.assert_array_equal(mirrored.mirror().quats, clip.quats)
    np.testing.assert_array_equal(mirrored.mirror().root, clip.root)


def test_a_reading_that_lacks_joints_says_so_in_the_mask(data_dir):
    clip = pa.load_motion(data_dir / "cmu" / "05_02.bvh")
    body = clip.retarget("humanoid")
    assert body.quats.shape == (len(clip), 22, 4)
    assert body.skeleton.names == canonical_skeleton().names
    assert body.mask.shape == (22,)
    missing = ~body.mask
    assert np.array_equal(body.quats[:, missing], np.tile([1, 0, 0, 0], (len(clip), int(missing.sum()), 1)))
    assert body.mask.sum() >= 18
    assert (body.rate, body.name) == (clip.rate, clip.name)


def test_the_t_pose_of_a_file_is_close_to_the_canonical_one(data_dir):
    clip = pa.load_motion(data_dir / "cmu" / "05_02.bvh", keep_tpose=True)
    pose = clip[0:1].retarget("humanoid").quats[0]
    # The rest pose is that of the exact offsets; the T-pose in frame 0 was posed by hand, with drooping arms.
    assert np.degrees(angle_between(pose, np.array([1.0, 0.0, 0.0, 0.0]))).max() < 12.0


def test_canonical_names_on_a_body_that_rests_otherwise_are_retargeted(tmp_path):
    clip = walking_clip(0.5)
    body = clip.skeleton
    down = np.zeros(22)  # arms that hang 45 degrees down in the zero pose, as an editor may write them
    for side, sign in (("left", -1.0), ("right", 1.0)):
        first = body.index(f"{side}_upper_arm")
        down[first : first + 3] = sign * np.pi / 4.0
    turn = np.zeros((22, 4))
    turn[:, 0], turn[:, 3] = np.cos(down / 2.0), np.sin(down / 2.0)
    above = np.maximum(body.parents, 0)
    hanging = Skeleton(body.names, body.parents, rotate(turn[above], body.offsets.astype(np.float64)))
    # The same movement in the world, by local rotations between bones with another rest pose.
    quats = multiply(turn[above], multiply(clip.quats.astype(np.float64), conjugate(turn)))
    mask = np.arange(22) != 3
    quats[:, ~mask] = (1.0, 0.0, 0.0, 0.0)
    posed = pa.Clip(quats, clip.root, clip.rate, hanging, mask=mask)
    retargeted = posed.retarget("humanoid")
    np.testing.assert_allclose(retargeted.skeleton.offsets, body.offsets)
    np.testing.assert_array_equal(retargeted.mask, mask)
    assert np.degrees(angle_between(retargeted.quats[:, mask], clip.quats[:, mask])).max() < 0.1
    assert clip.retarget("humanoid") is clip
    save_bvh(clip, tmp_path / "own.bvh")  # offsets are rounded to the text's precision
    own = pa.load_motion(tmp_path / "own.bvh")
    assert own.retarget("humanoid") is own
