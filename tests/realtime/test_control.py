import asyncio
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from pythonosc.osc_bundle_builder import OscBundleBuilder
from pythonosc.osc_message import OscMessage
from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip.errors import DeviceError, OptionError
from realtime.control.server import ControlServer, number, switch


def say(address: str, *arguments: object) -> bytes:
    builder = OscMessageBuilder(address)
    for argument in arguments:
        builder.add_arg(argument)
    return bytes(builder.build().dgram)


@pytest.fixture
def remote() -> Iterator[socket.socket]:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(2)
    yield sock
    sock.close()


def talk(
    remote: socket.socket, *packets: bytes, refused: Callable[[str], None] = lambda line: None
) -> tuple[ControlServer, list[object], list[OscMessage]]:
    heard: list[object] = []

    def gain(value: object) -> str:
        heard.append(number("gain", value))
        return f"gain {value}"

    async def show() -> ControlServer:
        server = ControlServer(
            "127.0.0.1", 0, {"gain": gain, "record/start": lambda *a: f"recording {a}"}, refused=refused
        )
        server.start(asyncio.get_running_loop())
        for packet in packets:
            remote.sendto(packet, server.address)
        await asyncio.sleep(0.1)
        server.close()
        return server

    server = asyncio.run(show())
    remote.setblocking(False)
    replies = []
    while True:
        try:
            replies.append(OscMessage(remote.recv(4096)))
        except BlockingIOError:
            return server, heard, replies


def test_a_command_is_obeyed_and_answered(remote: socket.socket) -> None:
    _, heard, (reply, other) = talk(
        remote, say("/anticip/control/gain", 0.5), say("/anticip/control/record/start", "a")
    )
    assert heard == [0.5]
    assert (reply.address, reply.params) == ("/anticip/reply/gain", ["ok", "gain 0.5"])
    assert other.address == "/anticip/reply/record/start"


def test_mistakes_are_told_at_the_terminal_once_and_printable(remote: socket.socket) -> None:
    lines: list[str] = []
    talk(
        remote,
        *[say("/anticip/control/gain", "loud")] * 3,
        say("/anticip/control/\x1b[2J", 1.0),
        say("/anticip/control/gain", 1.0),
        refused=lines.append,
    )
    assert lines == [
        "refused /anticip/control/gain: gain: expected a number, got 'loud'",
        "refused /anticip/control/?[2J: unknown command",
    ]


def test_mistakes_are_answered(remote: socket.socket) -> None:
    server, heard, replies = talk(
        remote,
        say("/anticip/control/gain", "loud"),
        say("/anticip/control/gain"),
        say("/anticip/control/gian", 1.0),
    )
    assert heard == []
    assert [r.params[0] for r in replies] == ["error"] * 3
    assert "expected a number, got 'loud'" in replies[0].params[1]
    assert "number of arguments: 0" in replies[1].params[1]
    assert "known: gain" in replies[2].params[1]
    assert server.counts["errors"] == 3


def test_what_is_not_ours_is_survived_and_not_answered(remote: socket.socket) -> None:
    server, heard, replies = talk(
        remote, b"", b"\xff" * 40, b"/anticip/control/gain", b"#bundle\0\0", say("/other", 1.0),
        say("/anticip/control/gain", 0.25),
    )  # fmt: skip
    assert heard == [0.25]
    assert len(replies) == 1
    assert server.counts["alien"] >= 1


def test_a_bundle_of_the_far_future_does_not_stall(remote: socket.socket) -> None:
    bundle = OscBundleBuilder(time.time() + 60)
    message = OscMessageBuilder("/anticip/control/gain")
    message.add_arg(0.75)
    bundle.add_content(message.build())
    _, heard, _ = talk(remote, bytes(bundle.build().dgram))
    assert heard == [0.75]


def test_a_port_in_use_is_one_line(remote: socket.socket) -> None:
    with pytest.raises(DeviceError, match="in use by another program") as caught:
        ControlServer("127.0.0.1", remote.getsockname()[1], {})
    assert "\n" not in str(caught.value)


def test_arguments() -> None:
    assert number("x", 3) == 3.0
    assert switch("x") is True
    assert switch("x", 0) is False
    assert switch("x", True) is True
    for bad in ("a", None, float("nan"), float("inf")):
        with pytest.raises(OptionError):
            number("x", bad)
