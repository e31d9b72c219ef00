"""Paired differences, Markdown tables, number formats and progress bars for reports."""

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


def mean_difference(differences: Sequence[float]) -> dict[str, Any]:
    """Mean of paired differences, with the 95 % interval by Student's t.

    Returns:
        ``mean``, ``seeds`` (number of pairs), and ``low`` and ``high``, None with fewer than two pairs.
    """
    array: NDArray[np.float64] = np.array(differences, dtype=np.float64)
    low = high = None
    if len(array) > 1:
        half = float(stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array)))
        low, high = float(array.mean()) - half, float(array.mean()) + half
    return {"mean": float(array.mean()), "seeds": len(array), "low": low, "high": high}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column left-aligned and all others right-aligned."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Format mean ± standard deviation, the latter only for two or more values."""
    array = np.array(values)
    if len(array) < 2:
        return f"{array.mean():.{digits}f}"
    return f"{array.mean():.{digits}f} ± {array.std(ddof=1):.{digits}f}"


def interval(low: float | None, high: float | None, digits: int = 4) -> str:
    """Format an interval, or a dash if there is none."""
    return "-" if low is None or high is None else f"{low:+.{digits}f} to {high:+.{digits}f}"


LINE_INTERVAL_S: Final = 60.0
"""Time between progress lines where the output is not a terminal."""

ProgressCallback = Callable[[str, int, int], None]
"""Progress callback: description of the work, amount done, total."""


@contextmanager
def progress_bars(console: Console) -> Iterator[ProgressCallback]:
    """Show a bar for every part of the work; one line per minute if not on a terminal, nothing if quiet."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    progress, tasks = Progress(*columns, console=console, disable=console.quiet), dict[str, TaskID]()

    last = time.monotonic()

    def say(what: str, done: int, total: int) -> None:
        nonlocal last
        if not console.is_terminal and time.monotonic() >= last + LINE_INTERVAL_S:
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
        if tasks:  # stopping without a bar would print an empty line
            progress.stop()
