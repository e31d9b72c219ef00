"""Packets over TCP, framed with SLIP (OSC 1.1) or a length (OSC 1.0). Reconnects to a receiver that is gone,
and discards packets that a receiver does not read."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from collections import deque
from typing import Literal

from pythonosc import slip

from pyanticip.errors import reason
from realtime.sockets import host_and_port, resolve

Framing = Literal["slip", "length"]

# Packets that may wait for a receiver that does not read; beyond that the oldest is discarded.
_MAX_QUEUED = 10
_CONNECT_TIMEOUT_NS = 5_000_000_000
# How long sent data may stay unacknowledged before the connection is lost (where the system supports it).
_USER_TIMEOUT_MS = 10_000
# Delay before reconnecting; doubled after each failure, up to the maximum.
_RETRY_DELAY_NS = 250_000_000
_MAX_RETRY_DELAY_NS = 8_000_000_000
# A connection that lasted this long resets the delay.
_STABLE_NS = 1_000_000_000
# Results of connect_ex while connecting; the last is WSAEINVAL, which Windows returns to a repeated call.
_CONNECTING = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK, errno.EINTR, 10022})


def framed(data: bytes | bytearray, framing: Framing) -> bytes:
    """Frame a packet for a stream: between two ENDs (RFC 1055), or after its length (int32)."""
    if framing == "length":
        return struct.pack(">I", len(data)) + data
    encoded: bytes = slip.encode(bytes(data))
    return encoded


class TcpWire:
    """One receiver's connection; ``trouble`` says why there is none, and is empty while connected.

    A packet that is partly sent is always completed; of the others the newest are kept. Data from the
    receiver is read and discarded. Raises a DeviceError if the host cannot be resolved; a receiver that does
    not listen yet is no error.
    """

    def __init__(self, host: str, port: int, framing: Framing) -> None:
        addrinfo = resolve(host, port, f"OSC target tcp://{host_and_port(host, port)}", socket.SOCK_STREAM)
        self._family, _, self._proto, _, self._address = addrinfo
        self._framing = framing
        self._sock: socket.socket | None = None
        self._connected = False
        # Whether nothing has been sent over this connection yet.
        self._is_fresh = False
        self._queue: deque[bytes] = deque()
        # What is left of the packet being sent.
        self._partial = memoryview(b"")
        # When the connection, or the attempt at one, began; when to try again.
        self._since_ns = self._retry_at_ns = 0
        self._retry_delay_ns = _RETRY_DELAY_NS
        self.trouble = ""
        self.counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}
        self._connect()

    def send(self, data: bytes | bytearray) -> None:
        """Queue a packet and send what the socket takes, or count it. Never blocks, never raises."""
        if not self._connect():
            self.counts["refused"] += 1
            return
        packet = framed(data, self._framing)
        # liblo 0.31 mistakes a stream that starts with END and a bundle for a length-framed one. The first
        # END is not needed: there is nothing before it to end.
        self._queue.append(packet.removeprefix(slip.END) if self._is_fresh else packet)
        self._is_fresh = False
        if len(self._queue) > _MAX_QUEUED:
            self._queue.popleft()
            self.counts["dropped"] += 1
        self._flush()

    def _flush(self) -> None:
        assert self._sock is not None
        try:
            with contextlib.suppress(BlockingIOError):
                self._sock.recv(1 << 16)
            while self._partial or self._queue:
                self._partial = self._partial or memoryview(self._queue.popleft())
                self._partial = self._partial[self._sock.send(self._partial) :]
                self.counts["sent"] += not self._partial
        except BlockingIOError:
            pass
        except OSError as error:
            self._disconnect(reason(error))

    def _connect(self) -> bool:
        """Take the next step towards a connection, without blocking; returns whether there is one."""
        if self._connected:
            return True
        now = time.monotonic_ns()
        if self._sock is None:
            if now < self._retry_at_ns:
                return False
            self._since_ns = now
            try:
                self._sock = self._open()
            except OSError as error:
                self._disconnect(reason(error))
                return False
        code = self._sock.connect_ex(self._address)
        if code in _CONNECTING:
            if now - self._since_ns > _CONNECT_TIMEOUT_NS:
                self._disconnect("no answer")
        elif code not in (0, errno.EISCONN):
            self._disconnect(os.strerror(code).lower())
        elif self._sock.getsockname() == self._address:
            # A self-connection: repeated attempts at a local port without listener can hit it as source port.
            self._disconnect("connection refused")
        else:
            self._connected, self._is_fresh, self.trouble, self._since_ns = True, True, "", now
        return self._connected

    def _open(self) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_STREAM, self._proto)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        # A small buffer: data that waits in the system arrives late.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
        return sock

    def _disconnect(self, reason: str) -> None:
        """Close the connection because of a failure, and set when to retry: each time later."""
        now = time.monotonic_ns()
        if self._connected and now - self._since_ns > _STABLE_NS:
            self._retry_delay_ns = _RETRY_DELAY_NS
        self.close()
        self.trouble = reason
        self.counts["failed"] += 1
        self._retry_at_ns = now + self._retry_delay_ns
        self._retry_delay_ns = min(2 * self._retry_delay_ns, _MAX_RETRY_DELAY_NS)

    def close(self) -> None:
        """Close the connection; queued packets are discarded and counted as dropped."""
        self._connected = False
        self.counts["dropped"] += len(self._queue) + bool(self._partial)
        self._queue.clear()
        self._partial = memoryview(b"")
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()
