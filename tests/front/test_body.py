"""The bindings of the canonical body, retargeting, resampling and features."""

import numpy as np
import pytest

import pyanticip as pa
from pyanticip import _core
from pyanticip.errors import OptionError, ShapeError, SkeletonError


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


def test_the_canonical_body_is_stated():
    assert len(_core.CANONICAL_JOINTS) == len(_core.CANONICAL_PARENTS) == len(_core.CANONICAL_OFFSETS) == 22
    assert _core.CANONICAL_JOINTS[:2] == ("hips", "spine")
    assert _core.CANONICAL_PARENTS[0] == -1
    assert _core.CANONICAL_HIPS_HEIGHT > 0.9


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


def test_the_sources_of_each_joint_are_told():
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


def test_bad_skeletons_and_shapes_are_refused_in_one_line():
    names, parents, offsets = _core.standard_skeleton("humanoid")
    for error, call in [
        (SkeletonError, lambda: _core.Retargeter(["seat"], [-1], np.zeros((1, 3)))),
        (SkeletonError, lambda: _core.Retargeter(names, np.roll(parents, 1), offsets)),
        (ShapeError, lambda: _core.Retargeter(names, parents, offsets[:-1])),
        (OptionError, lambda: _core.Retargeter(names, parents, offsets, np.zeros((22, 4)))),
        (OptionError, lambda: _core.Retargeter(names, np.where(parents == 0, np.nan, parents), offsets)),
        (
            ShapeError,
            lambda: _core.Retargeter(names, parents, offsets).apply(np.ones((2, 5, 4)), np.ones((2, 3))),
        ),
        (
            OptionError,
            lambda: _core.Retargeter(names, parents, offsets).apply(np.zeros((1, 22, 4)), np.ones((1, 3))),
        ),
        (OptionError, lambda: _core.standard_skeleton("kinect")),
        (OptionError, lambda: _core.resample(np.ones((2, 3, 4)), np.ones((2, 3)), 0.0, 50.0)),
        (ShapeError, lambda: _core.motion_features(np.ones((2, 21, 4)), np.ones((2, 3)), np.ones(22))),
        (ShapeError, lambda: _core.motion_features("x", np.ones((2, 3)), np.ones(22))),
        (
            OptionError,
            lambda: _core.motion_features(np.ones((2, 22, 4)), np.ones((2, 3)), np.ones(22), window=3),
        ),
        (OptionError, lambda: _core.motion_features(np.ones((2, 22, 4)), np.ones((2, 3)), np.zeros(22))),
        (OptionError, lambda: _core.LiveFront("kinect")),
        (OptionError, lambda: _core.LiveFront("vmc", rate=60.0)),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert isinstance(caught.value, pa.MotionError)
        assert "\n" not in str(caught.value)


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


def test_features_know_the_past_only():
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
    bvh = pa.load_motion(data_dir / "cmu" / f"{take}.bvh").retarget("humanoid")
    amc = pa.load_motion(data_dir / "cmu" / f"{take}.amc").retarget("humanoid")
    assert bvh.mask.all()
    assert amc.mask.all()
    n = min(len(bvh), len(amc))
    assert n > 500
    # 0.02 degrees is what the files themselves differ by.
    assert np.degrees(angles(bvh.quats[-n:], amc.quats[-n:])).max() < 0.02
    assert np.abs(bvh.root[-n:] - amc.root[-n:]).max() < 1e-4


def test_the_features_of_real_dance_are_sane(data_dir):
    features = pa.load_motion(data_dir / "cmu" / "05_02.bvh").features()
    names = _core.FEATURE_NAMES
    assert np.isfinite(features).all()
    height = features[:, names.index("root.height")]
    assert height.min() > 0.5
    assert height.max() < 1.5
    speed = np.abs(features[:, [i for i, n in enumerate(names) if "velocity" in n]])
    assert np.median(speed) < 1.0
    assert speed.max() < 100.0
    assert features[:, [i for i, n in enumerate(names) if n.endswith("present")]].min() == 1.0
