"""Trains, finds and loads runs, each in its own folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyanticip.errors import CheckpointError, one_line
from pyanticip.models.token.baseline import BaselineTransformer
from training.run.files import CONFIG, REPORT, read_tensors
from training.run.task import read_options, read_report
from training.run.train import train
from training.tasks.algorithmic.module import fitted, new_model
from training.tasks.algorithmic.options import TaskOptions
from training.tasks.algorithmic.task import AlgorithmicTask, kept_weights


@dataclass(frozen=True)
class TaskRun:
    """A run, finished or not."""

    folder: Path
    options: TaskOptions

    def report(self) -> dict[str, Any]:
        """See :func:`~training.run.task.read_report`."""
        return read_report(self.folder)

    def load(self, weights: Path, longest: int) -> BaselineTransformer:
        """Load the model with weights of this run, for examples up to a length, in evaluation mode.

        Raises:
            CheckpointError: the weights cannot be read or do not fit.
        """
        model = new_model(self.options, longest)
        tensors = read_tensors(weights)
        try:
            model.load_state_dict(fitted(tensors, model))
        except RuntimeError as error:
            raise CheckpointError(f"{weights}: cannot be loaded: {one_line(error)}") from None
        return model.eval()


def open_run(folder: Path) -> TaskRun:
    """Open the run in a folder.

    Raises:
        CheckpointError: there is no run of ``tasks train``.
    """
    return TaskRun(folder, read_options(AlgorithmicTask, folder))


def find_runs(places: list[Path]) -> list[TaskRun]:
    """Find the runs in these folders, each of which is a run or a folder of runs.

    Raises:
        CheckpointError: a folder has no run.
    """
    runs = []
    for place in places:
        if (place / CONFIG).is_file():
            runs.append(open_run(place))
            continue
        inside = sorted(path.parent for path in place.glob(f"*/{CONFIG}")) if place.is_dir() else []
        if not inside:
            raise CheckpointError(f"{place}: no runs of tasks train here")
        runs += [open_run(folder) for folder in inside]
    return runs


def newest(run: TaskRun, count: int) -> list[Path]:
    """The last ``count`` saved weights of a run, oldest first.

    Raises:
        CheckpointError: there are none.
    """
    files = kept_weights(run.folder)
    if not files:
        raise CheckpointError(f"{run.folder}: no weights are kept; train it first")
    return files[-count:]


def train_or_keep(options: TaskOptions, folder: Path, *, quiet: bool = True) -> dict[str, Any]:
    """Train a model on a task, resume an interrupted run, or keep a finished one; see
    :func:`training.run.train.train`."""
    return train(AlgorithmicTask(), options, folder, resume=(folder / CONFIG).is_file(), quiet=quiet)


def study(
    out: Path,
    options: TaskOptions,
    positions: Sequence[str],
    seeds: Sequence[int],
    *,
    quiet: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train models with all combinations of positions and seeds; finished runs are kept.

    Args:
        out: folder of the runs.
        options: options of all runs, except for positions and seed.
        positions: see :data:`~training.tasks.algorithmic.options.POSITIONS`.
        seeds: seeds of the runs.
        quiet: no progress bars.
        say: called with a line about every finished run.

    Returns:
        ``finished``: whether all runs finished; ``runs``: their reports by name.
    """
    plan = [options.replace(positions=each, seed=seed) for seed in seeds for each in positions]
    reports: dict[str, Any] = {}
    for number, one in enumerate(plan, 1):
        name = f"{one.task}-{one.positions}-{one.schedule.seed}"
        was_finished = (out / name / REPORT).is_file()
        try:
            report = train_or_keep(one, out / name, quiet=quiet)
        except KeyboardInterrupt:  # before the first update, after the last, or a second one
            say(f"interrupted in {name}; the same command goes on")
            return {"finished": False, "runs": reports}
        reports[name] = report
        if not report["finished"]:
            say(f"interrupted at update {report['step']} of {name}; the same command goes on")
            return {"finished": False, "runs": reports}
        valid = report["valid"]
        duration = "kept" if was_finished else f"{report['seconds']:.0f} s"
        say(
            f"{number}/{len(plan)} {name}: {duration}, exact "
            f"{valid['valid_exact']:.3f} at the longest training length, "
            f"{valid['valid_exact_twice']:.3f} at twice that"
        )
    return {"finished": True, "runs": reports}
