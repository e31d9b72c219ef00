"""Packets over UDP, one a datagram."""

from __future__ import annotations

import contextlib
import socket
import time

from pyanticip.errors import DeviceError, reason
from realtime.sockets import host_and_port, resolve

__all__ = ["UdpWire"]

_RETRY_NS = 1_000_000_000


class UdpWire:
    """One receiver's datagrams; ``trouble`` says why none has left for a second, and is empty while they do.

    Whether they arrive nobody knows. Raises a DeviceError where the host cannot be resolved or reached.
    """

    def __init__(self, host: str, port: int) -> None:
        where = host_and_port(host, port)
        found = resolve(host, port, f"OSC target {where}", socket.SOCK_DGRAM)
        self._family, _, self._proto, _, self._address = found
        try:
            self._sock = self._open()
        except OSError as error:
            raise DeviceError(f"OSC target {where}: cannot reach {where} ({reason(error)})") from None
        # Since when nothing leaves (0: it does), and when that is tried with a new socket.
        self._since_ns = self._retry_ns = 0
        self.trouble = ""
        self.counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}

    def _open(self) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_DGRAM, self._proto)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, True)
            # What cannot be sent now is superseded by the next frame: no queue on our side.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
            # So that the system tells when nobody listens there.
            sock.connect(self._address)
        except OSError:
            sock.close()
            raise
        return sock

    def send(self, data: bytes | bytearray) -> None:
        """Send a packet now, or count it. Never blocks, never raises."""
        counts = self.counts
        for _ in range(2):
            try:
                self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                counts["dropped"] += 1
            except ConnectionRefusedError:
                # The answer to an earlier one, which nobody got; this is unsent. Once more: it may be back.
                counts["refused"] += 1
                counts["sent"] -= 1
                continue
            except OSError as error:
                counts["failed"] += 1
                self._fail(reason(error))
            else:
                counts["sent"] += 1
                self._since_ns, self.trouble = 0, ""
            return

    def _fail(self, why: str) -> None:
        """The network changed under us. A socket keeps the address that it sends from, which may be this
        machine's no more: a new one, at most once a second."""
        now = time.monotonic_ns()
        self._since_ns = self._since_ns or now
        if now - self._since_ns >= _RETRY_NS:
            self.trouble = why
        if now >= self._retry_ns:
            self._retry_ns = now + _RETRY_NS
            with contextlib.suppress(OSError):
                sock = self._open()
                self._sock.close()
                self._sock = sock

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
