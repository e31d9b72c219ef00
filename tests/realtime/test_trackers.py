"""Trackers become a body: VRChat's, by SlimeVR's arithmetic for a right-handed body, and OptiTrack's."""

import math
import struct

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support import wire

from pyanticip import _core
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from pyanticip.motion.rotations import angle_between, multiply
from pyanticip.vocabulary import CANONICAL_JOINTS
from realtime.monitor.suit import Suit
from realtime.programs.demo import PERFORMANCE
from realtime.seams import SOURCES
from training.tasks.completion.fit import global_rotations
from training.teacher.kinematics import positions

# Tracker positions of SlimeVR's standing right-handed body, which faces -z with its left towards -x.
STANDING = {"1": (0.0, 0.95, 0.0), "2": (-0.09, 0.08, 0.0), "3": (0.09, 0.08, 0.0), "head": (0.0, 1.6, 0.0)}


def tracker_numbers(places: dict[str, tuple[float, ...]], turns: dict[str, Rotation], yaw: float = 0.0):
    """Addresses and numbers: z and the quaternion's x and y negated; then Euler angles YXZ in degrees."""
    about = Rotation.from_euler("y", yaw, degrees=True)
    for number, place in places.items():
        x, y, z = about.apply(place)
        yield f"/tracking/trackers/{number}/position", (x, y, -z)
        x, y, z, w = (about * turns.get(number, Rotation.identity())).as_quat()
        euler = Rotation.from_quat([-x, -y, z, w]).as_euler("YXZ", degrees=True)
        yield f"/tracking/trackers/{number}/rotation", (euler[1], euler[0], euler[2])


def bundle(*places, **words) -> bytes:
    return wire.bundle(
        *(wire.message(address, *values) for address, values in tracker_numbers(*places, **words))
    )


def world(datagrams: list[bytes]):
    """World rotations (22, 4) of the newest frame, which joints were measured, and the hip position."""
    front = _core.LiveFront("vrchat", window=64)
    out = None
    for n, datagram in enumerate(datagrams):
        out = front.feed(datagram, n * 20_000_000) or out
    assert front.counters()["malformed"] == 0
    found = np.array(out.poses[-1], np.float64)
    for joint, parent in enumerate(_core.CANONICAL_PARENTS):
        if parent >= 0:
            found[joint] = multiply(found[parent], found[joint])
    return found, front.confidence == 1.0, out.root


def joint(name: str) -> int:
    return CANONICAL_JOINTS.index(name)


@pytest.mark.parametrize("yaw", [0.0, 130.0])
def test_a_bow_is_forward_for_any_heading(yaw: float) -> None:
    # Facing -z, a negative rotation about x bends forward.
    bow = {"head": Rotation.from_euler("x", -40.0, degrees=True)}
    sent = [bundle(STANDING, turns, yaw=yaw) for turns in ({}, {}, *(bow,) * 40)]
    found, measured, root = world(sent)
    assert (
        angle_between(found[joint("head")], [math.cos(math.radians(20)), math.sin(math.radians(20)), 0, 0])
        < 1e-3
    )
    assert root == pytest.approx([0.0, 0.95, 0.0], abs=1e-6)
    expected = {"hips", "head"} | {f"{s}_foot" for s in ("left", "right")}
    assert {CANONICAL_JOINTS[j] for j in np.flatnonzero(measured)} == expected


def test_other_numbers_than_slimevr_s_are_understood_by_where_the_trackers_are() -> None:
    knees = {"4": (-0.09, 0.5, -0.05), "5": (0.09, 0.5, -0.05)}
    arms = {"7": (-0.25, 1.0, 0.0), "8": (0.25, 1.0, 0.0)}
    places = STANDING | knees | {"6": (0.0, 1.3, 0.02)} | arms
    turn = {
        "4": Rotation.from_euler("x", 30.0, degrees=True),
        "8": Rotation.from_euler("z", 50.0, degrees=True),
    }
    # Hips, chest, feet, knees, elbows: the order of VRChat's documentation, which several senders follow;
    # and feet first, from below.
    for order in ("16234578", "23451678"):
        for yaw in (0.0, 100.0):
            number = {old: str(new) for new, old in enumerate(order, start=1)} | {"head": "head"}
            other = {number[old]: place for old, place in places.items()}
            turned = {number[old]: rotation for old, rotation in turn.items()}
            expected = world([bundle(places, turns, yaw=yaw) for turns in ({}, *(turn,) * 30)])
            found = world([bundle(other, turns, yaw=yaw) for turns in ({}, *(turned,) * 30)])
            np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
            np.testing.assert_array_equal(found[1], expected[1])


