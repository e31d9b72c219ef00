"""The BVH writer, by reading back what it wrote."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.motion_files import write_amc, write_bvh

import pyanticip as pa
from pyanticip.motion.bvh_write import save_bvh
from pyanticip.motion.rotations import angle_between, from_euler, normalized, to_euler_zyx
from pyanticip.motion.skeleton import Skeleton


@pytest.mark.parametrize("write", [write_bvh, write_amc])
def test_what_is_written_is_read_back(tmp_path, write):
    clip = pa.load_motion(write(tmp_path), rate=120)
    path = tmp_path / "out.bvh"
    save_bvh(clip, path)
    back = pa.load_motion(path, units="cm")
    assert back.warnings == ()
    assert back.rate == 120.0
    assert back.skeleton.names == clip.skeleton.names
    np.testing.assert_array_equal(back.skeleton.parents, clip.skeleton.parents)
    np.testing.assert_allclose(back.skeleton.offsets[1:], clip.skeleton.offsets[1:], atol=1e-6)
    assert np.degrees(angle_between(back.quats, clip.quats)).max() < 1e-4
    np.testing.assert_allclose(back.root, clip.root, atol=1e-6)
    np.testing.assert_allclose(back.positions(), clip.positions(), atol=1e-5)


def test_joints_are_put_in_the_order_of_the_file(tmp_path):
    # Breadth first: both children of the root before the child of the first.
    clip = pa.load_motion(write_bvh(tmp_path))
    skeleton = clip.skeleton
    order = [0, 1, 3, 2, 4]
    parents = [-1, 0, 0, 1, 2]
    mixed = pa.Clip(
        clip.quats[:, order],
        clip.root,
        clip.rate,
        Skeleton(tuple(skeleton.names[j] for j in order), np.array(parents), skeleton.offsets[order]),
    )
    save_bvh(mixed, tmp_path / "out.bvh")
    back = pa.load_motion(tmp_path / "out.bvh", units="cm")
    assert back.skeleton.names == skeleton.names
    assert np.degrees(angle_between(back.quats, clip.quats)).max() < 1e-4


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    clip = pa.load_motion(write_bvh(tmp_path))
    path = tmp_path / "out.bvh"
    path.write_text("old")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save_bvh(clip, path)
    assert path.read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["clip.bvh", "out.bvh"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4))
def test_euler_angles_go_there_and_back(parts):
    if np.linalg.norm(parts) < 1e-3:
        parts = [1.0, 0.0, 0.0, 0.0]
    quat = normalized(np.array(parts))
    # Within 1.4e-6 rad of the poles yaw and roll are one.
    assert angle_between(from_euler(to_euler_zyx(quat), (2, 1, 0)), quat) < 3e-6


@pytest.mark.parametrize("pitch", [90.0, -90.0, 90.0 - 1e-7])
def test_euler_angles_at_the_poles(pitch):
    quat = from_euler(np.radians([30.0, pitch, -50.0]), (2, 1, 0))
    assert angle_between(from_euler(to_euler_zyx(quat), (2, 1, 0)), quat) < 1e-6
