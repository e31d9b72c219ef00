"""Clips and skeletons: guarantees, slicing, computed values and errors."""

import copy
import pickle

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.motion_files import write_bvh

import pyanticip as pa
from pyanticip.errors import OptionError, ShapeError, SkeletonError
from pyanticip.motion.skeleton import Skeleton


@pytest.fixture
def clip(tmp_path):
    return pa.load_motion(write_bvh(tmp_path))


def chain(joints=3):
    return Skeleton(
        tuple(f"j{index}" for index in range(joints)),
        np.arange(-1, joints - 1, dtype=np.int32),
        np.tile(np.array([0.0, 1.0, 0.0], np.float32), (joints, 1)),
    )


def quats(frames, joints):
    rng = np.random.default_rng(5)
    values = rng.normal(size=(frames, joints, 4))
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(
    "shared",
    [np.asarray, memoryview, lambda x: x.view(np.recarray), lambda x: np.broadcast_to(x, x.shape)],
    ids=["itself", "buffer", "subclass", "read-only view"],
)
def test_arrays_are_read_only_and_copied(shared):
    given = quats(4, 3)
    clip = pa.Clip(shared(given), np.zeros((4, 3)), 50, chain())
    given[:] = 0.0
    assert np.abs(np.linalg.norm(clip.quats, axis=-1) - 1).max() < 1e-6
    skeleton = clip.skeleton
    for array in (clip.quats, clip.root, clip.mask, skeleton.offsets, skeleton.parents, clip.positions()):
        assert not array.flags.writeable
    assert pa.Clip(clip.quats, clip.root, 50, skeleton).quats is clip.quats
    assert np.shares_memory(clip[1:3].quats, clip.quats)
    with pytest.raises(AttributeError):
        clip.rate = 3.0


def test_positions_follow_the_chain_of_rotations():
    local = quats(6, 3)
    root = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    clip = pa.Clip(local, root, 50, chain())
    turn = [Rotation.from_quat(local[:, joint][:, [1, 2, 3, 0]]) for joint in range(3)]
    first = root + turn[0].apply([0, 1, 0])
    second = first + (turn[0] * turn[1]).apply([0, 1, 0])
    np.testing.assert_allclose(clip.positions(), np.stack((root, first, second), axis=1), atol=1e-5)
    last = Rotation.from_quat(clip.global_rotations()[:, 2][:, [1, 2, 3, 0]])
    assert ((turn[0] * turn[1] * turn[2]).inv() * last).magnitude().max() < 1e-5


def test_slices_and_seconds(clip):
    part = clip[2:5]
    assert (len(part), part.frames, part.duration) == (3, 3, pytest.approx(0.06))
    np.testing.assert_array_equal(part.quats, clip.quats[2:5])
    assert len(clip.seconds(0.02, 0.08)) == 3
    assert len(clip.seconds(0.02, np.inf)) == len(clip.seconds(0.02, 1e308)) == len(clip) - 1
    for wrong in (slice(0, 6, 2), 3):
        with pytest.raises(OptionError):
            clip[wrong]
    with pytest.raises(ShapeError):
        clip[3:3]
    with pytest.raises(OptionError):
        clip.seconds(1.0, 0.5)
    for part in ((10.0, 20.0), (0.021, 0.022)):
        with pytest.raises(OptionError, match=f"^no frame from {part[0]} to {part[1]} s: the clip has"):
            clip.seconds(*part)