def test_steps_forward_and_sideways_have_the_right_axes() -> None:
    def after(x: float, z: float) -> list[float]:
        moved = {number: (place[0] + x, place[1], place[2] + z) for number, place in STANDING.items()}
        _, _, root = world([bundle(STANDING, {}), *(bundle(moved, {}),) * 40])
        return root.tolist()

    assert after(0.0, -0.7) == pytest.approx([0.0, 0.95, 0.7], abs=1e-6)
    assert after(-0.4, 0.0) == pytest.approx([0.4, 0.95, 0.0], abs=1e-6)


def test_a_raised_foot_bends_its_knee_forward() -> None:
    lifted = STANDING | {"2": (-0.09, 0.40, 0.0)}
    found, _, _ = world([bundle(place, {}) for place in (STANDING, STANDING, *(lifted,) * 40)])
    thigh, shin = found[joint("left_upper_leg")], found[joint("left_lower_leg")]
    # The thigh swings forward (about -x), the shin back; the other leg stays.
    assert thigh[1] / thigh[0] < -0.2
    assert shin[1] / shin[0] > 0.2
    for name in ("right_upper_leg", "right_lower_leg"):
        assert angle_between(found[joint(name)], [1.0, 0, 0, 0]) < 0.3


def test_separate_messages_make_the_frames_of_a_bundle() -> None:
    lifted = STANDING | {"2": (-0.09, 0.40, 0.0)}
    frames = (STANDING, STANDING, *(lifted,) * 40)
    alone = [
        wire.message(address, *values) for places in frames for address, values in tracker_numbers(places, {})
    ]
    decoder = _core.Decoder("vrchat")
    assert sum(len(decoder.feed(datagram)) for datagram in alone) in (41, 42)
    apart, _, _ = world(alone)
    together, _, _ = world([bundle(places, {}) for places in frames])
    legs = [joint(f"{s}_{part}") for s in ("left", "right") for part in ("upper_leg", "lower_leg", "foot")]
    # One frame more or less may come before.
    assert angle_between(apart[legs], together[legs]).max() < 0.02


@pytest.mark.parametrize("start", [0, 200])
def test_simulated_trackers_are_solved_like_the_body(start: int) -> None:
    clip = load_motion(PERFORMANCE).resample(50.0)[start:]
    encoded = SOURCES.load("vrchat")().encode(clip, rate=50.0, loop=False, unix_time=None)
    packets = [datagram for _, datagram in encoded][:300]
    assert {_core.recognise(packet) for packet in packets} == {"vrchat"}
    body = clip.retarget("humanoid").quats
    front, off = _core.LiveFront("vrchat", window=64), []
    for n, packet in enumerate(packets):
        out = front.feed(packet, n * 20_000_000)
        if out is not None and n > 1:
            off.append(angle_between(np.array(out.poses[-1], np.float64), body[n]))
    assert len(off) > 290
    median = np.degrees(np.median(off, axis=0))
    for name in ("hips", "left_upper_leg", "left_lower_leg", "right_foot"):
        assert median[joint(name)] < 1.0, name
    for name in ("left_upper_arm", "right_upper_arm"):  # upon shoulders that are estimated
        assert median[joint(name)] < 15.0, name


def motive(kind: int, body: bytes) -> bytes:
    """A message of NatNet 4.0, whose sections have no sizes."""
    return struct.pack("<HH", kind, len(body)) + body


