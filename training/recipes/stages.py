"""What a recipe says: the stages of a model, read from TOML and checked before anything is made."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from pyanticip.errors import OptionError, suggestion
from pyanticip.options import first_problem
from pyanticip.untrusted import read_toml
from training.finish.options import HeadOptions, PosesHeadOptions
from training.run.options import Options, Texts
from training.run.settings import merge
from training.tasks.motion.options import MotionTrainOptions

PACKAGED: Final = Path(__file__).with_name("packaged.toml")
"""The recipe of the packaged model."""

GIVEN: Final = ("data.path", "data.cache", "run.init", "run.ensemble")
"""Options of a run that follow from its stage."""


class Stage(Options):
    """One stage, whose result is a checkpoint."""

    model_config = ConfigDict(validate_by_name=False)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """And the folder that it is kept in."""
    start: str = Field(alias="from", min_length=1)
    """The stage whose checkpoint it begins with."""


class Train(Stage):
    """A run of ``train motion``."""

    kind: Literal["train"]
    start: str = Field(default="", alias="from")
    """The stage that it refines; none: random weights."""
    ensemble: Texts = ()
    """The stages whose mean forecast it learns beside the labels."""
    options: dict[str, Any] = {}
    """Tables as in a file of its options."""

    def run_options(
        self,
        path: Path | str = "",
        cache: Path | str = "",
        init: Path | str = "",
        ensemble: Sequence[Path | str] = (),
    ) -> MotionTrainOptions:
        """Of the run, with what follows from where the stage is made."""
        tables = MotionTrainOptions.by_table(self.options)
        for table, _, name in (given.partition(".") for given in GIVEN):
            if name in tables.get(table, {}):
                raise OptionError(f"option {table}.{name} follows from the stage: leave it out")
        run = {"init": init or self.start, "ensemble": ensemble or self.ensemble}
        given = {"data": {"path": path, "cache": cache}, "run": run}
        return MotionTrainOptions.gather(None, merge(tables, given))


class Beats(Stage):
    """An event head that learns to hear strokes: :func:`training.finish.beats.train_event_head`."""

    kind: Literal["beats"]
    options: HeadOptions = HeadOptions()


class Poses(Stage):
    """A perceptron that learns to read poses: :func:`training.finish.poses.train_pose_head`."""

    kind: Literal["poses"]
    options: PosesHeadOptions = PosesHeadOptions()


AnyStage = Train | Beats | Poses
KINDS: Final[Mapping[str, type[AnyStage]]] = {"train": Train, "beats": Beats, "poses": Poses}


def read_stages(path: Path = PACKAGED) -> list[AnyStage]:
    """The stages of a recipe: a TOML file of tables ``[[stage]]``, of which ``packaged.toml`` is an example.

    Raises:
        OptionError: no such file, or one that says something unknown; file and stage are named.
    """
    tables = read_toml(path, OptionError)
    found = tables.get("stage")
    if set(tables) != {"stage"} or not isinstance(found, list) or {*map(type, found)} != {dict}:
        raise OptionError(f"{path}: expected tables [[stage]] alone, given {', '.join(tables) or 'none'}")
    stages: list[AnyStage] = []
    for number, table in enumerate(found, start=1):
        try:
            stages.append(_stage(dict(table), stages))
        except OptionError as error:
            raise OptionError(f"{path}: stage {table.get('name', number)}: {error}") from None
    return stages


def _stage(table: dict[str, Any], before: Sequence[AnyStage]) -> AnyStage:
    kind = KINDS.get(str(table.get("kind")))
    if kind is None:
        raise OptionError(f"kind: expected one of {', '.join(KINDS)}, given {table.get('kind')!r}")
    try:
        stage = kind(**table)
    except ValidationError as error:
        problem = error.errors()[0]
        key = str(problem["loc"][-1])
        if problem["type"] == "missing":
            raise OptionError(f"lacks the key {key!r}") from None
        if problem["type"] == "extra_forbidden":
            inner = PosesHeadOptions if kind is Poses else HeadOptions
            fields = (inner if len(problem["loc"]) > 1 else kind).model_fields
            names = [field.alias or name for name, field in fields.items()]
            raise OptionError(f"unknown key {key!r}{suggestion(key, names)}") from None
        raise OptionError(first_problem(error)) from None
    if isinstance(stage, Train):
        stage.run_options()
    known_stages = {one.name: one for one in before}
    if stage.name in known_stages:
        raise OptionError("there is another stage of that name")
    for name in (stage.start, *(stage.ensemble if isinstance(stage, Train) else ())):
        if name and name not in known_stages:
            raise OptionError(f"no stage {name!r} before it{suggestion(name, list(known_stages))}")
    return stage
