"""Messages for the terminal about the suit."""

import json

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stranger import FRAMES
from support.wire import bundle
from support.wire import message as osc

from pyanticip import _core
from realtime.sources.arrivals import recognise, wrong_kind
from realtime.sources.watch import SourceWatch, listening, why_silent

HERE = ("127.0.0.1", 12351)


def messages_of(seen: list[tuple[float, dict[str, int]]]) -> list[str]:
    attendance = SourceWatch("mocopi", HERE, 0.0)
    return [line for now, counts in seen if (line := attendance.look(now, counts))]


def test_the_reason_for_missing_frames_is_explained() -> None:
    alien = {"packets": 120, "alien": 120, "frames": 0}
    assert why_silent("mocopi", HERE, 3.0, alien).startswith(
        "120 datagrams came to 127.0.0.1:12351, none of them"
    )
    message = why_silent("mocopi", HERE, 3.0, alien, b"MXTP02" + bytes(754))
    assert message.endswith("none of them a usable mocopi: this is xsens: use --source xsens://0.0.0.0:12351")
    assert "skeleton" in why_silent("mocopi", HERE, 3.0, {"packets": 120})
    assert why_silent("vmc", HERE, 3.0, {"packets": 1}).startswith("1 datagram of vmc came")
    lacking = {"vmc": "no bones (/VMC/Ext/Bone/Pos)", "vrchat": "no rotation", "rokoko": "no whole body"}
    lacking["natnet"] = "no skeleton is tracked in them and no rigid body named after"
    for kind, lacks in lacking.items():
        assert f"no frame: {lacks}" in why_silent(kind, HERE, 3.0, {"packets": 120})
    assert "0.0.0.0" not in why_silent("vmc", ("192.168.0.7", 39539), 3.0, {})
    # Motive needs no address if it multicasts or is asked.
    for message in (why_silent("natnet", ("0.0.0.0", 1511), 3.0, {}), listening("natnet", ("0.0.0.0", 1511))):
        assert "Multicast, or Unicast with `from` under [source]" in message
        assert "type into" not in message
    assert "type into its app" in listening("vmc", ("0.0.0.0", 39539))
    assert listening("vmc", HERE) == "listening for vmc at 127.0.0.1:12351"


def test_a_suit_with_too_few_segments_is_reported_with_their_number() -> None:
    whole = FRAMES["xsens"](0, 0.0, 0.3)
    few = whole[:11] + bytes([15]) + whole[12 : 24 + 15 * 32]
    message = why_silent("xsens", HERE, 3.0, {"packets": 90, "malformed": 90}, few)
    assert message.endswith(
        "this is xsens, but: 15 of 23 joints came: all are needed before the body can play"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"quats": [1.0, 0.0, 0.0, 0.0]}, "quats is not binary"),
        ({"quats": msgpack.ExtType(1, bytes(16))}, "quats is not binary"),
        ({"root": [0.0, 0.0, 0.0]}, "root is not binary"),
        ({"seq": 1.0}, "seq is not an unsigned 32-bit integer"),
        ({"seq": 1 << 32}, "seq is not an unsigned 32-bit integer"),
        ({"v": 1.0}, "v is not an unsigned integer"),
    ],
)
def test_msgpack_with_a_wrong_type_is_reported_with_the_key(wrong: dict[str, object], message: str) -> None:
    frame = {"v": 1, "type": "frame", "seq": 1, "t": 0.0, "quats": bytes(16)} | wrong
    line = why_silent("msgpack", HERE, 3.0, {"packets": 60, "malformed": 60}, msgpack.packb(frame))
    assert "none of them a usable msgpack: this is msgpack, but: malformed datagram" in line
    assert line.endswith(message)


def test_frames_that_do_not_fit_the_skeleton_are_reported() -> None:
    frame = _core.encode_native_frame(1, 0.0, np.tile(np.float32([1, 0, 0, 0]), (44, 1)))
    for counters in ({"packets": 60, "malformed": 60}, {"packets": 60, "malformed": 59}):
        message = why_silent("msgpack", HERE, 3.0, counters, frame)
        assert "no frame: their joints are not those of the skeleton (is quats binary32" in message
    mocopi = FRAMES["mocopi"](0, 0.0, 0.3)
    assert "their joints are not" in why_silent("mocopi", HERE, 3.0, {"packets": 60, "malformed": 60}, mocopi)


