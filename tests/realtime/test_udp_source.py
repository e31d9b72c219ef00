import asyncio
import itertools
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from support import wire

from pyanticip._core import LiveFront
from pyanticip.errors import DeviceError
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from realtime.programs.demo import PERFORMANCE
from realtime.sources import native, udp
from realtime.sources.arrivals import Arrivals
from realtime.sources.native import NativeSource
from realtime.sources.udp import UdpSource


class Receiver:
    """A source and what it receives, with a socket that sends to it."""

    def __init__(self) -> None:
        self.source = UdpSource("mocopi", "127.0.0.1", 0)
        self._sender = wire.udp()
        self.received: list[tuple[bytes, int]] = []

    def send(self, *datagrams: bytes) -> None:
        for data in datagrams:
            self._sender.sendto(data, self.source.address)

    def run(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the source in an event loop, run the test in it, and close both sockets."""

        async def start_and_run() -> None:
            loop = asyncio.get_running_loop()
            self.source.start(loop, lambda data, t, sender: self.received.append((data, t)))
            await test()

        asyncio.run(start_and_run())
        self.close()

    def close(self) -> None:
        self.source.close()
        self._sender.close()


def test_arrivals_are_kernel_timestamps_on_the_monotonic_clock() -> None:
    receiver = Receiver()
    time.sleep(0.2)  # Linux starts to timestamp a moment after the first socket enables it
    before = time.monotonic_ns()
    receiver.send(b"one")
    after = time.monotonic_ns()
    time.sleep(0.05)  # the timestamp does not depend on when the loop reads
    receiver.run(partial(asyncio.sleep, 0.02))
    ((data, arrival),) = receiver.received
    assert data == b"one"
    if sys.platform == "linux":
        assert receiver.source.stamp == "SO_TIMESTAMPNS"
        assert before - 1_000_000 <= arrival <= after + 1_000_000


def test_an_arrival_is_never_before_the_sending_however_the_reading_is_interrupted(monkeypatch):
    read_clock = time.time_ns

    def interrupted() -> int:
        time.sleep(0.05)
        return read_clock()

    receiver = Receiver()
    time.sleep(0.2)
    before = time.monotonic_ns()
    receiver.send(b"one")
    monkeypatch.setattr(time, "time_ns", interrupted)
    receiver.run(partial(asyncio.sleep, 0.02))
    ((_, arrival),) = receiver.received
    assert arrival >= before - 1_000_000


def test_queued_datagrams_are_read_in_order_in_spite_of_a_flood() -> None:
    receiver, turns = Receiver(), 0
    receiver.send(*(str(i).encode() for i in range(200)))

    async def count_turns() -> None:
        nonlocal turns
        while len(receiver.received) < 200 and turns < 1000:
            turns += 1
            await asyncio.sleep(0)

    receiver.run(count_turns)
    assert [data for data, _ in receiver.received] == [str(i).encode() for i in range(200)]
    assert turns >= 3, "the loop must get its turn during a flood"


def test_arrivals_never_decrease(monkeypatch: pytest.MonkeyPatch) -> None:
    ages = iter([0, 5_000_000_000, 0])
    monkeypatch.setattr(UdpSource, "_age_ns", lambda *_: next(ages))
    receiver = Receiver()
    time.sleep(0.2)
    receiver.send(b"one", b"one", b"one")
    receiver.run(partial(asyncio.sleep, 0.05))
    first, second, third = (arrival for _, arrival in receiver.received)
    assert second == first, "a datagram that seems five seconds old arrives with the previous one"
    assert third >= second


def test_an_empty_and_a_huge_datagram_are_received() -> None:
    receiver = Receiver()
    receiver.send(b"", bytes(60000), b"end")
    receiver.run(partial(asyncio.sleep, 0.05))
    assert [len(data) for data, _ in receiver.received] == [0, 60000, 3]


def test_waiting_ends_with_a_datagram() -> None:
    receiver = Receiver()
    source, start_s = receiver.source, time.monotonic()
    assert not source.wait(0.02)
    assert time.monotonic() - start_s >= 0.02
    assert not source.wait(-1.0)
    receiver.send(b"x")
    assert source.wait(5.0)
    assert time.monotonic() - start_s < 4.0
    receiver.close()
    assert not source.wait(0.0), "during the fade-out it is closed already"


@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_a_natnet_server_is_asked_to_send_and_kept_alive(host, monkeypatch):
    """NatNet unicast: Motive answers from its command port and streams from another."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as command,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        command.bind(("127.0.0.1", 0))
        command.settimeout(10.0)
        motive = replace(native.natnet(), port=0, group=None, ask=(b"\x04\0\0\0", command.getsockname()[1]))
        monkeypatch.setattr(native, "natnet", lambda: motive)
        clip = load_motion(PERFORMANCE).resample(50.0)
        skeleton, *frames = [d for _, d in itertools.islice(datagrams(clip, "natnet"), 40)]
        try:
            source, front = UdpSource("natnet", host, 0, server="127.0.0.1"), LiveFront("natnet", window=64)
        except (DeviceError, OSError):
            pytest.skip(f"there is no {host} here")
        loop = asyncio.new_event_loop()
        try:
            source.start(loop, front.feed)
            hello, client = command.recvfrom(1000)
            # Kind, number of bytes that follow, client name, and the version that it understands.
            assert hello == b"\0\0\x0f\x01Ping" + bytes(261) + b"\x04\x01\0\0\0\0"
            assert len(hello) == 4 + 0x10F
            data.sendto(frames[0], client)
            assert source.wait(10.0)
            source.poll()
            assert command.recv(1000) == b"\x04\0\0\0"
            command.sendto(skeleton, client)
            for frame in frames:
                data.sendto(frame, client)
            loop.run_until_complete(asyncio.sleep(1.2))
            assert command.recv(1000) == b"\x0a\0\0\0"
            assert front.counters()["frames"] > 30, "the answer and the stream are from one sender"
            assert [name for name, *_ in front.senders()] == [f"127.0.0.1:{command.getsockname()[1]}"]
            monkeypatch.setattr(udp, "_ASK_INTERVAL_NS", 500_000_000)
            loop.run_until_complete(asyncio.sleep(1.2))
            assert command.recv(1000) == hello, "after silence it may have been restarted"
        finally:
            source.close()
            loop.close()


LO = socket.inet_aton("127.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::"])
def test_multicast_is_received_at_the_address_s_or_every_interface(host, monkeypatch):
    group = "239.255.42.99"
    monkeypatch.setattr(native, "natnet", partial(NativeSource, "natnet", 0, group=group))
    got: list[bytes] = []
    lines: list[str] = []

    async def show() -> None:
        try:
            source = UdpSource("natnet", host, 0, say=lines.append)
        except (DeviceError, OSError):
            pytest.skip(f"there is no {host} here")
        source.start(asyncio.get_running_loop(), lambda data, t, sender: got.append(data))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as motive:
            motive.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, LO)
            # Groups that another program on this machine has joined are not received.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.setsockopt(
                    socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.255.42.98") + LO
                )
                for where in (group, "127.0.0.1", "239.255.42.98"):
                    motive.sendto(where.encode(), (where, source.address[1]))
                assert source.wait(5.0)
                await asyncio.sleep(0.05)
            source.close()
            port = source.address[1]
            arrivals = Arrivals({port: "natnet"}, lines.append, host)
            motive.sendto(b"\7\0\0\0", (group, port))
            arrivals.listen(5.0)
            arrivals.close()
            assert [at for at, _ in arrivals.senders] == [port]

    asyncio.run(show())
    assert sorted(got) == [b"127.0.0.1", group.encode()]
    assert not lines


