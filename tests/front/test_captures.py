"""Captures by another project's encoder through the live front end, checked against their manifests."""

import struct

import numpy as np
import pytest
from pythonosc.osc_packet import OscPacket
from support.stranger import packets

from pyanticip import _core
from pyanticip.errors import WireError

FRAME_NS = 20_000_000
LEFT_UPPER_ARM, RIGHT_UPPER_ARM, UPPER_CHEST = 7, 11, 3


@pytest.fixture
def capture(data_dir):
    folders = {"mocopi": "mocopi-60hz", "vmc": "vmc"}

    def read(kind, name):
        return packets(data_dir / "live" / folders[kind] / f"{name}.{kind}packets")

    return read


def play(kind, pairs):
    """The front end after the datagrams, and its outputs."""
    front = _core.LiveFront(kind, window=64)
    outs = [front.feed(datagram, t_ns) for t_ns, datagram in pairs]
    for out in (out for out in outs if out is not None):
        assert np.isfinite(out.features).all()
        assert np.isfinite(out.poses[-1]).all()
    return front, outs


def clean(front):
    counters = front.counters()
    return {counters[name] for name in ("malformed", "truncated", "alien")} == {0}


def elevation(quat, bone):
    """Elevation of a bone above the horizon, in radians."""
    w, x, y, z = quat
    turned = bone + 2 * np.cross([x, y, z], np.cross([x, y, z], bone) + w * bone)
    return np.arcsin(turned[1])


def unix_time(datagram):
    return struct.unpack_from("<d", datagram, datagram.index(b"uttm") + 4)[0]


def continued(pairs, frames, rate=60.0):
    """The capture, with its last frame repeated under the next numbers and times."""
    t_ns, last = pairs[-1]
    more = []
    for i in range(1, frames + 1):
        data = bytearray(last)
        for name, code, step in (("fnum", "<I", i), ("time", "<f", i / rate), ("uttm", "<d", i / rate)):
            at = last.index(name.encode()) + 4
            struct.pack_into(code, data, at, struct.unpack_from(code, last, at)[0] + step)
        more.append((t_ns + round(i * 1e9 / rate), bytes(data)))
    return [*pairs, *more]


@pytest.mark.parametrize("name", ["neutral-standing-60hz", "arms-lowered-60hz", "incomplete-frame-60hz"])
def test_mocopi_captures_decode_without_errors(capture, name):
    pairs = capture("mocopi", name)
    front, outs = play("mocopi", pairs)
    assert clean(front)
    assert front.counters()["frames"] == len(pairs) - 1
    assert outs[0] is None
    assert front.skeleton[:2] == ["root", "torso_1"]
    assert front.mask.all()


def test_a_neutral_mocopi_stands_in_t_pose_at_its_own_height(capture):
    pairs = capture("mocopi", "neutral-standing-60hz")
    (skeleton,) = _core.Decoder("mocopi").feed(pairs[0][1])
    _, outs = play("mocopi", pairs)
    for out in (out for out in outs if out is not None):
        assert out.valid
        np.testing.assert_allclose(np.abs(out.poses[-1]), np.tile([1, 0, 0, 0], (22, 1)), atol=1e-6)
        np.testing.assert_allclose(out.root, skeleton["offsets"][0], atol=1e-6)


def test_lowered_arms_are_lowered_by_85_degrees_on_both_sides(capture):
    pairs = capture("mocopi", "arms-lowered-60hz")
    _, outs = play("mocopi", pairs)
    last = next(out for out in reversed(outs) if out is not None)
    for joint, side in ((LEFT_UPPER_ARM, 1.0), (RIGHT_UPPER_ARM, -1.0)):
        along = elevation(last.poses[-1][joint], np.array([side, 0.0, 0.0]))
        assert np.degrees(along) == pytest.approx(-85, abs=0.1)
    others = np.delete(last.poses[-1], [LEFT_UPPER_ARM, RIGHT_UPPER_ARM], axis=0)
    np.testing.assert_allclose(np.abs(others), np.tile([1, 0, 0, 0], (20, 1)), atol=1e-6)
    heights = [out.root[1] for out in outs if out is not None]
    assert heights[0] > heights[-1]


