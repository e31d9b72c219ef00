"""How builds of sets and copies are shown: a bar on a terminal, a line for every file that cannot be used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from training.data.sets.builder import Step


@contextmanager
def shown(what: str, console: Console, *, bar: bool = True) -> Iterator[Callable[[Step], None]]:
    """Yields what is to be called after every step.

    Args:
        what: is built.
        console: a quiet one shows nothing.
        bar: whether there is a bar, beside the lines.
    """
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=console.quiet or not bar) as progress:
        task = progress.add_task(what, total=None)
        steps = 0

        def say(found: Step) -> None:
            nonlocal steps
            steps += 1
            if found.error:
                console.print(found.error, markup=False, highlight=False, soft_wrap=True)
            progress.update(task, completed=found.done, total=found.total)

        yield say
        if not steps:  # all was there
            progress.remove_task(task)
