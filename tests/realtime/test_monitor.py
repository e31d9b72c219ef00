"""The monitor's process: access, messages to the page, commands, and the effects of its death."""

import asyncio
import json
import math
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from pythonosc.osc_message import OscMessage
from support.paper import paper_frame
from support.wire import message, tcp_port, udp, wait_for
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from pyanticip.cli import cli
from pyanticip.errors import DeviceError
from pyanticip.vocabulary import PARAMETERS, SCALARS
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import MonotonicClock, OfflineClock, ScaledClock
from realtime.control.commands import Commands
from realtime.control.live_rig import LiveRig
from realtime.monitor.feed import MonitorFeed
from realtime.monitor.health import health
from realtime.monitor.process import MonitorProcess
from realtime.monitor.server import Page, Remote, Server
from realtime.multi_show import open_multi_show
from realtime.rig import Rig, load_rig, parse_rig
from realtime.rig.tree import MonitorRig
from realtime.show import close_shows
from realtime.sinks.base import ControlFrame, DeferredSink
from realtime.sockets import free_port
from realtime.sources.replay import ReplaySource
from realtime.stage import assemble, stage
from realtime.step.base import StepResult

HEALTH = {"state": "playing", "settings": {"gain": 1.0}, "commands": ["panic"]}


def test_a_lost_suit_is_reported(stage: Any) -> None:
    show = stage()
    show.frame(0)
    snapshots = [health(show.pipeline, Commands(show.pipeline), None, "default")]
    show.silence(250)
    snapshots.append(health(show.pipeline, Commands(show.pipeline), None, "default"))
    assert [each["rate"] for each in snapshots] == [50.0, None]
    assert [each["senders"][0] for each in snapshots] == [("10.0.0.1:4000", True, 9, gone) for gone in (0, 5)]


@pytest.fixture
def control() -> Iterator[socket.socket]:
    """A socket in place of the remote control."""
    with udp(10) as sock:
        yield sock


@pytest.fixture
def monitor(control: socket.socket, tmp_path: Path) -> Iterator[MonitorProcess]:
    rig = MonitorRig(enabled=True, port=tcp_port())
    show = Rig(model={"enabled": False}, memory={"enabled": False})  # type: ignore[arg-type]
    pipeline = assemble(show, MonotonicClock())
    live_rig = LiveRig(pipeline, show)
    process = MonitorProcess(
        rig, control.getsockname(), lambda: HEALTH, lambda line: None, live_rig, tmp_path
    )
    yield process
    process.close()
    pipeline.close()


@contextmanager
def open_page(url: str, **options: Any) -> Iterator[ClientConnection]:
    where, mark, token = url.partition("/?")
    with connect(f"ws{where.removeprefix('http').rstrip('/')}/live{mark[1:]}{token}", **options) as client:
        yield client


