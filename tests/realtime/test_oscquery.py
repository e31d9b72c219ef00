"""OSCQuery: the description matches what is sent and accepted, and no request does harm."""

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pythonosc.osc_bundle import OscBundle
from pythonosc.osc_message import OscMessage
from pythonosc.osc_message_builder import OscMessageBuilder
from support.wire import arrived, port_of, start, tcp_port, udp, wait_for

from pyanticip.controls import Range
from pyanticip.errors import DeviceError
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import Project
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import ScaledClock
from realtime.control.rig_keys import CONTROLS
from realtime.oscquery.offer import controls, outputs
from realtime.oscquery.process import OscQueryProcess
from realtime.oscquery.server import announce
from realtime.oscquery.space import Space
from realtime.rig import parse_rig
from realtime.rig.checks import rig_warnings
from realtime.rig.tree import OscQueryRig
from realtime.show import close_shows
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import PARTS, OscConfig
from realtime.sinks.osc import OscSink
from realtime.sinks.outputs import MESSAGES
from realtime.sockets import free_port
from realtime.sources.replay import ReplaySource
from realtime.stage import assemble, stage

served = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("websockets", "zeroconf")),
    reason="the extra oscquery is not installed",
)
LABELS = [SimpleNamespace(name=f"class/pose/{n}", address=None, range=Range()) for n in ("tall", "low")]
EXTRAS: list[Any] = [Output("cutoff", 8000.0, 200.0), Output("mix", address="/fx/mix"), *LABELS]
OFFERED = {**outputs("/anticip", PARTS, EXTRAS, ["chorus"]), **controls(CONTROLS, values={"gain": 1.5})}


def space() -> Space:
    tree = Space({"NAME": "pyanticip"})
    tree.describe(OFFERED)
    return tree


def types_of(data: bytes) -> dict[str, str]:
    """Addresses and type tags of a bundle, parsed independently."""
    found = {}
    for each in OscBundle(data):
        assert isinstance(each, OscMessage)
        tags = each.dgram[each.dgram.index(b",") + 1 :]
        found[each.address] = tags[: tags.index(b"\0")].decode()
    return found


def everything_sent() -> list[bytes]:
    """A frame's bundle with every possible part, and the status."""
    with udp(2) as ear:
        sink = OscSink(OscConfig(port=port_of(ear)))
        sink.announce(EXTRAS)
        events = [("onset", 0.5, 0.1), ("onset/cancel", 0.1, 0.1), ("phrase", 0.5, 0.1)]
        events += [("phrase/cancel", 0.1, 0.1), ("cue/chorus", 0.5, 0.2)]
        events += [("class/pose/enter:low", 0.75, 0.0), ("class/pose/leave:tall", 0.75, 0.0)]
        frame = ControlFrame(7, 0.14, [0.5] * 7, [0.25] * 8, events, (), [0.5, 1.0, 0.25, 0.75])
        frame.classes = [("pose", "low", 0.75)]
        frame.field, frame.plan = (0.5, 0.25), [(7, 0.75), (9, 0.25)]
        frame.trust, frame.place = [0.5] * 24, (1, 2.5, 1.0, 0.75)
        frame.limbs, frame.tempo = [n / 16 for n in range(12)], (112.5, 0.25, 0.75)
        sink.send(frame)
        sink.send(ControlFrame(-1, 0.0, (), (), (), ("playing", "frames=7")))
        sink.close()
        return [ear.recv(65536), ear.recv(65536)]


