"""A file streamed as each protocol gives the live front-end the same motion."""

import numpy as np
import pytest
from support.body_files import walking_clip
from support.odd_rigs import about, local_axes, turned_world, walker

import pyanticip as pa
from pyanticip import _core
from pyanticip.motion.bvh_write import save_bvh
from pyanticip.motion.datagrams import PROTOCOLS, datagrams
from pyanticip.motion.rotations import angle_between


def through_the_front(protocol, stream):
    """Canonical rotations that the live front-end makes of datagrams that arrive when they were sent."""
    front = _core.LiveFront(protocol)
    quats, roots = [], []
    for t_ns, datagram in stream:
        out = front.feed(datagram, t_ns)
        if out is not None:
            quats.append(out.quats)
            roots.append(out.root)
    return np.array(quats), np.array(roots), front.counters()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_sent_arrives_as_the_same_motion(protocol):
    clip = walking_clip(2.0)
    expected = clip.resample(50.0)
    quats, roots, counters = through_the_front(protocol, datagrams(clip, protocol))
    assert counters["malformed"] == counters["alien"] == counters["lost"] == 0
    assert abs(len(quats) - len(expected)) <= 1
    count = min(len(quats), len(expected))
    apart = np.degrees(angle_between(quats[:count], expected.quats[:count]))
    # VMC goes through 60 Hz on its way to 50 Hz, and live frames are joined by curves: a clip's slerp cuts
    # corners.
    assert apart.max() < {"vmc": 0.5, "msgpack": 0.02, "mocopi": 0.01}[protocol]
    np.testing.assert_allclose(roots[:count], expected.root[:count], atol=2e-3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rig_that_had_to_be_understood_is_streamed_right(tmp_path, protocol):
    """The rest pose that was found goes out with the skeleton: the receiver sees the same body."""
    odd = turned_world(local_axes(walker(), 2), about((1.0, 0.0, 0.0), 90.0))
    save_bvh(odd, tmp_path / "odd.bvh")
    clip = pa.load_motion(tmp_path / "odd.bvh")
    expected = clip.retarget("humanoid").resample(50.0)
    quats, _, _ = through_the_front(protocol, datagrams(clip, protocol))
    count = min(len(quats), len(expected))
    assert count > 190
    apart = np.degrees(angle_between(quats[:count], expected.quats[:count]))
    assert apart.max() < (1.5 if protocol == "vmc" else 0.1)


def test_the_canonical_clip_is_its_own_retargeting():
    clip = walking_clip(0.5)
    assert clip.retarget("humanoid") is clip
    features = clip.features()
    assert features.shape == (25, len(_core.FEATURE_NAMES)) == (25, 231)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    direct = clip.resample(50.0)
    np.testing.assert_array_equal(
        features, _core.motion_features(direct.quats, direct.root, direct.mask, window=256)
    )
