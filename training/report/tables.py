"""Markdown tables and progress bars for reports."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn


def without_html(text: str) -> str:
    """Markdown in which ``<``, as in a file's name, begins no HTML outside of `code`."""
    pieces = re.split(r"(`[^`]+`)", text)
    pieces[::2] = [re.sub(r"<(?=[\w/!?])", r"\<", piece) for piece in pieces[::2]]
    return "".join(pieces)


def table_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table; a cell may contain ``|`` and newlines."""
    escaped = (without_html(cell).replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column left-aligned and all others right-aligned."""
    lines = [table_row(head), "|" + "---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *map(table_row, rows)]) + "\n"


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
