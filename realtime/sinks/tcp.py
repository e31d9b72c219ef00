"""Packets over TCP: framed with SLIP (OSC 1.1) or a count of bytes (OSC 1.0), connected again where the other
side is gone, and thrown away where it does not read."""

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

__all__ = ["Framing", "TcpWire", "framed"]

Framing = Literal["slip", "length"]

# Packets that wait for a receiver that does not read; then the oldest is thrown away.
_MOST = 10
# How long a connection may take, how long what was sent may stay unread or unheard of (where the system can
# be told), and the pauses before the next try. One that lasted so long was a good one.
_PATIENCE_NS, _UNHEARD_MS = 5_000_000_000, 10_000
_PAUSE_NS, _LONGEST_PAUSE_NS, _GOOD_NS = 250_000_000, 8_000_000_000, 1_000_000_000
# The last is what Windows says to who asks again (WSAEINVAL).
_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK, errno.EINTR, 10022})


def framed(data: bytes | bytearray, framing: Framing) -> bytes:
    """A packet as it stands in a stream: between two ENDs (RFC 1055), or behind its length (int32)."""
    if framing == "length":
        return struct.pack(">I", len(data)) + data
    found: bytes = slip.encode(bytes(data))
    return found


class TcpWire:
    """One receiver's connection; ``trouble`` says why there is none, and is empty while there is.

    A packet that has begun is sent to its end, whatever waits behind it; of the others the newest are kept.
    What the receiver says is read and thrown away. Raises a DeviceError where the host cannot be resolved; a
    receiver that is not there yet is no error.
    """

    def __init__(self, host: str, port: int, framing: Framing) -> None:
        found = resolve(host, port, f"OSC target tcp://{host_and_port(host, port)}", socket.SOCK_STREAM)
        self._family, _, self._proto, _, self._address = found
        self._framing = framing
        self._sock: socket.socket | None = None
        self._connected = self._is_fresh = False
        self._waiting: deque[bytes] = deque()
        self._rest = memoryview(b"")
        self._begun_ns = self._again_ns = 0
        self._pause_ns = _PAUSE_NS
        self.trouble = ""
        self.counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}
        self._is_connected()

    def send(self, data: bytes | bytearray) -> None:
        """Send a packet as soon as it goes, or count it. Never blocks, never raises."""
        if not self._is_connected():
            self.counts["refused"] += 1
            return
        packet = framed(data, self._framing)
        # liblo 0.31 takes a stream that begins with an END and a bundle for one with lengths. There is
        # nothing to be ended at the beginning.
        self._waiting.append(packet.removeprefix(slip.END) if self._is_fresh else packet)
        self._is_fresh = False
        if len(self._waiting) > _MOST:
            self._waiting.popleft()
            self.counts["dropped"] += 1
        self._flush()

    def _flush(self) -> None:
        assert self._sock is not None
        try:
            with contextlib.suppress(BlockingIOError):
                self._sock.recv(1 << 16)
            while self._rest or self._waiting:
                self._rest = self._rest or memoryview(self._waiting.popleft())
                self._rest = self._rest[self._sock.send(self._rest) :]
                self.counts["sent"] += not self._rest
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(reason(error))

    def _is_connected(self) -> bool:
        """Whether there is a connection; where not, one step is taken towards it."""
        if self._connected:
            return True
        now = time.monotonic_ns()
        if self._sock is None:
            if now < self._again_ns:
                return False
            self._begun_ns = now
            try:
                self._sock = self._open()
            except OSError as error:
                self._lose(reason(error))
                return False
        code = self._sock.connect_ex(self._address)
        if code in _UNDER_WAY:
            if now - self._begun_ns > _PATIENCE_NS:
                self._lose("no answer")
        elif code not in (0, errno.EISCONN):
            self._lose(os.strerror(code).lower())
        elif self._sock.getsockname() == self._address:
            # Who tries long enough at a port that nobody listens at is given it as its own.
            self._lose("connection refused")
        else:
            self._connected, self._is_fresh, self.trouble, self._begun_ns = True, True, "", now
        return self._connected

    def _open(self) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_STREAM, self._proto)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        # What waits in the system is late, too.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNHEARD_MS)
        return sock

    def _lose(self, why: str) -> None:
        """No connection: again after a pause, each time a longer one."""
        now = time.monotonic_ns()
        if self._connected and now - self._begun_ns > _GOOD_NS:
            self._pause_ns = _PAUSE_NS
        self.close()
        self.trouble = why
        self.counts["failed"] += 1
        self._again_ns = now + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)

    def close(self) -> None:
        """Close the connection; what waits is thrown away."""
        self._connected = False
        self.counts["dropped"] += len(self._waiting) + bool(self._rest)
        self._waiting.clear()
        self._rest = memoryview(b"")
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()
