"""Packets over UDP, one a datagram."""

from __future__ import annotations

import contextlib
import socket
import time

from realtime.sockets import connect_udp, host_and_port

__all__ = ["UdpWire"]

_RETRY_NS = 1_000_000_000


class UdpWire:
    """One receiver's datagrams. Raises a DeviceError where the host cannot be resolved."""

    #: Why nothing arrives; of UDP nobody knows.
    trouble = ""

    def __init__(self, host: str, port: int) -> None:
        what = f"OSC target {host_and_port(host, port)}"
        self._sock, self._address = connect_udp(host, port, what, broadcast=True)
        self._sock.setblocking(False)
        # What cannot be sent now is superseded by the next frame: no queue on our side.
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
        self._retry_ns = 0
        self.counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}

    def send(self, data: bytes | bytearray) -> None:
        """Send a packet now, or count it. Never blocks, never raises."""
        counts = self.counts
        for _ in range(2):
            try:
                self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                counts["dropped"] += 1
            except ConnectionRefusedError:
                # The answer to an earlier bundle: this one was not sent. Once more: it may be back.
                counts["refused"] += 1
                continue
            except OSError:
                counts["failed"] += 1
                self._reconnect()
            else:
                counts["sent"] += 1
            return

    def _reconnect(self) -> None:
        """The network changed under us: point the socket anew, at most once a second."""
        now = time.monotonic_ns()
        if now >= self._retry_ns:
            self._retry_ns = now + _RETRY_NS
            with contextlib.suppress(OSError):
                self._sock.connect(self._address)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
