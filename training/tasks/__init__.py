"""What the trainer trains: tasks with options, data, model, loss and judge of their own."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from pyanticip.errors import OptionError, foreign_errors, suggestion

if TYPE_CHECKING:
    from training.run.task import Task

TASKS: Final = {
    "motion": "training.tasks.motion.task:MotionTask",
    "language": "training.tasks.token.task:LanguageTask",
    "forecast": "training.tasks.forecast.task:ForecastTask",
    "algorithmic": "training.tasks.algorithmic.task:AlgorithmicTask",
}
"""Where tasks are, by name; more may come from the entry points ``pyanticip.tasks`` of other packages."""


def find(name: str) -> "type[Task[Any, Any]]":
    """The class of a task.

    Raises:
        OptionError: there is none of this name, or another package's cannot be imported or is no task, or two
            packages have one of this name.
    """
    others = [(point.name, point.value) for point in entry_points(group="pyanticip.tasks")]
    known = {**dict(others), **TASKS}
    if name not in known:
        raise OptionError(f"unknown task {name!r}{suggestion(name, known)} (there are {', '.join(known)})")
    module, _, kind = known[name].partition(":")
    if name in TASKS:
        found: type[Task[Any, Any]] = getattr(import_module(module), kind)
        return found
    if len(claims := [at for claimed, at in others if claimed == name]) > 1:
        raise OptionError(f"task {name!r} is claimed more than once: {', '.join(claims)}")
    from training.run import task

    with foreign_errors(f"task {name!r}: {known[name]} cannot be used", ours=False):
        other = getattr(import_module(module), kind)
        if not (isinstance(other, type) and issubclass(other, task.Task)):
            raise TypeError("it is no subclass of training.run.task.Task")
    return other
