"""A clip as datagrams, decoded by the decoders and by the live front-end to the same motion."""

import itertools
import struct

import numpy as np
import pytest
from support.clips import walking_clip
from support.odd_rigs import about, local_axes, turned_world, walker

import pyanticip as pa
from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.datagrams import PROTOCOLS, at_speed, datagrams
from pyanticip.motion.rotations import angle_between


def received(protocol, stream):
    """Canonical rotations (T, 22, 4) and root (T, 3) decoded from datagrams."""
    quats, roots, names, parents, offsets = [], [], None, None, None
    if protocol == "vmc":
        names, parents = _core.VMC_BONES, _core.VMC_PARENTS
    decoder = _core.Decoder(protocol)
    for _, datagram in stream:
        (update,) = decoder.feed(datagram)
        if protocol == "vmc":
            order = np.argsort(update["ids"])
            update = {**update, "quats": update["quats"][order], "positions": update["positions"][order]}
            offsets = update["positions"]
        elif update["kind"] == "skeleton":
            names = update["names"] or _core.MOCOPI_BONES
            parents, offsets = update["parents"], update["offsets"]
            continue
        assert update["unusable"] == 0
        assert len(update["quats"]) == len(names)
        quats.append(update["quats"])
        roots.append(update["positions"][0])
    return _core.Retargeter(list(names), parents, offsets).apply(np.array(quats), np.array(roots))


@pytest.mark.parametrize(("protocol", "own"), [("mocopi", 50.0), ("vmc", 60.0), ("msgpack", 120.0)])
@pytest.mark.parametrize("rate", [None, 1.0, 23.976, 60.0, 1000.0])
def test_any_rate_is_the_same_motion_at_that_pace(protocol, own, rate):
    """The default rate is the protocol's; msgpack has none and keeps the clip's."""
    clip = walking_clip(2.0)
    expected = clip.resample(rate or own)
    same_motion(protocol, datagrams(clip, protocol, rate=rate), expected)
    times = sorted({t_ns for t_ns, _ in datagrams(clip, protocol, rate=rate)})
    np.testing.assert_allclose(times, np.arange(len(expected)) * 1e9 / (rate or own), atol=1.0)


def same_motion(protocol, stream, expected):
    quats, roots = received(protocol, stream)
    assert quats.shape == expected.quats.shape
    assert np.degrees(angle_between(quats, expected.quats)).max() < 0.01
    np.testing.assert_allclose(roots, expected.root, atol=1e-5)


def test_the_skeleton_comes_first_and_again():
    stream = list(datagrams(walking_clip(6.0), "mocopi"))
    skeletons = [(t_ns, datagram) for t_ns, datagram in stream if b"skdf" in datagram]
    assert [t_ns for t_ns, _ in skeletons] == [0, 2_500_000_000, 5_000_000_000]
    assert stream[0] == skeletons[0]
    assert len({datagram for _, datagram in skeletons}) == 1
    assert len(stream) == 303


def test_mocopi_datagrams_are_laid_out_as_the_real_ones(data_dir):
    real = {
        kind: (data_dir / "live" / "mocopi" / f"sample_{kind}.bin").read_bytes() for kind in ("skdf", "fram")
    }
    ours = [datagram for _, datagram in datagrams(walking_clip(0.1), "mocopi", unix_time=1.7e9)][:2]
    for kind, datagram in zip(("skdf", "fram"), ours, strict=True):
        assert len(datagram) == len(real[kind])
        assert skeleton_of_fields(datagram) == skeleton_of_fields(real[kind])


def skeleton_of_fields(data):
    """Name, offset and length of every field of a datagram."""
    leaves = {"ftyp", "vrsn", "ipad", "rcvp", "bnid", "pbid", "tran", "fnum", "time", "uttm"}
    found, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        name = data[at + 4 : at + 8].decode()
        found.append((at, name, length))
        at += 8 + (length if name in leaves else 0)
    return found


def test_a_mocopi_numbers_frames_and_tells_seconds_whatever_the_rate():
    """Parsed by hand, not by this project's decoder."""
    stream = datagrams(walking_clip(1.0), "mocopi", rate=60.0, unix_time=1.7e9, first_number=2**32 - 20)
    frames = [datagram for _, datagram in stream if b"fram" in datagram]
    fields = [
        [field(name, code, f) for f in frames]
        for name, code in (("fnum", "<I"), ("time", "<f"), ("uttm", "<d"))
    ]
    assert fields[0] == [(2**32 - 20 + i) % 2**32 for i in range(60)]
    np.testing.assert_allclose(fields[1], np.arange(60) / 60, atol=1e-6)
    np.testing.assert_allclose(fields[2], 1.7e9 + np.arange(60) / 60, atol=1e-6)


def field(name, code, datagram):
    at = datagram.index(name.encode()) + 4
    (value,) = struct.unpack_from(code, datagram, at)
    return value


