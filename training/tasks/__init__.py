"""Training tasks: each has its own options, data, model, loss and evaluation."""

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
"""Import path of each built-in task; other packages add theirs as entry points ``pyanticip.tasks``."""


def find(name: str) -> "type[Task[Any, Any]]":
    """Return the class of a task.

    Raises:
        OptionError: there is no task of this name, two packages register it, or the class registered by
            another package cannot be imported or is not a task.
    """
    plugins = [(point.name, point.value) for point in entry_points(group="pyanticip.tasks")]
    known = {**dict(plugins), **TASKS}
    if name not in known:
        raise OptionError(f"unknown task {name!r}{suggestion(name, known)} (there are {', '.join(known)})")
    module, _, class_name = known[name].partition(":")
    if name in TASKS:
        built_in: type[Task[Any, Any]] = getattr(import_module(module), class_name)
        return built_in
    if len(claims := [target for plugin, target in plugins if plugin == name]) > 1:
        raise OptionError(f"task {name!r} is claimed more than once: {', '.join(claims)}")
    from training.run import task

    with foreign_errors(f"task {name!r}: {known[name]} cannot be used", ours=False):
        plugin_class = getattr(import_module(module), class_name)
        if not (isinstance(plugin_class, type) and issubclass(plugin_class, task.Task)):
            raise TypeError("it is not a subclass of training.run.task.Task")
    return plugin_class
