"""The slots of the 50 Hz grid: which frame leaves under which number, and when the next one is late."""

from __future__ import annotations

from typing import NamedTuple

from realtime.playout import FRAME_NS, Playout
from realtime.protocols import FrontFrame

__all__ = ["FRAME", "Slot", "Slots"]

#: Seconds between two frames of the grid.
FRAME = FRAME_NS / 1e9

# A frame is never waited for longer than this, nor shorter.
_SHORTEST_NS, _LONGEST_NS = 1_000_000, 60_000_000
# Frames that have come behind their turn for so long will not come in time again.
_DETOUR_NS = 300_000_000


class Slot(NamedTuple):
    """Where a frame belongs that a datagram completed.

    ``since`` seconds have passed since the last such frame, ``dt`` since the last one that was heard, or None
    where its turn has passed; it leaves at ``release_ns``.
    """

    number: int
    since: float
    dt: float | None
    release_ns: int


class Slots:
    """Counts the frames that leave: each number once and in order, whatever the source's numbers do.

    ``newest`` left last, by a datagram or without one; ``completed`` is the newest that a datagram completed.
    At ``due_ns`` the next one is late.
    """

    def __init__(self, now_ns: int, playout: Playout | None) -> None:
        self.playout = playout
        self.due_ns = now_ns + FRAME_NS
        self.newest = -1
        self.completed = -1
        # The newest that was more than silence.
        self._spoken = -1
        self._base = 0
        # Since when frames come behind their turn.
        self._behind_ns: int | None = None

    @property
    def away(self) -> int:
        """How many have left since the last one that a datagram completed."""
        return self.newest - self.completed

    def take(self, out: FrontFrame, now: int) -> Slot:
        """The slot of a frame that came ``now``."""
        number = self._number(out, now)
        since = max(number - self.completed, 1) * FRAME
        self.completed = max(number, self.completed)
        release = now
        if self.playout is not None:
            release = self.playout.release_ns(out.t_local_ns, now)
            self.due_ns = release + (max(self.newest, number) + 1 - number) * FRAME_NS
        elif number >= self.newest:
            self.wait(out, now)
        if number <= self.newest:
            return Slot(number, since, None, release)
        dt = (number - self._spoken) * FRAME if self.newest >= 0 else FRAME
        self.newest = self._spoken = number
        return Slot(number, since, dt, release)

    def wait(self, out: FrontFrame, now: int) -> None:
        """The frame after ``out`` is late when ``out`` says, within reason."""
        self.due_ns = min(max(out.late_ns, now + _SHORTEST_NS), now + _LONGEST_NS)

    def skip(self, *, silent: bool) -> None:
        """One slot without a datagram; ``silent``: nothing is said of it."""
        self.newest += 1
        if not silent:
            self._spoken = self.newest

    def is_newest(self, out: FrontFrame) -> bool:
        """Whether a frame that is foreseen belongs into the newest slot."""
        return self._base + out.seq == self.newest

    def _number(self, out: FrontFrame, now: int) -> int:
        """Grid indices go on where the stream begins anew or slots were skipped ahead of it."""
        if self.newest < 0:
            self._base = -out.seq
        number = self._base + out.seq
        if number > self.newest:
            self._behind_ns = None
        elif self._behind_ns is None:
            self._behind_ns = now
        # Frames that keep coming behind their turn have a longer way now: the count goes on with them.
        behind = self._behind_ns is not None and now - self._behind_ns > _DETOUR_NS
        if number <= self.newest and (out.reset or behind):
            self._base += self.newest + 1 - number
            number, self._behind_ns = self.newest + 1, None
        return number