def test_the_description_matches_the_messages() -> None:
    bundles = everything_sent()
    types = types_of(bundles[0]) | types_of(bundles[1])
    assert {message.part for message in MESSAGES.values()} | {"class", "gesture"} == set(PARTS)
    described = outputs("/anticip", PARTS, EXTRAS, ["chorus"])
    assert types.keys() == described.keys()
    tree = space()
    assert sum(len(tree.store(bundle)) for bundle in bundles) == len(described)
    for address, tags in types.items():
        status, body = tree.answer(address)
        node = json.loads(body)
        assert (status, node["TYPE"], node["ACCESS"]) == (HTTPStatus.OK, tags, 1)
        assert len(node["VALUE"]) == len(tags)
        # One per value, or none.
        assert {len(node[name]) for name in ("RANGE", "UNIT") if name in node} <= {len(tags)}
    node = json.loads(tree.answer("/anticip/param/cutoff")[1])
    assert (node["RANGE"], node["VALUE"]) == ([{"MIN": 200.0, "MAX": 8000.0}], [4100.0])
    node = json.loads(tree.answer("/anticip/class/pose")[1])
    assert (node["RANGE"][0], node["VALUE"]) == ({"VALS": ["tall", "low"]}, ["low", 0.75])


def methods(node: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every method below a node, by its address."""
    found = {node["FULL_PATH"]: node} if "TYPE" in node else {}
    for name, child in node.get("CONTENTS", {}).items():
        assert child["FULL_PATH"] == f"{node['FULL_PATH'].rstrip('/')}/{name}"
        found |= methods(child)
    return found


def ask(port: int, target: str = "/") -> Any:
    """The answer to a client's request."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=5) as answer:
        return json.loads(answer.read())


def answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        return bool(ask(port))
    return False


def make_offer() -> Any:
    """An offer whose nodes can be set."""
    nodes = {a: node for a, node in OFFERED.items() if a != "/fx/mix"}
    return SimpleNamespace(described=nodes, version=lambda: str(nodes), nodes=lambda: nodes)


class ServerProcess:
    """The server process, as a client sees it."""

    def __init__(self) -> None:
        self.offer, self.lines = make_offer(), list[str]()
        self.rig = OscQueryRig(enabled=True, port=tcp_port(), name=f"test {os.getpid()}")
        self.process = OscQueryProcess(self.rig, ("127.0.0.1", 9010), self.offer, self.lines.append)

    def get(self, target: str) -> Any:
        return ask(self.rig.port, target)

    def send(self, bundle: bytes) -> None:
        with udp() as sock:
            sock.sendto(bundle, ("127.0.0.1", self.process.port))


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    made = ServerProcess()
    yield made
    made.process.close()


@served
def test_a_client_reads_values_over_http(server: ServerProcess) -> None:
    info = server.get("/?HOST_INFO")
    assert (info["NAME"], info["OSC_IP"], info["OSC_PORT"]) == (server.rig.name, "127.0.0.1", 9010)
    server.send(everything_sent()[0])
    assert wait_for(lambda: server.get("/anticip/params").get("VALUE")) == [0.25] * 8
    with pytest.raises(urllib.error.HTTPError) as caught:
        server.get("/nowhere")
    assert caught.value.code == 404
    caught.value.close()
    with socket.create_connection(("127.0.0.1", server.rig.port), timeout=5) as sock:
        sock.sendall(b"HEAD /?HOST_INFO HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = sock.makefile("rb").read()
    assert b"Content-Length: " in answer
    assert answer.endswith(b"\r\n\r\n")


@served
def test_a_client_listens_and_learns_of_changes(server: ServerProcess) -> None:
    from websockets.asyncio.client import connect

    async def client() -> tuple[dict[str, OscMessage], dict[str, Any]]:
        async with connect(f"ws://127.0.0.1:{server.rig.port}", proxy=None) as stream:
            for strange in ("", "[]", "{}", '{"COMMAND": []}', b"\xff\xfe", "[" * 5000):
                await stream.send(strange)
            # The last does not exist yet.
            for address in ("/nowhere", "/nonsense*", "/anticip/param/density", "/fx/mix"):
                await stream.send(json.dumps({"COMMAND": "LISTEN", "DATA": address}))
            received: dict[str, OscMessage] = {}
            deadline = time.monotonic() + 20
            while len(received) < 2 and time.monotonic() < deadline:
                server.send(everything_sent()[0])
                with contextlib.suppress(TimeoutError):
                    one = await asyncio.wait_for(stream.recv(), 0.1)
                    if isinstance(one, bytes):
                        received[OscMessage(one).address] = OscMessage(one)
            server.offer.described["/fx/mix"] = OFFERED["/fx/mix"]
            server.process.poll()
            news: str | bytes = b""
            while isinstance(news, bytes) or "/fx/mix" not in news:
                news = await asyncio.wait_for(stream.recv(), 10)
            # Changes of a setting from any side.
            gain = "/anticip/control/gain"
            await stream.send(json.dumps({"COMMAND": "LISTEN", "DATA": gain}))
            changed: str | bytes = b""
            while gain.encode() not in changed:
                value = 2.0 - server.offer.described[gain]["VALUE"][0]
                server.offer.described[gain] = {**OFFERED[gain], "VALUE": [value]}
                server.process.poll()
                with contextlib.suppress(TimeoutError):
                    changed = await asyncio.wait_for(stream.recv(), 0.2)
                changed = changed if isinstance(changed, bytes) else b""
            assert OscMessage(changed).params in ([0.5], [1.5])
            server.offer.described[gain] = OFFERED[gain]
            server.process.poll()
            return received, json.loads(news)

    received, news = asyncio.run(client())
    assert received.keys() == {"/anticip/param/density", "/fx/mix"}
    assert received["/anticip/param/density"].params == [0.25]
    assert news == {"COMMAND": "PATH_ADDED", "DATA": "/fx/mix"}
    assert server.get("/fx/mix")["TYPE"] == "f"


@served
def test_pages_of_other_origins_may_not_listen(server: ServerProcess) -> None:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus

    async def page() -> None:
        async with connect(f"ws://127.0.0.1:{server.rig.port}", origin="http://example.org", proxy=None):  # type: ignore[arg-type]
            raise AssertionError("it was let in")

    with pytest.raises(InvalidStatus):
        asyncio.run(page())


STRANGE = [
    b"\0" * 100,
    b"GET\r\n\r\n",
    b"POST / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a" * 99999,
    b"GET /%ff?%ff HTTP/1.1\r\n\r\n",
    b"GET //[ HTTP/1.1\r\n\r\n",
]


@served
@pytest.mark.parametrize("upgrade", [{}, {"Connection": "Upgrade", "Upgrade": "websocket"}])
def test_other_host_names_are_refused(server: ServerProcess, upgrade: dict[str, str]) -> None:
    url = f"http://127.0.0.1:{server.rig.port}/"
    settings = {"Host": f"evil.example:{server.rig.port}", **upgrade}
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(url, headers=settings), timeout=5)
    assert (caught.value.code, b"machine it runs on" in caught.value.read()) == (403, True)
    for host in ("localhost", "127.0.0.1:1", "[::1]:1"):
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host}), timeout=5) as answer:
            assert answer.status == 200


