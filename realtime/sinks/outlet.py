"""Frames on their way to the sinks: held back until their turn, left out where newer ones wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from pyanticip.errors import one_line
from realtime.clock import Clock, wall_ns
from realtime.seams import SlowCalls
from realtime.sinks.base import ControlFrame, DatagramSink, DeferredSink, Extra, Prewarmed, Sink

__all__ = ["Outlet"]

# What the loop gets round to this late is worked through without a bundle: newer frames wait.
_STALE_NS = 40_000_000
# Where the last one is older than this, what follows eases from it.
_LONG_NS = 100_000_000
# Between two bundles that are held back.
_SHORTEST_NS = 1_000_000


class Outlet:
    """Hands frames to the sinks in their order; into ``counts`` goes what was left out.

    ``is_leaving``: however late the loop is, everything is sent, for silence must be heard. ``say`` is told
    of a sink that raises, once, and of one that is slow; the others go on. Without it, what a sink raises is
    raised.
    """

    def __init__(self, sinks: Sequence[Sink], clock: Clock, counts: dict[str, int]) -> None:
        self.sinks: list[Sink] = []
        self._deferred: list[DeferredSink] = []
        self._hearing: list[DatagramSink] = []
        self._extras: Sequence[Extra] = ()
        self.is_leaving = False
        self.say: Callable[[str], None] | None = None
        self._failed: set[int] = set()
        self._slow = SlowCalls()
        self._clock = clock
        self._counts = counts
        self._queue: deque[ControlFrame] = deque()
        self._carried: list[tuple[int, str, float]] = []
        # The newest frame that was sent, and whether newer ones were left out.
        self._sent: ControlFrame | None = None
        self._missed = False
        for sink in sinks:
            self._take(sink)

    def _take(self, sink: Sink) -> None:
        self.sinks.append(sink)
        if isinstance(sink, DeferredSink):
            self._deferred.append(sink)
        if isinstance(sink, DatagramSink):
            self._hearing.append(sink)

    @property
    def due_ns(self) -> int | None:
        """When :meth:`send_due` sends the next frame; None: none is held back."""
        return self._queue[0].t_ns if self._queue else None

    def enqueue(self, frame: ControlFrame, release_ns: int) -> None:
        """Send a frame now, or when its turn comes."""
        if release_ns <= frame.t_ns:
            self.send(frame)
            return
        if self._queue:
            release_ns = max(release_ns, self._queue[-1].t_ns + _SHORTEST_NS)
        frame.t_ns = release_ns
        self._queue.append(frame)

    def send_due(self) -> None:
        """Send the frame that has waited longest."""
        self.send(self._queue.popleft())

    def send(self, frame: ControlFrame) -> None:
        """Hand a frame to the sinks, unless the loop is so late that newer ones wait."""
        if self._is_stale(frame.t_ns) and frame.seq >= 0 and not self.is_leaving:
            self._counts["superseded"] += 1
            self._missed = True
            self._carried.extend((frame.t_ns + round(a * 1e9), name, s) for name, s, a in frame.events)
            return
        if self._carried:
            due = [(name, s, (t - frame.t_ns) / 1e9) for t, name, s in self._carried]
            self._carried.clear()
            # A label or gesture that was entered or left is so still.
            due = [
                (name, s, max(a, 0.0) if name.startswith(("class/", "gesture/")) else a) for name, s, a in due
            ]
            late = [event for event in due if event[2] < 0.0]
            self._counts["stale_events"] += len(late)
            frame.events = [*(event for event in due if event[2] >= 0.0), *frame.events]
        if frame.events:
            frame.wall_ns = wall_ns(self._clock, frame.t_ns)
        if frame.seq >= 0:
            self._sent, self._missed = frame, False
        begun = time.perf_counter_ns()
        for sink in self.sinks:
            try:
                sink.send(frame)
            except Exception as error:
                self._note(sink, error)
                begun = time.perf_counter_ns()
            else:
                if self.say is not None:
                    begun = self._slow.took(id(sink), begun, sink.name, self.say)

    def announce(self, extras: Sequence[Extra]) -> None:
        """Tell the sinks which outputs come beside the eight."""
        self._extras = extras
        self._each(lambda sink: sink.announce(extras))

    def add(self, sink: Sink) -> None:
        """Hand frames to one more, who is told which outputs come beside the eight."""
        self._take(sink)
        sink.announce(self._extras)

    def close(self) -> None:
        """Close the sinks."""
        self._each(lambda sink: sink.close())

    def _each(self, act: Callable[[Sink], object]) -> None:
        for sink in self.sinks:
            try:
                act(sink)
            except Exception as error:
                self._note(sink, error)

    def _note(self, sink: Sink | DeferredSink, error: Exception) -> None:
        # It may be somebody else's.
        if self.say is None:
            raise error
        self._counts["errors"] += 1
        if id(sink) not in self._failed:
            self._failed.add(id(sink))
            self.say(f"{sink.name} failed, going on: {type(error).__name__}: {one_line(error)}")

    def last_sent_values(self, t_ns: int) -> list[float]:
        """The values that were sent last, where later frames were left out for long and one of ``t_ns`` will
        not be; told once."""
        if not self._missed or self._sent is None or self._queue or self._is_stale(t_ns):
            return []
        self._missed = False
        sent = self._sent
        return [*sent.params, *sent.extras] if t_ns - sent.t_ns > _LONG_NS else []

    def _is_stale(self, t_ns: int) -> bool:
        return self._clock.live and self._clock.now_ns() - t_ns > _STALE_NS

    def prewarm(self, frame: ControlFrame) -> None:
        """Go through the work of sending a frame, without sending it."""
        self._each(lambda sink: sink.prewarm(frame) if isinstance(sink, Prewarmed) else None)

    def on_datagram(self, sender: str, datagram: bytes) -> None:
        """Let those who look on know of a datagram."""
        for sink in self._hearing:
            try:
                sink.on_datagram(sender, datagram)
            except Exception as error:
                self._note(sink, error)

    def run_deferred(self) -> None:
        """Let those who look on do their work, now that everybody has been sent the frame."""
        for sink in self._deferred:
            try:
                sink.run_deferred()
            except Exception as error:
                self._note(sink, error)
