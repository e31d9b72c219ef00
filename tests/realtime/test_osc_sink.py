import errno
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pythonosc.osc_bundle import OscBundle
from pythonosc.osc_message import OscMessage
from pythonosc.parsing import ntp
from support.wire import arrived, messages, port_of, udp

from pyanticip.vocabulary import PARAMETERS
from realtime.rig import Rig
from realtime.rig.load import rig_for_performer
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink, time_tag
from realtime.sinks.udp import UdpWire
from realtime.sockets import free_port

SCALARS = [0.1, 0.2, -1.5, 0.4, 0.5, 0.6, 0.7]
PARAMS = [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0]


def frame(seq: int = 7, events: list = []) -> ControlFrame:  # noqa: B006
    return ControlFrame(seq, 0.14, SCALARS, PARAMS, events, tempo=(112.5, 0.25, 0.75))


OPEN: list[OscSink] = []


def open_sink(to: int | socket.socket, **options: Any) -> OscSink:
    port = to if isinstance(to, int) else port_of(to)
    OPEN.append(OscSink(OscConfig.model_validate({"port": port, **options})))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with udp(2) as sock:
        yield sock


def is_silent(sock: socket.socket) -> bool:
    """Whether no further datagram has come."""
    sock.setblocking(False)
    return not [*arrived(sock)]


def received(sock: socket.socket) -> list[tuple[str, list]]:
    data = sock.recv(65536)
    assert OscBundle.dgram_is_bundle(data)
    assert data[8:16] == struct.pack(">Q", 1), "the time tag must say: immediately"
    return [(m.address, list(m.params)) for m in OscBundle(data) if isinstance(m, OscMessage)]


def test_a_broadcast_address_is_allowed() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anyone:
        anyone.bind(("", 0))
        anyone.settimeout(2)
        sink = open_sink(anyone, host="127.255.255.255")
        sink.send(frame())
        assert received(anyone)[0][0] == "/anticip/frame"


def test_the_bundle_follows_the_specification(receiver: socket.socket) -> None:
    sink = open_sink(receiver)
    sink.send(frame(events=[("onset", 0.9, 0.05)]))
    got = received(receiver)
    assert [address for address, _ in got] == [
        "/anticip/frame",
        "/anticip/scalars",
        *[f"/anticip/param/{name}" for name in PARAMETERS],
        "/anticip/params",
        "/anticip/tempo",
        "/anticip/bpm",
        "/anticip/event/onset",
    ]
    values = dict(got)
    assert values["/anticip/frame"] == [7, pytest.approx(0.14)]
    assert isinstance(values["/anticip/frame"][0], int)
    assert values["/anticip/scalars"] == pytest.approx(SCALARS)
    assert values["/anticip/params"] == pytest.approx(PARAMS)
    assert [values[f"/anticip/param/{n}"][0] for n in PARAMETERS] == pytest.approx(PARAMS)
    assert values["/anticip/tempo"] == [112.5, 0.25, 0.75]
    assert values["/anticip/bpm"] == [112.5]
    assert values["/anticip/event/onset"] == pytest.approx([0.9, 0.05])


def test_limbs_are_sent_when_present(receiver: socket.socket) -> None:
    sink = open_sink(receiver)
    current = frame()
    current.limbs = [n / 16 for n in range(12)]
    sink.send(current)
    assert dict(received(receiver))["/anticip/limbs"] == current.limbs
    sink.send(frame())
    assert "/anticip/limbs" not in dict(received(receiver))


def test_place_and_cues_are_sent_when_present(receiver: socket.socket) -> None:
    sink = open_sink(receiver)
    current = frame(events=[("cue/soon", 0.9, 0.15)])
    current.place = (0, 4.0, 1.0, 0.9)
    sink.send(current)
    sent = dict(received(receiver))
    assert sent["/anticip/place"] == pytest.approx([0, 4.0, 1.0, 0.9])
    assert sent["/anticip/cue/soon"] == pytest.approx([0.9, 0.15])


def test_a_frame_holds_nothing_of_the_one_before(receiver: socket.socket) -> None:
    sink = open_sink(receiver)
    sink.send(frame(events=[("onset", 0.9, 0.05), ("phrase", 0.8, 0.1)]))
    first = received(receiver)
    sink.send(ControlFrame(8, 0.16, [0.0] * 7, [0.5] * 8))
    second = received(receiver)
    assert len(first) == len(second) + 3, "two events, and the tempo alone, which is not trusted now"
    assert dict(second)["/anticip/params"] == [0.5] * 8
    assert dict(second)["/anticip/frame"][0] == 8


