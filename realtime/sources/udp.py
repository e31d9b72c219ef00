"""Datagrams from a UDP socket in the asyncio loop, with the kernel's receive timestamps."""

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

from pyanticip.errors import FOREIGN, MotionError, WireError, one_line
from realtime.seams import SOURCES, SlowCalls
from realtime.sockets import LINUX_TIMESTAMPNS, age_ns, bind_udp, host_and_port, join_group
from realtime.sources.base import Receive, Source
from realtime.sources.helped import HelpedSource
from realtime.sources.osc import OscSource

# Limits of one callback, in datagrams and time: neither a flood nor a slow decoder may block the event loop.
_BURST = 64
_MAX_TURN_NS = 50_000_000
# A datagram may have waited this long while the process was stopped; more is a step of the wall clock.
_MAX_AGE_NS = 60_000_000_000
_MAX_SENDERS = 256
# Interval between two requests for a skeleton (see `Source.ask`).
_ASK_INTERVAL_NS = 3_000_000_000
# After a pause longer than this a sender may have been restarted.
_RESTART_PAUSE_NS = 3_000_000_000
# SO_RXQ_OVFL of Linux, for which Python has no name.
_LINUX_RXQ_OVFL = 40
_BSD_TIMESTAMP, _BSD_SCM_TIMESTAMP = 0x0400, 2
_TIMEVAL = struct.Struct("@qi")


def opener(kind: str, reading: Mapping[str, Any]) -> Callable[[], Source]:
    """A factory of decoders of a kind, with the options ``reading``. Raises a MotionError for wrong ones."""
    open_source = SOURCES.load(kind)
    if "addresses" in reading:
        return partial(OscSource, **reading)
    if not reading:
        return open_source

    def helped() -> Source:
        return HelpedSource(open_source(), **reading)

    helped()  # raises now if the options are wrong
    return helped


