"""Whatever arrives at the usual ports, and what it is: for who does not know what their suit speaks."""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping

from pyanticip import _core
from pyanticip._core import LiveFront
from pyanticip.errors import DeviceError, OptionError, one_line, printable
from realtime.seams import SOURCES
from realtime.sockets import bind_udp, hear_group, host_and_port
from realtime.sources.base import Source
from realtime.sources.osc import Address, OscSource

__all__ = [
    "Arrivals",
    "DetectedSender",
    "first_sender",
    "osc_address",
    "recognise",
    "suits",
    "usual_ports",
    "wrong_kind",
]

# So many frames are enough to know the rate; so many senders at all are listened to.
_ENOUGH = 30
_MOST = 16
#: What is known by its looks but has no body of its own to play: why, and what to do.
_BODILESS = {
    "osc": "OSC of another program; map its numbers to joints with source.addresses and --source osc",
}
# Where we send to unless told otherwise: listened to only by who asks for it.
_OURS = 9000


def suits() -> tuple[str, ...]:
    """The kinds that play without being told more: all but ``osc``, whose addresses a rig has to name."""
    return tuple(kind for kind in SOURCES.names() if kind != "osc")


def usual_ports() -> dict[int, str]:
    """The kinds of motion capture by the ports that they use unless told otherwise; not VRChat's 9000, where
    sound control goes. A kind of somebody else's that cannot be opened is left out."""
    found: dict[int, str] = {}
    for kind in suits():
        with contextlib.suppress(OptionError):
            found.setdefault(SOURCES.load(kind)().port, kind)
    found.pop(_OURS, None)
    return found


def recognise(datagram: bytes) -> str | None:
    """The kind of source that a datagram is from, by its looks: one of ``SOURCES``, ``osc`` (of
    somebody else's), or None where it is nothing known.

    Of kinds that other packages bring it is the first whose decoder makes datagrams of its ``wire`` of it.
    """
    known = _core.recognise(datagram)
    if known not in (None, "osc"):
        return known
    if datagram.startswith(b"{") and b'"sensordata"' in datagram:
        return "phone"
    for kind in _others(tuple(sys.path)):
        # Bytes from the network in somebody else's hands.
        with contextlib.suppress(Exception):
            source = SOURCES.load(kind)()
            if any(_core.recognise(one) == source.wire for one in source.decode(datagram)):
                return kind
    return known


@functools.cache
def _others(path: tuple[str, ...]) -> list[str]:
    # Looked up once: going through all packages' metadata takes tens of milliseconds.
    return sorted(set(SOURCES.names()) - set(SOURCES.built_in))


def wrong_kind(expected: str, datagram: bytes, port: int) -> str:
    """What came in place of an ``expected`` kind, with what to do; empty where that cannot be told."""
    kind = recognise(datagram)
    if kind is None:
        return ""
    if kind == expected:
        try:
            if kind in _core.PROTOCOLS:
                _core.Decoder(kind).feed(datagram)
            else:
                tuple(SOURCES.load(kind)().decode(datagram))
        except Exception as error:
            # Bytes from the network, maybe in somebody else's hands.
            return f"this is {kind}, but: {one_line(error)}"
        return ""
    if kind in suits():
        usual = SOURCES.load(kind)().port
        return f"this is {kind}: use --source {kind}://0.0.0.0{'' if port == usual else f':{port}'}"
    return f"this is {_BODILESS[kind]}"


def osc_address(datagram: bytes) -> str:
    """The first address of OSC, printable; empty where it is something else."""
    osc = datagram[20:] if datagram.startswith(b"#bundle\0") else datagram
    return printable(osc[:80].split(bytes(1))[0].decode(errors="replace")) if osc.startswith(b"/") else ""


class DetectedSender:
    """One sender at one port, and what its datagrams look like."""

    def __init__(self, port: int, sender: str) -> None:
        self.port = port
        self.sender = sender
        self.sample = b""
        self._looks: Counter[str] = Counter()
        self._played: dict[str, tuple[Source, LiveFront]] = {}

    def take(self, datagram: bytes, t_ns: int) -> None:
        """One datagram of theirs."""
        self.sample = datagram
        # What looks like nothing may be the rest of what came before.
        kind = recognise(datagram) or self.kind
        self._looks[kind] += 1
        if kind not in suits():
            return
        if kind not in self._played:
            source = SOURCES.load(kind)()
            self._played[kind] = source, LiveFront(source.wire)
        source, front = self._played[kind]
        try:
            native = (datagram,) if source.native else tuple(source.decode(datagram))
        except Exception:
            # Bytes from the network in somebody else's hands.
            native = (b"",)
        for one in native:
            front.feed(one, t_ns, self.sender)

    @property
    def kind(self) -> str:
        """What most of it is, of the kinds that can be played; empty: none of them."""
        return max(self._played, key=lambda kind: self._looks[kind], default="")

    @property
    def plays(self) -> bool:
        """Whether enough came to play by."""
        return self.frames >= _ENOUGH and not self.refusal

    @property
    def frames(self) -> int:
        """Frames of it so far."""
        return self._played[self.kind][1].counters()["frames"] if self.kind else 0

    @property
    def rate(self) -> float | None:
        """Frames a second; None at first."""
        return self._played[self.kind][1].timing[0] if self.kind else None

    @property
    def refusal(self) -> str:
        """Why this body cannot be played; empty: nothing is wrong with it."""
        return (self._played[self.kind][1].refusal or "") if self.kind else ""

    def describe(self) -> str:
        """In words, why the newest datagram cannot be played."""
        known = wrong_kind(self.kind, self.sample, self.port)
        if address := osc_address(self.sample):
            return f"OSC messages such as {address}" + (f"; {known}" if known else "")
        if known:
            return known
        begins = self.sample[:48]
        text = begins.decode("ascii", "replace")
        plain = text.isascii() and text.isprintable()
        return f"datagrams that begin with {text if plain else begins[:8].hex(' ')}"


