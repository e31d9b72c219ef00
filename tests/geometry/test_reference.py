"""The Rust core against the definition, evaluated slowly in NumPy."""

import itertools

import numpy as np
import pytest
from support import motions, reference

import pyanticip as pa

# Rounding in the sums and angles; a neighbour whose rounded distance flips would show as 1e-2.
TIGHT = 1e-10

POSES = {
    "swings": motions.swings(150, 5),
    "stop and go": motions.stop_and_go(150, 4, seed=1),
    "noise": motions.noise(110, 3, seed=2),
    "still": motions.still(110, 4, seed=3),
    "one joint": motions.swings(150, 1, seed=5),
    "nine joints": motions.swings(110, 9, seed=6),
}
VARIANTS = [
    {},
    {"window": 64, "k": 3, "stride": 3, "horizon": 4, "theiler": 2, "m": 2},
    {"window": 40, "horizon": 20, "theiler": 3},
    {"uncertainty": "vendi", "window": 50},
    {"stability": "max_jerk", "window": 50},
    {"stability": "max_jerk", "window": 40, "stride": 13},
    {"ema": 0.2, "stride": 1, "commitment": (0.2, 0.5, 0.3), "eps_v": 1e-3, "r0": 0.1},
]


@pytest.mark.parametrize(("name", "options"), motions.covering(POSES, VARIANTS), ids=str)
def test_poses(name, options):
    given = pa.pose_scalars(POSES[name], **options)
    np.testing.assert_allclose(given, reference.pose_scalars(POSES[name], **options), atol=TIGHT, rtol=0)


def test_whole_turns():
    # Means far from every state, angles through pi.
    q = motions.turning(120, 6, seed=4)
    np.testing.assert_allclose(pa.pose_scalars(q), reference.pose_scalars(q), atol=1e-8, rtol=0)


HARD = {name: x for name, x in motions.hard().items() if name != "missing"}