def test_lost_and_doubled_mocopi_frames_are_counted(capture):
    front, outs = play("mocopi", capture("mocopi", "frame-loss-60hz")[:-1])
    assert clean(front)
    assert front.counters()["lost"] == 2
    assert front.counters()["doubled"] == 1
    assert outs[-1] is None
    assert front.counters()["resets"] == 1


@pytest.mark.parametrize("name", ["frame-loss-60hz", "session-restart-60hz"])
def test_a_restarted_sender_is_accepted_again(capture, name):
    pairs = continued(capture("mocopi", name), 60)
    front, outs = play("mocopi", pairs)
    assert clean(front)
    assert front.counters()["resets"] == 2
    assert sum(out.reset for out in outs if out is not None) == 2
    received = outs[-20:]
    assert sum(out is not None and out.valid for out in received) >= 15
    newest = next(out for out in reversed(received) if out is not None)
    assert newest.t_source_ns / 1e9 == pytest.approx(unix_time(pairs[-1][1]), abs=0.05)
    numbers = [out.seq for out in outs if out is not None]
    assert (np.diff(numbers) > 0).all()


@pytest.mark.parametrize("name", ["incomplete-frame-60hz", "refused-bones-60hz"])
def test_a_frame_with_three_unusable_bones_is_invalid_and_the_next_valid(capture, name):
    pairs = [pair for pair in capture("mocopi", name) if b"fram" in pair[1]]
    decoder = _core.Decoder("mocopi")
    assert [decoded["unusable"] for _, data in pairs for decoded in decoder.feed(data)] == [3, 0]
    front, outs = play("mocopi", continued(pairs, 5))
    assert clean(front)
    assert not outs[0].valid
    assert next(out for out in reversed(outs) if out is not None).valid


def test_unknown_chunks_are_skipped(capture):
    frame, rig = (datagram for _, datagram in capture("mocopi", "extended-form")[:2])
    read, body = (_core.Decoder("mocopi").feed(datagram)[0] for datagram in (frame, rig))
    assert (read["kind"], len(read["quats"]), read["unusable"]) == ("frame", 27, 0)
    assert len(body["names"]) == 11
    front, (out, *_) = play("mocopi", [(0, frame)])
    assert clean(front)
    assert out.valid


def test_a_skeleton_of_eleven_bones_in_the_middle_stops_nothing(capture):
    front, outs = play("mocopi", continued(capture("mocopi", "extended-form"), 60))
    assert front.counters()["truncated"] == front.counters()["alien"] == 0
    assert outs[0].valid


def test_malformed_containers_are_refused(capture):
    pairs = capture("mocopi", "malformed-container")
    front, outs = play("mocopi", pairs)
    assert outs == [None] * 5
    assert front.counters()["alien"] + front.counters()["truncated"] == 5
    for _, datagram in pairs:
        with pytest.raises(WireError):
            _core.Decoder("mocopi").feed(datagram)


def test_malformed_packets_are_never_a_valid_pose(capture):
    pairs = capture("mocopi", "malformed-packets")
    front, outs = play("mocopi", pairs)
    assert not any(out.valid for out in outs if out is not None)
    counters = front.counters()
    assert counters["packets"] == len(pairs) == 13
    assert counters["malformed"] + counters["truncated"] + counters["alien"] >= 7


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("neutral-standing-30hz", 5),
        ("arm-raise-30hz", 5),
        ("mixed-traffic-30hz", 3),
        ("extended-forms", 1),
        ("malformed-forms", 2),
    ],
)
def test_vmc_captures_give_every_frame_at_its_own_time(capture, name, frames):
    front, outs = play("vmc", capture("vmc", name))
    received = [out for out in outs if out is not None]
    # A datagram whose only bone is unreadable is not a frame.
    assert clean(front) or (name == "malformed-forms" and front.counters()["malformed"] == 1)
    assert front.counters()["frames"] == len(received) == frames
    assert all(out.valid for out in received)
    for out in received:
        assert out.t_source_ns - received[0].t_source_ns == pytest.approx(out.seq * FRAME_NS, abs=1000)
    assert received[-1].seq == int((frames - 1) * 50 / 30)
    np.testing.assert_allclose(received[0].root[1], 0.9, atol=1e-6)


