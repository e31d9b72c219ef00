"""Single sensors over OSC, encoded by python-osc, become joints; the other joints are unmeasured."""

import contextlib
import json
import math
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire import bundle, message, udp

from pyanticip import _core
from pyanticip.errors import DeviceError, WireError
from pyanticip.motion.load import load_motion
from pyanticip.motion.rotations import multiply
from pyanticip.vocabulary import CANONICAL_JOINTS
from realtime.osc import read_messages, split
from realtime.programs.demo import PERFORMANCE
from realtime.rig import load_rig
from realtime.seams import SOURCES
from realtime.sockets import free_port
from realtime.sources import arrivals
from realtime.sources.osc import PHONE, Address, Order, OscSource
from realtime.sources.udp import UdpSource

RIGHT_HAND = CANONICAL_JOINTS.index("right_hand")


def osc(address: str, *floats: float) -> bytes:
    return message(address, *map(float, floats))


def play(source: OscSource, packets: list[bytes]) -> tuple[np.ndarray, list[bool]]:
    """The newest world rotations of the live front, and which joints it reports as measured."""
    front = _core.LiveFront("msgpack", window=64)
    pose = None
    for n, packet in enumerate(packets):
        for native in source.decode(packet):
            out = front.feed(native, n * 20_000_000)
            pose = pose if out is None else out.poses[-1]
    assert pose is not None
    assert front.counters()["malformed"] == 0
    assert front.counters()["frames"] == len(packets)
    assert front.mask.all(), "the others are estimated"
    world = np.array(pose, np.float64)
    for joint, parent in enumerate(_core.CANONICAL_PARENTS):
        if parent >= 0:
            world[joint] = multiply(world[parent], world[joint])
    return world * np.where(world[:, :1] < 0.0, -1.0, 1.0), list(front.confidence == 1.0)


def about_z(degrees: float) -> tuple[float, float, float, float]:
    """The quaternion x, y, z, w."""
    return 0.0, 0.0, math.sin(math.radians(degrees) / 2), math.cos(math.radians(degrees) / 2)


def test_a_phone_s_rotation_since_its_start_is_the_hand_s() -> None:
    packets = [osc("/ZIGSIM/me/quaternion", *about_z(30.0 + n)) for n in range(41)]
    pose, mask = play(OscSource(PHONE), packets)
    # The sensors' vertical axis is y here.
    assert pose[RIGHT_HAND] == pytest.approx(
        [math.cos(math.radians(20)), 0, math.sin(math.radians(20)), 0], abs=1e-5
    )
    assert [name for name, there in zip(CANONICAL_JOINTS, mask, strict=True) if there] == ["right_hand"]


def test_the_rest_rotation_is_renewed_after_three_seconds_of_silence() -> None:
    source, decoder = UdpSource("phone", "127.0.0.1", 0, addresses=PHONE), _core.Decoder("msgpack")
    hands: list[float] = []

    def receive(native: bytes, arrival: int, sender: str) -> None:
        for decoded in decoder.feed(native):
            if decoded["kind"] == "frame":
                (w,) = decoded["quats"][decoded["ids"] == RIGHT_HAND][:, 0]
                hands.append(round(2 * math.degrees(math.acos(min(1.0, abs(w))))))

    decode = source._decoding(receive)
    for second, degrees in ((0, 10.0), (2, 50.0), (6, 50.0), (7, 80.0)):
        decode(osc("/a/quaternion", *about_z(degrees)), second * 1_000_000_000, "10.0.0.2:4000")
    source.close()
    assert hands == [0, 40, 0, 30]


def test_json_of_zig_sim_equals_its_osc() -> None:
    def message(n: int) -> bytes:
        quaternion = dict(zip("xyzw", about_z(30.0 + n), strict=True))
        return json.dumps({"device": {"name": "p"}, "sensordata": {"quaternion": quaternion}}).encode()

    as_osc = [osc("/a/quaternion", *about_z(30.0 + n)) for n in range(20)]
    decoded, _ = play(OscSource(PHONE), [message(n) for n in range(20)])
    assert decoded == pytest.approx(play(OscSource(PHONE), as_osc)[0], abs=1e-6)


@pytest.mark.parametrize("address", ["/gyrosc/quat", "/quaternion"])
def test_quaternions_that_begin_with_w_are_not_a_phone(address: str) -> None:
    assert list(OscSource(PHONE).decode(osc(address, 1.0, 0.0, 0.0, 0.0))) == []