def test_addresses_ranges_and_parts_are_per_target(receiver: socket.socket) -> None:
    sink = open_sink(
        receiver,
        prefix="/dancer/",
        send=["param", "event"],
        addresses={"pitch": ("/n_set", 1000, "freq"), "onset": ("/bang",)},
        ranges={
            "pitch": {"low": 110.0, "high": 880.0, "curve": "exponential"},
            "pulse": {"low": 1.0, "high": 0.0},
        },
    )
    sink.send(frame(events=[("onset", 1.0, 0.02)]))
    got = received(receiver)
    assert got[0] == ("/n_set", [1000, "freq", pytest.approx(110.0)])
    assert got[7] == ("/dancer/param/pulse", [0.0])
    assert got[8] == ("/bang", pytest.approx([1.0, 0.02]))
    assert len(got) == 9


def test_without_bundles_each_message_is_a_packet(receiver: socket.socket) -> None:
    sent = frame(events=[("onset", 0.5, 0.25)])
    open_sink(receiver).send(sent)
    bundle = received(receiver)
    sink = open_sink(receiver, bundles=False)
    sink.send(sent)
    packets = [receiver.recv(4096) for _ in bundle]
    assert [(OscMessage(data).address, OscMessage(data).params) for data in packets] == bundle
    assert is_silent(receiver)
    assert sink.counters()["sent"] == len(bundle) == 14
    with pytest.raises(ValueError, match="time tags are those of bundles"):
        OscConfig(bundles=False, schedule=True)


def test_single_parameters_and_events_can_be_chosen(receiver: socket.socket) -> None:
    sink = open_sink(receiver, send=["loudness", "pan", "onset"])
    sink.announce([SimpleNamespace(name="wobble", address=None, range=float)])  # sent with "param" only
    for onset in (("onset", 0.75, 0.125), ("onset/cancel", 0.0, 0.125)):
        sink.send(frame(events=[onset, ("phrase", 0.5, 0.0), ("cue/chorus", 1.0, 0.5)]))
        numbers = [0.125] if "cancel" in onset[0] else [0.75, 0.125]
        assert received(receiver) == [
            ("/anticip/param/loudness", [PARAMS[1]]),
            ("/anticip/param/pan", [PARAMS[6]]),
            (f"/anticip/event/{onset[0]}", numbers),
        ]


def test_a_cue_has_an_address_of_its_own(receiver: socket.socket) -> None:
    """What a theatre's QLab expects; other cues keep theirs, or are not sent."""
    options = {"addresses": {"cue/chorus": "/cue/5/start"}}
    for send, others in ((["event"], [("/anticip/cue/end", [1.0, 0.5])]), (["cue/chorus"], [])):
        sink = open_sink(receiver, send=send, **options)
        sink.send(frame(events=[("cue/chorus", 0.75, 0.25), ("cue/end", 1.0, 0.5)]))
        assert received(receiver) == [("/cue/5/start", [0.75, 0.25]), *others]


def test_a_status_alone_carries_no_values(receiver: socket.socket) -> None:
    sink = open_sink(receiver)
    sink.send(ControlFrame(-1, 0.0, SCALARS, (), (), ("waiting",)))
    assert received(receiver) == [("/anticip/status", ["waiting"])]


def test_a_slow_receiver_gets_the_newest_values_and_every_event(receiver: socket.socket) -> None:
    sink = open_sink(receiver, max_rate=10)
    sink.send(frame(0))
    sink.send(frame(1, events=[("onset", 1.0, 0.0)]))
    sink.send(frame(2))
    time.sleep(0.11)
    sink.send(frame(3))
    first, second = received(receiver), received(receiver)
    assert dict(first)["/anticip/frame"][0] == 0
    assert dict(second)["/anticip/frame"][0] == 3
    assert "/anticip/event/onset" in dict(second)
    assert is_silent(receiver)
    assert sink.counters()["sent"] == 2


@pytest.mark.parametrize(("state", "sent"), [("panic", [0.0, 0.5, 0.75, 1.0]), ("stopped", [0.0, 1.0])])
def test_silence_is_sent_to_a_slow_receiver_at_once(receiver, state, sent):
    sink = open_sink(receiver, max_rate=0.01, send=["pitch"])
    for n, value in enumerate([0.0, 0.25, 0.5, 0.75, *[1.0] * 6]):
        now = frame(n)
        now.params, now.state = [value] * 8, state if n > 1 else "playing"
        sink.send(now)
    assert [received(receiver)[0][1][0] for _ in sent] == sent
    assert is_silent(receiver)


