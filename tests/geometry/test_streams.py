"""The Python interface of the scalars: streams, batches, options and errors."""

import copy
import gc
import pickle
import threading
import time
import weakref

import numpy as np
import pytest
from support import motions
from support.core_arrays import SPOILS

import pyanticip as pa
from realtime.programs.demo import PERFORMANCE

FIRST = [0.0, 1.0, 0.0, 1.0, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pose_stream_is_the_batch(dtype):
    q = motions.swings(400, 7).astype(dtype)
    batch = pa.pose_scalars(q, window=64)
    stream = pa.ScalarStream(joints=7, window=64)
    pushed = np.array([stream.push(pose) for pose in q[:150]])
    np.testing.assert_array_equal(pushed, batch[:150])
    np.testing.assert_array_equal(stream.push_many(q[150:]), batch[150:])
    assert stream.frames == 400
    stream.reset()
    assert stream.push(q[9]).tolist() == FIRST
    assert batch.shape == (400, 7)
    assert batch.dtype == np.float64


def test_vector_stream_is_the_batch():
    x = np.random.default_rng(0).normal(size=(2, 3, 90, 4)).cumsum(axis=2)
    batch = pa.vector_scalars(x, window=32)
    assert batch.shape == (2, 3, 90, 7)
    stream = pa.VectorStream(dim=4, window=32)
    for i, j in np.ndindex(2, 3):
        stream.reset()
        np.testing.assert_array_equal(stream.push_many(x[i, j]), batch[i, j])
    whole = pa.VectorStream(4, window=None)
    np.testing.assert_array_equal(whole.push_many(x[0, 0]), pa.vector_scalars(x[0, 0], window=None))


def test_batches_of_poses():
    q = np.stack([motions.swings(60, 3, seed) for seed in range(4)])
    batch = pa.pose_scalars(q)
    for one, expected in zip(batch, q, strict=True):
        np.testing.assert_array_equal(one, pa.pose_scalars(expected))


def test_anything_that_is_an_array_of_numbers():
    q = motions.swings(40, 3)
    expected = pa.pose_scalars(q)
    np.testing.assert_array_equal(pa.pose_scalars(q.tolist()), expected)
    np.testing.assert_array_equal(pa.pose_scalars(np.asfortranarray(q)), expected)
    np.testing.assert_array_equal(pa.pose_scalars(SPOILS["askew"](q)), expected)
    np.testing.assert_array_equal(pa.pose_scalars(np.repeat(q, 2, axis=0)[::2]), expected)
    assert pa.ScalarStream(1).push([[1, 0, 0, 0]]).tolist() == FIRST
    assert pa.pose_scalars(np.empty((0, 3, 4))).shape == (0, 7)
    half = q.astype(np.float16)
    np.testing.assert_array_equal(pa.pose_scalars(half), pa.pose_scalars(half.astype(np.float32)))


def test_options_are_attributes():
    stream = pa.ScalarStream(joints=22, window=1500, k=5)
    assert (stream.joints, stream.window, stream.k, stream.horizon, stream.theiler) == (22, 1500, 5, 10, 12)
    assert (stream.stride, pa.ScalarStream(22, stride=3).stride) == (6, 3)
    assert stream.options["eps_v"] == 1e-4
    vectors = pa.VectorStream(dim=8, window=None)
    assert (vectors.dim, vectors.window, vectors.k, vectors.horizon, vectors.theiler) == (8, None, 8, 1, 1)
    assert vectors.stride == 1


def test_missing_and_valid():
    stream = pa.ScalarStream(joints=10, window=32)
    pose = motions.swings(1, 10)[0]
    broken = pose.copy()
    broken[4] = np.nan
    assert stream.valid
    stream.push_many(np.repeat(broken[None], 32, axis=0))
    assert stream.missing == 32
    assert stream.valid  # exactly a tenth
    broken[5] = 0.0
    stream.push(broken)
    assert not stream.valid
    stream.push_many(np.repeat(pose[None], 32, axis=0))
    assert stream.valid
    assert stream.missing == 34
    vectors = pa.VectorStream(dim=2)
    assert not np.isnan(vectors.push([np.nan, 1.0])).any()
    assert vectors.missing == 1
    assert not vectors.valid


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pa.ScalarStream(27).push(np.zeros((22, 4))), r"shape \(27, 4\), got \(22, 4\)"),
        (lambda: pa.ScalarStream(2).push(np.zeros(8)), r"shape \(2, 4\), got \(8,\)"),
        (lambda: pa.ScalarStream(2).push("pose"), r"quaternions, got an array of <U4"),
        (lambda: pa.ScalarStream(2).push([[1, 0], [1]]), r"quaternions, got list"),
        (lambda: pa.ScalarStream(1).push(np.zeros((1, 4), complex)), r"got an array of complex128"),
        (lambda: pa.ScalarStream(1).push(np.ma.zeros((1, 4))), r"got a masked array: .* with NaN first"),
        (lambda: pa.vector_scalars(np.ma.zeros((9, 2), np.float32)), r"vectors, got a masked array"),
        (lambda: pa.ScalarStream(2).push_many(np.zeros((5, 3, 4))), r"\(T, 2, 4\), got \(5, 3, 4\)"),
        (lambda: pa.VectorStream(3).push(np.zeros(4)), r"shape \(3,\), got \(4,\)"),
        (lambda: pa.VectorStream(3).push_many(np.zeros(3)), r"\(T, 3\), got \(3,\)"),
        (lambda: pa.pose_scalars(np.zeros((4, 3))), r"\(\.\.\., T, J, 4\), got \(4, 3\)"),
        (lambda: pa.pose_scalars([[1], [2, 3]]), r"\(\.\.\., T, J, 4\), got uneven rows"),
        (lambda: pa.vector_scalars(np.zeros(3)), r"\(\.\.\., T, d\), got \(3,\)"),
        (lambda: pa.ScalarStream(2, weights=[1.0]), r"weights: expected shape \(2,\), got \(1,\)"),
        (
            lambda: pa.ScalarStream(2, weights="ab"),
            r"weights: expected an array of numbers, got one of <U2",
        ),
        (lambda: pa.ScalarStream(2, weights=[1j, 1]), r"weights: expected .*, got one of complex"),
        (lambda: pa.ScalarStream(2, mask=np.ma.ones(2)), r"mask: got a masked array"),
        (
            lambda: pa.ScalarStream(2, limits=pa.JointLimits([1], [1, 1], [1, 1], [[1, 0, 0]] * 2)),
            r"limits.swing: expected shape \(2,\), got \(1,\)",
        ),
    ],
)
def test_shapes_are_refused(call, message):
    with pytest.raises(pa.ShapeError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, pa.MotionError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pa.ScalarStream(2, limits=3), "option limits: expected JointLimits, got 3"),
        (lambda: pa.ScalarStream(0), "option joints: expected an integer of 1 to 1024, got 0"),
        (lambda: pa.VectorStream(8, k=10**30), "option k: .* integer of 2 to 1024 neighbours, got 1000"),
        (lambda: pa.ScalarStream(10**9), "option joints: expected 1 to 1024, got 1000000000"),
        (lambda: pa.VectorStream(10**12), "option dim: expected 1 to 65536, got 1000000000000"),
        (lambda: pa.ScalarStream(1024, window=16_384), "option window: expected at most 4096 frames of 1024"),
        (lambda: pa.ScalarStream(2, window=16), "option window: expected 32 to 16384 frames, got 16"),
        (lambda: pa.ScalarStream(2, window=None), "option window: expected 32 to 16384 frames for poses"),
        (lambda: pa.ScalarStream(2, window=0), "option window: .* integer of 32 to 16384 frames, got 0"),
        (lambda: pa.ScalarStream(2, window=64.5), "option window: expected an integer"),
        (lambda: pa.ScalarStream(2, k=1), "option k: expected 2 to 1024 neighbours, got 1"),
        (lambda: pa.ScalarStream(2, stride=0), "option stride: .* integer of at least 1, .*, got 0"),
        (
            lambda: pa.ScalarStream(2, window=32, stride=11),
            "option stride: expected 1 to 10 frames, three strides inside the window, got 11",
        ),
        (
            lambda: pa.ScalarStream(2, theiler=-3),
            "option theiler: expected an integer of at least 1, inside the window, got -3",
        ),
        (
            lambda: pa.ScalarStream(2, theiler=256),
            "option theiler: expected 1 to 255 frames, inside the window",
        ),
        (
            lambda: pa.ScalarStream(2, horizon=256),
            "option horizon: expected 1 to 255 frames, inside the window",
        ),
        (lambda: pa.ScalarStream(2, r0=float("nan")), "option r0: expected 1e-100 to 1e100, got NaN"),
        (
            lambda: pa.VectorStream(65_536, window=None, stride=1 << 18),
            "option stride: expected at most 128 frames of 65536 numbers, got 262144",
        ),
        (
            lambda: pa.VectorStream(65_536, window=None, m=1 << 19),
            "option m: expected at most 256 frames of 65536 numbers, got 524288",
        ),
        (
            lambda: pa.ScalarStream(2, limits=pa.JointLimits([1, 1], [1, 2], [1, 3], [[0, 1, 0], [0, 0, 0]])),
            "option limits: expected an axis with a direction and limits above 0,"
            r" got joint 1: axis \[0.0, 0.0, 0.0\], swing 1, twist 2, speed 3",
        ),
        (lambda: pa.ScalarStream(2, commitment=(1, 1)), "option commitment: expected three weights, got 2"),
        (lambda: pa.ScalarStream(2, commitment=(1, 1, 1)), "option commitment: .*sum to 1"),
        (lambda: pa.ScalarStream(2, commitment=(1, 1, -1)), "option commitment: .*at least 0"),
        (
            lambda: pa.ScalarStream(2, ema=2.0),
            "option ema: expected a weight above 0 and at most 1, got 2.0",
        ),
        (lambda: pa.ScalarStream(2, uncertainty="entropy"), 'option uncertainty: .*"vendi", got "entropy"'),
        (
            lambda: pa.ScalarStream(2, m=256),
            "option m: expected 1 to 255 frames, inside the window, got 256",
        ),
        (lambda: pa.VectorStream(2, window=None, m=1 << 20), "option m: expected 1 to 1048575 frames"),
        (lambda: pa.ScalarStream(2, eps_v="x"), "option eps_v: expected a number, got 'x'"),
        (
            lambda: pa.ScalarStream(2, commitment=None),
            "option commitment: expected three weights, got None",
        ),
        (lambda: pa.ScalarStream(2, stability="jerk"), 'option stability: .*"max_jerk", got "jerk"'),
        (lambda: pa.ScalarStream(2, mask=[False, False]), "option weights: .*not all 0, got only 0"),
        (lambda: pa.ScalarStream(2, weights=[1, np.nan]), "option weights: .*, got nan of joint 1"),
        (lambda: pa.ScalarStream(2, profile="paper"), "always 'causal', got 'paper' .*future"),
        (
            lambda: pa.pose_scalars(np.zeros((3, 2, 4)), profile="papers"),
            "'causal' or 'paper', got 'papers'",
        ),
        (lambda: pa.VectorStream(dim=True), "option dim: expected an integer"),
    ],
)
def test_options_are_refused(call, message):
    with pytest.raises(pa.OptionError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("stream", [pa.ScalarStream(2), pa.VectorStream(2)])
def test_streams_are_not_copied(way, stream):
    with pytest.raises(TypeError, match=r"a (Scalar|Vector)Stream cannot be copied or pickled: make another"):
        way(stream)


def test_streams_can_be_keys_of_weak_dictionaries():
    stream = pa.ScalarStream(2)
    kept = weakref.WeakKeyDictionary({stream: "performer"})
    assert kept[stream] == "performer"
    del stream
    gc.collect()
    assert not kept


def test_a_refused_frame_changes_nothing():
    q = motions.swings(60, 3)
    stream = pa.ScalarStream(3)
    stream.push_many(q[:30])
    with pytest.raises(pa.ShapeError):
        stream.push(q[:, 0])
    with pytest.raises(pa.ShapeError):
        stream.push_many(q[:, :2])
    np.testing.assert_array_equal(stream.push_many(q[30:]), pa.pose_scalars(q)[30:])


def test_batches_release_the_gil():
    q = np.random.default_rng(0).normal(size=(2000, 22, 4))
    ticks, done = [], threading.Event()

    def work():
        pa.pose_scalars(q, window=1500)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.001)
    thread.join()
    # With the GIL held this loop would run once before the batch and once after it.
    assert len(ticks) > 10


