"""What is trained: the seam between the one trainer and its tasks, and the folder of a run that both know."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from rich.console import Console
from torch import nn

from pyanticip.errors import CheckpointError, FormatError, OptionError, one_line
from pyanticip.models.config import ModelConfig
from pyanticip.untrusted import read_json
from training.run.files import CONFIG, REPORT, load_best, read_description, read_state
from training.run.launch import Processes
from training.run.module import TrainModule
from training.run.options import TrainOptions
from training.run.recorder import Recorder

Opt = TypeVar("Opt", bound=TrainOptions)
D = TypeVar("D")


def check_slow_pathway(config: ModelConfig, window: int) -> None:
    """Refuse a slow pathway that training would never run: it would play as it began.

    Args:
        config: of the model.
        window: steps of the longest window.

    Raises:
        OptionError: no pool ends within it.
    """
    if config.slow_layers and config.slow_stride > window:
        raise OptionError(
            f"option model.slow_stride: expected at most the {window} steps of a window, given "
            f"{config.slow_stride}: the slow pathway would learn nothing"
        )


@dataclass
class Run(Generic[Opt, D]):
    """A run that is prepared."""

    folder: Path
    options: Opt
    data: D
    config: Mapping[str, Any]
    """What ``config.json`` says."""
    here: Processes
    """This process among all."""
    device: str
    """``"cpu"`` or ``"cuda"``."""
    quiet: bool = True
    """No progress bars."""


class Task(ABC, Generic[Opt, D]):
    """Something to train a model on: options, data, model and loss, judge. One of it serves one run.

    Add one by a line in :data:`training.tasks.TASKS`, or by an entry point of the group
    ``pyanticip.tasks`` of another package.
    """

    command: ClassVar[str]
    """The command that trains it, such as ``"train motion"``."""
    form: ClassVar[str]
    """The ``format`` of its runs."""
    version: ClassVar[int]
    """Of that format."""
    options: type[Opt]
    """The class of its options."""

    def check(self, options: Opt, world: int) -> None:
        """Refuse what ``world`` processes cannot compute, before anything is made.

        Raises:
            OptionError: options that do not fit.
        """

    def check_given(self, options: Opt, folder: Path) -> None:
        """Refuse to go on with the run in ``folder`` where what it needs from the start is not there.

        Raises:
            OptionError: it has moved.
        """

    def begin(self, options: Opt, draft: Path, console: Console) -> dict[str, Any]:
        """Make what stands in the folder of a new run from the start; the first process alone.

        Returns:
            What stands in ``config.json`` beside the options.
        """
        return {}

    @abstractmethod
    def open(
        self, options: Opt, folder: Path, config: Mapping[str, Any], here: Processes, console: Console
    ) -> D:
        """The data of a run, in every process.

        Raises:
            OptionError: other data than the run was begun with.
        """

    @abstractmethod
    def module(self, run: Run[Opt, D], *, fresh: bool) -> TrainModule:
        """Model and loss; ``fresh``: no update was done yet."""

    @abstractmethod
    def batches(self, run: Run[Opt, D], start: int) -> Iterable[Any]:
        """What the model is trained on from update ``start`` on: the parts of every update in turn, each with
        its ``step`` (from 0) and its number within the update, ``part``.

        A batch follows from seed and step, not from states that could get lost: a run that is resumed sees
        the same.
        """

    @abstractmethod
    def recorder(self, run: Run[Opt, D], module: TrainModule, batches: Any, start: int) -> Recorder:
        """What judges the model on its way, and writes down how it goes."""

    def idle_weights(self, run: Run[Opt, D], module: TrainModule) -> bool:
        """Whether some weights never get a gradient from these options, which DDP must be told."""
        return False

    def report(self, run: Run[Opt, D], record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """What else stands in the report; ``wall`` seconds after the updates from ``start`` on began."""
        return {}

    def finish(self, run: Run[Opt, D], report: Mapping[str, Any]) -> dict[str, Any]:
        """Judge and export the best weights; the first process alone.

        Returns:
            What else stands in the report; ``finished`` is False where that was interrupted.
        """
        return {}

    def lines(self, out: Path, report: Mapping[str, Any]) -> list[str]:
        """What is told about a run that is done."""
        return [f"wrote {out}"]


def read_config(task: type[Task[Any, Any]], folder: Path | str) -> dict[str, Any]:
    """``config.json`` of a run.

    Raises:
        CheckpointError: no run of this task, or one made by another version.
    """
    return read_description(folder, task.command, task.form, task.version, needs=("options",))


def read_options(task: type[Task[Opt, Any]], folder: Path | str) -> Opt:
    """The options a run was begun with.

    Raises:
        CheckpointError: no run of this task in this folder.
    """
    try:
        return task.options(**read_config(task, folder)["options"])
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{Path(folder) / CONFIG}: {error}") from None


def check_same(task: type[Task[Opt, Any]], folder: Path, options: Opt) -> None:
    """Refuse to go on with other options than the run's.

    Raises:
        OptionError: an option that decides what is computed is different.
    """
    for name, (given, had) in options.differences(read_options(task, folder)).items():
        flag = "".join(f" (--{short})" for short, key in options.FLAGS.items() if key == name)
        begun, now = ("the default" if value is None else repr(value) for value in (had, given))
        raise OptionError(f"option {name}{flag}: the run in {folder} was begun with {begun}, given {now}")


def check_there(folder: Path, path: str, name: str = "data.path", flag: str = "--data") -> None:
    """Refuse to go on where what the run in ``folder`` was given by the option ``name`` is not to be found at
    ``path``, often a relative one of another working folder; ``flag`` says it anew.

    Raises:
        OptionError: nothing is there.
    """
    if path and not Path(path).exists():
        raise OptionError(
            f"option {name}: {path}: no such folder; say with {flag} where that of the run in "
            f"{folder} lies now"
        )


def read_report(folder: Path) -> dict[str, Any]:
    """What a run did.

    Raises:
        CheckpointError: it has not come to its end, or the file is damaged.
    """
    path = folder / REPORT
    if not path.exists():
        raise CheckpointError(f"{folder}: this run has not come to its end; train it first")
    try:
        found: dict[str, Any] = read_json(path)
    except FormatError as error:
        raise CheckpointError(f"{error}; delete it and resume the run, which writes it anew") from None
    return found


def load_weights(model: nn.Module, folder: Path, which: Literal["best", "last"]) -> None:
    """Give a model the weights of a run, and set it to evaluation.

    Args:
        model: of the run.
        folder: of the run, finished or not.
        which: those that were best on the validation data (where weights are averaged: of the averages), or
            those that were saved last.

    Raises:
        CheckpointError: no such weights yet, or others than the model's.
    """
    if which not in ("best", "last"):
        raise OptionError(f"which must be 'best' or 'last', got {which!r}")
    if which == "best":
        weights = load_best(folder)
    else:
        state = read_state(folder)
        weights = {name.removeprefix("model."): value for name, value in state["state_dict"].items()}
        for kept in state["callbacks"].values():
            weights |= kept.get("average", {})
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder}: the weights do not fit {CONFIG}: {one_line(error)}") from None
    model.eval()
