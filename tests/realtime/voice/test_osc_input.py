"""Input of the voice's process: our own bundles, other types, and malformed data."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pythonosc.osc_message_builder import OscMessageBuilder
from support.wire import bundle, port_of, udp

from realtime.osc import message
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink
from realtime.voice.osc_input import VoiceInput

PARAMS = (0.4, 0.8, 0.5, 0.1, 0.3, 0.2, 0.5, 0.2)


def test_the_voice_reads_the_sink_s_addresses() -> None:
    with udp(2) as receiver:
        sink = OscSink(OscConfig(port=port_of(receiver)))
        sink.send(ControlFrame(3, 0.06, [0.5] * 7, PARAMS, [("onset", 0.7, 0.1), ("phrase", 1.0, 0.0)]))
        datagram = receiver.recv(65536)
        sink.close()
    voice_input = VoiceInput()
    commands = voice_input.decode(datagram)
    single = {c[1]: c[2] for c in commands[:8]}
    assert [single[i] for i in range(8)] == pytest.approx(PARAMS)
    assert [c[2] for c in commands[8:16]] == pytest.approx(PARAMS)
    assert [(c[0], c[1]) for c in commands[16:]] == [("event", 0), ("event", 1)]
    assert commands[16][2:] == pytest.approx((0.7, 0.1))
    assert voice_input.counts == {"datagrams": 1, "messages": 12, "events": 2, "other": 2, "malformed": 0}


def of_type(kind: str, address: str, value: float) -> bytes:
    """A message whose value has an OSC type that is not its usual one."""
    builder = OscMessageBuilder(address)
    builder.add_arg(value, kind)
    return bytes(builder.build().dgram)


def test_other_number_types_and_extra_arguments_are_accepted() -> None:
    voice_input = VoiceInput()
    assert voice_input.decode(message("/anticip/param/pan", [1, "more"])) == [("set", 6, 1.0, 0.0)]
    assert voice_input.decode(of_type("d", "/anticip/param/pan", 0.25)) == [("set", 6, 0.25, 0.0)]
    assert voice_input.decode(of_type("h", "/anticip/param/pan", 1)) == [("set", 6, 1.0, 0.0)]
    assert voice_input.decode(message("/anticip/param/pan", [7.0])) == [("set", 6, 1.0, 0.0)]
    assert voice_input.decode(bundle(bundle(message("/anticip/param/pitch", [0.5])))) == [
        ("set", 0, 0.5, 0.0)
    ]


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\0",
        b"no slash\0\0\0\0",
        b"/anticip/param/pitch",
        message("/anticip/param/pitch", ["x"]),
        message("/anticip/param/pitch", [float("nan")]),
        message("/anticip/params", [0.5] * 7),
        message("/anticip/event/onset", [1.0]),
        message("/anticip/event/onset", [1.0, float("inf")]),
        message("/anticip/param/pitch", [0.5])[:-2],
        bundle(message("/anticip/param/pitch", [0.5]))[:-4],
        b"#bundle\0" + bytes(8) + b"\xff\xff\xff\xff",
        functools.reduce(lambda nested, _: bundle(nested), range(50), message("/anticip/param/pitch", [0.5])),
    ],
)
def test_malformed_datagrams_are_counted_and_ignored(datagram: bytes) -> None:
    voice_input = VoiceInput()
    assert voice_input.decode(datagram) == []
    assert voice_input.counts["malformed"] == 1


def test_a_bad_message_does_not_spoil_the_bundle() -> None:
    voice_input = VoiceInput()
    bad, good = message("/anticip/param/pitch", ["x"]), message("/anticip/param/space", [0.5])
    assert voice_input.decode(bundle(bad, good)) == [("set", 5, 0.5, 0.0)]


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_survived(data: bytes, tagged: bool) -> None:
    voice_input = VoiceInput()
    for command in voice_input.decode(
        (b"#bundle\0" + bytes(8) if tagged else b"/anticip/params\0,ffffffff\0\0\0") + data
    ):
        assert 0.0 <= command[2] <= 1.0
