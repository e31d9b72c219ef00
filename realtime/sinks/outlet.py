"""Dispatches frames to the sinks: holds them back until due, and skips them when the loop is late."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pyanticip.errors import FOREIGN, one_line
from realtime.clock import Clock, wall_ns
from realtime.seams import SlowCalls
from realtime.sinks.base import (
    STATE_EVENTS,
    ControlFrame,
    DatagramSink,
    DeferredSink,
    Extra,
    Prewarmed,
    Sink,
)

S = TypeVar("S", bound="Sink | DeferredSink")

# A frame later than this is not sent: newer frames are waiting.
_STALE_NS = 40_000_000
# After a gap in sending longer than this, the following frames ease from the last values sent.
_EASING_GAP_NS = 100_000_000
# Minimum time between two frames that are held back.
_MIN_SPACING_NS = 1_000_000


class Outlet:
    """Sends frames to the sinks, in the order of the sinks; skipped frames and events go into ``counts``.

    While ``is_leaving`` is set, every frame is sent however late the loop is, because receivers need the
    final silence. ``say`` gets one line for a sink that raises (once each) or is slow, and the other sinks go
    on; without ``say`` the exception propagates.
    """

    def __init__(self, sinks: Sequence[Sink], clock: Clock, counts: dict[str, int]) -> None:
        self.sinks: list[Sink] = []
        self._deferred: list[DeferredSink] = []
        self._datagram_sinks: list[DatagramSink] = []
        self._extras: Sequence[Extra] = ()
        self.is_leaving = False
        self.report: Callable[[str], None] | None = None
        self._failed: set[int] = set()
        self._slow = SlowCalls()
        self._clock = clock
        self._counts = counts
        self._queue: deque[ControlFrame] = deque()
        # Events of skipped frames: due time (frame clock), name, strength.
        self._carried_events: list[tuple[int, str, float]] = []
        self._last_sent: ControlFrame | None = None
        # Whether frames after the last one sent were skipped.
        self._has_skipped = False
        for sink in sinks:
            self._register(sink)

    def _register(self, sink: Sink) -> None:
        self.sinks.append(sink)
        if isinstance(sink, DeferredSink):
            self._deferred.append(sink)
        if isinstance(sink, DatagramSink):
            self._datagram_sinks.append(sink)

    @property
    def due_ns(self) -> int | None:
        """When :meth:`send_due` has to send the next frame; None if none is held back."""
        return self._queue[0].t_ns if self._queue else None

    def enqueue(self, frame: ControlFrame, release_ns: int) -> None:
        """Send a frame now, or hold it back until ``release_ns``."""
        if release_ns <= frame.t_ns:
            self.send(frame)
            return
        if self._queue:
            release_ns = max(release_ns, self._queue[-1].t_ns + _MIN_SPACING_NS)
        frame.t_ns = release_ns
        self._queue.append(frame)

    def send_due(self) -> None:
        """Send the oldest frame held back."""
        self.send(self._queue.popleft())

    def send(self, frame: ControlFrame) -> None:
        """Send a frame to the sinks, or skip it if it is stale; its events then go with the next one sent."""
        if self._is_stale(frame.t_ns) and frame.seq >= 0 and not self.is_leaving:
            self._counts["superseded"] += 1
            self._has_skipped = True
            self._carried_events.extend((frame.t_ns + round(a * 1e9), name, s) for name, s, a in frame.events)
            return
        if self._carried_events:
            carried = [(name, s, (t - frame.t_ns) / 1e9) for t, name, s in self._carried_events]
            self._carried_events.clear()
            carried = [
                (name, s, max(a, 0.0) if name.startswith(STATE_EVENTS) else a) for name, s, a in carried
            ]
            overdue = [event for event in carried if event[2] < 0.0]
            self._counts["stale_events"] += len(overdue)
            frame.events = [*(event for event in carried if event[2] >= 0.0), *frame.events]
        if frame.events:
            frame.wall_ns = wall_ns(self._clock, frame.t_ns)
        if frame.seq >= 0:
            self._last_sent, self._has_skipped = frame, False
        started_ns = time.perf_counter_ns()
        for sink in self.sinks:
            try:
                sink.send(frame)
            except FOREIGN as error:
                self._report_failure(sink, error)
                started_ns = time.perf_counter_ns()
            else:
                if self.report is not None:
                    started_ns = self._slow.record(id(sink), started_ns, sink.name, self.report)

    def announce(self, extras: Sequence[Extra]) -> None:
        """Announce the taught outputs to every sink."""
        self._extras = extras
        self._for_each(self.sinks, lambda sink: sink.announce(extras))

    def add(self, sink: Sink) -> None:
        """Add a sink, and announce the current taught outputs to it."""
        self._register(sink)
        sink.announce(self._extras)

    def close(self) -> None:
        """Close the sinks."""
        self._for_each(self.sinks, lambda sink: sink.close())

    def _for_each(self, sinks: Iterable[S], action: Callable[[S], object]) -> None:
        for sink in sinks:
            try:
                action(sink)
            except FOREIGN as error:
                self._report_failure(sink, error)

    def _report_failure(self, sink: Sink | DeferredSink, error: BaseException) -> None:
        # Sinks of other packages may raise anything.
        if self.report is None:
            raise error
        self._counts["errors"] += 1
        if id(sink) not in self._failed:
            self._failed.add(id(sink))
            self.report(f"{sink.name} failed, continuing: {type(error).__name__}: {one_line(error)}")

    def last_sent_values(self, t_ns: int) -> list[float]:
        """The parameters and taught outputs sent last, if frames since were skipped for longer than 100 ms
        and a frame of ``t_ns`` would be sent; else empty. Returned once per gap."""
        if not self._has_skipped or self._last_sent is None or self._queue or self._is_stale(t_ns):
            return []
        self._has_skipped = False
        sent = self._last_sent
        return [*sent.params, *sent.extras] if t_ns - sent.t_ns > _EASING_GAP_NS else []

    def _is_stale(self, t_ns: int) -> bool:
        return self._clock.live and self._clock.now_ns() - t_ns > _STALE_NS

    def prewarm(self, frame: ControlFrame) -> None:
        """Let the sinks repeat the work of sending ``frame``, without sending it."""
        self._for_each(self.sinks, lambda sink: sink.prewarm(frame) if isinstance(sink, Prewarmed) else None)

    def on_datagram(self, sender: str, datagram: bytes) -> None:
        """Pass an incoming datagram to the sinks that want it."""
        self._for_each(self._datagram_sinks, lambda sink: sink.on_datagram(sender, datagram))

    def run_deferred(self) -> None:
        """Run the deferred sinks, after every sink was sent the frame."""
        self._for_each(self._deferred, lambda sink: sink.run_deferred())
