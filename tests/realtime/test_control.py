import asyncio
import socket
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from pythonosc.osc_message import OscMessage
from support.wire import arrived, bundle, udp
from support.wire import message as say

from pyanticip.errors import OptionError
from realtime.control.budget import Bucket
from realtime.control.server import ControlServer, number, switch


@pytest.fixture
def remote() -> Iterator[socket.socket]:
    with udp(2) as sock:
        yield sock


def exchange(
    remote: socket.socket,
    *packets: bytes,
    actions: dict[str, Any] | None = None,
    answers: int | None = None,
    **options: Any,
) -> tuple[ControlServer, list[object], list[OscMessage]]:
    """What a server receives from packets, and its answers within a tenth of a second or up to a number."""
    received: list[object] = []
    replies: list[OscMessage] = []
    remote.setblocking(False)

    def gain(value: object) -> str:
        received.append(number("gain", value))
        return f"gain {value}"

    usual = {"gain": gain, "record/start": lambda *a: f"recording {a}"}

    async def show() -> ControlServer:
        server = ControlServer("127.0.0.1", 0, actions or usual, **options)
        server.start(asyncio.get_running_loop())
        for packet in packets:
            remote.sendto(packet, server.address)
        deadline = time.monotonic() + 2.0
        await asyncio.sleep(0.1 if answers is None else 0.0)
        while answers is not None and len(replies) < answers and time.monotonic() < deadline:
            await asyncio.sleep(0.001)
            replies.extend(map(OscMessage, arrived(remote)))
        server.close()
        return server

    return asyncio.run(show()), received, [*replies, *map(OscMessage, arrived(remote))]


def test_a_command_is_executed_and_answered(remote: socket.socket) -> None:
    _, received, (reply, other) = exchange(
        remote, say("/anticip/control/gain", 0.5), say("/anticip/control/record/start", "a")
    )
    assert received == [0.5]
    assert (reply.address, reply.params) == ("/anticip/reply/gain", ["ok", "gain 0.5"])
    assert other.address == "/anticip/reply/record/start"


def test_one_presses_a_button_and_zero_releases_it(remote: socket.socket) -> None:
    done: list[str] = []
    files = ("record/start", "alice/record/start", "memory/save", "rig/save", "teach/start")
    names = ("stop", "panic", "alice/panic", "record/stop", "freeze", *files)
    actions = {
        name: partial(lambda name, *a: done.append(name + " set" * len(a)) or name, name) for name in names
    }

    def press(name: str, *argument_lists: tuple[object, ...]) -> tuple[list[str], list[list[str]]]:
        done.clear()
        packets = [say(f"/anticip/control/{name}", *arguments) for arguments in argument_lists]
        actions["start"] = lambda: "playing"
        _, _, replies = exchange(remote, *packets, actions=actions, answers=len(packets))
        return list(done), [reply.params for reply in replies]

    for name in files:
        assert press(name, ("solo",))[0] == [f"{name} set"]
    for name in ("stop", "panic", "alice/panic", "record/stop", *files):
        assert press(name, (1.0,), (True,), (1,), (0.3,)) == ([name] * 4, [["ok", name]] * 4)
        assert press(name, (0.0,), (False,), (0,)) == ([], [["ok", "released"]] * 3)
    assert press("panic", ("now", 0.0))[0] == ["panic"], "whatever stands behind it"
    assert press("freeze", (0.0,))[0] == ["freeze set"], "a switch takes its value"
    assert press("start", ("x",))[1] == [["error", "start: wrong number of arguments: 1"]]


def test_symbols_are_strings_impulses_press_and_unknown_types_are_ignored(remote, caplog):
    start, gain = b"/anticip/control/record/start\0\0\0", b"/anticip/control/gain\0\0\0"
    server, received, replies = exchange(
        remote,
        start + b",S\0\0take\0\0\0\0",
        start + b",I\0\0",
        gain + b",c\0\0\0\0\0a",
        gain + b"," + b"I" * 250 + b"\0",
        gain + b",f\0\0" + b"\x3f\x00\x00\x00",
    )
    assert [reply.params for reply in replies[:2]] == [["ok", "recording ('take',)"], ["ok", "recording ()"]]
    assert (received, server.counts["alien"]) == ([0.5], 1)
    assert not caplog.records