def test_osc_of_another_kind_or_address_is_reported() -> None:
    trackers, vmc = osc("/tracking/trackers/1/position", 0.0, 1.0, 0.0), FRAMES["vmc"](0, 0.0, 0.3)
    message = why_silent("vmc", HERE, 3.0, {"packets": 120}, trackers)
    assert message.endswith("none of them a usable vmc: this is vrchat: use --source vrchat://0.0.0.0:12351")
    for kind in ("vrchat", "phone", "osc", "wek"):
        assert "this is vmc: use --source vmc" in why_silent(kind, HERE, 3.0, {}, vmc)
    message = why_silent("osc", HERE, 3.0, {}, osc("/gyrosc/quat", 1.0, 0.0, 0.0, 0.0))
    assert message.endswith(
        "no rotation (four numbers of length 0.5 to 2, or three angles) at an address of"
        " [source.addresses] is in them (the last: /gyrosc/quat)"
    )
    message = why_silent("wek", HERE, 3.0, {}, osc("/wek/inputs", 1.0, 0.0, 0.0))
    assert (
        "no quaternion (the first four numbers of /wek/inputs, of length 0.5 to 2) is in them; map" in message
    )


def test_a_phone_without_a_quaternion_is_reported_with_a_hint() -> None:
    for newest in (
        osc("/rotationvector", 0.1, 0.2, 0.3),
        osc("/gyrosc/quat", 1.0, 0.0, 0.0, 0.0),
        json.dumps({"device": {"name": "p"}, "sensordata": {"accel": {"x": 0.0}}}).encode(),
    ):
        message = why_silent("phone", HERE, 3.0, {}, newest)
        assert "no frame: no quaternion" in message
        assert "switch on QUATERNION" in message
    for wrong in ([0, 0, 0, 1], {"x": 0.0}, "turned"):
        newest = json.dumps({"sensordata": {"quaternion": wrong}}).encode()
        message = why_silent("phone", HERE, 3.0, {"packets": 60, "alien": 60}, newest)
        assert message.endswith(
            "this is phone, but: no sensordata with a quaternion of {x, y, z, w} in its JSON"
        )
    message = why_silent(
        "mocopi", HERE, 3.0, {"packets": 60, "alien": 60}, osc("/rotationvector", 0.1, 0.2, 0.3)
    )
    assert "source.addresses and --source osc" in message


def test_a_sender_that_repeats_its_last_frame_is_reported() -> None:
    counts = {"packets": 9, "frames": 5, "doubled": 4}
    lines = messages_of([(1.0, counts), (4.0, counts | {"packets": 99, "doubled": 94})])
    assert lines[1].startswith("90 datagrams repeat the last frame")


def test_frames_with_unusable_times_are_reported_as_such() -> None:
    attendance = SourceWatch("vmc", HERE, 0.0, newest=lambda: FRAMES["vmc"](0, 0.0, 0.3))
    counts = {"packets": 9, "frames": 1, "strange": 8}
    attendance.look(1.0, counts)
    message = attendance.look(4.0, counts | {"packets": 99, "strange": 98})
    assert (message or "").startswith("90 datagrams of vmc are no frame: their numbers or times")


EULER = b"MXTP01" + bytes(754)


def xsens_messages(seen: list[tuple[float, int, int, bytes]]) -> list[tuple[float, str]]:
    """Messages for a list of (time, frames and unusable packets so far, last datagram)."""
    last = b""
    attendance = SourceWatch("xsens", HERE, 0.0, newest=lambda: last)
    messages = []
    for now, frames, bad, newest in seen:
        # A new object for each datagram, as from a socket.
        last = bytes(bytearray(newest))
        counters = {"frames": frames, "packets": frames + bad, "malformed": bad}
        if line := attendance.look(now, counters):
            messages.append((now, line))
    return messages


