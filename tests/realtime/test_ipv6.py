"""Names and addresses on machines with IPv6."""

import asyncio
import importlib.util
import json
import socket
import time
import urllib.request
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from pythonosc.osc_message import OscMessage
from support.wire import message, tcp_port, udp

from pyanticip._core import LiveFront
from pyanticip.errors import DeviceError
from pyanticip.options import host_port
from realtime.control.server import ControlServer
from realtime.monitor.server import Remote
from realtime.oscquery.process import OscQueryProcess
from realtime.rig.tree import OscQueryRig
from realtime.sinks.config import OscConfig
from realtime.sockets import bind_udp, host_and_port, host_of, is_from, resolve
from realtime.sources.udp import UdpSource


def test_a_host_with_both_families_resolves_to_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[Any] = [
        (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::1", 9000, 0, 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", 9000)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: ways)
    assert resolve("localhost", 9000, "test", socket.SOCK_DGRAM)[4] == ("127.0.0.1", 9000)
    del ways[1]
    assert resolve("localhost", 9000, "test", socket.SOCK_DGRAM)[4][0] == "::1"


def test_printed_addresses_can_be_typed() -> None:
    for where in (("::1", 9000), ("192.0.2.7", 9001)):
        assert host_port(host_and_port(*where)) == where
        config = OscConfig(host=where[0], port=where[1], transport="tcp")
        assert OscConfig.model_validate(config.url) == config


@pytest.fixture
def _ipv6() -> None:
    try:
        bind_udp("::1", 0, "test").close()
    except (DeviceError, OSError):
        pytest.skip("there is no IPv6 here")


@pytest.mark.usefixtures("_ipv6")
def test_an_ipv4_sender_at_an_ipv6_socket_has_its_ipv4_address() -> None:
    async def senders() -> list[str]:
        source, found = UdpSource("mocopi", "::", 0), []
        source.start(asyncio.get_running_loop(), lambda data, arrival, sender: found.append(sender))
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family, socket.SOCK_DGRAM) as suit:
                suit.sendto(b"x", (host, source.address[1]))
                await asyncio.sleep(0.05)
        source.close()
        return found

    names = asyncio.run(senders())
    assert [name.rpartition(":")[0] for name in names] == ["127.0.0.1", "[::1]"]
    assert [host_of(name) for name in names] == ["127.0.0.1", "::1"]
    for address in ("::1", "[::1]", names[1]):
        assert is_from(names[1], address)
        assert not is_from(names[0], address)
        front = LiveFront("mocopi")
        front.feed(b"", 0, names[1])
        assert front.listen_to(address)


@pytest.mark.usefixtures("_ipv6")
@pytest.mark.parametrize("host", ["::", "::1", "127.0.0.1", "0.0.0.0"])
def test_the_monitor_reaches_a_remote_control_of_either_family(host: str) -> None:
    async def lines() -> list[dict[str, Any]]:
        control = ControlServer(host, 0, {"panic": lambda: "silence"})
        control.start(asyncio.get_running_loop())
        received: list[dict[str, Any]] = []
        remote = Remote(control.address, received.append)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: remote, remote_addr=remote.address
        )
        remote.send_command({"do": "panic"})
        await asyncio.sleep(0.1)
        transport.close()
        control.close()
        return received

    assert asyncio.run(lines()) == [{"reply": "panic", "ok": True, "text": "silence"}]


@pytest.mark.usefixtures("_ipv6")
def test_local_programs_get_whole_replies_over_either_family() -> None:
    async def answer() -> str:
        control = ControlServer("::", 0, {"preset": lambda: "x" * 200})
        control.start(asyncio.get_running_loop())
        with udp(2) as sock:
            sock.sendto(message("/anticip/control/preset"), ("127.0.0.1", control.address[1]))
            await asyncio.sleep(0.1)
            control.close()
            return str(OscMessage(sock.recv(4096)).params[1])

    assert asyncio.run(answer()) == "x" * 200


@pytest.mark.usefixtures("_ipv6")
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("websockets", "zeroconf")),
    reason="the extra oscquery is not installed",
)
@pytest.mark.parametrize(("host", "hosts"), [("::", ["127.0.0.1", "[::1]"]), ("::1", ["[::1]"])])
def test_oscquery_answers_at_both_families(host: str, hosts: list[str]) -> None:
    offer: Any = SimpleNamespace(version=lambda: 1, nodes=dict)
    lines: list[str] = []
    rig = OscQueryRig(enabled=True, host=host, port=tcp_port(), name="both")
    with closing(OscQueryProcess(rig, ("::", 9010), offer, lines.append)) as process:
        for where in hosts:
            with urllib.request.urlopen(f"http://{where}:{rig.port}/?HOST_INFO", timeout=5) as answer:
                info = json.loads(answer.read())
            assert (info["OSC_PORT"], info.get("OSC_IP")) == (9010, None)
        time.sleep(0.5)
        process.poll()
        assert len(lines) == 1, "it is announced by mDNS"