def test_a_command_for_one_performer_is_answered_with_its_full_name(remote: socket.socket) -> None:
    actions = {name: lambda *a: "ok" for name in ("gain", "alice/source", "bob/source", "bob/plan")}
    families = {f"{who}/rig/": lambda *a: "ok" for who in ("alice", "bob")}

    names = ("source", "plan", "rig/shape/pan/steps", "sourc", "bob/plam", "bob/teach/list")
    packets = [say(f"/anticip/control/{name}") for name in names]
    _, _, replies = exchange(
        remote, *packets, actions=actions, families=families, performers=("alice", "bob")
    )
    *hints, unknown, near, lacking = (reply.params[1] for reply in replies)
    assert hints == [
        "is for one performer: alice/source, bob/source",
        "is for one performer: bob/plan",
        "is for one performer: alice/rig/shape/pan/steps, bob/rig/shape/pan/steps",
    ]
    assert unknown == "unknown command; did you mean bob/source?"
    assert near == "unknown command; did you mean bob/plan?"
    assert lacking == "bob has no project to teach: expected `teach` in the rig"


def test_refused_commands_are_printed_once_without_control_characters(remote: socket.socket) -> None:
    lines: list[str] = []
    exchange(
        remote,
        *[say("/anticip/control/gain", "loud")] * 3,
        say("/anticip/control/\x1b[2J", 1.0),
        say("/anticip/control/gain", 1.0),
        refused=lines.append,
    )
    assert lines == [
        "refused /anticip/control/gain: gain: expected a number, got 'loud'",
        "refused /anticip/control/?[2J: unknown command; docs/osc.md has them all",
    ]


def test_other_datagrams_are_ignored(remote: socket.socket) -> None:
    server, received, replies = exchange(
        remote, b"", b"\xff" * 40, b"/anticip/control/ga\xffn\0\0\0,\0\0\0", b"#bundle\0\0",
        say("/other", 1.0), say("/anticip/control/gain", 0.25),
    )  # fmt: skip
    assert received == [0.25]
    assert len(replies) == 1
    assert server.counts["alien"] >= 1


@pytest.mark.parametrize(
    "data",
    [
        b"/anticip/control/gain",
        b"/anticip/control/gain\0\0\0,ff\0" + bytes(3),
        b"/anticip/control/gain\0\0\0,s\0\0\xff\xfe\0\0",
        b"/anticip/control/gain\0\0\0," + b"T" * 8000 + bytes(7),
    ],
)
def test_a_malformed_command_is_answered_with_an_error(remote: socket.socket, data: bytes) -> None:
    server, received, (reply,) = exchange(remote, data)
    assert (received, server.counts["alien"], server.counts["errors"]) == ([], 1, 1)
    assert reply.address == "/anticip/reply/gain"
    assert reply.params == ["error", "malformed: expected what the types say, in UTF-8"]


def test_a_bundle_with_a_future_time_tag_is_executed_at_once(remote: socket.socket) -> None:
    later = (round(time.time()) + 2_208_988_800 + 60) << 32
    _, received, _ = exchange(remote, bundle(say("/anticip/control/gain", 0.75), when=later))
    assert received == [0.75]


def test_a_datagram_executes_at_most_32_commands(remote: socket.socket) -> None:
    _, received, replies = exchange(
        remote, bundle(*(say("/anticip/control/gain", n / 40) for n in range(40)))
    )
    assert received == pytest.approx([n / 40 for n in range(32)])
    assert len(replies) == 32


def test_a_flood_of_unknown_commands_is_limited_and_prints_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    # No time passes, however busy the machine is.
    monkeypatch.setattr(Bucket.__init__, "__defaults__", (lambda: 0.0,))
    lines: list[str] = []
    server = ControlServer("127.0.0.1", 0, {}, refused=lines.append)
    for n in range(60):
        many = bundle(*(say(f"/anticip/control/no{32 * n + i}") for i in range(32)))
        server._receive(many, ("127.0.0.1", 1))
        while server._queue:
            server._read()
    server.close()
    assert len(lines) == 6
    assert (server.counts["errors"], server.counts["ignored"]) == (1000, 60 * 32 - 1000)


