"""Detects motion capture at the usual ports, for users who do not know their suit's protocol or port."""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from pyanticip import _core
from pyanticip._core import LiveFront
from pyanticip.errors import FOREIGN, DeviceError, OptionError, one_line, printable
from realtime.seams import SOURCES
from realtime.sockets import bind_udp, host_and_port, join_group
from realtime.sources.base import Source
from realtime.sources.osc import Address, OscSource

# Frames after which the rate is usually known, and after which a sender without a rate is playable too.
_MIN_FRAMES = 30
_MAX_FRAMES = 300
_MAX_SENDERS = 16
#: Kinds that are recognised but cannot be played without a mapping: what they are, and what to do.
_UNPLAYABLE = {
    "osc": "OSC of another program; map its numbers to joints with source.addresses and --source osc",
}
# The port that sound control is sent to by default, so it is not listened at unless asked for.
_OSC_OUT_PORT = 9000


def playable_kinds() -> tuple[str, ...]:
    """The kinds that can be played without a mapping: all but ``osc``, which needs addresses in the rig."""
    return tuple(kind for kind in SOURCES.names() if kind != "osc")


def usual_ports() -> dict[int, str]:
    """Kinds of motion capture by their default ports, without VRChat's 9000, where sound control is sent to.
    A kind of another package that cannot be opened is left out."""
    ports: dict[int, str] = {}
    for kind, source in _opened(playable_kinds()):
        ports.setdefault(source.port, kind)
    ports.pop(_OSC_OUT_PORT, None)
    return ports


def _opened(kinds: Iterable[str]) -> Iterator[tuple[str, Source]]:
    """A source of each kind, without those of other packages that cannot be opened."""
    for kind in kinds:
        with contextlib.suppress(OptionError):
            yield kind, SOURCES.load(kind)()


def recognise(datagram: bytes) -> str | None:
    """The kind of source that a datagram looks like: one of ``SOURCES``, ``osc`` (of another program), or
    None if unknown.

    Of the kinds of other packages it is the first whose decoder turns it into datagrams of its ``wire``.
    """
    kind = _core.recognise(datagram)
    if kind not in (None, "osc"):
        return kind
    if datagram.startswith(b"{") and b'"sensordata"' in datagram:
        return "phone"
    for external in _external_kinds(tuple(sys.path)):
        # Another package's decoder may raise anything for bytes from the network.
        with contextlib.suppress(*FOREIGN):
            source = SOURCES.load(external)()
            if any(_core.recognise(native) == source.wire for native in source.decode(datagram)):
                return external
    return kind


@functools.cache
def _external_kinds(path: tuple[str, ...]) -> list[str]:
    # Cached, because going through the metadata of all packages takes tens of milliseconds.
    return sorted(set(SOURCES.names()) - set(SOURCES.built_in))


def wrong_kind(expected: str, datagram: bytes, port: int) -> str:
    """What a datagram is instead of the ``expected`` kind, or why that cannot be decoded, with what to do;
    empty if that is unknown or nothing is wrong."""
    kind = recognise(datagram)
    if kind is None:
        return ""
    if kind == expected:
        try:
            if kind in _core.PROTOCOLS:
                _core.Decoder(kind).feed(datagram)
            else:
                tuple(SOURCES.load(kind)().decode(datagram))
        except FOREIGN as error:
            # Another package's decoder may raise anything for bytes from the network.
            return f"this is {kind}, but: {one_line(error)}"
        return ""
    if kind in playable_kinds():
        default_port = SOURCES.load(kind)().port
        return f"this is {kind}: use --source {kind}://0.0.0.0{'' if port == default_port else f':{port}'}"
    return f"this is {_UNPLAYABLE[kind]}"


def osc_address(datagram: bytes) -> str:
    """The first OSC address of a datagram, printable; empty if it is not OSC."""
    osc = datagram[20:] if datagram.startswith(b"#bundle\0") else datagram
    return printable(osc[:80].split(bytes(1))[0].decode(errors="replace")) if osc.startswith(b"/") else ""


class DetectedSender:
    """One sender to one port, and the kinds that its datagrams look like."""

    def __init__(self, port: int, sender: str) -> None:
        self.port = port
        self.sender = sender
        self.sample = b""
        self._datagrams: Counter[str] = Counter()
        self._fronts: dict[str, tuple[Source, LiveFront]] = {}

    def decode(self, datagram: bytes, t_ns: int) -> None:
        """Decode one datagram of this sender."""
        self.sample = datagram
        # An unknown datagram may be the continuation of the one before.
        kind = recognise(datagram) or self.kind
        self._datagrams[kind] += 1
        if not kind or kind in _UNPLAYABLE:
            return
        if kind not in self._fronts:
            source = SOURCES.load(kind)()
            self._fronts[kind] = source, LiveFront(source.wire)
        source, front = self._fronts[kind]
        try:
            native = (datagram,) if source.native else tuple(source.decode(datagram))
        except FOREIGN:
            # Another package's decoder may raise anything; the front end counts an empty datagram as alien.
            native = (b"",)
        for decoded in native:
            front.feed(decoded, t_ns, self.sender)

    @property
    def kind(self) -> str:
        """The playable kind of most of its datagrams; empty if there is none."""
        return max(self._fronts, key=lambda kind: self._datagrams[kind], default="")

    @property
    def is_playable(self) -> bool:
        """Whether enough frames have come to know the rate, of a body that can be played."""
        min_frames = _MAX_FRAMES if self.rate is None else _MIN_FRAMES
        return self.frames >= min_frames and not self.refusal

    @property
    def frames(self) -> int:
        """Number of frames so far."""
        return self._fronts[self.kind][1].counters()["frames"] if self.kind else 0

    @property
    def rate(self) -> float | None:
        """Frames per second; None while unknown."""
        return self._fronts[self.kind][1].timing[0] if self.kind else None

    @property
    def refusal(self) -> str:
        """Why this body cannot be played; empty if it can."""
        return (self._fronts[self.kind][1].refusal or "") if self.kind else ""

    def describe(self) -> str:
        """Describe the newest datagram for the user: why it cannot be played, as far as known."""
        explanation = wrong_kind(self.kind, self.sample, self.port)
        if address := osc_address(self.sample):
            return f"OSC messages such as {address}" + (f"; {explanation}" if explanation else "")
        if explanation:
            return explanation
        head = self.sample[:48]
        text = head.decode("ascii", "replace")
        is_plain = text.isascii() and text.isprintable()
        return f"datagrams that begin with {text if is_plain else head[:8].hex(' ')}"


