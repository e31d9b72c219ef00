"""Datagrams from a file or a recording, at their own pace: the source of ``replay``.

What is handed on are datagrams as a suit sends them, so that everything behind is the live path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from realtime.clock import OfflineClock, ScaledClock
from realtime.sources.udp import Receive

__all__ = ["ReplaySource", "play_offline"]

_FRAME_NS = 20_000_000
_BURST = 64


class ReplaySource:
    """Hands (time, datagram) pairs on when their time comes on a show clock.

    Times are nanoseconds, the first one is the start. The arrival that is reported is the recorded one, not
    the moment the loop got round to it: a replay gives the same frames every time.
    """

    def __init__(
        self,
        datagrams: Iterable[tuple[int, bytes]],
        clock: ScaledClock,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._pairs: Iterator[tuple[int, bytes]] = iter(datagrams)
        self._clock = clock
        self.ended = ended
        self._next = next(self._pairs, None)
        self._first = self._next[0] if self._next else 0
        self._origin = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Begin with the first datagram now."""
        self._loop = loop
        self._origin = self._clock.now_ns()
        self._timer = loop.call_later(0, self._play, receive)

    def _play(self, receive: Receive) -> None:
        assert self._loop is not None
        for _ in range(_BURST):
            if self._next is None:
                self.ended()
                return
            t_ns, datagram = self._next
            due = self._origin + max(t_ns - self._first, 0)
            wait = due - self._clock.now_ns()
            if wait > 0:
                self._timer = self._loop.call_later(wait / 1e9 / self._clock.speed, self._play, receive)
                return
            self._next = next(self._pairs, None)
            receive(datagram, due)
        self._timer = self._loop.call_later(0, self._play, receive)

    def wait(self, seconds: float) -> bool:
        """Nothing comes but by the loop's own timers: no waiting."""
        return False

    def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()


def play_offline(
    datagrams: Iterable[tuple[int, bytes]],
    clock: OfflineClock,
    receive: Receive,
    tick: Callable[[], None],
    seconds: float | None = None,
) -> None:
    """A whole show as fast as it goes: each datagram at its time, ticks of silence where there is a gap.

    ``clock`` must be the pipeline's; ``seconds`` of show time at most.
    """
    origin = clock.now_ns()
    first: int | None = None
    last = origin
    for t_ns, datagram in datagrams:
        first = t_ns if first is None else first
        due = origin + max(t_ns - first, 0)
        if seconds is not None and due - origin > seconds * 1e9:
            return
        while due - last > 2 * _FRAME_NS:
            last += _FRAME_NS
            clock.advance_to(last)
            tick()
        clock.advance_to(due)
        last = max(last, due)
        receive(datagram, due)
