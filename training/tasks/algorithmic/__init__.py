"""Algorithmic tasks that test length extrapolation (paper 001, section 6): data, training, evaluation."""

from typing import Final

from pyanticip.errors import OptionError, suggestion
from training.tasks.algorithmic.arithmetic import Addition, Multiplication
from training.tasks.algorithmic.problem import Task
from training.tasks.algorithmic.scan import Scan
from training.tasks.algorithmic.sequences import Copy, DynamicCopy, OddsFirst, Reverse, Stack

TASKS: Final[dict[str, Task]] = {
    task.name: task
    for task in (Addition(), Copy(), Reverse(), OddsFirst(), Stack(), Scan(), DynamicCopy(), Multiplication())
}


def find(name: str) -> Task:
    """Return the task of this name.

    Raises:
        OptionError: there is none.
    """
    if name not in TASKS:
        raise OptionError(f"unknown task {name!r}{suggestion(name, TASKS)} (there are {', '.join(TASKS)})")
    return TASKS[name]
