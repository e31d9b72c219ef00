"""The live front end through its binding, and on real packets; its streams and faults: the crate's tests."""

import numpy as np
import pytest
from support.motions import datagrams

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


@pytest.mark.parametrize(("source", "numbered"), [("mocopi", 30), ("vmc", 0)])
def test_without_numbers_no_loss_can_be_told(source, numbered):
    front = _core.LiveFront(source)
    for i, datagram in enumerate(datagrams(source, 30)):
        front.feed(datagram, i * 20_000_000)
    assert set(front.counters()) == COUNTERS
    assert front.counters()["numbered"] == numbered


def test_the_real_packets_of_a_suit_stand_in_t_pose(data_dir):
    live = data_dir / "live" / "mocopi"
    front = _core.LiveFront("mocopi")
    assert front.feed((live / "sample_skdf.bin").read_bytes(), 0) is None
    out = front.feed((live / "sample_fram.bin").read_bytes(), 1)
    assert out.reset
    np.testing.assert_allclose(np.abs(out.poses[-1]), np.tile([1, 0, 0, 0], (22, 1)), atol=1e-6)
    np.testing.assert_allclose(out.root[1], 0.9329, atol=1e-3)
    batch = _core.motion_features(out.poses, out.root[None], front.mask)
    np.testing.assert_array_equal(out.features, batch)
    assert out.t_source_ns > 1_600_000_000_000_000_000
    assert front.skeleton[:2] == ["root", "torso_1"]
    # The same without the skeleton: a receiver may start between two of them.
    fresh = _core.LiveFront("mocopi").feed((live / "sample_fram.bin").read_bytes(), 1)
    np.testing.assert_array_equal(fresh.features, out.features)
