"""What a show's log says: pure functions of times and numbers.

A *missed* bundle is one of the 50 a second that should have left and did not come: numbers of frames count
them. A *gap* is the time between two bundles that follow each other, 20 ms where all is well. It belongs to
each fault that was going on within it, from its beginning until all was as before, or to none. *Latency* is
the time from a frame's leaving the suit until the next bundle comes, as the kernel stamps it, of frames that
no network of ours delayed and whose bundle came before the next frame left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyanticip.bench.machine import percentiles
from realtime.soak.processes import Sample
from realtime.soak.suit import CLEAN, DISTURBED

__all__ = [
    "BAR_MS",
    "QUIET",
    "FaultRecord",
    "Log",
    "by_kind",
    "by_minute",
    "figures",
    "gaps",
    "latencies",
    "missed",
]


class FaultRecord(NamedTuple):
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
    happened: list[FaultRecord] = field(default_factory=list)

    def until(self, t_ns: int) -> Log:
        """What was before a moment."""
        sent, heard = bisect_left(self.left, t_ns), bisect_left(self.times, t_ns)
        left, due, what = self.left[:sent], self.due[:sent], self.what[:sent]
        return Log(left, due, what, self.times[:heard], self.numbers[:heard], self.samples, self.happened)


I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

#: No gap should be longer.
BAR_MS = 30.0
#: The kind of what happens while nothing does.
QUIET = "no fault"
_MINUTE_NS = 60_000_000_000
_MS = 1e-6
# A fault may be heard so much later than it was over.
_AFTER_NS = 200_000_000


def gaps(times: I64) -> F64:
    """Between each bundle and the one before, milliseconds; one fewer than bundles."""
    return np.asarray(np.diff(times) * _MS, np.float64)


def missed(numbers: I64) -> I64:
    """For each bundle but the first, how many did not come before it."""
    return np.asarray(np.maximum(np.diff(numbers) - 1, 0), np.int64)


def latencies(frames: I64, times: I64) -> tuple[I64, F64]:
    """When each undisturbed frame left that was answered, and the milliseconds until its bundle came."""
    if len(times) == 0 or len(frames) < 2:
        return np.zeros(0, np.int64), np.zeros(0)
    # The last has no next.
    left, after = frames[:-1], frames[1:]
    at = np.searchsorted(times, left)
    came = times[np.minimum(at, len(times) - 1)]
    counts = (at < len(times)) & (came < after)
    return left[counts], np.asarray((came - left)[counts] * _MS, np.float64)


def _within(begins: I64, ends: I64, happened: Iterable[FaultRecord]) -> npt.NDArray[np.bool_]:
    """Which intervals have something of these faults in them."""
    found = np.zeros(len(begins), np.bool_)
    for one in happened:
        found |= (ends > one.begun_ns) & (begins < one.ended_ns + _AFTER_NS)
    return found


def by_kind(times: I64, numbers: I64, happened: Sequence[FaultRecord]) -> list[dict[str, Any]]:
    """A row for each kind of fault, and one for the time when there was none."""
    length, lost = gaps(times), missed(numbers)
    begins, ends = times[:-1], times[1:]
    rows = []
    for kind in sorted({one.kind for one in happened}):
        these = [one for one in happened if one.kind == kind]
        counts = _within(begins, ends, these)
        back = [one.back for one in these if one.back is not None]
        rows.append(
            {
                "kind": kind,
                "times": len(these),
                **_gap_figures(length[counts], lost[counts]),
                "back_s": {
                    "p50": round(float(np.median(back)), 2) if back else None,
                    "max": round(max(back), 2) if back else None,
                },
                "not_back": len(these) - len(back),
            }
        )
    counts = ~_within(begins, ends, happened)
    quiet = {"kind": QUIET, "times": 0, **_gap_figures(length[counts], lost[counts])}
    return [*rows, quiet]


def _gap_figures(length: F64, lost: I64) -> dict[str, Any]:
    return {
        "bundles": len(length),
        "missed": int(lost.sum()),
        "gap_ms": round(float(length.max(initial=0.0)), 2),
        "over_bar": int((length > BAR_MS).sum()),
    }


def by_minute(log: Log) -> list[dict[str, Any]]:
    """A row for each minute from the first bundle on."""
    times, numbers = np.array(log.times, np.int64), np.array(log.numbers, np.int64)
    if len(times) < 2:
        return []
    left, what = np.array(log.left, np.int64), np.array(log.what, np.int64)
    sent, latency = latencies(left[what == CLEAN], times)
    late = np.asarray((left - np.array(log.due, np.int64)) * _MS, np.float64)
    length, lost = gaps(times), missed(numbers)
    rows = []
    for n, begin in enumerate(range(int(times[0]), int(times[-1]), _MINUTE_NS)):
        end = begin + _MINUTE_NS
        bundles = (times[1:] >= begin) & (times[1:] < end)
        rows.append(
            {
                "minute": n,
                "latency_ms": percentiles(latency[(sent >= begin) & (sent < end)], (50, 99)),
                "suit_late_ms": percentiles(late[(left >= begin) & (left < end)], (50, 99)),
                **_gap_figures(length[bundles], lost[bundles]),
                **_taken(log, begin, end),
            }
        )
    return rows


def _taken(log: Log, begin: int, end: int) -> dict[str, Any]:
    """The most that the show took of memory (MB), descriptors and processes."""
    these = [one for one in log.samples if begin <= one.t_ns < end]
    if not these:
        return {}
    return {
        "show_mb": round(max(one.show for one in these) / 1e6, 1),
        "children_mb": round(max(one.children for one in these) / 1e6, 1),
        "descriptors": max(one.descriptors for one in these),
        "processes": max(one.processes for one in these),
    }


def figures(log: Log) -> dict[str, Any]:
    """Everything that the times and numbers of a show say."""
    times, numbers = np.array(log.times, np.int64), np.array(log.numbers, np.int64)
    left, what = np.array(log.left, np.int64), np.array(log.what, np.int64)
    _, latency = latencies(left[what == CLEAN], times)
    seconds = float(times[-1] - times[0]) / 1e9 if len(times) else 0.0
    return {
        "seconds": round(seconds, 1),
        "frames_sent": int((what >= DISTURBED).sum()),
        **_gap_figures(gaps(times), missed(numbers)),
        "bundles": len(times),
        "latency_ms": percentiles(latency, (50, 99)),
        "latency_of": len(latency),
        "faults": len(log.happened),
        "not_back": sum(one.back is None for one in log.happened),
        "by_kind": by_kind(times, numbers, log.happened) if len(times) > 1 else [],
        "by_minute": by_minute(log),
    }
