"""Options of the commands ``pyanticip teach``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pyanticip.motion.options import ReadingOptions
from pyanticip.options import JsonOption, ModelOptions, Options, Overrides, option
from pyanticip.teach.options import FitOptions
from realtime.rig import Rig


class ProjectOptions(Options):
    """Options of every ``teach`` command."""

    project: Path = option("Project folder.", argument=True)


class NewOptions(ProjectOptions):
    """Options of ``teach new``."""

    outputs: str = option("NAME[:LOW..HIGH[:CURVE]][@/osc/address]", "", metavar="SPEC,...")


class TakeOptions(ProjectOptions, JsonOption):
    """Options of the commands that make a take."""

    take: str | None = option("Name of the take; by default the file's name, or a number.", None)
    values: str | None = option(
        "Target values of the whole take, e.g. brightness=.8,pitch=.2.", None, metavar="NAME=X,..."
    )
    labels: str | None = option(
        "Label it shows, e.g. pose=crouch; none: no label of the class.",
        None,
        flag="--class",
        metavar="NAME=LABEL,...",
    )
    gesture: str | None = option("Gesture it shows, from beginning to end.", None)


class AddOptions(TakeOptions, ReadingOptions):
    """Options of ``teach add``."""

    files: tuple[Path, ...] = option("Motion files, or folders of projects.", argument=True, exists=True)
    curve: Path | None = option("Target values over time: CSV, npz or recording.", None)
    start: float = option("Start, seconds into the file.", 0.0, ge=0)
    end: float | None = option("End, seconds into the file.", None, gt=0)


class RecordOptions(TakeOptions):
    """Options of ``teach record``."""

    rig_file: Path | None = option(
        "Rig file (TOML) that names the source.", None, flag="--rig", metavar="PATH"
    )
    over: Annotated[dict[str, Any], Overrides(Rig, {"source": "source"})] = {}
    seconds: float | None = option("Length of the take; by default Ctrl-C ends it.", None, ge=0.5)
    countdown: float = option("Seconds of countdown.", 3.0, ge=0, le=60)


class ListOptions(ProjectOptions, JsonOption):
    """Options of ``teach list``."""


class RemoveOptions(ProjectOptions):
    """Options of ``teach remove``."""

    takes: tuple[str, ...] = option("Names of takes.", argument=True)


class RenameOptions(ProjectOptions):
    """Options of ``teach rename``."""

    old: str = option("The take's name.", argument=True)
    new: str = option("Its new name.", argument=True)


class SetOptions(ProjectOptions):
    """Options of ``teach set``."""

    take: str = option("Its name.", argument=True)
    values: str = option("Target values or labels.", argument=True, metavar="NAME=X,...")


class OutputsOptions(ProjectOptions):
    """Options of ``teach outputs``."""

    add: tuple[str, ...] = option("NAME[:LOW..HIGH[:CURVE]][@/osc/address]", (), metavar="SPEC")
    remove: tuple[str, ...] = option("Remove an output and its values in all takes.", (), metavar="NAME")
    rename: tuple[str, ...] = option("Rename an output, here and in every take.", (), metavar="OLD=NEW")
    change: tuple[str, ...] = option("Change range, curve or address of an output.", (), metavar="SPEC")
    neutral: tuple[str, ...] = option("Value of an output in silence.", (), metavar="NAME=X")


class FitCommandOptions(ProjectOptions, FitOptions, ModelOptions, JsonOption):
    """Options of ``teach fit``."""

    model: bool = option(
        "Offer the heads the model's features as well; --no-model: body features only.", True
    )


class CheckOptions(ProjectOptions, ModelOptions, JsonOption):
    """Options of ``teach check``."""

    mapping: Path | None = option("Mapping file; the project's own by default.", None, exists=True)
    model: bool = option("Run the model; --no-model: for mappings of body features only.", True)


class UndoOptions(ProjectOptions):
    """Options of ``teach undo``."""

    to: int | None = option("Go to this revision.", None, ge=0)


class UseOptions(ProjectOptions):
    """Options of ``teach use``."""

    mapping: str = option("Name of a mapping in the project.", argument=True)