@served
@pytest.mark.parametrize("upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"])
def test_a_second_host_name_is_a_bad_request(server: ServerProcess, upgrade: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.rig.port), timeout=5) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n" + upgrade + b"\r\n")
        answer = sock.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"Host") == 1


@served
def test_invalid_http_does_no_harm(server: ServerProcess) -> None:
    pid = server.process.pid
    for strange in STRANGE:
        with (
            socket.create_connection(("127.0.0.1", server.rig.port), timeout=5) as sock,
            contextlib.suppress(ConnectionError),
        ):
            sock.sendall(strange)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
    server.send(b"#bundle\0garbage")
    server.process.poll()
    assert server.get("/")["FULL_PATH"] == "/"
    assert server.process.pid == pid


@served
def test_the_service_is_announced_by_mdns(server: ServerProcess) -> None:
    from zeroconf import ServiceBrowser, Zeroconf

    found: dict[str, Any] = {}

    def seen(zeroconf: Zeroconf, service_type: str, name: str, **state: Any) -> None:
        found[name] = zeroconf.get_service_info(service_type, name)

    names = {
        f"{server.rig.name}._oscjson._tcp.local.": server.rig.port,
        f"{server.rig.name}._osc._udp.local.": 9010,
    }
    zeroconf = Zeroconf(interfaces=["127.0.0.1"])
    browser = ServiceBrowser(zeroconf, ["_oscjson._tcp.local.", "_osc._udp.local."], [seen])
    wait_for(lambda: all(found.get(name) for name in names))
    browser.cancel()
    zeroconf.close()
    assert {name: found[name].port for name in names} == names
    assert all(found[name].parsed_addresses() == ["127.0.0.1"] for name in names)


