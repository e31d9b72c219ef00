"""What the trainer trains: tasks with options, data, model, loss and judge of their own."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from pyanticip.errors import OptionError, suggestion

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
        OptionError: there is none of this name.
    """
    others = {point.name: point.value for point in entry_points(group="pyanticip.tasks")}
    known = {**others, **TASKS}
    if name not in known:
        raise OptionError(f"unknown task {name!r}{suggestion(name, known)} (there are {', '.join(known)})")
    module, _, kind = known[name].partition(":")
    found: type[Task[Any, Any]] = getattr(import_module(module), kind)
    return found