@pytest.mark.parametrize(("host", "more"), [("127.0.0.1", ""), ("0.0.0.0", ", open to whoever reaches it")])
def test_the_description_warns_when_other_machines_can_send_commands(host: str, more: str) -> None:
    server = ControlServer(host, 0, {})
    server.close()
    address, _, why = server.description.partition(":" + str(server.address[1]))
    assert address == f"remote control: /anticip/control at {host}"
    assert why == (f"{more}: it has no password" if more else "")


def test_a_flood_from_many_hosts_leaves_another_host_its_budget() -> None:
    server = ControlServer("127.0.0.1", 0, {n: lambda *a: "ok" for n in ("gain", "stop", "panic")})

    def ignored(name: str, hosts: Sequence[str], times: int) -> int:
        before = server.counts["ignored"]
        for host in hosts:
            for _ in range(times):
                server._receive(say(f"/anticip/control/{name}"), (host, 1))
            server._queue.clear()
        return server.counts["ignored"] - before

    for name in ("gain", "stop", "panic"):
        assert ignored(name, [f"10.0.0.{n}" for n in range(5)], 1300) > 0
        assert ignored(name, ["10.0.0.9"], 30) == 0, name
    server.close()


def test_address_patterns_are_refused(remote: socket.socket) -> None:
    _, received, replies = exchange(remote, say("/anticip/control/*", 0.5), say("/anticip/control/ga?n", 0.5))
    assert received == []
    assert [reply.params[0] for reply in replies] == ["error", "error"]


def test_deeply_nested_and_oversized_datagrams_are_ignored(remote: socket.socket) -> None:
    nested = say("/anticip/control/gain", 0.5)
    for _ in range(200):
        nested = bundle(nested)
    lied = b"#bundle\0" + bytes(8) + b"\xff\xff\xff\xff" + say("/anticip/control/gain", 0.5)
    many = say("/anticip/control/gain", *[True] * 8000)
    server, received, _ = exchange(
        remote, nested, lied, bytes(20_000), many, say("/anticip/control/gain", 0.25)
    )
    assert received == [0.25]
    assert (server.counts["alien"], server.counts["errors"]) == (4, 1)


def test_file_commands_run_one_at_a_time_and_are_rate_limited(remote: socket.socket) -> None:
    done: list[str] = []

    async def show() -> int:
        free = asyncio.Event()

        async def save() -> str:
            await free.wait()
            done.append("saved")
            return "saved"

        server = ControlServer("127.0.0.1", 0, {"memory/save": save})
        server.start(asyncio.get_running_loop())

        async def request_from(times: int) -> None:
            for _ in range(times):
                remote.sendto(say("/anticip/control/memory/save"), server.address)
            await asyncio.sleep(0.01)

        await request_from(2)
        while server.counts["errors"] == 0:  # the second one arrived while the first was pending
            await asyncio.sleep(0.001)
        assert not done
        free.set()
        await asyncio.sleep(0.01)
        assert (len(done), server.counts["errors"]) == (1, 1)
        for _ in range(41):
            await request_from(1)
        server.close()
        return len(done)

    assert 1 < asyncio.run(show()) <= 13


def test_the_loop_runs_between_slow_commands(remote: socket.socket) -> None:
    """However many messages a datagram has, the loop gets its turn after each."""
    done: list[str] = []

    async def show() -> list[int]:
        server = ControlServer("127.0.0.1", 0, {"rig": lambda: time.sleep(0.003) or done.append("") or ""})
        server.start(asyncio.get_running_loop())
        remote.sendto(bundle(*[say("/anticip/control/rig")] * 20), server.address)
        seen = []
        while len(done) < 20:
            await asyncio.sleep(0)
            seen.append(len(done))
        server.close()
        return seen

    seen = asyncio.run(asyncio.wait_for(show(), 20))
    assert max(b - a for a, b in zip([0, *seen], seen, strict=False)) == 1