def test_multicast_is_received_at_an_interface_that_appears_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "natnet", partial(NativeSource, "natnet", 0, group="239.255.42.99"))
    there = socket.if_nameindex()
    monkeypatch.setattr(socket, "if_nameindex", list)
    got: list[bytes] = []
    lines: list[str] = []

    async def show() -> None:
        source = UdpSource("natnet", "0.0.0.0", 0, say=lines.append)
        source.start(asyncio.get_running_loop(), lambda data, t, sender: got.append(data))
        monkeypatch.setattr(socket, "if_nameindex", lambda: there)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as motive:
            motive.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, LO)
            deadline = time.monotonic() + 10.0
            while not got and time.monotonic() < deadline:
                motive.sendto(b"here", ("239.255.42.99", source.address[1]))
                await asyncio.sleep(0.05)
        source.close()

    asyncio.run(show())
    assert got[:1] == [b"here"]
    where = "multicast to 239.255.42.99 is not heard at 0.0.0.0:"
    assert [line.startswith(where) for line in lines] == [True]


def test_unavailable_multicast_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "natnet", partial(NativeSource, "natnet", 0, group="239.255.42.99"))
    lines: list[str] = []
    try:
        source = UdpSource("natnet", "::1", 0, say=lines.append)
    except (DeviceError, OSError):
        pytest.skip("there is no IPv6 here")
    source.close()
    where = f"[::1]:{source.address[1]}"
    assert lines == [f"multicast to 239.255.42.99 is not heard at {where} (expected an address of IPv4)"]


def test_the_skeleton_is_requested_from_a_natnet_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as motive:
        motive.bind(("127.0.0.1", 0))
        motive.settimeout(10.0)
        ask = b"\x04\0\0\0", motive.getsockname()[1]
        asking = partial(NativeSource, "natnet", 0, group="239.255.42.99", ask=ask)
        monkeypatch.setattr(native, "natnet", asking)
        clip = load_motion(PERFORMANCE).resample(50.0)
        packets = [d for _, d in itertools.islice(datagrams(clip, "natnet", loop=True), 40)]
        source, front = UdpSource("natnet", "127.0.0.1", 0), LiveFront("natnet", window=64)
        loop = asyncio.new_event_loop()
        try:
            source.start(loop, front.feed)
            motive.sendto(packets[1], source.address)
            assert source.wait(10.0)
            source.poll()
            assert front.counters()["frames"] == 0, "the server is unknown"
            question, client = motive.recvfrom(100)
            assert question == ask[0]
            for packet in packets:
                motive.sendto(packet, client)
            deadline = time.monotonic() + 10.0
            while front.counters()["frames"] <= 30:
                assert time.monotonic() < deadline
                if source.wait(0.1):
                    source.poll()
            assert front.skeleton is not None
            assert front.refusal is None
        finally:
            source.close()
            loop.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how many were thrown away")
def test_datagrams_that_the_kernel_dropped_are_counted() -> None:
    receiver, sent = Receiver(), 4000
    receiver.send(*[bytes(1000)] * sent)

    async def read_all() -> None:
        before = -1
        while before != len(receiver.received):
            before = len(receiver.received)
            await asyncio.sleep(0.02)
        # The count comes with the next datagram.
        receiver.send(b"last")
        await asyncio.sleep(0.05)

    receiver.run(read_all)
    assert receiver.received[-1][0] == b"last"
    assert 0 < receiver.source.dropped == sent + 1 - len(receiver.received)
