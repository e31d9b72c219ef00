"""Datagrams from a UDP socket in the asyncio loop, with the kernel's receive stamps."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyanticip.errors import MotionError, WireError, one_line
from realtime.seams import SOURCES, SlowCalls
from realtime.sockets import bind_udp, hear_group, host_and_port
from realtime.sources.base import Receive, Source
from realtime.sources.helped import HelpedSource
from realtime.sources.osc import OscSource

__all__ = ["UdpSource", "opener"]

# A callback handles at most so many datagrams, for so long (nanoseconds), before the loop gets its turn:
# neither a flood nor a slow decoder can stop the show.
_BURST = 64
_LONGEST_TURN = 50_000_000
# A datagram may have waited this long (nanoseconds) while the process stood still; more is a step of the
# wall clock.
_LONGEST_WAIT = 60_000_000_000
_MOST_NAMES = 256
# How often (nanoseconds) a sender is asked who it is, where its kind has to be.
_ASK_AGAIN = 3_000_000_000
# After so long (nanoseconds) without a datagram a sender may have started anew.
_AWAY = 3_000_000_000
# Linux has had these numbers for all its life; Python names the first only from 3.12 on.
_LINUX_TIMESTAMPNS, _LINUX_RXQ_OVFL = 35, 40
_BSD_TIMESTAMP, _BSD_SCM_TIMESTAMP = 0x0400, 2
_TIMESPEC = struct.Struct("@qq")
_TIMEVAL = struct.Struct("@qi")


def opener(kind: str, reading: Mapping[str, Any]) -> Callable[[], Source]:
    """What opens a decoder of a kind with the help it is given. Raises a MotionError where that is wrong."""
    open_source = SOURCES.load(kind)
    if "addresses" in reading:
        return partial(OscSource, **reading)
    if not reading:
        return open_source

    def helped() -> Source:
        return HelpedSource(open_source(), **reading)

    helped()  # what is wrong with the help is known now
    return helped


class UdpSource:
    """Reads every waiting datagram as soon as the loop wakes and hands it on at once.

    ``stamp`` says where arrival times come from: ``SO_TIMESTAMPNS``, ``SO_TIMESTAMP`` or ``user`` (the
    moment of reading). ``dropped`` counts datagrams the kernel threw away because nobody read them in time
    (Linux). The socket is bound by the constructor, so that a port in use is known before anything starts.
    Datagrams of a ``kind`` that is not native are decoded on the way, each sender's by a decoder of its own;
    so are those of a suit that is helped by ``reading`` (see :mod:`realtime.sources.helped`), which for OSC
    are its ``addresses`` (:mod:`realtime.sources.osc`). ``trouble`` is
    what a decoder said last, ``newest`` the last datagram that came. ``server`` is the address of one that
    sends to those alone who ask, for kinds that have such; it is asked as long as nothing comes. ``say`` is
    told where the multicast of a kind that has a group cannot be heard, and of a decoder of another package
    that raises, or is slow, once.
    """

    def __init__(
        self,
        kind: str,
        host: str,
        port: int,
        *,
        server: str | None = None,
        say: Callable[[str], None] = lambda line: None,
        **reading: Any,
    ) -> None:
        self.kind = kind
        self._say = say
        self._slow = SlowCalls()
        # Of a decoder of ours it is known what it raises, and when.
        self._erred = kind in SOURCES.built_in
        self._open_source = opener(kind, reading)
        self._decoders: dict[str, Source] = {}
        self._last_arrival: dict[str, int] = {}
        source = self._open_source()
        self._native = source.native
        self._sock = bind_udp(host, port, f"source {kind}")
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._socks = [self._sock]
        self._join_again: Callable[[], None] | None = None
        if group := source.group:
            more, self._join_again = hear_group(self._sock, group, say)
            self._socks += more
        self._ask = source.ask
        self._ask_at = 0
        self._greet = source.greet if server else None
        self._server = server or ""
        if server and self._sock.family == socket.AF_INET6 and ":" not in server:
            # A socket of IPv6 sends to IPv4 by its mapped address.
            self._server = f"::ffff:{server}"
        self._looking: asyncio.TimerHandle | None = None
        self.stamp = "user"
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self.stamp = self._ask_for_stamps(sock)
        self.dropped = 0
        self._thrown: dict[socket.socket, int] = {}
        self.trouble = ""
        self.newest = b""
        self._buffer = bytearray(65536)
        self._views = [memoryview(self._buffer)]
        self._names: dict[object, str] = {}
        self._arrival = 0
        self._receive: Receive | None = None
        self._then: Callable[[], object] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _ask_for_stamps(self, sock: socket.socket) -> str:
        options: list[tuple[str, int]] = []
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, _LINUX_RXQ_OVFL, 1)
            options = [("SO_TIMESTAMPNS", _LINUX_TIMESTAMPNS)]
        elif sys.platform != "win32":
            options = [("SO_TIMESTAMP", _BSD_TIMESTAMP)]
        for name, number in options:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, number, 1)
                return name
        return "user"

    def start(
        self, loop: asyncio.AbstractEventLoop, receive: Receive, then: Callable[[], object] = lambda: None
    ) -> None:
        """Call ``receive`` for each datagram from now on; ``then``, once the loop has read what is there."""
        self._loop, self._then = loop, then
        self._receive = receive if self._native else self._decoded(receive)
        for sock in self._socks:
            loop.add_reader(sock.fileno(), self._on_readable)
        if self._greet is not None or self._join_again is not None:
            self._look()

    def _look(self) -> None:
        """Once a second: ask the server to send, or to go on, for one that begins anew has forgotten who
        asked; join its group where nothing comes."""
        heard = time.monotonic_ns() - self._arrival < _ASK_AGAIN and self._arrival > 0
        if self._greet is not None and self._ask is not None:
            with contextlib.suppress(OSError):
                self._sock.sendto(self._greet[heard], (self._server, self._ask[1]))
        if self._join_again is not None and not heard:
            self._join_again()
        if self._loop is not None:
            self._looking = self._loop.call_later(1.0, self._look)

    def _decoded(self, receive: Receive) -> Receive:
        """What is handed on is native from here on: a recording of it needs nobody's decoder."""

        def act(datagram: bytes, arrival: int, sender: str) -> None:
            native: list[bytes] = []
            begun = time.perf_counter_ns()
            try:
                if sender not in self._decoders:
                    if len(self._decoders) >= _MOST_NAMES:
                        self._decoders.clear()
                        self._last_arrival.clear()
                    self._decoders[sender] = self._open_source()
                decoder = self._decoders[sender]
                away = arrival - self._last_arrival.get(sender, arrival)
                self._last_arrival[sender] = arrival
                if away > _AWAY:
                    decoder.begin_anew()
                for made in decoder.decode(datagram):
                    if not isinstance(made, bytes):
                        raise TypeError(f"expected datagrams of bytes, got {type(made).__name__}")
                    native.append(made)
            except Exception as error:
                of_the_body = sender in self._decoders and not isinstance(error, WireError)
                if of_the_body and isinstance(error, MotionError):
                    self.trouble = str(error)
                elif not self._erred:
                    self._erred = True
                    self._say(f"{self.kind} cannot decode: {type(error).__name__}: {one_line(error)}")
                # Bytes from the network in somebody else's hands: the front counts an empty one as alien.
                native.append(b"")
            self._slow.took(None, begun, f"decoding {self.kind}", self._say)
            for one in native:
                receive(one, arrival, sender)

        return act

    def _on_readable(self) -> None:
        self.poll()
        self._then()

    def poll(self) -> None:
        """Hand on every datagram that is there."""
        for sock in self._socks:
            self._read(sock)

    def _read(self, sock: socket.socket) -> None:
        if self._receive is None:
            return
        begun = now = time.monotonic_ns()
        for _ in range(_BURST):
            if now - begun > _LONGEST_TURN:
                return
            try:
                if sys.platform == "win32":
                    ancillary: list[tuple[int, int, bytes]] = []
                    size, peer = sock.recvfrom_into(self._buffer)
                else:
                    size, ancillary, _, peer = sock.recvmsg_into(self._views, 128)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # An ICMP error of somebody else's making; the socket itself is fine.
                continue
            arrival = now = time.monotonic_ns()
            if ancillary:
                arrival -= self._age_ns(sock, ancillary)
            # Whatever the wall clock does, arrivals do not go back.
            self._arrival = arrival = max(arrival, self._arrival)
            self.newest = bytes(self._views[0][:size])
            if self._ask is not None and arrival >= self._ask_at:
                self._ask_at = arrival + _ASK_AGAIN
                with contextlib.suppress(OSError):
                    self._sock.sendto(self._ask[0], (peer[0], self._ask[1]))
            self._receive(self.newest, arrival, self._name(peer))

    def _name(self, peer: tuple[str, int]) -> str:
        """``host:port``, made once for each sender. A server that is asked answers from another port than it
        sends from: it is one sender, called after the port that is asked. An IPv4 address is called so at a
        socket of IPv6, too; an IPv6 address stands in brackets.
        """
        name = self._names.get(peer)
        if name is None:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            port = peer[1] if self._ask is None else self._ask[1]
            name = self._names[peer] = host_and_port(peer[0].removeprefix("::ffff:"), port)
        return name

    def _age_ns(self, sock: socket.socket, ancillary: list[tuple[int, int, bytes]]) -> int:
        """How long the datagram has waited since the kernel stamped it (the stamp is wall time)."""
        age = 0
        for _, kind, data in ancillary:
            if kind == _LINUX_RXQ_OVFL and self.stamp == "SO_TIMESTAMPNS":
                self._thrown[sock] = int.from_bytes(data[:4], sys.byteorder)
                self.dropped = sum(self._thrown.values())
            elif kind == _LINUX_TIMESTAMPNS and self.stamp == "SO_TIMESTAMPNS":
                seconds, nanos = _TIMESPEC.unpack_from(data)
                age = time.time_ns() - (seconds * 1_000_000_000 + nanos)
            elif kind == _BSD_SCM_TIMESTAMP and self.stamp == "SO_TIMESTAMP":
                seconds, micros = _TIMEVAL.unpack_from(data)
                age = time.time_ns() - (seconds * 1_000_000 + micros) * 1000
        # A step of the wall clock between stamp and reading must not throw the arrival about.
        return age if 0 <= age <= _LONGEST_WAIT else 0

    def wait(self, seconds: float) -> bool:
        """Wait so long at most, to the microsecond; True at once when a datagram is there to be read."""
        if self._sock.fileno() < 0:
            return False
        ready, _, _ = select.select(self._socks, [], [], max(seconds, 0.0))
        return bool(ready)

    def close(self) -> None:
        """Stop reading and close the socket."""
        if self._looking is not None:
            self._looking.cancel()
        for sock in self._socks:
            if self._loop is not None:
                self._loop.remove_reader(sock.fileno())
            sock.close()
        self._loop = self._receive = None
