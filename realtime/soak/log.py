"""What is written down while a show plays: numbers alone, so that figures can be made of them anywhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from realtime.soak.processes import Sample

__all__ = ["Happened", "Log"]


class Happened(NamedTuple):
    """A fault: from when to when (monotonic ns), until all was as before (seconds after it was set right;
    None: it was not)."""

    kind: str
    begun_ns: int
    ended_ns: int
    back: float | None


@dataclass
class Log:
    """A show: times are monotonic nanoseconds.

    ``left``, ``due`` and ``what`` of the suit's datagrams as :class:`realtime.soak.suit.Suit` has them;
    ``times`` and ``numbers`` of the bundles that came.
    """

    left: Sequence[int]
    due: Sequence[int]
    what: Sequence[int]
    times: Sequence[int]
    numbers: Sequence[int]
    samples: list[Sample] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)

    def until(self, t_ns: int) -> Log:
        """What was before a moment."""
        sent, heard = bisect_left(self.left, t_ns), bisect_left(self.times, t_ns)
        left, due, what = self.left[:sent], self.due[:sent], self.what[:sent]
        return Log(left, due, what, self.times[:heard], self.numbers[:heard], self.samples, self.happened)