def test_lazy_names():
    assert callable(pa.load_motion)
    assert {"Clip", "load_motion", "ScalarStream"} <= set(dir(pa))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pa.nonsense


@pytest.mark.slow
def test_hundreds_of_thousands_of_frames_later():
    block = np.concatenate(
        [
            motions.swings(20_011, 2),
            motions.stop_and_go(10_007, 2, seed=1),
            motions.noise(1_003, 2, seed=2),
            motions.still(2_009, 2, seed=3),
        ]
    )
    stream = pa.ScalarStream(joints=2)
    pushed = 0
    while pushed < 200_000:
        stream.push_many(block)
        pushed += len(block)
    # The last M + s frames afresh give the very bits of the stream, wherever it stopped.
    for stop in (1, 300, 21_000, len(block)):
        last = stream.push_many(block[:stop])[-1]
        fresh = pa.pose_scalars(np.concatenate([block, block[:stop]])[-262:])
        np.testing.assert_array_equal(last, fresh[-1])


@pytest.mark.slow
def test_vectors_a_million_frames_later():
    x = np.concatenate([motions.walk(50_000, 3), 1e6 + motions.walk(50_000, 3, seed=1), [[1e90, 0.0, -1e90]]])
    stream = pa.VectorStream(dim=3, window=32)
    for _ in range(10):
        stream.push_many(x)  # the jump of 1e90 at its end comes and goes ten times
    for stop in (1, 33, 40, 500, 20_000):
        last = stream.push_many(x[:stop])[-1]
        fresh = pa.vector_scalars(np.concatenate([x, x[:stop]])[-33:], window=32)
        np.testing.assert_allclose(last, fresh[-1], atol=1e-9, rtol=0)


def test_joint_limits_are_compared_and_hashed_as_the_same_object_or_not():
    """Comparing their arrays raised an error of NumPy's, and lists have no hash."""
    one, other = (pa.JointLimits([1.0, 1.0], [2.0, 2.0], [3.0, 3.0], np.eye(3)[:2]) for _ in range(2))
    assert one != other
    assert {one: 1, other: 2}[one] == 1


def test_a_clip_in_place_of_its_rotations_is_told_where_they_are():
    clip, says = pa.load_motion(PERFORMANCE), r"got Clip: a clip .* its rotations are the array clip\.quats"
    for call in (pa.pose_scalars, pa.vector_scalars, pa.ScalarStream(15).push_many):
        with pytest.raises(pa.ShapeError, match=says):
            call(clip)