def test_a_slow_receiver_gets_the_last_values_at_the_end_and_no_late_events(receiver):
    for frames in (1, 3):
        sink = open_sink(receiver, max_rate=0.01)
        for n in range(frames):
            sink.send(frame(n, events=[("onset", 1.0, 0.0)]))
        sink.close()
        received(receiver)
        if frames > 1:
            last = dict(received(receiver))
            assert last["/anticip/frame"][0] == 2
            assert "/anticip/event/onset" not in last
    assert is_silent(receiver)
    with pytest.raises(ValueError, match=r"greater than or equal to 0\.01"):
        OscConfig(max_rate=1e-300)


def test_field_and_plan_are_sent_when_present(receiver: socket.socket) -> None:
    port = port_of(receiver)
    sink = open_sink(port)
    for field, plan in (((0.75, 0.5), [(7, 0.75), (300, 0.25)]), ((), [(2**20, 1.0)]), ((0.5, 0.0), [])):
        sink.send(ControlFrame(7, 0.14, SCALARS, PARAMS, field=field, plan=plan))
        got = dict(received(receiver))
        assert tuple(got.get("/anticip/field", ())) == field
        assert got.get("/anticip/plan", []) == [number for pair in plan for number in pair]
    other = open_sink(port, send=["param"])
    other.send(ControlFrame(7, 0.14, SCALARS, PARAMS, field=(1.0, 0.0), plan=[(1, 1.0)]))
    assert not {"/anticip/field", "/anticip/plan"} & set(dict(received(receiver)))


def test_an_absent_receiver_is_counted_and_retried(receiver: socket.socket) -> None:
    port = port_of(receiver)
    sink = open_sink(port)
    receiver.close()
    for seq in range(20):
        sink.send(frame(seq))
        time.sleep(0.01)
    # The ICMP error for a bundle is reported with the next one: for the last there is none yet.
    assert (sink.counters()["sent"], sink.counters()["refused"]) == (1, 19)
    back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    back.bind(("127.0.0.1", port))
    back.settimeout(2)
    sink.send(frame(99))
    assert dict(received(back))["/anticip/frame"][0] == 99
    back.close()


class StaleSocket:
    """A socket whose local address this machine no longer has, as on Linux."""

    def send(self, data: bytes = b"") -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    def close(self) -> None:
        pass


