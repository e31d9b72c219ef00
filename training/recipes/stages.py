"""The stages of a recipe, read from TOML and checked before anything runs."""

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

STAGE_OPTIONS: Final = ("data.path", "data.cache", "run.init", "run.ensemble")
"""Options of a run that are set by its stage, not by the recipe."""


class Stage(Options):
    """One stage, whose result is a checkpoint."""

    model_config = ConfigDict(validate_by_name=False)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """Name of the stage and of its folder."""
    start: str = Field(alias="from", min_length=1)
    """The stage whose checkpoint it starts from."""

    def needs(self) -> list[str]:
        """The stages whose checkpoints it reads."""
        return [self.start] if self.start else []


class Train(Stage):
    """A run of ``train motion``."""

    kind: Literal["train"]
    start: str = Field(default="", alias="from")
    """The stage that it refines; empty for random initial weights."""
    ensemble: Texts = ()
    """The stages whose mean forecast it learns besides the labels."""
    options: dict[str, Any] = {}
    """Tables of options, as in an options file of ``train motion``."""

    def needs(self) -> list[str]:
        """See :meth:`Stage.needs`."""
        return list(dict.fromkeys([*super().needs(), *self.ensemble]))

    def run_options(
        self,
        path: Path | str = "",
        cache: Path | str = "",
        init: Path | str = "",
        ensemble: Sequence[Path | str] = (),
    ) -> MotionTrainOptions:
        """The run's options, including those set by the stage."""
        tables = MotionTrainOptions.by_table(self.options)
        for table, _, name in (given.partition(".") for given in STAGE_OPTIONS):
            if name in tables.get(table, {}):
                raise OptionError(f"option {table}.{name} follows from the stage: leave it out")
        if tables.get("run", {}).get("export") is False:
            raise OptionError("option run.export: the checkpoint is what a stage makes: leave it out")
        run = {"init": init or self.start, "ensemble": ensemble or self.ensemble}
        given = {"data": {"path": path, "cache": cache}, "run": run}
        return MotionTrainOptions.gather(None, merge(tables, given))


class Beats(Stage):
    """Training of the event head: :func:`training.finish.beats.train_event_head`."""

    kind: Literal["beats"]
    options: HeadOptions = HeadOptions()


class Poses(Stage):
    """Training of the pose head: :func:`training.finish.poses.train_pose_head`."""

    kind: Literal["poses"]
    options: PosesHeadOptions = PosesHeadOptions()


AnyStage = Train | Beats | Poses
KINDS: Final[Mapping[str, type[AnyStage]]] = {"train": Train, "beats": Beats, "poses": Poses}


def read_stages(path: Path = PACKAGED) -> list[AnyStage]:
    """Read the stages of a recipe: a TOML file of tables ``[[stage]]``, such as ``packaged.toml``.

    Raises:
        OptionError: an unreadable file or an invalid stage; the message names file and stage.
    """
    tables = read_toml(path, OptionError)
    found = tables.get("stage")
    if set(tables) != {"stage"} or not isinstance(found, list) or {*map(type, found)} != {dict}:
        raise OptionError(f"{path}: expected tables [[stage]] alone, got {', '.join(tables) or 'none'}")
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
        raise OptionError(f"kind: expected one of {', '.join(KINDS)}, got {table.get('kind')!r}")
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
    for name in stage.needs():
        if name not in known_stages:
            raise OptionError(f"no stage {name!r} before it{suggestion(name, list(known_stages))}")
    return stage