def test_optitrack_rigid_bodies_make_a_body() -> None:
    # A person who faces +x with hanging hands; the wand is not part of the body.
    places = {
        "Waist": (0.0, 0.95, 0.0),
        "Head": (0.0, 1.56, 0.0),
        "LeftHand": (0.0, 0.9, -0.16),
        "Right Hand": (0.0, 0.9, 0.16),
        "foot.L": (0.0, 0.08, -0.09),
        "foot.R": (0.0, 0.08, 0.09),
        "wand": (2.0, 1.0, 2.0),
    }
    markers = struct.pack("<i", len(places)) + b"".join(
        struct.pack("<i", 1) + name.encode() + b"\0" + struct.pack("<ii3fi", n, -1, 0, 0, 0, 0)
        for n, name in enumerate(places)
    )

    def frame(number: int, reach: float) -> bytes:
        # The left hand moves forward and up.
        moved = places | {"LeftHand": (0.35 * reach, 0.9 + 0.4 * reach, -0.16)}
        rigid = b"".join(
            struct.pack("<i8fh", n, *place, 0.0, 0.0, 0.0, 1.0, 0.0, 1)
            for n, place in enumerate(moved.values())
        )
        sections = struct.pack("<3i", number, 0, 0) + struct.pack("<i", len(moved)) + rigid + bytes(16)
        return motive(7, sections + bytes(8) + struct.pack("<d", number / 50.0) + bytes(24 + 6))

    front, out = _core.LiveFront("natnet", window=64), None
    for n, packet in enumerate((motive(5, markers), *(frame(i, min(i / 50.0, 1.0)) for i in range(100)))):
        out = front.feed(packet, n * 20_000_000) or out
    assert front.counters()["malformed"] == 0
    expected = {"hips", "head"} | {
        f"{side}_{part}" for side in ("left", "right") for part in ("foot", "hand")
    }
    measured = np.flatnonzero(front.confidence == 1.0)
    assert {CANONICAL_JOINTS[j] for j in measured} == expected
    assert front.confidence.min() > 0.4
    pose = np.array(out.poses[-1], np.float64)
    bends = [angle_between(pose[joint(f"{side}_lower_arm")], [1.0, 0, 0, 0]) for side in ("left", "right")]
    assert bends[0] > math.radians(60) > bends[1]
    # She faces +x, so that is forward: no part of her body is rotated.
    assert angle_between(pose[0], [1.0, 0, 0, 0]) < 1e-3
    # A skeleton that comes later takes over, as if it had been there from the start.
    alone = _core.LiveFront("natnet", window=64)
    body = list(datagrams(load_motion(PERFORMANCE), "natnet"))[:100]
    for one, since in ((front, 3_000_000_000), (alone, 0)):
        for t_ns, packet in body:
            out = one.feed(packet, since + t_ns) or out
    assert front.confidence.tolist() == alone.confidence.tolist()


def test_hands_and_feet_are_at_their_trackers() -> None:
    clip = load_motion(PERFORMANCE).resample(50.0).retarget("humanoid")
    names = ["hips", "head", "left_hand", "right_hand", "left_foot", "right_foot"]
    joints = [joint(name) for name in names]
    # Mounted in a T-pose.
    quats = np.concatenate([np.tile([1.0, 0, 0, 0], (1, 22, 1)), clip.quats[:400]])
    rotations, places = global_rotations(quats), positions(quats, upright=True)
    tracked = _core.solve_trackers(names, rotations[:, joints], places[:, joints])
    assert {CANONICAL_JOINTS[j] for j in np.flatnonzero(tracked[1])} == set(names)
    completed, confidence = _core.complete_body(*tracked)
    apart = np.linalg.norm(from_hips(completed) - from_hips(quats), axis=-1)[50:]
    assert np.median(apart[:, joints[1:]], axis=0) == pytest.approx(0.0, abs=0.05)
    # With rotations only, the position is unknown.
    turned, _ = _core.complete_body(tracked[0], np.isin(np.arange(22), joints))
    before = np.linalg.norm(from_hips(turned) - from_hips(quats), axis=-1)[50:]
    assert np.median(before[:, joints[2:]]) > 2.0 * np.median(apart[:, joints[2:]])
    assert (confidence[50:, tracked[2]] < 1.0).all()


def from_hips(quats: np.ndarray) -> np.ndarray:
    places = positions(np.asarray(quats, np.float64), upright=True)
    return places - places[:, :1]


def test_the_monitor_shows_where_the_trackers_are() -> None:
    suit = Suit("vrchat")
    suit.decode([("somebody", bundle(STANDING, {}))] * 2)
    body = suit.body
    assert body["parents"] == [-1] * 4
    assert sorted(body["places"]) == sorted([x, y, z] for x, y, z in STANDING.values())
