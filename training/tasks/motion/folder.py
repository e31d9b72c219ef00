"""The folder of a run: what is in it, how it comes to be, how a model is loaded from it."""

import json
import shutil
from pathlib import Path
from typing import Any, Final, Literal

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import MotionTransformer
from pyanticip.models.checkpoint.manifest import MANIFEST, SLOW_GRAPH, STEP_GRAPH, WEIGHTS
from pyanticip.models.config import ModelConfig
from training.run.files import (
    CONFIG,
    load_best,
    new_folder,
    one_line,
    read_description,
    read_state,
    write_text,
)
from training.tasks.motion.options import MotionTrainOptions

FORMAT: Final = "pyanticip-motion-run"
VERSION: Final = 1

CHECKPOINT: Final = "checkpoint"
"""What a finished run exports: the best weights and the graphs of the live path."""


def create(out: Path, options: MotionTrainOptions, config: ModelConfig, digest: str) -> None:
    """Make the folder of a new run, whole or not at all.

    Args:
        out: the folder.
        options: of the run.
        config: of its model; with ``run.init`` that is the checkpoint's.
        digest: of its data.

    Raises:
        OptionError: something is there already.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "options": options.to_dict(),
        "model": config.to_dict(),
        "data": digest,
    }
    with new_folder(out) as draft:
        write_text(draft / CONFIG, json.dumps(content, indent=1) + "\n")


def read_config(folder: Path | str) -> dict[str, Any]:
    """``config.json`` of a run.

    Raises:
        CheckpointError: no run, or one made by another version.
    """
    return read_description(folder, "train motion", FORMAT, VERSION)


def read_options(folder: Path | str) -> MotionTrainOptions:
    """The options a run was begun with.

    Raises:
        CheckpointError: no run in this folder.
    """
    try:
        return MotionTrainOptions.of_run(read_config(folder)["options"])
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{Path(folder) / CONFIG}: {error}") from None


def check_same_options(folder: Path, options: MotionTrainOptions) -> None:
    """Refuse to go on with other options than the run's.

    Raises:
        OptionError: an option that decides what is computed is different.
    """
    for name, (given, had) in options.differences(read_options(folder)).items():
        raise OptionError(f"option {name}: the run in {folder} was begun with {had!r}, given {given!r}")


def check_same_data(folder: Path, digest: str) -> None:
    """Refuse to go on with other data than the run's.

    Raises:
        OptionError: the data have another digest.
    """
    if read_config(folder).get("data") != digest:
        raise OptionError(f"option data.path: the run in {folder} was begun with other data")


def load_run(folder: Path | str, which: Literal["best", "last"] = "best") -> MotionTransformer:
    """The model of a run in evaluation mode, on the CPU.

    Args:
        folder: of the run, finished or not.
        which: the averaged weights that were best on the validation subjects, or those that were saved last.

    Raises:
        CheckpointError: no run, or no such weights yet.
    """
    if which not in ("best", "last"):
        raise OptionError(f"which must be 'best' or 'last', got {which!r}")
    folder = Path(folder)
    try:
        model = MotionTransformer(ModelConfig.from_dict(read_config(folder)["model"]))
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
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
    return model.eval()


def ship(run: Path, target: Path) -> None:
    """Copy the files of a finished run's checkpoint, and nothing else, to where the package keeps it."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (WEIGHTS, MANIFEST, STEP_GRAPH, SLOW_GRAPH):
        shutil.copyfile(run / CHECKPOINT / name, target / name)
