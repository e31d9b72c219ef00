"""One socket for several performers, who are told apart by their senders, and who of them is next.

What is read waits for its performer's turn, and goes on with all of theirs that waits by then. So one that is
played in time hears each datagram by itself; where all of them need more than the core has, each hears more
at once, and less often, but nothing old.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from realtime.sockets import is_from
from realtime.sources.base import Receive
from realtime.sources.udp import UdpSource

__all__ = ["MOST_WAIT", "PerformerSource", "SharedSource", "Turns"]

_MOST_SENDERS = 256
#: Of each performer no more datagrams wait; the oldest go first.
MOST_WAIT = 512
# So many bursts of the socket are read at most before somebody's turn.
_BURSTS = 16


class Turns:
    """Whose datagrams are handed on next, of all performers of a process: theirs who has waited longest.

    One turn at a time: in between the loop reads what has come, and does what is due.
    """

    def __init__(self) -> None:
        self._waiting: dict[PerformerSource, None] = {}
        self._next: asyncio.Handle | None = None

    def wait(self, performer_source: PerformerSource) -> None:
        """Something of theirs waits."""
        self._waiting.setdefault(performer_source)

    def leave(self, performer_source: PerformerSource) -> None:
        """Nothing of theirs waits any more."""
        self._waiting.pop(performer_source, None)

    def take(self) -> bool:
        """One turn; False: nobody waits."""
        if not self._waiting:
            return False
        next(iter(self._waiting)).hand_on()
        return True

    def go(self, loop: asyncio.AbstractEventLoop) -> None:
        """A turn at once, unless others are under way, and the loop's next ones for who waits then."""
        if self._next is None:
            self._go_on(loop)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = None
        try:
            self.take()
        finally:
            self.go_later(loop)

    def go_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop's next turn, if anybody waits."""
        if self._waiting and self._next is None:
            self._next = loop.call_soon(self._go_on, loop)


class PerformerSource:
    """One performer's share of a socket: a :class:`realtime.sources.base.DatagramStream`.

    It hears ``sender`` (host, or host:port; None: everybody) and whoever is nobody else's, so that a stranger
    can be named and let in; never another performer.
    """

    def __init__(self, shared: SharedSource, sender: str | None) -> None:
        self._shared = shared
        self.sender = sender
        self.receive: Receive | None = None
        #: Told of how many datagrams, from when on, newer ones are there already.
        self.hold: Callable[[int, int], object] = lambda count, t_ns: None
        self.newest = b""
        self._waiting: deque[tuple[bytes, int, str]] = deque(maxlen=MOST_WAIT)
        self._dropped = 0

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
        """Datagrams of whoever that nobody read in time, and of theirs that waited too long."""
        return self._shared.source.dropped + self._dropped

    def is_theirs(self, sender: str) -> bool:
        """Whether a sender (host:port) is this performer's suit."""
        return self.sender is None or is_from(sender, self.sender)

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Call ``receive`` for what is theirs from now on."""
        self.receive = receive
        self._shared.start(loop)

    def put(self, datagram: bytes, arrival: int, sender: str) -> None:
        """One that waits for their turn."""
        if self.receive is None:
            return
        self._dropped += len(self._waiting) == MOST_WAIT
        self._waiting.append((datagram, arrival, sender))
        self.newest = self._shared.source.newest
        self._shared.turns.wait(self)

    def hand_on(self) -> None:
        """Their turn: all that waits, of which they are told what is not the newest."""
        self._shared.turns.leave(self)
        if (count := len(self._waiting) - 1) > 0:
            self.hold(count, self._waiting[0][1])
        while self._waiting and self.receive is not None:
            self.receive(*self._waiting.popleft())

    def poll(self) -> None:
        """Hand on what is there of theirs; the others' waits for their turn."""
        self._shared.poll()
        self.hand_on()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; True at once when a datagram is there to be read, whosoever it is."""
        return bool(self._waiting) or self._shared.source.wait(seconds)

    def close(self) -> None:
        """Hear no more; with the last one the socket is closed."""
        self.receive = None
        self._waiting.clear()
        self._shared.turns.leave(self)
        self._shared.leave()


class SharedSource:
    """Gives each datagram of ``source`` to the performer whose suit sent it; the ``turns`` are of all."""

    def __init__(self, source: UdpSource, turns: Turns) -> None:
        self.source = source
        self.turns = turns
        self._loop: asyncio.AbstractEventLoop | None = None
        self._performer_sources: list[PerformerSource] = []
        self._whose: dict[str, list[PerformerSource]] = {}

    def add_performer(self, sender: str | None) -> PerformerSource:
        """A place for one more performer."""
        self._performer_sources.append(PerformerSource(self, sender))
        return self._performer_sources[-1]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read from now on."""
        if self._loop is None:
            self._loop = loop
            self.source.start(loop, self.route, lambda: self.turns.go(loop))

    def poll(self) -> None:
        """Read what is there, of all: what is somebody's may lie behind a burst of the others'."""
        for _ in range(_BURSTS):
            self.source.poll()
            if not self.source.wait(0.0):
                break
        if self._loop is not None:
            self.turns.go_later(self._loop)

    def route(self, datagram: bytes, arrival: int, sender: str) -> None:
        """Take one datagram; that of a stranger is for all."""
        performer_sources = self._whose.get(sender)
        if performer_sources is None:
            if len(self._whose) >= _MOST_SENDERS:
                self._whose.clear()
            everyone = self._performer_sources
            performer_sources = [one for one in everyone if one.is_theirs(sender)] or everyone
            self._whose[sender] = performer_sources
        for performer_source in performer_sources:
            performer_source.put(datagram, arrival, sender)

    def leave(self) -> None:
        """One performer has finished."""
        if all(performer_source.receive is None for performer_source in self._performer_sources):
            self.source.close()
