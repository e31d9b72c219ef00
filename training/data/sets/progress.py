"""Progress display of builds: a bar on a terminal, and a line for every file that cannot be used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from training.data.sets.builder import Step


@contextmanager
def build_progress(what: str, console: Console, *, bar: bool = True) -> Iterator[Callable[[Step], None]]:
    """Show the progress of a build; yields the callback for every step.

    Args:
        what: label of the bar.
        console: where to print; a quiet one shows nothing.
        bar: whether to show a bar, beside the lines.
    """
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=console.quiet or not bar) as progress:
        task = progress.add_task(what, total=None)
        steps = 0

        def on_step(step: Step) -> None:
            nonlocal steps
            steps += 1
            if step.error:
                console.print(step.error, markup=False, highlight=False, soft_wrap=True)
            progress.update(task, completed=step.done, total=step.total)

        yield on_step
        if not steps:  # nothing had to be built
            progress.remove_task(task)