def test_four_numbers_that_are_not_a_rotation_give_no_frame() -> None:
    source = OscSource({"right_hand": Address("/wek/inputs")})
    for mouse in ((300.0, 200.0, 0.0, 0.0, 0.0), (0.1, 0.2, 0.0, 0.0)):
        assert list(source.decode(osc("/wek/inputs", *mouse))) == []
    assert list(source.decode(osc("/wek/inputs", 0.0, 0.0, 0.9, 0.9)))


def test_other_sensors_of_zig_sim_give_no_frame_and_no_error() -> None:
    datagram = json.dumps({"device": {"name": "p"}, "sensordata": {"accel": {"x": 0.0}}}).encode()
    assert list(OscSource(PHONE).decode(datagram)) == []


def test_orders_of_numbers() -> None:
    order: Order
    x, y, z, w = about_z(50.0)
    turned = {
        "xyzw": osc("/q", x, y, z, w),
        "wxyz": osc("/q", w, x, y, z),
        "euler": osc("/q", 0.0, 0.0, 50.0),
    }
    still = {"xyzw": osc("/q", 0, 0, 0, 1), "wxyz": osc("/q", 1, 0, 0, 0), "euler": osc("/q", 0, 0, 0)}
    for order in ("xyzw", "wxyz", "euler"):
        where = Address("/q", order)
        assert where.rotation("/q", []) is None
        pose, _ = play(OscSource({"head": where}, up="y"), [still[order], turned[order]])
        assert pose[CANONICAL_JOINTS.index("head")] == pytest.approx([w, x, y, z], abs=1e-5)


def test_a_child_of_a_sensor_turns_within_it() -> None:
    addresses = {"right_lower_arm": Address("/wek/inputs"), "right_hand": Address("/wek/inputs", first=4)}
    still, turned = (0.0, 0.0, 0.0, 1.0), about_z(60.0)
    pose, mask = play(OscSource(addresses), [osc("/wek/inputs", *a, *a) for a in (still, turned)])
    assert pose[[RIGHT_HAND - 1, RIGHT_HAND], 2] == pytest.approx(0.5, abs=1e-5)
    assert sum(mask) == 2


@given(
    st.binary(max_size=300)
    | st.builds(lambda v: osc("/a/quaternion", *v), st.lists(st.floats(width=32), max_size=6))
)
def test_no_datagram_becomes_a_broken_frame(packet: bytes) -> None:
    source = OscSource(PHONE)
    try:
        natives = list(source.decode(packet))
    except Exception:
        return  # the source counts it
    for native in natives:
        assert _core.recognise(native) == "msgpack"


def test_a_simulated_phone_is_decoded() -> None:
    clip = load_motion(PERFORMANCE).resample(50.0)
    packets = [d for _, d in SOURCES.load("phone")().encode(clip, rate=None, loop=False, unix_time=None)][
        :100
    ]
    assert {_core.recognise(packet) for packet in packets} == {"phone"}
    _, mask = play(OscSource(PHONE), packets)
    assert sum(mask) == 1


@pytest.mark.parametrize("kind", ["phone", "wek", "vrchat"])
def test_a_simulated_source_sends_sixty_frames_a_second(kind: str) -> None:
    clip = load_motion(PERFORMANCE).seconds(0.0, 1.0)
    sent = SOURCES.load(kind)().encode(clip, rate=None, loop=False, unix_time=None)
    assert sorted({t_ns for t_ns, _ in sent})[30] == 500_000_000


def test_a_rig_maps_addresses_to_joints() -> None:
    settings = {"kind": "osc", "addresses": {"left_hand": "/phone/quat"}}
    source = load_rig(None, {"source": settings}).source
    assert source.udp_options()["addresses"] == {"left_hand": Address("/phone/quat")}


