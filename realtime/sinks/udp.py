"""Packets over UDP, one per datagram."""

from __future__ import annotations

import contextlib
import socket
import time

from pyanticip.errors import reason
from realtime.sockets import host_and_port, resolve

_RETRY_NS = 1_000_000_000
# While no computer has the address, Linux queues datagrams until the send buffer is full, and every 3 s it
# discards them and takes some more: the trouble is over once that has not lasted for longer than this.
_QUEUED_NS = 4_000_000_000


class UdpWire:
    """One receiver's datagrams; ``trouble`` says why sending has failed for a second, and is empty while it
    works.

    Whether a datagram arrives cannot be known. Raises a DeviceError if the host cannot be resolved; a network
    that is not up yet is no error.
    """

    def __init__(self, host: str, port: int) -> None:
        addrinfo = resolve(host, port, f"OSC target {host_and_port(host, port)}", socket.SOCK_DGRAM)
        self._family, _, self._proto, _, self._address = addrinfo
        self._sock: socket.socket | None = None
        with contextlib.suppress(OSError):
            self._sock = self._open()
        # Since when sending fails (0: it works), and until when to keep a socket that fails.
        self._failing_since_ns = self._retry_at_ns = 0
        self._dropped_at_ns = -_QUEUED_NS
        self.trouble = ""
        self.counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}

    def _open(self) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_DGRAM, self._proto)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, True)
            # A small buffer: a datagram that cannot be sent now is superseded by the next frame.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
            # A connected socket reports when nobody listens at the port.
            sock.connect(self._address)
        except OSError:
            sock.close()
            raise
        return sock

    def send(self, data: bytes | bytearray) -> None:
        """Send a packet now, or count why not. Never blocks, never raises."""
        counts = self.counts
        for _ in range(2):
            try:
                if self._sock is None:
                    self._sock = self._open()
                self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                counts["dropped"] += 1
                now = self._on_failure("nothing gets through")
                if now - self._failing_since_ns >= _RETRY_NS:
                    self._dropped_at_ns = now
            except ConnectionRefusedError:
                # Reports an earlier datagram that nobody received; this one is unsent, so try it again.
                counts["refused"] += 1
                counts["sent"] -= 1
                continue
            except OSError as error:
                counts["failed"] += 1
                now = self._on_failure(reason(error))
                if now >= self._retry_at_ns:
                    # The old socket may be bound to a local address that this machine no longer has, after a
                    # change of network.
                    self._retry_at_ns = now + _RETRY_NS
                    self.close()
            else:
                counts["sent"] += 1
                self._failing_since_ns = 0
                if self.trouble and time.monotonic_ns() - self._dropped_at_ns >= _QUEUED_NS:
                    self.trouble = ""
            return

    def _on_failure(self, reason: str) -> int:
        """Note that sending fails; returns the time."""
        now = time.monotonic_ns()
        self._failing_since_ns = self._failing_since_ns or now
        if now - self._failing_since_ns >= _RETRY_NS:
            self.trouble = reason
        return now

    def close(self) -> None:
        """Close the socket."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
