"""How long work of several parts shows how far it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

Say = Callable[[str, int, int], None]
"""Told what is done, how much of it, and how much there is."""


@contextmanager
def bars(console: Console) -> Iterator[Say]:
    """A bar for every part of the work; none where the console is quiet."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=console.quiet) as progress:
        tasks: dict[str, TaskID] = {}

        def say(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield say