def test_a_raised_arm_has_the_sender_s_elevation(capture):
    """Elevation of the upper arm in Unity's left-handed space, read by python-osc, compared to ours."""
    pairs = capture("vmc", "arm-raise-30hz")
    chain, theirs = {}, []
    for _, datagram in pairs:
        for _, message in OscPacket(datagram).messages:
            if message.address == "/VMC/Ext/Bone/Pos":
                name, _, _, _, x, y, z, w = message.params
                chain[name] = (w, x, y, z)
                assert name != "LeftUpperArm" or x == y == 0.0
        if b"/VMC/Ext/T" in datagram:
            turn = sum(
                2 * np.arctan2(chain[name][3], chain[name][0]) for name in ("LeftShoulder", "LeftUpperArm")
            )
            theirs.append(elevation([np.cos(turn / 2), 0, 0, np.sin(turn / 2)], np.array([-1.0, 0, 0])))
    front, outs = play("vmc", pairs)
    received = [out for out in outs if out is not None]
    arms = [out.poses[-1][[LEFT_UPPER_ARM - 1, LEFT_UPPER_ARM]] for out in received]
    turns = [(2 * np.arctan2(q[:, 3], q[:, 0])).sum() for q in arms]
    ours = [elevation([np.cos(t / 2), 0, 0, np.sin(t / 2)], np.array([1.0, 0, 0])) for t in turns]
    assert theirs[-1] > np.radians(45)
    # Frames are 33 ms apart, the grid's 20: frame 3 of the sender is number 5 of the grid.
    assert (received[0].seq, received[3].seq) == (0, 5)
    assert ours[3] == pytest.approx(theirs[3], abs=1e-3)
    assert ours == sorted(ours)
    assert not front.mask[UPPER_CHEST]


def test_a_vmc_sender_may_repeat_go_back_and_restart(capture):
    pairs = capture("vmc", "sender-restart-30hz")
    front, outs = play("vmc", pairs)
    assert clean(front)
    received = [out for out in outs[:7] if out is not None]
    assert [out.t_source_ns // 10_000_000 * 10 for out in received] == [30_000, 30_020, 30_060, 30_120]
    assert outs[4] is None
    assert outs[5] is None
    # It restarts at 0, and is accepted once it has continued for a while.
    t_ns, last = pairs[-1]
    at = last.index(b"/VMC/Ext/T\x00\x00,f\x00\x00") + 16
    start_s = struct.unpack_from(">f", last, at)[0]
    for i in range(1, 31):
        data = bytearray(last)
        struct.pack_into(">f", data, at, start_s + i / 30)
        outs.append(front.feed(bytes(data), t_ns + round(i * 1e9 / 30)))
    assert front.counters()["resets"] == 2
    assert sum(out is not None for out in outs[-10:]) == 10
    assert outs[-1].t_source_ns / 1e9 == pytest.approx(start_s + 1, abs=0.05)


def test_malformed_vmc_packets_are_survived(capture):
    pairs = capture("vmc", "malformed-packets")
    front, outs = play("vmc", pairs)
    assert outs == [None] * 10
    counters = front.counters()
    assert counters["packets"] == 10
    assert counters["truncated"] + counters["malformed"] + counters["alien"] >= 5


@pytest.mark.parametrize("name", ["neutral-standing-60hz", "arms-lowered-60hz"])
def test_60_hz_frames_are_placed_on_the_grid_at_their_times(capture, name):
    pairs = continued(capture("mocopi", name), 60)
    _, outs = play("mocopi", pairs)
    received = [out for out in outs if out is not None]
    for out in received:
        assert out.t_source_ns - received[0].t_source_ns == pytest.approx(out.seq * FRAME_NS, abs=2_000_000)
    assert received[-1].seq == pytest.approx((len(pairs) - 2) / 60 * 50, abs=2)
