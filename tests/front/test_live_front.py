"""The live front end through its binding, and on real packets; its streams and faults: the crate's tests."""

import numpy as np
import pytest
from support.motions import dance, datagrams

from pyanticip import _core

COUNTERS = {
    "packets",
    "frames",
    "numbered",
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
    # Without numbers no loss can be told.
    assert counters["numbered"] == (0 if source == "vmc" else 100)
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
