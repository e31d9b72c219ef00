"""Who hears the show: an OSC receiver that is always there and writes down when each bundle came, and
guests that leave and come back."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from array import array
from collections import deque
from typing import NamedTuple

from pythonosc.osc_bundle import OscBundle

from realtime.sockets import bind_udp

__all__ = ["Guest", "OscRecorder", "ReceivedDatagram"]

# What Linux calls it; Python does from 3.12 on.
_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
# Bundles that are kept as they came: ten seconds.
_KEPT = 500
_FRAME = b"/anticip/frame\0\0,if\0"


class ReceivedDatagram(NamedTuple):
    """A bundle: when it came (monotonic ns), and as it came."""

    t_ns: int
    bundle: bytes

    def values(self, address: str) -> list[object]:
        """The arguments of one of its messages; none where it has no such message."""
        found = (message for message in OscBundle(self.bundle) if message.address == address)
        return next((list(message.params) for message in found), [])


class OscRecorder(threading.Thread):
    """Hears bundles, each stamped by the kernel when it arrived.

    ``times`` (monotonic ns) and ``numbers`` of all frames so far; ``words`` are those of the newest status,
    that came at ``told_ns``; ``recent`` are the newest bundles.
    """

    def __init__(self) -> None:
        super().__init__(name="ear", daemon=True)
        self._sock = bind_udp("127.0.0.1", 0, "soak")
        self._sock.settimeout(0.2)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        self.port: int = self._sock.getsockname()[1]
        self.times, self.numbers = array("q"), array("q")
        self.recent: deque[ReceivedDatagram] = deque(maxlen=_KEPT)
        self.words: tuple[str, ...] = ()
        self.told_ns = 0
        self._closing = False
        self.start()

    def run(self) -> None:
        """Until it is closed."""
        while not self._closing:
            try:
                data, ancillary, *_ = self._sock.recvmsg(65536, 128)
            except TimeoutError:
                continue
            now, wall = time.monotonic_ns(), time.time_ns()
            if ancillary:
                seconds, nanos = _TIMESPEC.unpack_from(ancillary[0][2])
                now -= wall - (seconds * 1_000_000_000 + nanos)
            self._hear(now, data)

    def _hear(self, t_ns: int, data: bytes) -> None:
        if data[20:40] == _FRAME:
            self.numbers.append(int.from_bytes(data[40:44], "big"))
            self.times.append(t_ns)
            self.recent.append(ReceivedDatagram(t_ns, data))
        elif data[20:36] == b"/anticip/status\0":
            self.words, self.told_ns = (
                tuple(map(str, ReceivedDatagram(t_ns, data).values("/anticip/status"))),
                t_ns,
            )

    def close(self) -> None:
        """Stop hearing."""
        self._closing = True
        self.join(2.0)
        self._sock.close()


class Guest(threading.Thread):
    """Listens at a port of its own, over UDP or TCP, while it is there; ``heard`` is whether something came
    since it did."""

    def __init__(self, transport: str) -> None:
        super().__init__(name=f"guest {transport}", daemon=True)
        self._kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
        self.transport = transport
        self.heard = False
        self._here, self._closing = True, False
        self._first = self._open(0)
        self.port: int = self._first.getsockname()[1]
        self.start()

    def _open(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, self._kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        if self._kind == socket.SOCK_STREAM:
            sock.listen(1)
        return sock

    def go(self) -> None:
        """Not be there any more."""
        self._here = False

    def come(self) -> None:
        """Be there again, and hear anew."""
        self.heard, self._here = False, True

    def run(self) -> None:
        """Until it is closed."""
        listening, open_ = self._first, [self._first]
        while not self._closing:
            if not self._here:
                for sock in open_:
                    sock.close()
                open_ = []
                threading.Event().wait(0.05)
                continue
            if not open_:
                with contextlib.suppress(OSError):
                    listening = self._open(self.port)
                    open_ = [listening]
            for sock in select.select(open_, [], [], 0.05)[0]:
                if sock is listening and self._kind == socket.SOCK_STREAM:
                    open_.append(sock.accept()[0])
                    continue
                data = b""
                with contextlib.suppress(OSError):
                    data = sock.recv(1 << 16)
                if data:
                    self.heard = True
                elif sock is not listening:
                    open_.remove(sock)
                    sock.close()
        for sock in open_:
            sock.close()

    def close(self) -> None:
        """Leave for good."""
        self._closing = True
        self.join(2.0)
