"""What a show's processes are and what they take, as Linux tells of every process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from pyanticip.errors import DeviceError

__all__ = ["PROC", "Sample", "alive", "below", "needs_proc", "sample"]

PROC = Path("/proc")


def needs_proc() -> None:
    """Raises a DeviceError where processes cannot be looked at."""
    if not (PROC / "self" / "statm").is_file():
        raise DeviceError("soak looks at processes through /proc, which this system does not have")


def _stat(pid: int) -> list[str]:
    """State and parent of a process, and what follows; raises OSError when it is not there."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def alive(pid: int) -> bool:
    """Whether a process runs or could; one that waits to be buried does not."""
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def below(pid: int) -> dict[int, str]:
    """All processes that a process has begun, and those that these have, with the module each runs."""
    children: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            children.setdefault(int(_stat(int(folder.name))[1]), []).append(int(folder.name))
    found: dict[int, str] = {}
    waiting = list(children.get(pid, ()))
    while waiting:
        one = waiting.pop()
        found[one] = _module(one)
        waiting += children.get(one, ())
    return found


def _module(pid: int) -> str:
    """What stands behind -m in its command; nothing where it has none, or is gone."""
    with contextlib.suppress(OSError, ValueError):
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return words[words.index("-m") + 1]
    return ""


class Sample(NamedTuple):
    """At a moment (monotonic ns): memory of the show and of its children (bytes), descriptors that the show
    has open, and how many processes there are with it."""

    t_ns: int
    show: int
    children: int
    descriptors: int
    processes: int


def sample(pid: int, t_ns: int) -> Sample:
    """What a show takes now. Raises OSError when it is not there."""
    children = below(pid)
    return Sample(
        t_ns,
        _memory(pid),
        sum(_memory(child) for child in children),
        sum(1 for _ in (PROC / str(pid) / "fd").iterdir()),
        1 + len(children),
    )


def _memory(pid: int) -> int:
    """Bytes of a process that are in memory; what it shares with others counts for each of them."""
    with contextlib.suppress(OSError):
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