@served
def test_a_name_that_is_taken_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    class Taken:
        """A network where the first name is taken."""

        def __init__(self, **_: Any) -> None: ...

        async def async_register_service(self, info: Any, allow_name_change: bool) -> None:
            info.name = info.name.replace("stage.", "stage-2.")
            found.append(info.name)

    monkeypatch.setattr("zeroconf.asyncio.AsyncZeroconf", Taken)
    settings = {"host": "127.0.0.1", "port": 9020, "osc_port": 9010, "name": "stage"}
    assert asyncio.run(announce(settings))[1] == "stage-2"
    assert found == ["stage-2._oscjson._tcp.local.", "stage-2._osc._udp.local."]


@pytest.mark.parametrize(("host", "control", "offers"), [
    ("0.0.0.0", "127.0.0.1", False), ("0.0.0.0", "0.0.0.0", True), ("127.0.0.1", "127.0.0.1", True),
])  # fmt: skip
def test_commands_are_offered_only_if_the_remote_control_is_reachable(monkeypatch, host, control, offers):
    query, hand = {"enabled": True, "host": host}, {"host": control, "port": free_port()}
    settings = {"model": {"enabled": False}, "oscquery": query, "control": hand, "osc": []}
    rig, clock = parse_rig(settings, "test"), ScaledClock(1.0)
    arguments: list[Any] = []

    def process(rig: Any, obeys: Any, offer: Any, say: Any) -> Any:
        arguments.extend((obeys, offer.nodes()))
        return SimpleNamespace(port=free_port(), close=lambda: None, begin_close=lambda: None)

    monkeypatch.setattr("realtime.stage.OscQueryProcess", process)
    pipeline = assemble(rig, clock)
    show = stage(rig, pipeline, ReplaySource([], clock))
    show.control.close()
    close_shows([show])
    assert "oscquery" in [sink.name for sink in pipeline.sinks]
    obeys, nodes = arguments
    assert (obeys is not None, "/anticip/control/gain" in nodes) == (offers, offers)
    warnings = [
        line for line in rig_warnings(rig) if line.startswith("oscquery: offers no commands at 0.0.0.0")
    ]
    assert len(warnings) == (not offers)


@served
def test_a_dead_server_is_restarted_with_all_nodes(server: ServerProcess) -> None:
    pid = server.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    def lives() -> bool:
        server.process.poll()
        with contextlib.suppress(OSError):
            return bool(server.get("/anticip/control/gain")["VALUE"] == [1.5])
        return False

    wait_for(lives)
    assert server.process.pid != pid
    assert any("restarting it in 1 s" in line for line in server.lines)


@served
def test_a_port_in_use_and_a_missing_extra_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as in_use:
        rig = OscQueryRig(enabled=True, port=in_use.getsockname()[1])
        listens = rf"^OSCQuery: port {rig.port} at 127\.0\.0\.1 is in use by another program; close it or"
        with pytest.raises(DeviceError, match=listens):
            OscQueryProcess(rig, None, make_offer(), print)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"OSCQuery needs websockets: pip install 'pyanticip\[oscquery\]'"):
        OscQueryProcess(OscQueryRig(), None, make_offer(), print)