def test_unplayable_data_is_explained_and_again_when_it_changes() -> None:
    vmc = FRAMES["vmc"](0, 0.0, 0.3)
    first = [(float(t), 60 * t, 0, b"") for t in (1, 2)]
    euler = [(2.0 + t, 120, 60 * t, EULER) for t in range(1, 41)]
    other = [(42.0 + t, 120, 2400 + 60 * t, vmc) for t in range(1, 41)]
    again = [(83.0, 180, 4800, b"")]
    (_, come), (_, why), (then, changed), (_, back) = xsens_messages(first + euler + other + again)
    assert (come, back) == ("receiving xsens", "receiving xsens again")
    assert why.startswith("180 datagrams came")
    assert "choose Position + Orientation" in why
    assert then <= 48.0
    assert "this is vmc: use --source vmc" in changed


def test_unplayable_data_is_reported_soon_and_then_every_30_s() -> None:
    quiet = [(float(t), 0, 0, b"") for t in range(1, 9)]
    euler = [(8.0 + t, 0, 60 * t, EULER) for t in range(1, 41)]
    (_, nothing), (soon, why), (later, same) = xsens_messages(quiet + euler)
    assert nothing.startswith("no frame of xsens came")
    assert (soon, later) == (11.0, 41.0)
    assert all("choose Position + Orientation" in line for line in (why, same))


def test_one_datagram_is_no_other_reason_than_two() -> None:
    seen = [(4.0 * n, 0, bad, EULER) for n, bad in enumerate((1, 2, 4, 6), 1)]
    [(_, line)] = xsens_messages(seen)
    assert line.startswith("1 datagram came")


def test_unusable_data_after_a_refused_body_is_reported() -> None:
    refused = [(t / 2, {"packets": 30 * t, "refused": 30 * t}) for t in range(1, 5)]
    aliens = [(2.0 + t, {"packets": 120 + 50 * t, "refused": 120, "alien": 50 * t}) for t in range(1, 11)]
    gone = [(12.0 + t, {"packets": 620, "refused": 120, "alien": 500}) for t in range(1, 11)]
    lines = messages_of([*refused, *aliens, *gone])
    assert ["datagrams came" in line for line in lines] == [True, False], lines


class Front:
    """Stands in for a front end, with its counters and senders."""

    def __init__(self) -> None:
        self.frames = 0
        self.timing: tuple[float | None, float, float] = (None, 0.0, 0.0)
        self.refusal: str | None = None
        self.unplayed_reason: str | None = None
        self.known_senders: list[tuple[str, bool, int, int]] = []
        self.pose: np.ndarray | None = None

    def counters(self) -> dict[str, int]:
        return {"frames": self.frames, "packets": self.frames}

    def senders(self) -> list[tuple[str, bool, int, int]]:
        return self.known_senders

    def imagine(self) -> _core.FrontOutput | None:
        if self.pose is None:
            return None
        times = {"seq": 0, "t_source_ns": 0, "t_local_ns": 0, "expected_ns": 0, "late_ns": 0}
        return _core.FrontOutput(np.zeros((1, 279)), self.pose[None], [0.0] * 7, **times)


@pytest.mark.parametrize(
    ("turned", "degrees", "low"),
    [
        ((), 0, False),
        (("hips",), 30, False),
        # On its side, as from a z-up system; on its head; legs up, as from a model's own axes.
        (("hips",), 90, True),
        (("hips",), 180, True),
        (("left_upper_leg", "right_upper_leg"), 180, True),
        # Legs along the floor, as solved from z-up trackers; kneeling.
        (("left_upper_leg", "right_upper_leg"), 90, True),
        (("left_lower_leg", "right_lower_leg"), 90, False),
    ],
)
def test_a_lying_body_is_reported_once(turned: tuple[str, ...], degrees: int, low: bool) -> None:
    watch, front = SourceWatch("natnet", HERE, 0.0), Front()
    front.pose = np.tile(np.float32([1, 0, 0, 0]), (22, 1))
    for joint in turned:
        half = np.radians(degrees) / 2
        front.pose[_core.CANONICAL_JOINTS.index(joint)] = np.cos(half), np.sin(half), 0, 0
    lines = []
    for second in range(1, 6):
        front.frames, front.timing = 50 * second, (50.0, 0.0, 0.0)
        lines += [line for line in watch.watch(float(second), front) if "lies" in line]
    message = (
        "this natnet lies, sits on the floor or stands on its head; if the performer does not: in Motive"
    )
    assert lines == [f"{message} set Up Axis to Y"] * low


