"""One socket shared by several performers, who are distinguished by their senders, and their scheduling.

A datagram is queued for its performer; the performer's turn delivers the whole queue. With time to spare each
datagram is delivered on its own; if all performers together exceed the CPU core, each gets larger batches
less often, and skips to the newest frame.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from realtime.sockets import is_from
from realtime.sources.base import Receive
from realtime.sources.udp import UdpSource

_MAX_SENDERS = 256
#: Most datagrams queued for a performer; beyond that the oldest are dropped.
MAX_QUEUED = 512
# Most bursts read from the socket before a performer's turn.
_MAX_BURSTS = 16


class Turns:
    """Schedules the performers of a process: the one that has waited longest is next.

    Between two turns the event loop runs, so that sockets are read and timers are served.
    """

    def __init__(self) -> None:
        # An ordered set of the performers with queued datagrams.
        self._waiting: dict[PerformerSource, None] = {}
        self._next_turn: asyncio.Handle | None = None

    def wait(self, performer_source: PerformerSource) -> None:
        """Queue a performer, who has datagrams; no effect if queued already."""
        self._waiting.setdefault(performer_source)

    def leave(self, performer_source: PerformerSource) -> None:
        """Remove a performer from the queue."""
        self._waiting.pop(performer_source, None)

    def run_next(self) -> bool:
        """Run one turn; returns False if no performer waits."""
        if not self._waiting:
            return False
        next(iter(self._waiting)).deliver_queued()
        return True

    def go(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run a turn now, unless one is scheduled, and schedule turns for the performers that then wait."""
        if self._next_turn is None:
            self._run_turn(loop)

    def _run_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next_turn = None
        try:
            self.run_next()
        finally:
            self.go_later(loop)

    def go_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Schedule a turn on the loop, if a performer waits."""
        if self._waiting and self._next_turn is None:
            self._next_turn = loop.call_soon(self._run_turn, loop)


class PerformerSource:
    """One performer's share of a socket: a :class:`realtime.sources.base.DatagramStream`.

    It receives the datagrams of ``sender`` (host or host:port; None: any), and those of senders that belong
    to no performer, so that an unknown sender can be reported and accepted.
    """

    def __init__(self, shared: SharedSource, sender: str | None) -> None:
        self._shared = shared
        self.sender = sender
        self.receive: Receive | None = None
        #: Called before a batch of several datagrams, with the number of all but the newest and the arrival
        #: (ns) of the first.
        self.hold: Callable[[int, int], object] = lambda count, t_ns: None
        self.newest = b""
        self._queue: deque[tuple[bytes, int, str]] = deque(maxlen=MAX_QUEUED)
        self._dropped = 0

    @property
    def kind(self) -> str:
        """Kind of motion capture."""
        return self._shared.source.kind

    @property
    def address(self) -> tuple[str, int]:
        """Address that the socket listens at."""
        return self._shared.source.address

    @property
    def trouble(self) -> str:
        """The last error of a decoder."""
        return self._shared.source.trouble

    @property
    def dropped(self) -> int:
        """Datagrams of the whole socket that were not read in time, and of this performer that overflowed."""
        return self._shared.source.dropped + self._dropped

    def is_theirs(self, sender: str) -> bool:
        """Whether a sender (host:port) is this performer's suit."""
        return self.sender is None or is_from(sender, self.sender)

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Start calling ``receive`` for this performer's datagrams."""
        self.receive = receive
        self._shared.start(loop)

    def put(self, datagram: bytes, arrival: int, sender: str) -> None:
        """Queue a datagram until this performer's turn."""
        if self.receive is None:
            return
        self._dropped += len(self._queue) == MAX_QUEUED
        self._queue.append((datagram, arrival, sender))
        self.newest = self._shared.source.newest
        self._shared.turns.wait(self)

    def deliver_queued(self) -> None:
        """Take this performer's turn: deliver the queued datagrams, after announcing the older ones."""
        self._shared.turns.leave(self)
        if (count := len(self._queue) - 1) > 0:
            self.hold(count, self._queue[0][1])
        while self._queue and self.receive is not None:
            self.receive(*self._queue.popleft())

    def poll(self) -> None:
        """Read the socket and deliver this performer's datagrams; those of others wait for their turn."""
        self._shared.poll()
        self.deliver_queued()

    def wait(self, seconds: float) -> bool:
        """Block until a datagram of anyone can be read, for at most ``seconds``; returns whether one can."""
        return bool(self._queue) or self._shared.source.wait(seconds)

    def close(self) -> None:
        """Stop receiving; closing the last performer's source closes the socket."""
        self.receive = None
        self._queue.clear()
        self._shared.turns.leave(self)
        self._shared.close_if_unused()


class SharedSource:
    """Routes each datagram of ``source`` to the performer whose suit sent it; ``turns`` schedules them."""

    def __init__(self, source: UdpSource, turns: Turns) -> None:
        self.source = source
        self.turns = turns
        self._loop: asyncio.AbstractEventLoop | None = None
        self._performer_sources: list[PerformerSource] = []
        self._routes: dict[str, list[PerformerSource]] = {}

    def add_performer(self, sender: str | None) -> PerformerSource:
        """Add a performer, whose suit is ``sender``; returns the performer's source."""
        self._performer_sources.append(PerformerSource(self, sender))
        return self._performer_sources[-1]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start reading the socket."""
        if self._loop is None:
            self._loop = loop
            self.source.start(loop, self.route, lambda: self.turns.go(loop))

    def poll(self) -> None:
        """Read several bursts, because a performer's datagrams may come after a burst of the others'."""
        for _ in range(_MAX_BURSTS):
            self.source.poll()
            if not self.source.wait(0.0):
                break
        if self._loop is not None:
            self.turns.go_later(self._loop)

    def route(self, datagram: bytes, arrival: int, sender: str) -> None:
        """Queue one datagram for its performer; that of an unknown sender, for all."""
        performer_sources = self._routes.get(sender)
        if performer_sources is None:
            if len(self._routes) >= _MAX_SENDERS:
                self._routes.clear()
            everyone = self._performer_sources
            performer_sources = [source for source in everyone if source.is_theirs(sender)] or everyone
            self._routes[sender] = performer_sources
        for performer_source in performer_sources:
            performer_source.put(datagram, arrival, sender)

    def close_if_unused(self) -> None:
        """Close the socket if every performer's source is closed."""
        if all(performer_source.receive is None for performer_source in self._performer_sources):
            self.source.close()