MISSAID = ("number of arguments", "expected a number", "unknown command", "expected a code", "pairs")


def described_command(address: str, node: dict[str, Any]) -> bytes:
    """A command with arguments as described."""
    plain: dict[str, Any] = {"N": None, "T": True, "i": 1, "f": 0.5, "s": "x"}
    builder = OscMessageBuilder(address)
    for kind, ends in zip_longest(node["TYPE"], node.get("RANGE", [])):
        value = plain[kind] if ends is None else ends["VALS"][0] if "VALS" in ends else ends["MAX"]
        builder.add_arg(value, kind)
    return bytes(builder.build().dgram)


@served
@pytest.mark.slow
def test_a_show_sends_and_accepts_what_it_describes(tmp_path: Path) -> None:
    skeleton, frames = mocopi_datagrams(120)
    suit, control, query = free_port(), free_port(), tcp_port()
    Project.create(tmp_path / "mine", (Output("cutoff", 200.0, 8000.0),))
    ear, hand = udp(), udp(10)
    (tmp_path / "rig.toml").write_text(
        f"teach = 'mine'\n[control]\nport = {control}\n[oscquery]\nport = {query}\n"
        f"[[osc]]\nport = {port_of(ear)}\n"
    )
    words = ("live", "--rig", "rig.toml", "--source", f"mocopi://127.0.0.1:{suit}", "--oscquery")
    show = start(*words, cwd=tmp_path, stderr=subprocess.STDOUT)

    received: dict[str, str] = {}
    try:
        wait_for(lambda: answers(query), 40)
        for n, frame in enumerate(frames):
            if n % 50 == 0:
                hand.sendto(skeleton, ("127.0.0.1", suit))
            hand.sendto(frame, ("127.0.0.1", suit))
            time.sleep(0.02)
            for bundle in arrived(ear):
                received |= types_of(bundle)
        nodes = methods(ask(query))
        described = {a: node["TYPE"] for a, node in nodes.items() if not a.startswith("/anticip/control/")}
        assert received.keys() <= described.keys()
        assert {a for a in described if "/event/" not in a} <= received.keys()
        # Except the status, whose number of values varies.
        assert all(received[a] == described[a] for a in received.keys() - {"/anticip/status"})
        # The commands, which are sent below.
        commands = {a: node for a, node in nodes.items() if a.startswith("/anticip/control/")}
        of_the_rig = ("rig/shape/", "rig/smoothing/", "rig/osc/0/", "learn/")
        keys = {a for a in commands if a.startswith(tuple(f"/anticip/control/{key}" for key in of_the_rig))}
        assert len(keys) > 100
        known = {name for name in CONTROLS if not name.endswith("/")}
        named = {f"/anticip/control/{name}" for name in known | {"teach/param/cutoff"}}
        assert commands.keys() - keys == named
        assert [a for a, node in commands.items() if not node["DESCRIPTION"]] == []
        for address, node in commands.items():
            hand.sendto(described_command(address, node), ("127.0.0.1", control))
            reply = OscMessage(hand.recv(65536))
            # The rate of commands of one host is limited.
            time.sleep(0.006)
            assert reply.address == address.replace("/control/", "/reply/")
            verdict, text = reply.params
            # It may be refused, but not for its form.
            assert verdict == "ok" or not any(word in text for word in MISSAID), (address, text)
            if "RANGE" in node:
                # The ends of a range, or a gate's two thresholds, may not be equal; a clock needs a
                # schedule.
                apart = "/load", "/in", "/hysteresis", "/clock_offset_ms"
                assert verdict == "ok" or address.endswith(apart), (address, text)
    finally:
        show.send_signal(signal.SIGINT)
        output = show.communicate(timeout=20)[0]
        ear.close()
        hand.close()
    assert show.returncode == 0, output
    assert f"describing everything to OSCQuery clients at http://127.0.0.1:{query}" in output