def test_active_and_ignored_senders_and_the_rate_are_reported() -> None:
    attendance, front = SourceWatch("mocopi", ("0.0.0.0", 12351), 0.0), Front()
    assert attendance.watch(1.0, front) == []
    front.frames, front.known_senders = 30, [("a:1", True, 30, 0)]
    assert attendance.watch(2.0, front) == ["receiving mocopi", "a:1 plays"]
    front.frames, front.timing = 90, (59.94, 1.24, 0.0)
    assert attendance.watch(3.0, front) == ["59.9 frames a second, jitter 1.2 ms"]
    front.known_senders = [("a:1", True, 60, 0), ("b:2", False, 3, 0), ("c:3", False, 0, 0)]
    front.frames = 150
    (line,) = attendance.watch(4.0, front)
    assert "ignoring mocopi from b:2 while a:1 plays" in line
    assert "/anticip/control/source b:2" in line
    front.frames = 200
    assert attendance.watch(5.0, front) == []
    front.frames, front.known_senders = 260, [("b:2", True, 60, 0), ("a:1", False, 60, 0)]
    # A sender that is gone is no longer reported as ignored.
    assert attendance.watch(6.0, front) == ["b:2 plays, not a:1 any more"]
    front.frames, front.refusal = 300, "no hips"
    assert attendance.watch(7.0, front) == ["the body of this mocopi cannot be played: no hips"]
    front.frames, front.unplayed_reason = 330, "a bone by another name"
    assert attendance.watch(8.0, front) == ["not all of this mocopi is played: a bone by another name"]
    front.frames = 360
    assert attendance.watch(9.0, front) == []
    front.frames = 0
    fresh = SourceWatch("vmc", ("0.0.0.0", 39539), 0.0)
    assert fresh.watch(1.0, front)[-1] == "nothing of this vmc is played: a bone by another name"


@pytest.mark.parametrize("kind", FRAMES)
def test_independently_encoded_frames_are_recognised(kind: str) -> None:
    assert recognise(FRAMES[kind](0, 0.0, 0.3)) == kind


@pytest.mark.parametrize(
    ("kind", "datagram"),
    [
        ("vrchat", osc("/tracking/trackers/1/position", 0.0, 1.0, 0.0)),
        ("vrchat", osc("/tracking/trackers/head/rotation", 0.0, 1.0, 0.0)),
        ("wek", osc("/wek/inputs", 0.5, 0.1)),
        ("phone", osc("/ZIGSIM/me/quaternion", 0.0, 0.0, 0.0, 1.0)),
        ("phone", osc("/me/quaternion", 0.0, 0.0, 0.0, 1.0)),
        # Their first number is w, as it may be for other sensors.
        ("osc", osc("/gyrosc/quat", 1.0, 0.0, 0.0, 0.0)),
        ("osc", bundle(osc("/sensors", *[0.0] * 10), osc("/quaternion", 1.0, 0.0, 0.0, 0.0))),
        ("phone", bundle(osc("/ZIGSIM/me/accel", 0.0, 0.0, 1.0), osc("/ZIGSIM/me/quaternion", 0, 0, 0, 1))),
        ("osc", osc("/ZIGSIM/me/accel", 0.0, 0.0, 1.0)),
        ("osc", osc("/gyrosc/accel", 0.0, 0.0, 1.0)),
        ("osc", osc("/rotationvector", 0.1, 0.2, 0.3)),
        ("osc", osc("/orientation", 10.0, 20.0, 30.0)),
        ("osc", osc("/1/fader1", 0.5)),
        ("rokoko", json.dumps({"version": 3, "fps": 60, "scene": {"timestamp": 0}}).encode()),
        (None, b""),
        (None, b"hello"),
        (None, b"{}"),
        (None, b"\x00" * 40),
    ],
)
def test_datagrams_are_recognised(kind: str | None, datagram: bytes) -> None:
    assert recognise(datagram) == kind