def test_clips_travel_between_processes(clip):
    back = pickle.loads(pickle.dumps(clip))
    np.testing.assert_array_equal(back.quats, clip.quats)
    assert back.skeleton.names == clip.skeleton.names
    assert dict(back.skeleton.tips) == dict(clip.skeleton.tips)
    clip.positions()
    for made in (back, pickle.loads(pickle.dumps(clip)), copy.copy(clip), copy.deepcopy(clip)):
        assert (made.name, made.rate, made.source) == (clip.name, clip.rate, clip.source)
        for array in (made.quats, made.root, made.mask, made.positions()):
            assert not array.flags.writeable


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"quats": np.zeros((4, 2, 4))}, ShapeError, r"quats must have shape \(T, 3, 4\)"),
        ({"quats": [[1.0], [1.0, 0.0]]}, ShapeError, "quats: expected an array of numbers: .* inhomogeneous"),
        ({"quats": np.ma.array(quats(4, 3))}, ShapeError, "quats: got a masked array: fill what is"),
        ({"quats": quats(4, 3) + 0j}, ShapeError, "quats: expected an array of numbers, .* complex"),
        ({"root": np.full((4, 3), "1")}, ShapeError, "root: expected an array of numbers, .* <U1"),
        ({"quats": np.zeros((4, 3, 4))}, ShapeError, "frame 0 joint 'j0' is not"),
        ({"quats": np.full((4, 3, 4), np.nan)}, ShapeError, "unit quaternions"),
        ({"quats": np.zeros((0, 3, 4)), "root": np.zeros((0, 3))}, ShapeError, "T >= 1"),
        ({"root": np.zeros((3, 3))}, ShapeError, r"root must have shape \(4, 3\), got \(3, 3\)"),
        ({"root": np.full((4, 3), np.inf)}, ShapeError, "finite"),
        ({"rate": 0.0}, OptionError, "rate must be"),
        ({"rate": float("nan")}, OptionError, "rate must be"),
        ({"rate": "a"}, OptionError, "rate is a number of frames a second, got 'a'"),
        ({"rate": None}, OptionError, "rate is a number of frames a second, got None"),
        ({"mask": np.ones(2, bool)}, ShapeError, "mask"),
    ],
)
def test_wrong_clips_are_refused(change, error, reason):
    arrays = {"quats": quats(4, 3), "root": np.zeros((4, 3)), "rate": 50.0, "skeleton": chain()} | change
    with pytest.raises(error, match=reason):
        pa.Clip(**arrays)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"names": ("a", "b", "a")}, "'a' appears twice"),
        ({"names": ()}, "1 to 1024 joints"),
        ({"parents": [-1, 2, 1]}, "parent comes earlier|every other parent"),
        ({"parents": [0, 0, 1]}, "root"),
        ({"parents": [-1, 0]}, r"parents of 3 joints have shape \(3,\)"),
        ({"parents": [-1, 0, 2**40]}, "parents: expected whole numbers of 32 bits"),
        ({"offsets": np.full((3, 3), np.nan)}, "finite"),
        ({"rest": np.zeros((3, 4))}, "unit quaternions"),
        ({"tips": {7: (0, 0, 0)}}, "tips"),
    ],
)
def test_wrong_skeletons_are_refused(change, reason):
    parts = {"names": ("a", "b", "c"), "parents": [-1, 0, 1], "offsets": np.zeros((3, 3))} | change
    with pytest.raises((SkeletonError, ShapeError), match=reason):
        Skeleton(**parts)


def test_a_missing_joint_is_named(clip):
    assert clip.skeleton.index("Spine") == 3
    with pytest.raises(SkeletonError, match="no joint 'Tail'; there are Hips"):
        clip.skeleton.index("Tail")


def test_unknown_units_bodies_and_windows_are_refused(tmp_path, clip):
    path = tmp_path / "clip.bvh"
    with pytest.raises(OptionError, match="units is one of"):
        pa.load_motion(path, units="feet")
    with pytest.raises(OptionError, match="metres per unit"):
        pa.load_motion(path, units=-1.0)
    with pytest.raises(OptionError, match="body is one of humanoid"):
        clip.retarget("dragon")
    assert pa.load_motion(path, units=0.02).skeleton.reach() == pytest.approx(2.5)
    for window in (-1, 0, 2.5, None, "a", 10**20):
        with pytest.raises(OptionError, match="option window: expected an integer of 32 to 16384 frames"):
            clip.features(window=window)
