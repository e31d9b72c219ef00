import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pythonosc.osc_bundle import OscBundle
from pythonosc.osc_message import OscMessage

from pyanticip.errors import DeviceError
from pyanticip.vocabulary import PARAMETERS
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink

SCALARS = [0.1, 0.2, -1.5, 0.4, 0.5, 0.6, 0.7]
PARAMS = [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0]


def frame(seq: int = 7, events: list = [], status: tuple[str, ...] = ()) -> ControlFrame:  # noqa: B006
    return ControlFrame(seq, 0.14, SCALARS, PARAMS, events, status)


def open_sink(port: int, **options: Any) -> OscSink:
    return OscSink(OscConfig.model_validate({"port": port, **options}))


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(2)
    yield sock
    sock.close()


def heard(sock: socket.socket) -> list[tuple[str, list]]:
    data = sock.recv(65536)
    assert OscBundle.dgram_is_bundle(data)
    assert data[8:16] == struct.pack(">Q", 1), "the time tag must say: immediately"
    return [(m.address, list(m.params)) for m in OscBundle(data) if isinstance(m, OscMessage)]


def test_the_bundle_is_as_specified(receiver: socket.socket) -> None:
    sink = open_sink(receiver.getsockname()[1])
    sink.send(frame(events=[("onset", 0.9, 0.05)], status=("playing", "backend=onnx")))
    got = heard(receiver)
    assert [address for address, _ in got] == [
        "/anticip/frame",
        "/anticip/scalars",
        *[f"/anticip/param/{name}" for name in PARAMETERS],
        "/anticip/params",
        "/anticip/event/onset",
        "/anticip/status",
    ]
    values = dict(got)
    assert values["/anticip/frame"] == [7, pytest.approx(0.14)]
    assert isinstance(values["/anticip/frame"][0], int)
    assert values["/anticip/scalars"] == pytest.approx(SCALARS)
    assert values["/anticip/params"] == pytest.approx(PARAMS)
    assert [values[f"/anticip/param/{n}"][0] for n in PARAMETERS] == pytest.approx(PARAMS)
    assert values["/anticip/event/onset"] == pytest.approx([0.9, 0.05])
    assert values["/anticip/status"] == ["playing", "backend=onnx"]
    sink.close()


def test_patching_leaves_nothing_of_the_last_frame(receiver: socket.socket) -> None:
    sink = open_sink(receiver.getsockname()[1])
    sink.send(frame(events=[("onset", 0.9, 0.05), ("phrase", 0.8, 0.1)], status=("playing",)))
    first = heard(receiver)
    sink.send(ControlFrame(8, 0.16, [0.0] * 7, [0.5] * 8))
    second = heard(receiver)
    assert len(first) == len(second) + 3
    assert dict(second)["/anticip/params"] == [0.5] * 8
    assert dict(second)["/anticip/frame"][0] == 8
    sink.close()


def test_addresses_ranges_and_parts_are_per_target(receiver: socket.socket) -> None:
    sink = open_sink(
        receiver.getsockname()[1],
        prefix="/dancer/",
        send=["param", "event"],
        addresses={"pitch": ("/n_set", 1000, "freq"), "onset": ("/bang",)},
        ranges={
            "pitch": {"low": 110.0, "high": 880.0, "curve": "exponential"},
            "pulse": {"low": 1.0, "high": 0.0},
        },
    )
    sink.send(frame(events=[("onset", 1.0, 0.02)], status=("playing",)))
    got = heard(receiver)
    assert got[0] == ("/n_set", [1000, "freq", pytest.approx(110.0)])
    assert got[7] == ("/dancer/param/pulse", [0.0])
    assert got[8] == ("/bang", pytest.approx([1.0, 0.02]))
    assert len(got) == 9
    sink.close()


def test_a_status_alone_carries_no_values(receiver: socket.socket) -> None:
    sink = open_sink(receiver.getsockname()[1])
    sink.send(ControlFrame(-1, 0.0, SCALARS, (), (), ("waiting",)))
    assert heard(receiver) == [("/anticip/status", ["waiting"])]
    sink.close()


def test_a_slow_receiver_gets_the_newest_and_every_event(receiver: socket.socket) -> None:
    sink = open_sink(receiver.getsockname()[1], max_rate=10)
    sink.send(frame(0))
    sink.send(frame(1, events=[("onset", 1.0, 0.0)]))
    sink.send(frame(2))
    time.sleep(0.11)
    sink.send(frame(3))
    first, second = heard(receiver), heard(receiver)
    assert dict(first)["/anticip/frame"][0] == 0
    assert dict(second)["/anticip/frame"][0] == 3
    assert "/anticip/event/onset" in dict(second)
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.recv(1)
    assert sink.counters()["sent"] == 2
    sink.close()


def test_what_the_model_tells_of_itself_comes_where_there_is_some(receiver: socket.socket) -> None:
    port = receiver.getsockname()[1]
    sink = open_sink(port)
    for field, plan in (((0.75, 0.5), [(7, 0.75), (300, 0.25)]), ((), [(2**20, 1.0)]), ((0.5, 0.0), [])):
        sink.send(ControlFrame(7, 0.14, SCALARS, PARAMS, field=field, plan=plan))
        got = dict(heard(receiver))
        assert tuple(got.get("/anticip/field", ())) == field
        assert got.get("/anticip/plan", []) == [number for pair in plan for number in pair]
    sink.close()
    other = open_sink(port, send=["param"])
    other.send(ControlFrame(7, 0.14, SCALARS, PARAMS, field=(1.0, 0.0), plan=[(1, 1.0)]))
    assert not {"/anticip/field", "/anticip/plan"} & set(dict(heard(receiver)))
    other.close()


def test_a_receiver_that_is_gone_is_counted_and_tried_again(receiver: socket.socket) -> None:
    port = receiver.getsockname()[1]
    sink = open_sink(port)
    receiver.close()
    for seq in range(20):
        sink.send(frame(seq))
        time.sleep(0.001)
    assert sink.counters()["refused"] > 0
    back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    back.bind(("127.0.0.1", port))
    back.settimeout(2)
    sink.send(frame(99))
    assert dict(heard(back))["/anticip/frame"][0] == 99
    back.close()
    sink.close()


def test_an_unknown_host_is_one_clear_line() -> None:
    with pytest.raises(DeviceError, match=r"nowhere\.invalid:9000: cannot resolve host") as caught:
        open_sink(9000, host="nowhere.invalid")
    assert "\n" not in str(caught.value)