@given(st.binary(max_size=200))
def test_any_bytes_are_survived_by_recognition(datagram: bytes) -> None:
    recognise(datagram)
    assert "\n" not in wrong_kind("mocopi", datagram, 1)


def test_hints_say_what_to_do() -> None:
    vmc = FRAMES["vmc"](0, 0.0, 0.3)
    assert wrong_kind("mocopi", vmc, 12351) == "this is vmc: use --source vmc://0.0.0.0:12351"
    assert wrong_kind("mocopi", vmc, 39539) == "this is vmc: use --source vmc://0.0.0.0"
    assert wrong_kind("vmc", vmc, 39539) == ""
    euler = b"MXTP01" + bytes(18)
    assert "choose Position + Orientation (Quaternion)" in wrong_kind("xsens", euler, 9763)
    trackers = osc("/tracking/trackers/1/position", 0.0, 1.0, 0.0)
    assert wrong_kind("vmc", trackers, 9000) == "this is vrchat: use --source vrchat://0.0.0.0"
    assert "OSC of another program" in wrong_kind("vmc", osc("/1/fader1", 0.5), 9000)
    assert wrong_kind("vmc", b"hello", 9000) == ""


def test_a_silent_suit_is_reported_once_and_an_absent_one_repeatedly():
    here = {"packets": 5, "frames": 5}
    assert messages_of([(1.0, here), (3.99, here)]) == ["receiving mocopi"]
    assert messages_of([(1.0, here), (4.0, here)])[1:] == ["nothing from the suit for 3 s; waiting for it"]
    assert messages_of([(1.0, here), (4.0, here), (40.0, here), (80.0, here)])[2:] == [], "once is enough"
    asked = messages_of([(2.99, {}), *((float(now), {}) for now in range(3, 66))])
    assert asked == [
        f"no frame of mocopi came to 127.0.0.1:12351 in {seconds} s; a suit on the network needs"
        " --source mocopi://0.0.0.0:12351"
        for seconds in (3, 33, 63)
    ]
    some = {"packets": 5, "alien": 4, "malformed": 0}
    assert "has not sent its skeleton yet" in why_silent("mocopi", HERE, 3.0, some)
    assert "none of them a usable" in why_silent("mocopi", HERE, 3.0, some | {"malformed": 1})


def test_datagrams_of_senders_that_are_not_allowed_are_reported() -> None:
    attendance = SourceWatch("mocopi", HERE, 0.0, allowed_sender=lambda: "10.0.0.1")
    counters = {"packets": 120, "ignored": 120}
    assert attendance.look(3.0, counters, ["10.0.0.9:1"]) == (
        "120 datagrams of mocopi come from 10.0.0.9:1, and only 10.0.0.1 is heard (source.from);"
        " /anticip/control/source 10.0.0.9:1 hands over"
    )
    message = attendance.look(40.0, {"packets": 240, "ignored": 120}, ["10.0.0.9:1", "10.0.0.1:7"])
    assert "has not sent its skeleton yet" in (message or "")


def test_at_most_sixteen_other_senders_are_reported() -> None:
    attendance, front = SourceWatch("mocopi", ("0.0.0.0", 12351), 0.0), Front()
    front.frames = 30
    front.known_senders = [("a:1", True, 30, 0), *((f"b{n}:1", False, 1, 0) for n in range(20))]
    assert sum("ignoring" in line for line in attendance.watch(1.0, front)) == 16
    assert attendance.watch(1.5, front) == []


def test_a_host_with_changing_ports_is_reported_once() -> None:
    attendance, front = SourceWatch("vmc", HERE, 0.0), Front()
    front.frames = 30
    for second in range(5):
        ports = range(5000 + 15 * second, 5015 + 15 * second)
        front.known_senders = [
            ("[::1]:4999", True, 30, 0),
            *((f"[::1]:{port}", False, 1, 0) for port in ports),
        ]
        lines = [line for line in attendance.watch(float(second), front) if "ignoring" in line]
        assert lines == (
            []
            if second
            else [
                "ignoring vmc from 15 ports of ::1 while [::1]:4999 plays;"
                " /anticip/control/source ::1 hears them as one suit (so does source.from)"
            ]
        )
