"""What pages say of several runs: paired differences, tables; and progress bars."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from scipy import stats


def paired(differences: Sequence[float]) -> dict[str, Any]:
    """Mean of the differences of pairs, with the 95 % interval by Student's t.

    Returns:
        ``mean``, ``seeds`` (how many pairs), and ``low`` and ``high``, None with fewer than two.
    """
    apart: NDArray[np.float64] = np.array(differences, dtype=np.float64)
    low = high = None
    if len(apart) > 1:
        half = float(stats.t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / math.sqrt(len(apart)))
        low, high = float(apart.mean()) - half, float(apart.mean()) + half
    return {"mean": float(apart.mean()), "seeds": len(apart), "low": low, "high": high}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation, the latter from two values on."""
    array = np.array(values)
    if len(array) < 2:
        return f"{array.mean():.{digits}f}"
    return f"{array.mean():.{digits}f} ± {array.std(ddof=1):.{digits}f}"


def interval(low: float | None, high: float | None, digits: int = 4) -> str:
    """An interval, or a dash where there is none."""
    return "-" if low is None or high is None else f"{low:+.{digits}f} to {high:+.{digits}f}"


MINUTE: Final = 60.0

Say = Callable[[str, int, int], None]
"""Told what is done, how much of it, and how much there is."""


@contextmanager
def bars(console: Console) -> Iterator[Say]:
    """A bar for every part of the work, in a file a line each minute; none where the console is quiet."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    progress, tasks = Progress(*columns, console=console, disable=console.quiet), dict[str, TaskID]()

    last = time.monotonic()

    def say(what: str, done: int, total: int) -> None:
        nonlocal last
        if not console.is_terminal and time.monotonic() >= last + MINUTE:
            console.print(f"{what}: {done} of {total}", markup=False, highlight=False)
            last = time.monotonic()
        if not tasks:
            progress.start()
        if what not in tasks:
            tasks[what] = progress.add_task(what, total=total)
        progress.update(tasks[what], completed=done, total=total)

    try:
        yield say
    finally:
        if tasks:  # it leaves an empty line where there is no bar
            progress.stop()