@pytest.mark.parametrize(("rate", "speed"), [(None, 1.0), (24.0, 1.0), (60.0, 2.0), (None, 2.0)])
def test_a_msgpack_skeleton_declares_the_rate_of_its_frames(rate, speed):
    stream = list(datagrams(at_speed(walking_clip(1.0), speed), "msgpack", rate=rate))
    decoder = _core.Decoder("msgpack")
    updates = [update for _, datagram in stream for update in decoder.feed(datagram)]
    assert updates[0]["rate"] == (rate or 120.0 * speed)
    times = [frame["time"] for frame in updates if frame["kind"] == "frame"]
    np.testing.assert_allclose(np.diff(times), 1 / updates[0]["rate"], atol=1e-9)


def test_a_loop_goes_on_with_numbers_and_times():
    clip = walking_clip(0.5)
    stream = list(itertools.islice(datagrams(clip, "mocopi", loop=True), 80))
    frames = [(t_ns, datagram) for t_ns, datagram in stream if b"fram" in datagram]
    assert [t_ns for t_ns, _ in frames] == [index * 20_000_000 for index in range(len(frames))]
    numbers = [datagram[datagram.index(b"fnum") + 4 :][:4] for _, datagram in frames]
    assert [int.from_bytes(number, "little") for number in numbers] == list(range(len(frames)))
    bones = [datagram[datagram.index(b"btrs") :] for _, datagram in frames]
    assert bones[0] == bones[25]
    assert bones[0] != bones[24]


def test_a_faster_performer_takes_less_time():
    clip = walking_clip(1.0)
    assert at_speed(clip, 1.0) is clip
    assert at_speed(clip, 2.0).duration == pytest.approx(0.5)
    assert len([0 for _, d in datagrams(at_speed(clip, 2.0), "mocopi") if b"fram" in d]) == 25
    with pytest.raises(OptionError, match="speed must be"):
        at_speed(clip, 0.0)


def test_wrong_protocols_and_rates_are_refused():
    clip = walking_clip(0.1)
    with pytest.raises(
        OptionError, match="protocol is one of mocopi, vmc, xsens, rokoko, axis, natnet, msgpack"
    ):
        datagrams(clip, "kinect")
    for protocol, rate in itertools.product(PROTOCOLS, (-1.0, 0.0, 0.99, 1000.1, float("nan"))):
        with pytest.raises(OptionError, match="rate must be 1 to 1000 frames a second, got"):
            datagrams(clip, protocol, rate=rate)


def through_the_front(protocol, stream):
    """Canonical rotations from the live front-end, for datagrams that arrive when sent."""
    front = _core.LiveFront(protocol)
    quats, roots = [], []
    for t_ns, datagram in stream:
        out = front.feed(datagram, t_ns)
        if out is not None:
            quats.append(out.poses[-1])
            roots.append(out.root)
    return np.array(quats), np.array(roots), front.counters()


def same_joints(protocol):
    """Studio has two back bones for three, so neck and shoulders are compared. Axis lacks toes."""
    lacking = {"rokoko": (3, 4, 6, 10), "axis": (17, 21)}.get(protocol, ())
    return [j for j in range(22) if j not in lacking]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_sent_arrives_as_the_same_motion(protocol):
    clip = walking_clip(2.0)
    expected = clip.resample(50.0)
    quats, roots, counters = through_the_front(protocol, datagrams(clip, protocol))
    assert counters["malformed"] == counters["alien"] == counters["lost"] == 0
    assert abs(len(quats) - len(expected)) <= 1
    count = min(len(quats), len(expected))
    apart = np.degrees(angle_between(quats[:count], expected.quats[:count]))[..., same_joints(protocol)]
    # Others are resampled to 60 and then 50 Hz; live frames are interpolated by curves, a clip's by slerp.
    assert apart.max() < {"msgpack": 0.02, "mocopi": 0.01}.get(protocol, 0.5)
    np.testing.assert_allclose(roots[:count], expected.root[:count], atol=2e-3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rig_that_had_to_be_understood_is_streamed_right(tmp_path, protocol):
    """The rest pose that was found is sent with the skeleton, so that the receiver has the same body."""
    odd = turned_world(local_axes(walker(), 2), about((1.0, 0.0, 0.0), 90.0))
    save_bvh(odd, tmp_path / "odd.bvh")
    clip = pa.load_motion(tmp_path / "odd.bvh")
    expected = clip.retarget("humanoid").resample(50.0)
    quats, _, _ = through_the_front(protocol, datagrams(clip, protocol))
    count = min(len(quats), len(expected))
    assert count > 190
    apart = np.degrees(angle_between(quats[:count], expected.quats[:count]))[..., same_joints(protocol)]
    assert apart.max() < (0.1 if protocol in ("mocopi", "msgpack") else 1.5)


def test_the_canonical_clip_is_its_own_retargeting():
    clip = walking_clip(0.5)
    assert clip.retarget("humanoid") is clip
    features = clip.features()
    assert features.shape == (25, len(_core.FEATURE_NAMES)) == (25, 279)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    direct = clip.resample(50.0)
    np.testing.assert_array_equal(
        features, _core.motion_features(direct.quats, direct.root, direct.mask, window=256)
    )
