"""The interface between the trainer and its tasks, and reading of a run's folder."""

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
from training.run.files import CONFIG, REPORT, fitting, load_best, read_description, read_state
from training.run.launch import Processes
from training.run.module import TrainModule
from training.run.options import TrainOptions
from training.run.recorder import Recorder

Opt = TypeVar("Opt", bound=TrainOptions)
D = TypeVar("D")


def check_slow_pathway(config: ModelConfig, window: int) -> None:
    """Refuse a slow pathway that training windows are too short to run: it would stay untrained.

    Args:
        config: the model's configuration.
        window: steps of the longest window.

    Raises:
        OptionError: no pool ends within the window.
    """
    if config.slow_layers and config.slow_stride > window:
        raise OptionError(
            f"option model.slow_stride: expected at most the {window} steps of a window, got "
            f"{config.slow_stride}: the slow pathway would learn nothing"
        )


@dataclass
class Run(Generic[Opt, D]):
    """A prepared run."""

    folder: Path
    options: Opt
    data: D
    config: Mapping[str, Any]
    """The content of ``config.json``."""
    processes: Processes
    """This process's rank among all."""
    device: str
    """``"cpu"`` or ``"cuda"``."""
    quiet: bool = True
    """Whether to show no progress bars."""


class Task(ABC, Generic[Opt, D]):
    """A training task: options, data, model and loss, evaluation. An instance serves one run.

    Tasks are listed in :data:`training.tasks.TASKS`; other packages add theirs by an entry point of the group
    ``pyanticip.tasks``.
    """

    command: ClassVar[str]
    """The command that trains it, such as ``"train motion"``."""
    format_name: ClassVar[str]
    """The ``format`` in ``config.json`` of its runs."""
    version: ClassVar[int]
    """Version of that format."""
    options: type[Opt]
    """The class of its options."""
    single_process: ClassVar[bool] = False
    """Whether it refuses to run in more than one process."""

    def check(self, options: Opt, world: int) -> None:
        """Check that ``world`` processes can run these options; called before anything is created.

        Raises:
            OptionError: options that do not fit.
        """

    def check_resume(self, options: Opt, folder: Path) -> None:
        """Check, before resuming the run in ``folder``, that the files it needs still exist.

        Raises:
            OptionError: one is missing.
        """

    def prepare(self, options: Opt, draft: Path, console: Console) -> dict[str, Any]:
        """Create the initial files of a new run's folder; called in the first process only.

        Returns:
            Keys to add to ``config.json`` besides the options.
        """
        return {}

    @abstractmethod
    def open(
        self, options: Opt, folder: Path, config: Mapping[str, Any], processes: Processes, console: Console
    ) -> D:
        """Open the data of a run; called in every process.

        Raises:
            OptionError: the data differ from those the run began with.
        """

    @abstractmethod
    def module(self, run: Run[Opt, D], *, fresh: bool) -> TrainModule:
        """Model and loss; ``fresh``: whether the run starts from the beginning."""

    @abstractmethod
    def batches(self, run: Run[Opt, D], start: int) -> Iterable[Any]:
        """Training batches from update ``start`` on: the parts of every update in turn, each with its
        ``step`` (from 0) and its number within the update, ``part``.

        A batch must depend only on seed and step, so that a resumed run sees the same batches.
        """

    @abstractmethod
    def recorder(self, run: Run[Opt, D], module: TrainModule, batches: Any, start: int) -> Recorder:
        """The recorder, which validates the model and writes metrics during training."""

    def idle_weights(self, run: Run[Opt, D], module: TrainModule) -> bool:
        """Whether some weights never get a gradient with these options, which DDP needs to know."""
        return False

    def report(self, run: Run[Opt, D], record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """Keys to add to the report; ``wall`` are the seconds since the updates from ``start`` on began."""
        return {}

    def finish(self, run: Run[Opt, D], report: Mapping[str, Any]) -> dict[str, Any]:
        """Evaluate and export the best weights; called in the first process only.

        Returns:
            Keys to add to the report; ``finished`` is False if this was interrupted.
        """
        return {}

    def summary_lines(self, out: Path, report: Mapping[str, Any]) -> list[str]:
        """Lines to print about a finished run."""
        return [f"wrote {out}"]


def read_config(task: type[Task[Any, Any]], folder: Path | str) -> dict[str, Any]:
    """Read ``config.json`` of a run.

    Raises:
        CheckpointError: not a run of this task, or one of another version.
    """
    return read_description(folder, task.command, task.format_name, task.version, needs=("options",))


def read_options(task: type[Task[Opt, Any]], folder: Path | str) -> Opt:
    """Read the options a run began with.

    Raises:
        CheckpointError: no run of this task in this folder.
    """
    given = read_config(task, folder)["options"]
    try:
        if not isinstance(given, dict):
            raise OptionError(f"options: expected tables of options, got {given!r}")
        return task.options(**given)
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{Path(folder) / CONFIG}: {error}") from None


def check_same(task: type[Task[Opt, Any]], folder: Path, options: Opt) -> None:
    """Refuse to resume a run with different options.

    Raises:
        OptionError: an option that affects the result differs.
    """
    for name, (given, current) in options.differences(read_options(task, folder)).items():
        flag = "".join(f" (--{short})" for short, key in options.FLAGS.items() if key == name)
        begun, now = ("the default" if value is None else repr(value) for value in (current, given))
        raise OptionError(f"option {name}{flag}: the run in {folder} was begun with {begun}, got {now}")


def check_path_exists(folder: Path, path: str, name: str = "data.path", flag: str = "--data") -> None:
    """Refuse to resume the run in ``folder`` if the ``path`` in its option ``name`` does not exist, which is
    often relative to another working folder; the error asks for a new path with ``flag``.

    Raises:
        OptionError: nothing is there.
    """
    if path and not Path(path).exists():
        raise OptionError(
            f"option {name}: {path}: no such folder; say with {flag} where that of the run in "
            f"{folder} lies now"
        )


def read_report(folder: Path) -> dict[str, Any]:
    """Read the report of a finished run.

    Raises:
        CheckpointError: it is not finished, or the file is damaged.
    """
    path = folder / REPORT
    if not path.exists():
        raise CheckpointError(f"{folder}: this run has not come to its end; train it first")
    try:
        report = read_json(path)
        if not isinstance(report, dict) or not {"finished", "step", "seconds", "options"} <= {*report}:
            raise FormatError(f"{path}: is not the report of a run")
    except FormatError as error:
        raise CheckpointError(f"{error}; delete it and resume the run, which writes it again") from None
    return report


def without_folders(report: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A report without folders of this machine, as it is published with a checkpoint.

    Args:
        report: of a run.
        names: options (``table.name``) whose values are paths; the names of their files or folders are kept.
    """
    options = {table: dict(v) if isinstance(v, Mapping) else v for table, v in report["options"].items()}
    for name in names:
        table, _, option = name.partition(".")
        path = options[table][option]
        options[table][option] = Path(path).absolute().name if path else ""
    return {**report, "options": options}


def load_weights(model: nn.Module, folder: Path, which: Literal["best", "last"]) -> None:
    """Load the weights of a run into a model, and set it to evaluation mode.

    Args:
        model: the run's model.
        folder: the run's folder, finished or not.
        which: the weights that were best on the validation data, or those saved last; with averaging, of the
            averaged weights.

    Raises:
        CheckpointError: no such weights yet, or weights that do not fit the model.
    """
    if which not in ("best", "last"):
        raise OptionError(f"which must be 'best' or 'last', got {which!r}")
    if which == "best":
        weights = load_best(folder)
    else:
        state = read_state(folder)
        with fitting(folder):
            weights = {name.removeprefix("model."): value for name, value in state["state_dict"].items()}
            for callback in state["callbacks"].values():
                weights |= callback.get("average", {})
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder}: the weights do not fit {CONFIG}: {one_line(error)}") from None
    model.eval()