def next_message(client: ClientConnection, what: str) -> Any:
    """The next message of this kind."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        message = json.loads(client.recv(15))
        if what in message:
            return message[what] if what != "reply" else message
    raise AssertionError(f"nothing of {what}")


def make_frame(seq: int, **changes: Any) -> ControlFrame:
    frame = ControlFrame(seq, seq * 0.02, [0.5] * 7, [0.25] * 8, [("onset", 0.75, 0.125)])
    frame.body = paper_frame(1, root=(0.0, 0.9, 0.0))
    frame.step = StepResult(np.full((8, 5), 0.5), np.zeros((2, 25)), np.zeros(7), 0.5)
    frame.t_ns = time.monotonic_ns()
    for name, value in changes.items():
        setattr(frame, name, value)
    return frame


def show(feed: MonitorFeed, frame: ControlFrame) -> None:
    feed.send(frame)
    feed.run_deferred()


@pytest.mark.parametrize(("error", "count"), [
    (BlockingIOError, "dropped"), (InterruptedError, "dropped"), (ConnectionRefusedError, "refused"),
    (OSError, "failed"), (None, "sent"),
])  # fmt: skip
def test_a_frame_that_cannot_be_sent_is_counted_once(monkeypatch, error, count):
    class Socket:
        def send(self, data: bytes) -> None:
            if error is not None:
                raise error

    feed = MonitorFeed(free_port(), MonotonicClock())
    feed.close()
    monkeypatch.setattr(feed, "_sock", Socket())
    for n in range(2):
        show(feed, make_frame(n))
    assert feed.counters() == {"sent": 0, "dropped": 0, "refused": 0, "failed": 0, count: 2}


def test_a_page_shows_what_the_show_sends(monitor: MonitorProcess):
    feed = MonitorFeed(monitor.port, MonotonicClock(), suit=True)
    with open_page(monitor.url) as client:
        hello = next_message(client, "hello")
        assert (hello["scalars"], hello["params"]) == (list(SCALARS), list(PARAMETERS))
        assert len(hello["joints"]) == len(hello["parents"]) == 22
        assert hello["obeys"] is True
        assert (hello["takes"]["memory/save"], hello["takes"].get("gain")) == ("s", None)
        monitor.poll()
        assert next_message(client, "health") == HEALTH
        settable = next_message(client, "rig")
        assert settable["receivers"] == ["127.0.0.1:9000"]
        assert ["shape/pan/in", "ff", [0.0, 1.0], [0.0, 1.0]] in settable["keys"]
        assert "foreseen rather than held" in settable["parts"]["trust"]
        assert "event" not in settable["parts"], "several messages, so no common description"
        show(feed, ControlFrame(-1, 0.0, (), (), (), ("playing", "rate=50.0")))
        assert next_message(client, "status") == ["playing", "rate=50.0"]
        show(feed, make_frame(7))
        frame = next_message(client, "frame")
        assert frame["seq"] == 7
        assert frame["params"] == [0.25] * 8
        assert frame["events"] == [["onset", 0.75, 0.125]]
        assert np.shape(frame["places"]) == (22, 3)
        assert frame["places"][0] == pytest.approx([0.0, 0.9, 0.0])
        assert np.shape(frame["forecast"]) == (8, 5)
        assert frame["gate"] == 0.5
        assert 0.0 <= frame["way_ms"] < 15_000
        show(feed, make_frame(8, body=None, step=None, params=[math.nan] * 8))
        frame = next_message(client, "frame")
        assert (frame["places"], frame["forecast"], frame["params"]) == (None, None, [None] * 8)
        assert frame["gate"] is None
        skeleton, moved = mocopi_datagrams(1)
        for data in (skeleton, *moved):
            feed.on_datagram("10.0.0.7:1", data)
        show(feed, make_frame(9))
        assert len(next_message(client, "suit")) == 27
        assert np.shape(next_message(client, "frame")["suit"]) == (27, 3)
    # A page that connects later gets the current state at once.
    with open_page(monitor.url) as client:
        assert next_message(client, "status") == ["playing", "rate=50.0"]
        assert [each["seq"] for each in next_message(client, "past")] == [7, 8, 9]
    feed.close()


class Taught:
    """A fitted mapping."""

    names, neutral = ("cutoff",), (0.5,)
    extras = (SimpleNamespace(name="cutoff", address=None, range=float),)
    mapping = SimpleNamespace(classes=(), name="paper", missing_joints=lambda mask: [])
    gestures, is_beyond, novelty = None, False, 0.0
    step = rehearse = staticmethod(lambda *_: [0.125])


def test_a_change_during_the_greeting_reaches_a_slow_page(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"token": "", "folder": ".", "kind": "mocopi", "everybody": {}, "obeys": None, "takes": {}}
    server, received = Server(options), list[dict[str, Any]]()
    server.broadcast({"rig": 1}, "rig")

    class Slow:
        transport = SimpleNamespace(get_write_buffer_size=lambda: 0)

        async def send(self, text: str) -> None:
            received.append(json.loads(text))
            if "rig" in received[-1]:
                server.broadcast({"rig": 2}, "rig")

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> str:
            raise StopAsyncIteration

    def broadcast(clients: list[Any], text: str) -> None:
        received.extend([json.loads(text)] * len(clients))

    monkeypatch.setattr("websockets.asyncio.server.broadcast", broadcast)
    asyncio.run(server.serve_page(Slow()))
    assert [next(iter(one)) for one in received] == ["hello", "rig", "rig", "past"]
    assert received[2] == {"rig": 2}


def test_the_page_shows_the_outputs_of_the_initial_mapping() -> None:
    off = {"enabled": False}
    tables = {"model": off, "memory": off, "control": off, "osc": [], "monitor": f"127.0.0.1:{tcp_port()}"}
    rig, clock = Rig.model_validate(tables), ScaledClock(1.0)
    pipeline = assemble(rig, clock)
    taught: Any = Taught()
    pipeline.set_mapping(taught)
    show = stage(rig, pipeline, ReplaySource([], clock))
    try:
        with open_page(f"http://127.0.0.1:{rig.monitor.port}/") as client:
            assert next_message(client, "hello")["obeys"] is False
            skeleton, moved = mocopi_datagrams(3)
            for n, data in enumerate((skeleton, *moved)):
                pipeline.feed(data, n * 20_000_000)
            assert list(next_message(client, "frame")["extras"]) == ["cutoff"]
    finally:
        close_shows([show])


def test_a_page_distinguishes_the_end_of_the_show_from_a_dead_monitor(monitor):
    for end, code in ((lambda: os.kill(monitor.pid or 0, signal.SIGKILL), None), (monitor.close, 1001)):
        with open_page(monitor.url) as client:
            next_message(client, "hello")
            end()
            with pytest.raises(ConnectionClosed) as closed:
                next_message(client, "never")
            assert (closed.value.rcvd and closed.value.rcvd.code) == code
        if code is None:
            wait_for(lambda: monitor.poll() or monitor.pid is None)
            monitor._retry_at = 0.0
            monitor.poll()
            monitor.wait_until_ready()


def test_actions_on_the_page_are_commands_and_are_answered(monitor, control):
    with open_page(monitor.url) as client:
        client.send(json.dumps({"do": "teach/param/cutoff", "with": [0.5]}))
        data, peer = control.recvfrom(65536)
        command = OscMessage(data)
        assert (command.address, command.params) == ("/anticip/control/teach/param/cutoff", [0.5])
        with udp() as stranger:
            stranger.sendto(message("/anticip/reply/panic", "ok", "not the show's"), peer)
        control.sendto(message("/anticip/reply/teach/param/cutoff", "error", "no such output"), peer)
        assert next_message(client, "reply") == {
            "reply": "teach/param/cutoff",
            "ok": False,
            "text": "no such output",
        }
        for nonsense in (
            "",
            "[",
            "7",
            '{"do": 3}',
            '{"do": "gain", "with": [[1]]}',
            '{"do": ""}',
            '{"do": "gain\\u0000\\u0000x"}',
            '{"do": "preset", "with": ["a\\u0000b"]}',
            "[" * 9000,
        ):
            client.send(nonsense)
            assert next_message(client, "reply")["ok"] is False
        client.send(json.dumps({"do": "panic"}))
        assert OscMessage(control.recv(65536)).address == "/anticip/control/panic"
        # Constants before a value may be integers.
        client.send(json.dumps({"do": "rig/osc/0/addresses/pan", "with": ["/n_set", 1000, "pan"]}))
        assert OscMessage(control.recv(65536)).params == ["/n_set", 1000, "pan"]
        client.send(json.dumps({"do": "rig/shape/pan/invert", "with": [True]}))
        assert OscMessage(control.recv(65536)).params == [True]


@example([1e39], "gain")
@example([10**400], "gain")
@example(["\ud800"], "preset")
@example([], "gain\0\0x\0\0\0x")
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists), st.text())
def test_no_message_of_a_page_raises(arguments: Any, name: str):
    sent: list[bytes] = []
    remote = Remote(("127.0.0.1", 9), lambda answer: None)
    remote.connection_made(type("Transport", (), {"sendto": lambda self, data: sent.append(data)})())
    refused = remote.send_command({"do": name, "with": arguments})
    assert (refused is None) == (len(sent) == 1)
    remote.datagram_received(name.encode(errors="replace"), None)


def test_other_origins_and_host_names_are_refused(monitor: MonitorProcess):
    def code(path: str = "", **headers: str) -> int:
        request = urllib.request.Request(monitor.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert code() == code("monitor.js") == code("monitor.css") == 200
    assert code("server.py") == code("..%2f..%2fetc/passwd") == 404
    assert code(Host="evil.example") == 403
    assert code(Origin="http://[") == 400
    with socket.create_connection(("127.0.0.1", urlsplit(monitor.url).port)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 400 ")
    with urllib.request.urlopen(monitor.url) as answer:
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    with pytest.raises(InvalidStatus), open_page(monitor.url, origin="http://evil.example"):
        pass
    with open_page(monitor.url, origin=monitor.url.rstrip("/")) as client:
        assert next_message(client, "hello")


def test_the_files_of_the_show_are_listed(monitor: MonitorProcess, tmp_path):
    (tmp_path / "stage.toml").write_text("gain = 0.5\n")
    with open_page(monitor.url) as client:
        client.send(json.dumps({"ask": "files"}))
        assert next_message(client, "files")["rigs"] == ["stage.toml"]
        for nonsense in ({"ask": "../"}, {"ask": "files", "in": "/"}):
            client.send(json.dumps(nonsense))
            assert next_message(client, "reply")["ok"] is False


def test_other_machines_need_the_token():
    page = Page({"token": "let-me-in"})
    here = {"Host": "192.168.1.20:8765"}
    assert page.refusal("/?token=let-me-in", here) is None
    for target in ("/", "/?token=", "/?token=let-me-i", "/live?token=x", "/?token=%ff"):
        assert "token" in (page.refusal(target, here) or "")
    assert page.refusal("/?token=let-me-in", {**here, "Origin": "http://evil.example"})
    process = MonitorProcess(
        MonitorRig(enabled=True, host="0.0.0.0", port=tcp_port()), None, lambda: HEALTH, lambda line: None
    )
    try:
        token = process.url.partition("?token=")[2]
        assert len(token) >= 12
        if (listed := Path(f"/proc/{process.pid}/cmdline")).exists():
            assert token.encode() not in listed.read_bytes(), "every user of the machine sees it"
        local = process.url.replace(
            process.url.split("/")[2], f"127.0.0.1:{process.url.split(':')[2].split('/')[0]}"
        )
        with open_page(local) as client:
            assert next_message(client, "hello")
            client.send(json.dumps({"do": "panic"}))
            assert next_message(client, "reply")["text"] == "the remote control is off"
        with pytest.raises(InvalidStatus), open_page(local.partition("?")[0]):
            pass
    finally:
        process.close()


def test_a_dead_monitor_and_a_stuck_browser_cost_the_show_nothing(monitor: MonitorProcess):
    feed = MonitorFeed(monitor.port, MonotonicClock())
    monitor._retry_delay_s = 0.01
    with open_page(monitor.url) as client:
        next_message(client, "hello")
        with open_page(monitor.url, max_queue=1, close_timeout=0.1) as asleep:
            for seq in range(1500):
                show(feed, make_frame(seq))
                if seq % 50 == 0:
                    time.sleep(0.01)
            assert asleep.protocol.state.name == "OPEN"
            show(feed, make_frame(5000))
            while next_message(client, "frame")["seq"] != 5000:
                show(feed, make_frame(5000))
        before = monitor.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while monitor.restarts < 1:
        show(feed, make_frame(0))
        monitor.poll()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert feed.counters()["failed"] == 0
    while True:
        try:
            with open_page(monitor.url) as client:
                assert next_message(client, "hello")
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    feed.close()


class DeferredRecorder(DeferredSink):
    name = "looks on"
    trouble = ""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def announce(self, extras: Any) -> None: ...

    def send(self, frame: ControlFrame) -> None:
        self.done.append("kept" if frame.seq >= 0 else "status")

    def run_deferred(self) -> None:
        self.done.append("looked")

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


def test_frames_are_sent_before_deferred_sinks_run():
    done: list[str] = []
    show = Rig.model_validate({"model": {"enabled": False}, "memory": {"enabled": False}})
    clock = OfflineClock(0)
    pipeline = assemble(show, clock, sinks=[DeferredRecorder(done)])
    pipeline.observer = lambda arrival, left, seq, stages: done.append("left")
    skeleton, frames = mocopi_datagrams(3)
    for n, data in enumerate([skeleton, *frames]):
        clock.advance_to(n * 20_000_000)
        pipeline.feed(data, n * 20_000_000)
    order = [what for what in done if what != "status"]
    assert "left" in order
    for at, what in enumerate(order):
        if what == "left":
            assert (order[at - 1], order[at + 1]) == ("kept", "looked")
    # Bridged frames are shown as well.
    done.clear()
    pipeline.run_until(clock.now_ns() + 60_000_000)
    assert done.count("kept") == 2 <= done.count("looked")
    pipeline.close()


def test_a_port_in_use_is_one_line():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        with pytest.raises(DeviceError, match=f"monitor: port {port} at 127.0.0.1 is in use by another"):
            MonitorProcess(MonitorRig(enabled=True, port=port), None, lambda: HEALTH, lambda line: None)


def test_the_monitor_s_address_can_be_a_command_line_option(tmp_path):
    file = tmp_path / "rig.toml"
    file.write_text("[monitor]\nport = 9999\ntoken = 'abc'\n")
    assert not load_rig(file).monitor.enabled
    on = load_rig(file, {"monitor": "on"}).monitor
    assert (on.enabled, on.host, on.port, on.token, on.is_local) == (True, "127.0.0.1", 9999, "abc", True)
    there = load_rig(file, {"monitor": "0.0.0.0:8000"}).monitor
    assert (there.host, there.port, there.token, there.is_local) == ("0.0.0.0", 8000, "abc", False)


def test_the_monitor_command_shows_a_suit_without_a_show(tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    rig_text = f"record = 'show.anticip'\ncontrol.port = {free_port()}\nsynth.enabled = true\n"
    file.write_text(f"{rig_text}[[osc]]\nport = {free_port()}\n")
    where = ["--source", f"msgpack://127.0.0.1:{free_port()}", "--at", f"127.0.0.1:{tcp_port()}"]
    done = CliRunner().invoke(cli, ["monitor", "--rig", str(file), *where, "--seconds", "0.3", "--json"])
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)["sinks"]) == ["monitor"]
    assert "midi" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rig.toml"]


def test_each_performer_has_a_page_of_their_own() -> None:
    first = tcp_port()
    suits = [free_port(), free_port()]
    performers = [{"name": name, "port": port} for name, port in zip(("ann", "bob"), suits, strict=True)]
    tables = {"monitor": {"port": first, "enabled": True}, "control": {"port": free_port()}, "osc": []}
    rig = parse_rig({"performer": performers, "model": {"enabled": False}, **tables}, "test")

    def look(port: int) -> tuple[dict[str, int], dict[str, Any]]:
        with open_page(f"http://127.0.0.1:{port}/") as client:
            everybody = next_message(client, "hello")["everybody"]
            client.send(json.dumps({"do": "gain", "with": [port / 1e5]}))
            answer = next_message(client, "reply")
        return everybody, answer

    async def show() -> list[float]:
        multi_show = open_multi_show(rig, MonotonicClock(), lambda line: None)
        playing = asyncio.create_task(multi_show.run(60.0))
        try:
            for port in (first, first + 1):
                everybody, answer = await asyncio.to_thread(look, port)
                assert everybody == {"ann": first, "bob": first + 1}
                assert (answer["reply"], answer["ok"]) == ("gain", True)
        finally:
            multi_show.end()
            await playing
        return [show.pipeline.mixer.settings["gain"] for show in multi_show.shows.values()]

    assert asyncio.run(show()) == pytest.approx([first / 1e5, (first + 1) / 1e5])