def test_the_first_recognised_sender_decides_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ("mocopi", "phone", "vmc")  # the last at a port in use
    held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    for sock in held:
        sock.bind(("127.0.0.1", 0))
    ports = dict(zip(kinds, (sock.getsockname()[1] for sock in held), strict=True))
    held[0].close(), held[1].close()
    monkeypatch.setattr(arrivals, "usual_ports", lambda: {port: kind for kind, port in ports.items()})
    monkeypatch.setattr(arrivals, "_MAX_SENDERS", 2)
    lines: list[str] = []

    def send() -> None:
        time.sleep(0.1)
        with contextlib.ExitStack() as all_of_them:
            # More unknown senders than the limit, before the first that can be played.
            sender, phone, *strangers = (all_of_them.enter_context(udp()) for _ in range(4))
            known, unknown = osc("/a/quaternion", 0, 0, 0, 1), osc("/gyrosc/accel", 0, 0, 1)
            first = (sender, b"hello"), (sender, unknown)
            for sock, packet in (*first, *((one, b"hi") for one in strangers), (phone, known)):
                sock.sendto(packet, ("127.0.0.1", ports["mocopi"]))

    thread = threading.Thread(target=send)
    thread.start()
    assert arrivals.first_sender("127.0.0.1", lines.append, 20.0) == ("phone", ports["mocopi"])
    thread.join()
    held[2].close()
    assert f"port {ports['vmc']}" in lines[0]
    assert "in use" in lines[0]
    assert any("datagrams that begin with hello" in line for line in lines)
    assert any("OSC of another program" in line for line in lines)
    with pytest.raises(DeviceError, match="no known suit sent"):
        arrivals.first_sender("127.0.0.1", lines.append, 0.05)
    other, lines[:] = free_port(), []
    with pytest.raises(DeviceError, match=f"no known suit sent to 127.0.0.1, port {other} in"):
        arrivals.first_sender("127.0.0.1", lines.append, 0.05, other)
    assert lines == [f"waiting for whoever sends to 127.0.0.1, port {other}"]


def test_auto_accepts_osc_that_the_rig_maps() -> None:
    settings = {"kind": "auto", "addresses": {"head": {"address": "/gyrosc/quat", "order": "wxyz"}}}
    mapped, port = load_rig(None, {"source": settings}).source.mapped, free_port()

    def send(line: str) -> None:
        if line.startswith("waiting"):
            with udp() as sock:
                for packet in (b"{", osc("/gyrosc/accel", 0, 0, 1), osc("/gyrosc/quat", 1, 0, 0, 0)):
                    sock.sendto(packet, ("127.0.0.1", port))

    assert arrivals.first_sender("127.0.0.1", send, 20.0, port, mapped) == ("osc", port)


def test_nested_bundles_are_split_in_order_up_to_a_limit() -> None:
    inner = bundle(b"b", bundle(bundle(b"c")), b"d")
    assert list(split(bundle(b"a", inner, b"e"), 9)) == [b"a", b"b", b"c", b"d", b"e"]
    assert list(split(bundle(b"a", inner, b"e"), 3)) == [b"a", b"b", b"c"]
    assert list(split(b"alone", 1)) == [b"alone"]
    assert list(split(b"alone", 0)) == list(split(bundle(), 5)) == []
    with pytest.raises(ValueError, match="bundles in bundles"):
        list(split(bundle(bundle(bundle(bundle(bundle(b"x"))))), 5))
    for rest in (b"\0\0\0\2b", bytes(4), b"\0\0", b"\xff\xff\xff\xfc"):
        with pytest.raises(ValueError, match="longer than its bundle"):
            list(split(bundle(b"a") + rest, 5))


def test_an_unreadable_message_does_not_spoil_its_bundle() -> None:
    good, odd = b"/a\0\0,i\0\0\0\0\0\7", b"/b\0\0,c\0\0abcd"
    assert [message.params for message in read_messages(bundle(good, odd), 9, 9)] == [[7]]
    with pytest.raises(ValueError, match="unknown types"):
        read_messages(bundle(odd), 9, 9)


_BUNDLE = b"#bundle\0" + bytes(8)
_SHIFTED = b"/quaternion\0,zffff\0\0" + bytes(12) + b"\x3f\x80\0\0" + bytes(4)


@pytest.mark.parametrize(
    "hostile",
    [_BUNDLE + b"\xff\xff\xff\xfc", _BUNDLE + bytes(64000), _SHIFTED, b"nowhere\0,f\0\0" + bytes(4)],
    ids=["an element before itself", "empty elements", "a type before floats", "no address"],
)
def test_invalid_osc_is_refused_without_log_messages(hostile, caplog):
    with pytest.raises(WireError, match="not OSC"):
        OscSource(PHONE).decode(hostile)
    assert not caplog.records