class Arrivals:
    """Listens at ``ports`` (kinds by port number) of ``host``, by default on every interface.

    ``ports_in_use`` holds the ports that other programs use, with the error. ``say`` gets lines on multicast
    groups that cannot be joined. Raises a :class:`DeviceError` if no port is free.
    """

    def __init__(self, ports: Mapping[int, str], say: Callable[[str], None], host: str = "0.0.0.0") -> None:
        self.senders: dict[tuple[int, str], DetectedSender] = {}
        self.ports_in_use: dict[int, str] = {}
        self._sockets: dict[socket.socket, int] = {}
        self._rejoin: list[Callable[[], None]] = []
        for port, kind in ports.items():
            try:
                sock = bind_udp(host, port, f"source {kind}")
            except DeviceError as error:
                self.ports_in_use[port] = str(error)
                continue
            self._sockets[sock] = port
            for _, source in _opened((kind,) if kind in SOURCES else playable_kinds()):
                if group := source.group:
                    group_socks, rejoin = join_group(sock, group, say)
                    self._sockets |= dict.fromkeys(group_socks, port)
                    self._rejoin.append(rejoin)
        if not self._sockets:
            if len(ports) == 1:
                raise DeviceError(*self.ports_in_use.values())
            listed = ", ".join(map(str, ports))
            raise DeviceError(f"every port that a suit sends to is in use by another program: {listed}")

    def listen(self, seconds: float) -> None:
        """Read one datagram from each socket that has one, waiting for the first for at most ``seconds``."""
        ready, _, _ = select.select(list(self._sockets), [], [], max(seconds, 0.0))
        if not ready:
            for rejoin in self._rejoin:
                rejoin()
        for sock in ready:
            try:
                datagram, peer = sock.recvfrom(65536)
            except OSError:
                # An ICMP error caused by another program; the socket itself is fine.
                continue
            key = self._sockets[sock], host_and_port(peer[0], peer[1])
            if key not in self.senders:
                if len(self.senders) >= _MAX_SENDERS:
                    # Replace the first sender that cannot be played.
                    self.senders.pop(next((k for k, one in self.senders.items() if not one.kind), key), None)
                if len(self.senders) < _MAX_SENDERS:
                    self.senders[key] = DetectedSender(*key)
            if key in self.senders:
                suit = self.senders[key]
                suit.decode(datagram, time.monotonic_ns())
                ask = SOURCES.load(suit.kind)().ask if suit.kind else None
                if ask is not None and not suit.frames:
                    # The port's first socket receives the answer; those bound to a group come after it.
                    sock = next(one for one, port in self._sockets.items() if port == suit.port)
                    with contextlib.suppress(OSError):
                        sock.sendto(ask[0], (peer[0], ask[1]))

    def close(self) -> None:
        """Close the sockets."""
        for sock in self._sockets:
            sock.close()


def _is_mapped(datagram: bytes, addresses: Mapping[str, Address]) -> bool:
    # The decoder raises for bytes that are not OSC.
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
    """Wait for the first sender that can be played; returns its kind and the port that it sends to: ``port``,
    or one of the usual ones. A sender of rotations at one of the rig's ``addresses`` is of the kind ``osc``.

    Ports in use by other programs are reported and left out. ``seconds`` is how long to wait; None: for ever.
    Raises DeviceError if no port is free, or no sender was found in time.
    """
    usual = usual_ports()
    ports = usual if port is None else {port: usual.get(port, "auto")}
    arrivals = Arrivals(ports, say, host)
    try:
        for error in arrivals.ports_in_use.values():
            say(error)
        listed = ", ".join(str(port) for port in ports if port not in arrivals.ports_in_use)
        where = f"{host}, port{'s' if len(ports) > 1 else ''} {listed}"
        say(f"waiting for whoever sends to {where}")
        deadline = None if seconds is None else time.monotonic() + seconds
        reported: set[str] = set()
        while deadline is None or time.monotonic() < deadline:
            arrivals.listen(1.0 if deadline is None else min(deadline - time.monotonic(), 1.0))
            for suit in arrivals.senders.values():
                if kind := suit.kind or "osc" * _is_mapped(suit.sample, addresses):
                    say(f"{suit.sender} sends {kind} to port {suit.port}")
                    return kind, suit.port
                line = f"{suit.sender} sends to port {suit.port} what cannot be played: {suit.describe()}"
                if line not in reported and len(reported) < _MAX_SENDERS:
                    reported.add(line)
                    say(line)
        raise DeviceError(f"source auto: no known suit sent to {where} in {seconds:g} s")
    finally:
        arrivals.close()
