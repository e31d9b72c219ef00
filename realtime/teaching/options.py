"""What the commands that teach can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pyanticip.motion.options import ReadingOptions
from pyanticip.options import CheckpointOption, JsonOption, Options, Overrides, option
from pyanticip.teach.options import FitOptions
from realtime.rig import Rig


class ProjectOptions(Options):
    """Of every command that teaches."""

    project: Path = option("Folder of the project.", argument=True)


class NewOptions(ProjectOptions):
    """Of ``teach new``."""

    outputs: str = option("NAME[:LOW..HIGH[:CURVE]][@/osc/address]", "", metavar="SPEC,...")


class TakeOptions(ProjectOptions, JsonOption):
    """Of a new take."""

    take: str | None = option("Name of the take; otherwise the file's name, or a number.", None)
    values: str | None = option(
        "What is wanted throughout, as brightness=.8,pitch=.2.", None, metavar="NAME=X,..."
    )
    labels: str | None = option(
        "What it shows, as pose=crouch; none: nothing of these.",
        None,
        flag="--class",
        metavar="NAME=LABEL,...",
    )
    gesture: str | None = option("The gesture it shows, from its beginning to its end.", None)


class AddOptions(TakeOptions, ReadingOptions):
    """Of ``teach add``."""

    files: tuple[Path, ...] = option("Motion files.", argument=True, exists=True)
    curve: Path | None = option("CSV, npz or recording: values over time.", None)
    start: float = option("Seconds into the file to begin at.", 0.0, ge=0)
    end: float | None = option("Seconds into the file to end at.", None, gt=0)


class RecordOptions(TakeOptions):
    """Of ``teach record``."""

    rig_file: Path | None = option(
        "Rig file (TOML) that says the source.", None, flag="--rig", metavar="PATH"
    )
    over: Annotated[dict[str, Any], Overrides(Rig, {"source": "source"})] = {}
    seconds: float | None = option("Length; without it Ctrl-C ends the take.", None, ge=0.5)
    countdown: float = option("Seconds to get ready.", 3.0, ge=0, le=60)


class ListOptions(ProjectOptions, JsonOption):
    """Of ``teach list``."""


class RemoveOptions(ProjectOptions):
    """Of ``teach remove``."""

    takes: tuple[str, ...] = option("Names of takes.", argument=True)


class RenameOptions(ProjectOptions):
    """Of ``teach rename``."""

    old: str = option("The take's name.", argument=True)
    new: str = option("Its new one.", argument=True)


class SetOptions(ProjectOptions):
    """Of ``teach set``."""

    take: str = option("Its name.", argument=True)
    values: str = option("What it wants or shows.", argument=True, metavar="NAME=X,...")


class OutputsOptions(ProjectOptions):
    """Of ``teach outputs``."""

    add: tuple[str, ...] = option("NAME[:LOW..HIGH[:CURVE]][@/osc/address]", (), metavar="SPEC")
    remove: tuple[str, ...] = option("And what the takes say about it.", (), metavar="NAME")
    rename: tuple[str, ...] = option("Here and in every take.", (), metavar="OLD=NEW")
    change: tuple[str, ...] = option("Another range, curve or address; the rest stays.", (), metavar="SPEC")
    neutral: tuple[str, ...] = option("Where it goes in silence.", (), metavar="NAME=X")


class FitCommandOptions(ProjectOptions, FitOptions, CheckpointOption, JsonOption):
    """Of ``teach fit``."""

    model: bool = option("Heads also see what the model sees; --no-model: the body alone.", True)


class CheckOptions(ProjectOptions, CheckpointOption, JsonOption):
    """Of ``teach check``."""

    mapping: Path | None = option("Another mapping than the project's own.", None, exists=True)
    model: bool = option("Run the model; --no-model: for mappings that see the body alone.", True)


class UndoOptions(ProjectOptions):
    """Of ``teach undo``."""

    to: int | None = option("Go to this revision, whatever came after it.", None, ge=0)


class UseOptions(ProjectOptions):
    """Of ``teach use``."""

    mapping: str = option("Name of a mapping in the project.", argument=True)
