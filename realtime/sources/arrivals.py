"""Whatever arrives at the usual ports, and what it is: for who does not know what their suit speaks."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping

from pyanticip._core import LiveFront
from pyanticip.errors import DeviceError, printable
from realtime.seams import SOURCES
from realtime.sockets import bind_udp
from realtime.sources.base import Source

__all__ = ["Arrivals", "Heard", "suits", "usual_ports"]

_BAD = ("truncated", "malformed", "alien")
# So many frames are enough to know the rate; so many senders at all are listened to.
_ENOUGH = 30
_MOST = 16
# Of which nobody here makes a body, and who sends it.
_KNOWN = ((b"MXTP", "Xsens MVN"), (b"\x04\x22\x4d\x18", "Rokoko's compressed JSON"), (b"{", "JSON"))


def suits() -> tuple[str, ...]:
    """The kinds that play without being told more: all but ``osc``, whose addresses a rig has to name."""
    return tuple(kind for kind in SOURCES.names() if kind != "osc")


def usual_ports() -> dict[int, str]:
    """The kinds of motion capture by the ports that they use unless told otherwise."""
    found: dict[int, str] = {}
    for kind in suits():
        found.setdefault(SOURCES.load(kind)().port, kind)
    return found


class Heard:
    """One sender at one port: tried as every kind there is."""

    def __init__(self, port: int, sender: str) -> None:
        self.port = port
        self.sender = sender
        self.sample = b""
        self.datagrams = 0
        self._tried: dict[str, tuple[Source, LiveFront]] = {}
        for kind in suits():
            source = SOURCES.load(kind)()
            self._tried[kind] = source, LiveFront(source.wire)

    def take(self, datagram: bytes, t_ns: int) -> None:
        """One datagram of theirs."""
        self.sample, self.datagrams = datagram, self.datagrams + 1
        for source, front in self._tried.values():
            try:
                native = (datagram,) if source.native else tuple(source.decode(datagram))
            except Exception:
                # Bytes from the network in somebody else's hands.
                native = (b"",)
            for one in native:
                front.feed(one, t_ns, self.sender)

    @property
    def kind(self) -> str:
        """What it is: of the kinds that make sense of it, the one that has most frames; empty: none does."""
        best = max(self._tried, key=lambda kind: (self._frames(kind), self._good(kind)))
        # A stray packet may look like anything.
        return best if self._frames(best) or 2 * self._good(best) > self.datagrams else ""

    @property
    def plays(self) -> bool:
        """Whether enough came to play by."""
        return bool(self.kind) and self._frames(self.kind) >= _ENOUGH and not self.refusal

    @property
    def rate(self) -> float | None:
        """Frames a second; None at first."""
        return self._tried[self.kind][1].timing[0] if self.kind else None

    @property
    def refusal(self) -> str:
        """Why this body cannot be played; empty: nothing is wrong with it."""
        return (self._tried[self.kind][1].refusal or "") if self.kind else ""

    def describe(self) -> str:
        """In words, what none of the kinds makes sense of."""
        begins = self.sample[:48]
        for magic, name in _KNOWN:
            if begins.startswith(magic):
                return name
        osc = self.sample[20:] if begins.startswith(b"#bundle\0") else self.sample
        if osc.startswith(b"/"):
            return f"OSC messages such as {printable(osc[:80].split(bytes(1))[0].decode(errors='replace'))}"
        text = begins.decode("ascii", "replace")
        plain = text.isascii() and text.isprintable()
        return f"datagrams that begin with {text if plain else begins[:8].hex(' ')}"

    def _frames(self, kind: str) -> int:
        return self._tried[kind][1].counters().get("frames", 0)

    def _good(self, kind: str) -> int:
        counters = self._tried[kind][1].counters()
        return counters.get("packets", 0) - sum(counters.get(name, 0) for name in _BAD)


class Arrivals:
    """Listens on every interface at ``ports`` (their kinds by number); ``taken`` are those that other
    programs have. Raises a :class:`DeviceError` where these are all.
    """

    def __init__(self, ports: Mapping[int, str]) -> None:
        self.heard: dict[tuple[int, str], Heard] = {}
        self.taken: list[int] = []
        self._sockets: dict[socket.socket, int] = {}
        for port, kind in ports.items():
            try:
                self._sockets[bind_udp("0.0.0.0", port, f"source {kind}")] = port
            except DeviceError:
                self.taken.append(port)
        if not self._sockets:
            ours = ", ".join(map(str, ports))
            raise DeviceError(f"every port that a suit sends to is in use by another program: {ours}")

    def listen(self, seconds: float) -> None:
        """Take what comes in so many seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            for sock in select.select(list(self._sockets), [], [], left)[0]:
                try:
                    datagram, peer = sock.recvfrom(65536)
                except OSError:
                    # An ICMP error of somebody else's making.
                    continue
                key = self._sockets[sock], f"{peer[0]}:{peer[1]}"
                if key not in self.heard and len(self.heard) < _MOST:
                    self.heard[key] = Heard(*key)
                if key in self.heard:
                    self.heard[key].take(datagram, time.monotonic_ns())

    def close(self) -> None:
        """Give the ports back."""
        for sock in self._sockets:
            sock.close()