def test_a_changed_local_address_is_followed_and_failures_are_reported(
    receiver: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = open_sink(receiver)
    wire: Any = sink._wire
    seconds = 5.0
    monkeypatch.setattr("realtime.sinks.udp.time.monotonic_ns", lambda: round(seconds * 1e9))

    wire.close()

    def send(sock: Any) -> str:
        wire._sock = sock
        sink.send(frame())
        return sink.trouble

    with monkeypatch.context() as off:
        off.setattr(wire, "_open", StaleSocket().send)
        assert send(StaleSocket()) == ""
        seconds = 6.1
        assert send(StaleSocket()) == "invalid argument"
    assert send(StaleSocket()) == "invalid argument", "a new socket at most once a second"
    seconds = 7.2
    assert send(StaleSocket()) == "invalid argument"
    sink.send(frame(99))
    assert dict(received(receiver))["/anticip/frame"][0] == 99
    assert sink.trouble == ""


def test_a_network_that_comes_after_the_start_is_used(
    receiver: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(wire: UdpWire) -> socket.socket:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    seconds = 5.0
    monkeypatch.setattr("realtime.sinks.udp.time.monotonic_ns", lambda: round(seconds * 1e9))
    with monkeypatch.context() as off:
        off.setattr(UdpWire, "_open", unreachable)
        sink = open_sink(receiver)
        sink.send(frame())
        seconds = 6.1
        sink.send(frame())
        assert (sink.trouble, sink.counters()["failed"]) == ("network is unreachable", 2)
    sink.send(frame(99))
    assert dict(received(receiver))["/anticip/frame"][0] == 99
    assert sink.trouble == ""


def test_a_computer_that_is_off_is_reported_as_long_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux takes a few bundles every 3 s while nobody has that address, and then its buffer is full."""
    sink, seconds, reported = open_sink(29000), 5.0, []
    wire: Any = sink._wire
    monkeypatch.setattr("realtime.sinks.udp.time.monotonic_ns", lambda: round(seconds * 1e9))

    class Buffer:
        def send(self, data: bytes) -> int:
            # Once it is on, a bundle is lost every 3 s.
            if seconds % 3.0 > (0.55 if is_off else 2.85):
                raise BlockingIOError
            return len(data)

        def close(self) -> None:
            pass

    wire.close()
    wire._sock, is_off = Buffer(), True
    for n in range(200):
        seconds, is_off = 3.0 + 0.1 * n, n < 100
        sink.send(frame(n))
        reported.append(sink.trouble)
    # From 1 s of refusals on, and until there was none of a second for 4 s.
    assert reported == [""] * 16 + ["nothing gets through"] * 113 + [""] * 71


def send_scheduled(events: list[Any], wall_ns: int, **options: Any) -> list[tuple[int, list[Any]]]:
    """Time tag and messages of every datagram that a receiver with ``schedule`` gets."""
    with udp() as sock:
        sink = open_sink(sock, schedule=True, **options)
        sink.send(ControlFrame(7, 0.14, SCALARS, PARAMS, events, t_ns=5, wall_ns=wall_ns))
        sink.close()
        found = []
        for data in arrived(sock):
            pairs = [(m.address, list(m.params)) for m in OscBundle(data) if isinstance(m, OscMessage)]
            found.append((int.from_bytes(data[8:16], "big"), pairs))
        return found


def test_a_scheduled_event_is_a_bundle_with_its_time_tag() -> None:
    wall = 1_700_000_000_250_000_000
    events = [
        *(("onset", 0.9, 0.125), ("phrase", 0.5, 0.03125)),
        # The second comes too late, because the receiver's latency has started the event already.
        *(("onset/cancel", 0.1, 0.0625), ("phrase/cancel", 0.1, 0.03125)),
    ]
    now, onset, phrase, called_off = send_scheduled(
        events, wall, latency_ms=50, clock_offset_ms=-1000, send=["param", "event"]
    )
    assert now[0] == 1
    assert called_off == (1, [("/anticip/event/onset/cancel", [0.0625])])
    assert [address for address, _ in now[1]] == [f"/anticip/param/{name}" for name in PARAMETERS]
    assert onset[1] == [("/anticip/event/onset", pytest.approx([0.9, 0.125]))]
    assert phrase[1] == [("/anticip/event/phrase", pytest.approx([0.5, 0.03125]))]
    # python-osc's reading of the time tag, independent of ours.
    # 50 ms (the latency) before it is due, but never before now.
    for tag, due in ((onset[0], 0.125 - 0.05), (phrase[0], 0.0)):
        unix_s = ntp.ntp_to_system_time(tag.to_bytes(8, "big"))
        assert unix_s == pytest.approx(1_700_000_000.25 + due - 1.0, abs=1e-6)


@given(st.integers(0, 2**62))
def test_a_time_tag_is_ntp_and_keeps_the_order(unix_ns: int) -> None:
    tag = time_tag(unix_ns)
    seconds, fraction = divmod(tag, 2**32)
    assert seconds == (unix_ns // 10**9 + 2_208_988_800) % 2**32
    assert abs(fraction / 2**32 - unix_ns % 10**9 / 1e9) < 2**-31
    assert time_tag(unix_ns + 1) > tag or seconds == 2**32 - 1


def test_an_event_with_its_own_address_needs_one_for_its_cancellation(receiver):
    events = [("onset/cancel", 0.1, 0.0625)]
    for addresses, expected in (
        ({}, [("/anticip/event/onset/cancel", [0.0625])]),
        ({"onset": "/s_new"}, []),
        ({"onset": "/s_new", "onset/cancel": ["/n_free", 7]}, [("/n_free", [7, 0.0625])]),
    ):
        sink = open_sink(receiver, addresses=addresses)
        sink.send(frame(events=events))
        assert received(receiver)[13:] == expected


def test_the_lead_of_a_delayed_event_is_shortened(receiver: socket.socket) -> None:
    sink = open_sink(receiver, max_rate=10, send=["event"])
    sink.send(frame(events=[("onset", 1.0, 0.2)]))
    sink.send(frame(events=[("onset", 1.0, 0.2)]))
    time.sleep(0.11)
    sink.send(ControlFrame(9, 0.2, SCALARS, PARAMS, [], t_ns=110_000_000))
    assert [received(receiver)[0][1][1] for _ in range(2)] == pytest.approx([0.2, 0.09])


def send_paced(frames: dict[int, tuple[str, list[Any]]], **options: Any) -> tuple[list[Any], int]:
    """The events that a slow receiver gets of frames at these ms, the first of which is sent, and of one at
    300 ms that ``max_rate`` allows; and the number of stale events."""
    with udp() as sock:
        sink = open_sink(sock, max_rate=0.01, send=["event", "class"], **options)
        for ms, (state, events) in {0: ("playing", []), **frames, 300: ("playing", [])}.items():
            sink._pace._due_ns = 0 if ms == 300 else sink._pace._due_ns
            now = frame(ms, events=events)
            now.t_ns, now.wall_ns, now.state = ms * 1_000_000, time.time_ns(), state
            sink.send(now)
        found = []
        for data in arrived(sock):
            found += [(m.address[9:], m.params[-1]) for m in OscBundle(data) if isinstance(m, OscMessage)]
        sink.close()
    return found, sink.counters()["stale_events"]


def test_delayed_events_are_sent_only_if_still_ahead() -> None:
    onset, off = ("onset", 0.9, 0.4), ("onset/cancel", 0.0, 0.36)
    shown = ("class/pose/leave:crouch", 0.1, 0.0)
    for frames, expected in (
        # A cancellation removes its own event, and no other.
        ({20: ("playing", [onset]), 60: ("playing", [off])}, ([], 0)),
        (
            {20: ("playing", [onset]), 60: ("playing", [("onset/cancel", 0.0, 0.28)])},
            ([("event/onset", pytest.approx(0.12)), ("event/onset/cancel", pytest.approx(0.04))], 0),
        ),
        # Overdue events are counted, except changes of state, which are sent.
        (
            {20: ("playing", [("onset", 0.9, 0.12), ("onset/cancel", 0.0, 0.2), shown])},
            ([("class/pose/leave", 0.0)], 2),
        ),
        ({20: ("playing", [("onset", 0.9, 0.2)])}, ([("event/onset", 0.0)], 0)),
        *(
            ({20: ("playing", [onset, shown]), 60: (state, [])}, ([("class/pose/leave", 0.0)], 0))
            for state in ("panic", "stopped", "frozen")
        ),
    ):
        assert send_paced(frames) == expected, frames


def test_cancellations_of_scheduled_events_are_not_paced() -> None:
    frames = {
        20: ("playing", [("onset", 0.9, 0.4)]),
        60: ("frozen", [("onset/cancel", 0.0, 0.36), ("phrase/cancel", 0.0, 0.0)]),
    }
    expected = [("event/onset", pytest.approx(0.4)), ("event/onset/cancel", pytest.approx(0.36))]
    assert send_paced(frames, schedule=True) == (expected, 1)


@pytest.mark.skipif(shutil.which("oscdump") is None, reason="liblo's oscdump is not here")
def test_oscdump_reads_the_intended_time() -> None:
    port = free_port()
    with subprocess.Popen(["oscdump", "-L", str(port)], stdout=subprocess.PIPE, text=True) as dump:
        sink = open_sink(port, schedule=True, send=["event"], latency_ms=100)
        now = time.time_ns()
        for _ in range(100):
            sink.send(ControlFrame(7, 0.14, SCALARS, PARAMS, [("onset", 0.5, 0.15)], wall_ns=now))
            if dump.stdout is not None and select.select([dump.stdout], [], [], 0.05)[0]:
                break
        line = dump.stdout.readline()
        dump.terminate()
        sink.close()
    stamp, address, types, strength, ahead = line.split()
    seconds, fraction = (int(part, 16) for part in stamp.split("."))
    assert (address, types, float(strength)) == ("/anticip/event/onset", "ff", 0.5)
    assert seconds - 2_208_988_800 + fraction / 2**32 == pytest.approx(now / 1e9 + 0.05, abs=1e-6)
    assert float(ahead) == pytest.approx(0.15)


def test_the_address_of_a_taught_output_is_preceded_by_the_performer() -> None:
    tree = {"osc": [{}, {"performer": "bob"}], "performer": [{"name": "alice"}, {"name": "bob", "port": 1}]}
    taught = SimpleNamespace(name="cutoff", address="/synth/cutoff", range=float)
    targets = rig_for_performer(Rig.model_validate(tree), "bob").osc
    for target, address in zip(targets, ("/bob/synth/cutoff", "/synth/cutoff"), strict=True):
        with udp() as ear:
            sink = OscSink(target.model_copy(update={"port": port_of(ear), "send": ("param",)}))
            sink.announce([taught])
            sink.send(ControlFrame(0, 0.0, [0.0] * 7, [0.5] * 8, extras=[0.25]))
            assert messages(next(arrived(ear)))[address] == [0.25]
            sink.close()
