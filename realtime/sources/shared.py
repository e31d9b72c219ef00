"""One socket for several performers, who are told apart by their senders."""

from __future__ import annotations

import asyncio

from realtime.sockets import is_from
from realtime.sources.base import Receive
from realtime.sources.udp import UdpSource

__all__ = ["PerformerSource", "SharedSource"]

_MOST_SENDERS = 256


class PerformerSource:
    """One performer's share of a socket: a :class:`realtime.sources.base.DatagramStream`.

    It hears ``sender`` (host, or host:port; None: everybody) and whoever is nobody else's, so that a stranger
    can be named and let in; never another performer.
    """

    def __init__(self, shared: SharedSource, sender: str | None) -> None:
        self._shared = shared
        self.sender = sender
        self.receive: Receive | None = None
        self.newest = b""

    @property
    def kind(self) -> str:
        """What is sent there."""
        return self._shared.source.kind

    @property
    def address(self) -> tuple[str, int]:
        """Where the socket listens."""
        return self._shared.source.address

    @property
    def trouble(self) -> str:
        """What a decoder said last."""
        return self._shared.source.trouble

    @property
    def dropped(self) -> int:
        """Datagrams of whoever that nobody read in time."""
        return self._shared.source.dropped

    def is_theirs(self, sender: str) -> bool:
        """Whether a sender (host:port) is this performer's suit."""
        return self.sender is None or is_from(sender, self.sender)

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Call ``receive`` for what is theirs from now on."""
        self.receive = receive
        self._shared.start(loop)

    def poll(self) -> None:
        """Hand on what is there, to everybody it is for."""
        self._shared.source.poll()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; True at once when a datagram is there to be read, whosoever it is."""
        return self._shared.source.wait(seconds)

    def close(self) -> None:
        """Hear no more; with the last one the socket is closed."""
        self.receive = None
        self._shared.leave()


class SharedSource:
    """Hands each datagram of ``source`` to the performer whose suit sent it."""

    def __init__(self, source: UdpSource) -> None:
        self.source = source
        self._performer_sources: list[PerformerSource] = []
        self._whose: dict[str, list[PerformerSource]] = {}
        self._started = False

    def add_performer(self, sender: str | None) -> PerformerSource:
        """A place for one more performer."""
        self._performer_sources.append(PerformerSource(self, sender))
        return self._performer_sources[-1]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read from now on."""
        if not self._started:
            self._started = True
            self.source.start(loop, self.route)

    def route(self, datagram: bytes, arrival: int, sender: str) -> None:
        """Hand on one datagram; that of a stranger to all."""
        performer_sources = self._whose.get(sender)
        if performer_sources is None:
            if len(self._whose) >= _MOST_SENDERS:
                self._whose.clear()
            everyone = self._performer_sources
            performer_sources = [one for one in everyone if one.is_theirs(sender)] or everyone
            self._whose[sender] = performer_sources
        for performer_source in performer_sources:
            if performer_source.receive is not None:
                performer_source.newest = self.source.newest
                performer_source.receive(datagram, arrival, sender)

    def leave(self) -> None:
        """One performer has finished."""
        if all(performer_source.receive is None for performer_source in self._performer_sources):
            self.source.close()