class Arrivals:
    """Listens at ``ports`` (their kinds by number) of ``host``, by default of every interface; ``taken`` are
    those that other programs have, and why. ``say`` is told what multicast cannot be heard. Raises a
    :class:`DeviceError` where these are all.
    """

    def __init__(self, ports: Mapping[int, str], say: Callable[[str], None], host: str = "0.0.0.0") -> None:
        self.senders: dict[tuple[int, str], DetectedSender] = {}
        self.taken: dict[int, str] = {}
        self._sockets: dict[socket.socket, int] = {}
        self._join_again: list[Callable[[], None]] = []
        for port, kind in ports.items():
            try:
                sock = bind_udp(host, port, f"source {kind}")
            except DeviceError as error:
                self.taken[port] = str(error)
                continue
            self._sockets[sock] = port
            for one in (kind,) if kind in SOURCES else suits():
                if group := SOURCES.load(one)().group:
                    more, join_again = hear_group(sock, group, say)
                    self._sockets |= dict.fromkeys(more, port)
                    self._join_again.append(join_again)
        if not self._sockets:
            if len(ports) == 1:
                raise DeviceError(*self.taken.values())
            ours = ", ".join(map(str, ports))
            raise DeviceError(f"every port that a suit sends to is in use by another program: {ours}")

    def listen(self, seconds: float) -> None:
        """Take what comes until something has, in so many seconds at most."""
        ready, _, _ = select.select(list(self._sockets), [], [], max(seconds, 0.0))
        if not ready:
            for join_again in self._join_again:
                join_again()
        for sock in ready:
            try:
                datagram, peer = sock.recvfrom(65536)
            except OSError:
                # An ICMP error of somebody else's making.
                continue
            key = self._sockets[sock], host_and_port(peer[0], peer[1])
            if key not in self.senders:
                if len(self.senders) >= _MOST:
                    # Room for one that can be played: the first goes that cannot.
                    self.senders.pop(next((k for k, one in self.senders.items() if not one.kind), key), None)
                if len(self.senders) < _MOST:
                    self.senders[key] = DetectedSender(*key)
            if key in self.senders:
                suit = self.senders[key]
                suit.take(datagram, time.monotonic_ns())
                ask = SOURCES.load(suit.kind)().ask if suit.kind else None
                if ask is not None and not suit.frames:
                    # One that is bound to a group comes behind the one that the answer comes to.
                    sock = next(one for one, port in self._sockets.items() if port == suit.port)
                    with contextlib.suppress(OSError):
                        sock.sendto(ask[0], (peer[0], ask[1]))

    def close(self) -> None:
        """Give the ports back."""
        for sock in self._sockets:
            sock.close()


def _is_mapped(datagram: bytes, addresses: Mapping[str, Address]) -> bool:
    # Bytes from the network in somebody else's hands.
    with contextlib.suppress(Exception):
        return any(OscSource(addresses).decode(datagram))
    return False


def first_sender(
    host: str,
    say: Callable[[str], None],
    seconds: float | None = None,
    port: int | None = None,
    addresses: Mapping[str, Address] = {},
) -> tuple[str, int]:
    """The kind of the first sender that can be played, and the port that it sends to: ``port``, or one of
    the usual ones. Who sends a rotation at one of the rig's ``addresses`` is of the kind ``osc``.

    Ports that another program has are told of and left out. ``seconds`` is how long to wait; None: for ever.
    Raises DeviceError where no port is free, or nobody came in time.
    """
    usual = usual_ports()
    ports = usual if port is None else {port: usual.get(port, "auto")}
    arrivals = Arrivals(ports, say, host)
    try:
        for why in arrivals.taken.values():
            say(why)
        listed = ", ".join(str(port) for port in ports if port not in arrivals.taken)
        where = f"{host}, port{'s' if len(ports) > 1 else ''} {listed}"
        say(f"waiting for whoever sends to {where}")
        end = None if seconds is None else time.monotonic() + seconds
        seen: set[str] = set()
        while end is None or time.monotonic() < end:
            arrivals.listen(1.0 if end is None else min(end - time.monotonic(), 1.0))
            for suit in arrivals.senders.values():
                if kind := suit.kind or "osc" * _is_mapped(suit.sample, addresses):
                    say(f"{suit.sender} sends {kind} to port {suit.port}")
                    return kind, suit.port
                line = f"{suit.sender} sends to port {suit.port} what cannot be played: {suit.describe()}"
                if line not in seen and len(seen) < _MOST:
                    seen.add(line)
                    say(line)
        raise DeviceError(f"source auto: nobody known sent to {where}, in {seconds:g} s")
    finally:
        arrivals.close()
