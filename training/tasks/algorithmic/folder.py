"""The folder of a run: what is written there first, and how its models are loaded."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import safetensors.torch
from safetensors import SafetensorError

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models.token.baseline import BaselineTransformer
from training.run.files import CONFIG, REPORT, new_folder, one_line, read_description, write_text
from training.tasks.algorithmic.module import fitted, new_model
from training.tasks.algorithmic.options import TaskOptions
from training.tasks.algorithmic.record import kept

FORMAT: Final = "pyanticip-task-run"
VERSION: Final = 1


@dataclass(frozen=True)
class Run:
    """A run that is prepared or done."""

    folder: Path
    options: TaskOptions

    @property
    def finished(self) -> bool:
        """Whether it has come to its end."""
        return (self.folder / REPORT).is_file()

    def report(self) -> dict[str, Any]:
        """What the run did.

        Raises:
            CheckpointError: it has not come to its end, or the file is damaged.
        """
        try:
            found: dict[str, Any] = json.loads((self.folder / REPORT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise CheckpointError(
                f"{self.folder}: this run has not come to its end; train it first"
            ) from None
        return found

    def load(self, weights: Path, longest: int) -> BaselineTransformer:
        """The model with weights of this run, for examples up to a length, in evaluation mode.

        Raises:
            CheckpointError: weights that cannot be read or do not fit.
        """
        model = new_model(self.options, longest)
        try:
            model.load_state_dict(fitted(safetensors.torch.load_file(weights), model))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise CheckpointError(f"{weights}: cannot be loaded: {one_line(error)}") from None
        return model.eval()


def name_of(options: TaskOptions) -> str:
    """A run's folder within the folder of a study."""
    return f"{options.task}-{options.positions}-{options.schedule.seed}"


def create(folder: Path, options: TaskOptions) -> Run:
    """Make the folder of a new run, whole or not at all.

    Raises:
        OptionError: something is there already, or options that do not fit.
    """
    new_model(options)
    with new_folder(folder) as draft:
        config = {"format": FORMAT, "version": VERSION, "options": options.to_dict()}
        write_text(draft / CONFIG, json.dumps(config, indent=1) + "\n")
    return Run(folder, options)


def open_run(folder: Path) -> Run:
    """Read back what :func:`create` made.

    Raises:
        CheckpointError: no run of this command.
    """
    config = read_description(folder, "tasks train", FORMAT, VERSION, needs=("options",))
    try:
        return Run(folder, TaskOptions.of_run(config["options"]))
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None


def find_runs(places: list[Path]) -> list[Run]:
    """The runs in these folders: each a run, or a folder of runs.

    Raises:
        CheckpointError: a folder without any.
    """
    found = []
    for place in places:
        if (place / CONFIG).is_file():
            found.append(open_run(place))
            continue
        inside = sorted(path.parent for path in place.glob(f"*/{CONFIG}")) if place.is_dir() else []
        if not inside:
            raise CheckpointError(f"{place}: no runs of tasks train here")
        found += [open_run(folder) for folder in inside]
    return found


def newest(run: Run, count: int) -> list[Path]:
    """The last ``count`` weights that a run has kept, oldest first.

    Raises:
        CheckpointError: none.
    """
    files = kept(run.folder)
    if not files:
        raise CheckpointError(f"{run.folder}: no weights are kept; train it first")
    return files[-count:]
