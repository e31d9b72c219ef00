"""Receivers that leave and come back: one of each way that bundles take."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

__all__ = ["Guest"]


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