@pytest.mark.parametrize("address", ["/accxyz", "/anticip/control/gain"])
def test_a_panic_is_executed_during_a_flood(address: str) -> None:
    done: list[str] = []
    names = ("gain", "panic", "stop")
    server = ControlServer("127.0.0.1", 0, {n: partial(lambda n, *a: done.append(n) or n, n) for n in names})

    def deliver(data: bytes) -> None:
        server._receive(data, ("127.0.0.1", 1))
        while server._queue:
            server._read()

    for _ in range(5000):
        deliver(say(address, 0.5))
    assert done.count("gain") < 2000
    if address == "/accxyz":
        assert server.counts["alien"] == 5000
        deliver(say("/anticip/control/gain", 0.5))
        assert done == ["gain"], "other programs cost nothing of what is for commands"
    deliver(say("/anticip/control/stop"))
    deliver(say("/anticip/control/panic"))
    server.close()
    assert done[-2:] == ["stop", "panic"]


def test_a_panic_overtakes_queued_commands() -> None:
    done: list[str] = []
    server = ControlServer(
        "127.0.0.1", 0, {n: partial(lambda n: done.append(n) or n, n) for n in ("a", "panic")}
    )
    for name in ("a", "a", "panic"):
        server._receive(say(f"/anticip/control/{name}"), ("127.0.0.1", 1))
    while server._queue:  # a turn is limited in time, so a busy machine may need several
        server._read()
    server.close()
    assert done == ["panic", "a", "a"]


def test_a_reply_to_another_machine_is_no_larger_than_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    from realtime.control import server as module

    class Wire:
        def __init__(self) -> None:
            self.sent: list[bytes] = []

        def getsockname(self) -> tuple[str, int]:
            return ("0.0.0.0", 1)

        def recvfrom(self, size: int) -> None:
            raise BlockingIOError

        def sendto(self, data: bytes, where: object) -> None:
            self.sent.append(data)

    wire = Wire()
    monkeypatch.setattr(module, "bind_udp", lambda *_: wire)
    server = ControlServer("0.0.0.0", 0, {"gain": lambda *a: "é" * 500, "start": lambda: "playing"})

    def request_from(data: bytes, host: str) -> None:
        server._receive(data, (host, 5000))
        server._read()

    for request in (say("/anticip/control/gain", *"abcdefgh" * 4), say("/anticip/control/" + "x" * 200)):
        request_from(request, "192.0.2.7")
        assert len(wire.sent[-1]) <= len(request)
    request_from(say("/anticip/control/start"), "192.0.2.7")
    assert OscMessage(wire.sent[-1]).params == ["ok", "playing"]
    assert len(wire.sent[-1]) <= 48
    request_from(say("/anticip/control/gain"), "127.0.0.1")
    assert set(OscMessage(wire.sent[-1]).params[1]) == {"é"}
    assert 1000 < len(wire.sent[-1]) <= 4096


def test_arguments() -> None:
    assert number("x", 3) == 3.0
    assert switch("x") is True
    assert switch("x", 0) is False
    assert switch("x", True) is True
    for bad in ("a", None, float("nan"), float("inf")):
        with pytest.raises(OptionError):
            number("x", bad)


def test_an_error_of_an_async_command_is_answered(remote: socket.socket) -> None:
    async def breaks() -> str:
        raise RecursionError("too deep\nby far")

    _, _, (reply,) = exchange(remote, say("/anticip/control/rig/load"), actions={"rig/load": breaks})
    assert reply.params == ["error", "too deep by far"]


def test_a_path_that_is_no_unicode_is_answered(remote: socket.socket) -> None:
    actions = {"memory/save": lambda: "/show/day\udcff", "unload": _refuse}
    _, _, (saved, refused) = exchange(
        remote, say("/anticip/control/memory/save"), say("/anticip/control/unload"), actions=actions
    )
    assert (saved.params, refused.params) == (["ok", "/show/day?"], ["error", "/show/day?: is gone"])


def _refuse() -> str:
    raise OptionError("/show/day\udcff: is gone")