@pytest.mark.parametrize(("name", "options"), motions.covering(HARD, [*VARIANTS, {"window": None}]), ids=str)
def test_vectors(name, options):
    given = pa.vector_scalars(HARD[name], **options)
    # NumPy's plain mean of a window of 1e3 +- 1, or of 1e60, is itself no better than this.
    tolerance = TIGHT if name in motions.table() else 1e-8
    np.testing.assert_allclose(given, reference.vector_scalars(HARD[name], **options), atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", motions.table())
def test_reference_values(name):
    x, expected, tolerance = motions.table()[name]
    given = pa.vector_scalars(x)[100:].mean(axis=0)
    np.testing.assert_allclose(given, expected, atol=tolerance, rtol=0)


def test_weights_and_mask():
    q = motions.swings(120, 5, seed=7)
    w = np.array([1.0, 0.0, 2.0, 0.5, 1.0])
    expected = reference.pose_scalars(q, weights=w)
    np.testing.assert_allclose(pa.pose_scalars(q, weights=w), expected, atol=TIGHT, rtol=0)
    masked = pa.pose_scalars(q, weights=[1, 7, 2, 0.5, 1], mask=[True, False, True, True, True])
    np.testing.assert_array_equal(masked, pa.pose_scalars(q, weights=w))
    broken = q.copy()
    broken[:, 1] = np.nan
    stream = pa.ScalarStream(5, weights=w)
    np.testing.assert_array_equal(stream.push_many(broken), masked)
    assert stream.missing == 0
    assert stream.valid


def test_joint_limits():
    q = motions.swings(80, 3, seed=8)
    limits = {
        "swing": [0.4, np.inf, 1.0],
        "twist": [0.5, 0.1, 0.3],
        "speed": [0.02, 0.05, np.inf],
        "axes": [[1, 0, 0], [0, 2, 0], [0.3, 0.3, 0.3]],
    }
    for weights in (None, np.array([1.0, 9.0, 2.0])):
        given = pa.pose_scalars(q, weights=weights, limits=pa.JointLimits(**limits))
        expected = reference.pose_scalars(q, weights=weights, limits=limits)
        np.testing.assert_allclose(given, expected, atol=TIGHT, rtol=0)
        assert np.ptp(given[:, 3]) > 0.1


def test_missing_joints_are_held():
    q = motions.swings(100, 4, seed=9)
    q[0, 1] = np.nan
    q[30:33, 0] = 0.0
    q[50, 2, 3] = np.inf
    np.testing.assert_allclose(pa.pose_scalars(q), reference.pose_scalars(q), atol=TIGHT, rtol=0)


def test_paper_profile():
    x = motions.walk(150, 3, seed=4)
    given = pa.vector_scalars(x, profile="paper")
    np.testing.assert_allclose(given, reference.paper_vector_scalars(x), atol=TIGHT, rtol=0)
    # It looks into the future: the same frames, another ending.
    assert np.abs(given[:100] - pa.vector_scalars(x[:100], profile="paper")).max() > 1e-3
    q = motions.swings(100, 3)
    poses = pa.pose_scalars(q, profile="paper")
    assert poses[3:, 6].min() == 0.0  # the largest jerk of all
    assert poses[:, 3].min() == 0.0  # the farthest state of all
    assert (poses[:18, 6] == 1.0).all()  # no jerk in the first three strides
    assert poses[18, 6] < 1.0
    steady = np.stack([np.cos(np.arange(200) / 8), np.sin(np.arange(200) / 8)], 1)
    assert np.abs(pa.vector_scalars(steady, profile="paper")[3:, 6]).max() < 1e-9  # zero on a circle


def test_dance(data_dir):
    path = data_dir / "cmu" / "05_02.bvh"
    if not path.is_file():
        pytest.skip(f"{path.name} is not there")
    clip = pa.load_motion(path)
    nearest = np.round(np.arange(0, len(clip.quats) - 1, clip.rate / 50.0)).astype(int)
    expected = [0.70, 0.29, 0.0, 0.35, 0.82, 0.22, 0.62]
    s = pa.pose_scalars(clip.quats[nearest], stride=1)[50:]
    np.testing.assert_allclose(np.median(s, axis=0), expected, atol=0.01, rtol=0)
    # Interpolated onto the grid it is a little smoother.
    s = pa.pose_scalars(clip.resample(50.0).quats, stride=1)[50:]
    np.testing.assert_allclose(np.median(s, axis=0), expected, atol=0.05, rtol=0)
    s = pa.pose_scalars(clip.quats[nearest])[50:]
    strided = [0.70, 0.29, -0.04, 0.36, 0.74, 0.22, 0.59]
    np.testing.assert_allclose(np.median(s, axis=0), strided, atol=0.01, rtol=0)
    assert (np.percentile(s, 95, axis=0) - np.percentile(s, 5, axis=0) > 0.1).all()


def test_varied_clips(data_dir):
    """The two largest takes of every performer, without their first second."""
    takes = {path.stem: path for path in sorted((data_dir / "cmu").glob("*_*.[ab][mv]*"))}
    if not takes:
        pytest.skip("cmu is not there")
    largest = sorted(takes.values(), key=lambda path: (path.stem[:2], -path.stat().st_size))
    grouped = itertools.groupby(largest, lambda path: path.stem[:2])
    chosen = [path for _, paths in grouped for path in itertools.islice(paths, 2)]
    clips = [pa.load_motion(path).retarget("humanoid").resample(50.0) for path in chosen]
    rows = np.concatenate([pa.pose_scalars(clip.quats)[50:] for clip in clips])
    found = np.percentile(rows[:, [4, 6, 2]], [5, 50, 95], axis=0).T
    expected = [[0.29, 0.72, 0.94], [0.32, 0.59, 0.81], [-0.84, -0.01, 0.84]]
    np.testing.assert_allclose(found, expected, atol=0.06, rtol=0)
