"""The bindings of the canonical body, retargeting, resampling and features."""

import numpy as np
import pytest

import pyanticip as pa
from pyanticip import _core


def angles(a, b):
    """Angles in radians between quaternions (..., 4)."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    difference = np.minimum(np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1))
    return 4.0 * np.arcsin(np.clip(difference / 2.0, 0.0, 1.0))


def random_motion(frames, joints=22, seed=0):
    """A smooth motion (frames, joints, 4), (frames, 3)."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(1, joints, 4))
    drift = np.cumsum(0.05 * rng.normal(size=(frames, joints, 4)), axis=0)
    quats = base + drift
    quats /= np.linalg.norm(quats, axis=-1, keepdims=True)
    return quats.astype(np.float32), np.cumsum(0.01 * rng.normal(size=(frames, 3)), axis=0).astype(np.float32)


@pytest.mark.parametrize("target", ["mocopi", "vmc", "humanoid"])
def test_expanding_and_retargeting_returns(target):
    quats, root = random_motion(50)
    local, place = _core.expand(target, quats, root)
    names, parents, offsets = _core.standard_skeleton(target)
    assert local.shape == (50, len(names), 4)
    retargeter = _core.Retargeter(names, parents, offsets)
    assert retargeter.mask.all()
    back, hips = retargeter.apply(local, place)
    assert back.dtype == hips.dtype == np.float32
    assert angles(back, quats).max() < 2e-6
    np.testing.assert_allclose(hips, root, atol=1e-6)


def test_the_sources_of_each_joint_are_listed():
    names, parents, offsets = _core.standard_skeleton("mocopi")
    sources = _core.Retargeter(names, parents, offsets).sources
    assert sources[0] == ["root"]
    assert sources[1] + sources[2] + sources[3] == [f"torso_{i}" for i in range(1, 8)]
    assert _core.t_pose_deviation(names, parents, offsets) < _core.T_POSE_TOLERANCE


def test_a_rest_pose_is_where_the_canonical_body_stands():
    names, parents, offsets = _core.standard_skeleton("mocopi")
    pose, _ = random_motion(1, 27, seed=3)
    tilt = np.tile(np.array([1.0, 0, 0, 0], np.float32), (1, 27, 1))
    tilt[0, names.index("l_up_arm")] = [np.cos(0.1), 0, 0, np.sin(0.1)]
    out, _ = _core.Retargeter(names, parents, offsets, tilt[0]).apply(tilt, np.zeros((1, 3)))
    np.testing.assert_allclose(out[0], np.tile([1, 0, 0, 0], (22, 1)), atol=1e-6)
    assert np.isfinite(
        _core.Retargeter(names, parents, offsets, pose[0]).apply(pose, np.zeros((1, 3)))[0]
    ).all()


@pytest.mark.parametrize(("rate_in", "rate_out"), [(120.0, 50.0), (30.0, 50.0), (50.0, 50.0), (59.94, 50.0)])
def test_streamed_resampling_is_the_batch(rate_in, rate_out):
    quats, root = random_motion(200, 5, seed=1)
    batch_q, batch_r = _core.resample(quats, root, rate_in, rate_out)
    stream = _core.Resampler(5, rate_out)
    pieces = [stream.push(i / rate_in, quats[i], root[i]) for i in range(200)]
    np.testing.assert_array_equal(np.concatenate([p[0] for p in pieces]), batch_q)
    np.testing.assert_array_equal(np.concatenate([p[1] for p in pieces]), batch_r)
    assert len(batch_q) == int(np.floor(199 * rate_out / rate_in + 1e-3)) + 1
    if rate_in == rate_out:
        np.testing.assert_allclose(batch_q, quats, atol=1e-7)


def test_a_clip_without_joints_is_resampled() -> None:
    quats, root = _core.resample(np.zeros((5, 0, 4)), np.zeros((5, 3)), 30.0, 50.0)
    assert (quats.shape, root.shape) == ((7, 0, 4), (7, 3))


def test_features_depend_on_the_past_only():
    quats, root = random_motion(200, seed=2)
    mask = np.ones(22, bool)
    full = _core.motion_features(quats, root, mask, window=64)
    assert full.shape == (200, 279)
    assert full.dtype == np.float32
    np.testing.assert_array_equal(_core.motion_features(quats[:120], root[:120], mask, window=64), full[:120])
    assert len(set(_core.FEATURE_NAMES)) == 279
    assert _core.FEATURES_VERSION == 3
    at = _core.FEATURE_NAMES.index("scalar.commitment")
    scalars = pa.pose_scalars(quats, window=64)
    np.testing.assert_allclose(full[:, at : at + 7], scalars, atol=1e-6)


@pytest.mark.parametrize("take", ["05_01", "05_02", "05_06"])
def test_bvh_and_amc_of_one_take_are_one_canonical_motion(data_dir, take):
    bvh, amc = (pa.load_motion(data_dir / "cmu" / f"{take}.{kind}") for kind in ("bvh", "amc"))
    assert "T-pose" in bvh.warnings[0], "dropped, so that they agree frame by frame"
    assert len(bvh) == len(amc) > 500
    np.testing.assert_allclose(amc.root, bvh.root, atol=1e-5)
    bvh, amc = bvh.retarget("humanoid"), amc.retarget("humanoid")
    assert bvh.mask.all()
    assert amc.mask.all()
    # 0.02 degrees is what the files themselves differ by.
    assert np.degrees(angles(bvh.quats, amc.quats)).max() < 0.02
    assert np.abs(bvh.root - amc.root).max() < 1e-4
