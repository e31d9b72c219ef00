"""The live front end through its binding: real packets, streams, faults."""

import numpy as np
import pytest
from support.motions import dance, datagrams

import pyanticip as pa
from pyanticip import _core

COUNTERS = {
    "packets",
    "frames",
    "emitted",
    "filled",
    "lost",
    "doubled",
    "reordered",
    "truncated",
    "malformed",
    "alien",
    "strange",
    "refused",
    "ignored",
    "resets",
}


@pytest.mark.parametrize("source", ["mocopi", "vmc", "msgpack"])
def test_what_leaves_is_the_motion_that_came_in(source):
    quats, root = dance(100)
    front = _core.LiveFront(source, window=64)
    outputs = [front.feed(d, i * 20_000_000) for i, d in enumerate(datagrams(source, 100))]
    for i, out in enumerate(outputs):
        assert out is not None
        assert (out.seq, out.reset, out.filled, out.valid) == (i, i == 0, 0, True)
        assert out.features.shape == (1, 279)
        assert out.features.dtype == np.float32
        assert np.abs(np.abs((out.poses[-1] * quats[i]).sum(-1)) - 1).max() < 1e-5
        np.testing.assert_allclose(out.root, root[i], atol=1e-5)
        assert len(out.stages_ns) == 3
        assert min(out.stages_ns) >= 0
        assert out.scalars.shape == (7,)
    batch = _core.motion_features(
        np.stack([o.poses[-1] for o in outputs]), np.stack([o.root for o in outputs]), front.mask, window=64
    )
    np.testing.assert_array_equal(np.concatenate([o.features for o in outputs]), batch)
    counters = front.counters()
    assert set(counters) == COUNTERS
    assert counters["emitted"] == counters["packets"] == 100
    assert front.mask.all()


def test_the_real_packets_of_a_suit_stand_in_t_pose(data_dir):
    live = data_dir / "live" / "mocopi"
    front = _core.LiveFront("mocopi")
    assert front.feed((live / "sample_skdf.bin").read_bytes(), 0) is None
    out = front.feed((live / "sample_fram.bin").read_bytes(), 1)
    assert out is not None
    assert out.reset
    np.testing.assert_allclose(np.abs(out.poses[-1]), np.tile([1, 0, 0, 0], (22, 1)), atol=1e-6)
    np.testing.assert_allclose(out.root[1], 0.9329, atol=1e-3)
    assert out.t_source_ns > 1_600_000_000_000_000_000
    assert front.skeleton[:2] == ["root", "torso_1"]
    # The same without the skeleton: a receiver may start between two of them.
    fresh = _core.LiveFront("mocopi").feed((live / "sample_fram.bin").read_bytes(), 1)
    np.testing.assert_array_equal(fresh.features, out.features)


@pytest.mark.parametrize("source", ["mocopi", "vmc", "msgpack"])
def test_a_dance_is_the_same_to_the_model_whatever_suit_sends_it(data_dir, source):
    clip = pa.load_motion(data_dir / "cmu" / "05_02.bvh").retarget("humanoid").resample(50.0)
    expected = clip.features()
    front = _core.LiveFront(source)
    sent = datagrams(source, len(clip), motion=(clip.quats, clip.root))
    features = np.concatenate([front.feed(d, 0).features for d in sent])
    assert features.shape == expected.shape
    # float32 on the wire: 1e-6 rad, 50 times that as a velocity; the scalars rank neighbours by distance.
    scalar = np.array([n.startswith("scalar.") for n in _core.FEATURE_NAMES])
    np.testing.assert_allclose(features[:, ~scalar], expected[:, ~scalar], atol=2e-4)
    assert np.median(np.abs(features[:, scalar] - expected[:, scalar])) < 1e-5


def test_a_gap_comes_filled_with_the_next_packet():
    sent = datagrams("mocopi", 40)
    front = _core.LiveFront("mocopi", window=64)
    for i in range(10):
        front.feed(sent[i], i * 20_000_000)
    # The frame that ends it waits for the one that tells how fast the movement is.
    assert front.feed(sent[15], 300_000_000) is None
    out = front.feed(sent[16], 320_000_000)
    assert out.features.shape == (7, 279)
    assert (out.filled, out.seq, out.reset) == (5, 16, False)
    assert front.counters()["lost"] == 5
    assert front.feed(sent[12], 330_000_000) is None
    assert front.counters()["reordered"] == 1


def test_a_reset_forgets_the_stream():
    sent = datagrams("mocopi", 20)
    front = _core.LiveFront("mocopi", window=64)
    first = [front.feed(d, 0).features for d in sent]
    front.reset()
    again = [front.feed(d, 0) for d in sent]
    assert again[0].reset
    np.testing.assert_array_equal(first, [o.features for o in again])