class UdpSource:
    """Reads every waiting datagram as soon as the loop wakes, and delivers it at once.

    The constructor binds the socket, so that a port in use is known before anything starts. Datagrams of a
    ``kind`` that is not native, or with options ``reading``, are decoded here, by one decoder for each
    sender.

    Args:
        server: Address of a server that sends only to subscribers, for kinds that have one; it is asked until
            datagrams come.
        say: Called if multicast cannot be received, or if another package's decoder raises or is slow (once).
        reading: Options of :mod:`realtime.sources.helped`; for OSC, those of
            :class:`realtime.sources.osc.OscSource`.

    Attributes:
        stamp: Origin of arrival times: ``SO_TIMESTAMPNS``, ``SO_TIMESTAMP`` or ``user`` (time of reading).
        dropped: Datagrams that the kernel discarded because they were not read in time (Linux).
        trouble: The last error of a decoder about the body.
        newest: The last datagram that came.
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
        # Errors of built-in decoders are expected, and not reported.
        self._has_reported_error = kind in SOURCES.built_in
        self._open_source = opener(kind, reading)
        self._decoders: dict[str, Source] = {}
        self._last_arrival: dict[str, int] = {}
        source = self._open_source()
        self._native = source.native
        self._sock = bind_udp(host, port, f"source {kind}")
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._socks = [self._sock]
        self._rejoin: Callable[[], None] | None = None
        if group := source.group:
            group_socks, self._rejoin = join_group(self._sock, group, say)
            self._socks += group_socks
        self._ask = source.ask
        self._ask_at_ns = 0
        self._greet = source.greet if server else None
        self._server = server or ""
        if server and self._sock.family == socket.AF_INET6 and ":" not in server:
            # An IPv6 socket reaches an IPv4 address as a mapped one.
            self._server = f"::ffff:{server}"
        self._keep_alive_timer: asyncio.TimerHandle | None = None
        self.stamp = "user"
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self.stamp = self._enable_timestamps(sock)
        self.dropped = 0
        self._dropped_by_socket: dict[socket.socket, int] = {}
        self.trouble = ""
        self.newest = b""
        self._buffer = bytearray(65536)
        self._views = [memoryview(self._buffer)]
        self._sender_names: dict[object, str] = {}
        self._arrival = 0
        self._receive: Receive | None = None
        self._after_read: Callable[[], object] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _enable_timestamps(self, sock: socket.socket) -> str:
        options: list[tuple[str, int]] = []
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, _LINUX_RXQ_OVFL, 1)
            options = [("SO_TIMESTAMPNS", LINUX_TIMESTAMPNS)]
        elif sys.platform != "win32":
            options = [("SO_TIMESTAMP", _BSD_TIMESTAMP)]
        for name, number in options:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, number, 1)
                return name
        return "user"

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        receive: Receive,
        after_read: Callable[[], object] = lambda: None,
    ) -> None:
        """Start calling ``receive`` for each datagram, and ``after_read`` when the loop has read a burst."""
        self._loop, self._after_read = loop, after_read
        self._receive = receive if self._native else self._decoding(receive)
        for sock in self._socks:
            loop.add_reader(sock.fileno(), self._on_readable)
        if self._greet is not None or self._rejoin is not None:
            self._keep_alive()

    def _keep_alive(self) -> None:
        """Once a second: subscribe at the server while nothing comes, for a restarted one has lost its
        subscribers, or keep the subscription alive; join the multicast group again while nothing comes."""
        is_receiving = time.monotonic_ns() - self._arrival < _ASK_INTERVAL_NS and self._arrival > 0
        if self._greet is not None and self._ask is not None:
            with contextlib.suppress(OSError):
                self._sock.sendto(self._greet[is_receiving], (self._server, self._ask[1]))
        if self._rejoin is not None and not is_receiving:
            self._rejoin()
        if self._loop is not None:
            self._keep_alive_timer = self._loop.call_later(1.0, self._keep_alive)

    def _decoding(self, receive: Receive) -> Receive:
        """Wrap ``receive`` with the decoder, so that recordings hold native datagrams and need no decoder."""

        def decode_and_receive(datagram: bytes, arrival: int, sender: str) -> None:
            native: list[bytes] = []
            started_ns = time.perf_counter_ns()
            try:
                if sender not in self._decoders:
                    if len(self._decoders) >= _MAX_SENDERS:
                        self._decoders.clear()
                        self._last_arrival.clear()
                    self._decoders[sender] = self._open_source()
                decoder = self._decoders[sender]
                pause_ns = arrival - self._last_arrival.get(sender, arrival)
                self._last_arrival[sender] = arrival
                if pause_ns > _RESTART_PAUSE_NS:
                    decoder.begin_anew()
                for decoded in decoder.decode(datagram):
                    if not isinstance(decoded, bytes):
                        raise TypeError(f"expected datagrams of bytes, got {type(decoded).__name__}")
                    native.append(decoded)
            except FOREIGN as error:
                is_about_body = sender in self._decoders and not isinstance(error, WireError)
                if is_about_body and isinstance(error, MotionError):
                    self.trouble = str(error)
                elif not self._has_reported_error:
                    self._has_reported_error = True
                    self._say(f"{self.kind} cannot decode: {type(error).__name__}: {one_line(error)}")
                # The front end counts an empty datagram as alien.
                native.append(b"")
            self._slow.record(None, started_ns, f"decoding {self.kind}", self._say)
            for decoded in native:
                receive(decoded, arrival, sender)

        return decode_and_receive

    def _on_readable(self) -> None:
        self.poll()
        self._after_read()

    def poll(self) -> None:
        """Read and deliver the waiting datagrams, at most one burst of each socket."""
        for sock in self._socks:
            self._read(sock)

    def _read(self, sock: socket.socket) -> None:
        if self._receive is None:
            return
        started_ns = now = time.monotonic_ns()
        for _ in range(_BURST):
            if now - started_ns > _MAX_TURN_NS:
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
                # An ICMP error caused by another program; the socket itself is fine.
                continue
            age = self._age_ns(sock, ancillary) if ancillary else 0
            now = time.monotonic_ns()
            # Arrivals never decrease, whatever the wall clock does.
            self._arrival = arrival = max(now - age, self._arrival)
            self.newest = bytes(self._views[0][:size])
            if self._ask is not None and arrival >= self._ask_at_ns:
                self._ask_at_ns = arrival + _ASK_INTERVAL_NS
                with contextlib.suppress(OSError):
                    self._sock.sendto(self._ask[0], (peer[0], self._ask[1]))
            self._receive(self.newest, arrival, self._sender_name(peer))

    def _sender_name(self, peer: tuple[str, int]) -> str:
        """``host:port`` of a sender, cached. A server that is asked answers from another port than it sends
        from: both are one sender, named by the port that is asked. A mapped IPv4 address is named as IPv4; an
        IPv6 address is in brackets.
        """
        name = self._sender_names.get(peer)
        if name is None:
            if len(self._sender_names) >= _MAX_SENDERS:
                self._sender_names.clear()
            port = peer[1] if self._ask is None else self._ask[1]
            name = self._sender_names[peer] = host_and_port(peer[0].removeprefix("::ffff:"), port)
        return name

    def _age_ns(self, sock: socket.socket, ancillary: list[tuple[int, int, bytes]]) -> int:
        """Time since the kernel received the datagram (its timestamp is wall time); updates ``dropped``."""
        age = 0
        for _, kind, data in ancillary:
            if kind == _LINUX_RXQ_OVFL and self.stamp == "SO_TIMESTAMPNS":
                self._dropped_by_socket[sock] = int.from_bytes(data[:4], sys.byteorder)
                self.dropped = sum(self._dropped_by_socket.values())
            elif kind == LINUX_TIMESTAMPNS and self.stamp == "SO_TIMESTAMPNS":
                age = age_ns(data)
            elif kind == _BSD_SCM_TIMESTAMP and self.stamp == "SO_TIMESTAMP":
                seconds, micros = _TIMEVAL.unpack_from(data)
                age = time.time_ns() - (seconds * 1_000_000 + micros) * 1000
        # Ignore the timestamp if the wall clock was stepped between it and the reading.
        return age if 0 <= age <= _MAX_AGE_NS else 0

    def wait(self, seconds: float) -> bool:
        """Block until a datagram can be read, for at most ``seconds`` (to the microsecond); returns whether
        one can."""
        if self._sock.fileno() < 0:
            return False
        ready, _, _ = select.select(self._socks, [], [], max(seconds, 0.0))
        return bool(ready)

    def close(self) -> None:
        """Stop reading and close the sockets."""
        if self._keep_alive_timer is not None:
            self._keep_alive_timer.cancel()
        for sock in self._socks:
            if self._loop is not None:
                self._loop.remove_reader(sock.fileno())
            sock.close()
        self._loop = self._receive = None
