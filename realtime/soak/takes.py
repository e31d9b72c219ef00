"""What a show's recordings hold of it: whether each can be read, until when, and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import MotionError
from pyanticip.motion.recording import Control, Raw, Recording, read_recording

__all__ = ["examine", "in_order"]

I64 = npt.NDArray[np.int64]
# Between a datagram's leaving and its arrival lies so much at most; at the ends of a file nobody knows.
_EDGE_NS = 50_000_000


def in_order(folder: Path) -> list[Path]:
    """The recordings in a folder, the oldest first."""
    files = [path for path in folder.glob("*.anticip") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_mtime_ns)


def examine(path: Path, sender: str, left: I64) -> dict[str, Any]:
    """A recording beside what the suit ``sender`` sent, at these times (monotonic ns, in order).

    ``missing`` are datagrams that left while it was recorded and are not in it; ``ended``: the show itself
    wrote its end into it.
    """
    try:
        taken = read_recording(path)
        came, last, ended = _heard(taken, sender)
    except MotionError as error:
        return {"file": path.name, "readable": False, "why": str(error)}
    begin, end = (came[0] + _EDGE_NS, came[-1] - _EDGE_NS) if len(came) else (0, 0)
    # One comes after it left: what left within has come a little later.
    sent = int(((left >= begin) & (left < end)).sum())
    got = int(((came >= begin) & (came < end + _EDGE_NS // 10)).sum())
    return {
        "file": path.name,
        "readable": True,
        "whole": not taken.warnings,
        "ended": ended,
        "seconds": round((last - came[0]) / 1e9, 3) if len(came) else 0.0,
        "sent": sent,
        "missing": max(sent - got, 0),
    }


def _heard(taken: Recording, sender: str) -> tuple[I64, int, bool]:
    """When a sender's datagrams came, of when the last record is, whether the end is the last command."""
    came, last, ended = [], 0, False
    for record in taken:
        last = max(last, record.t_ns)
        if isinstance(record, Raw) and record.source.endswith(f"@{sender}"):
            came.append(record.t_ns)
        elif isinstance(record, Control):
            ended = record.name == "end"
    return np.array(came, np.int64), last, ended
