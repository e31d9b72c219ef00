"""What a recipe says: the stages of a model, read from TOML and checked before anything is made."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import OptionError
from training.run.settings import check_choice, check_whole, hint, read_fields
from training.tasks.motion.options import MotionTrainOptions, gather

PACKAGED: Final = Path(__file__).with_name("packaged.toml")
"""The recipe of the packaged model."""

KINDS: Final = ("train", "blend", "beats")
KEYS: Final = ("name", "kind", "from", "without", "folds", "options")
BEATS: Final = {"copies": 0, "faster": 0, "steps": 1, "seed": 0}
"""Options of a stage of beats, and the least that each may be."""
GIVEN: Final = ("data.path", "data.cache", "run.init")
"""Options of a run that follow from the stage."""


@dataclass(frozen=True)
class Stage:
    """One stage, whose result is a checkpoint.

    Raises:
        OptionError: a value that makes no sense, or does not go with the kind.
    """

    name: str
    """And the folder that it is kept in."""
    kind: str
    """Of :data:`KINDS`."""
    start: str = ""
    """The stage whose checkpoint it begins with; none: random weights."""
    without: tuple[str, ...] = ()
    """Training subjects that a run leaves out and is judged on."""
    folds: tuple[str, ...] = ()
    """Runs without some subjects, on whom a blend is chosen as well."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise OptionError(f"name: expected a word in small letters, given {self.name!r}")
        check_choice("kind", self.kind, KINDS)
        for name in ("without", "folds"):
            given = getattr(self, name)
            if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
                raise OptionError(f"{name}: expected a list of names, given {given!r}")
            object.__setattr__(self, name, tuple(given))
        if not isinstance(self.options, Mapping):
            raise OptionError(f"options: expected a table, given {self.options!r}")
        if self.kind != "train" and not self.start:
            raise OptionError(f"a stage of kind {self.kind!r} needs a stage to begin with: from")
        for name, kind in (("without", "train"), ("folds", "blend")):
            if getattr(self, name) and self.kind != kind:
                raise OptionError(f"{name} is for stages of kind {kind!r}, this one is {self.kind!r}")
        if self.kind == "train":
            self.run_options()
        known = BEATS if self.kind == "beats" else {}
        for name, value in self.options.items() if self.kind != "train" else ():
            if name not in known:
                raise OptionError(f"unknown option {name!r}{hint(name, list(known))}")
            check_whole(name, value, known[name])

    def run_options(
        self, path: Path | str = "", cache: Path | str = "", init: Path | str = ""
    ) -> MotionTrainOptions:
        """Of a stage of kind ``train``, with what follows from where it is made."""
        for table, _, name in (given.partition(".") for given in GIVEN):
            if name in dict(self.options.get(table, {})):
                raise OptionError(f"option {table}.{name} follows from the stage: leave it out")
        init = init or self.start
        return gather(None, self.options, {"data": {"path": path, "cache": cache}, "run": {"init": init}})


def read_stages(path: Path = PACKAGED) -> list[Stage]:
    """The stages of a recipe: a TOML file of tables ``[[stage]]``, of which ``packaged.toml`` is an example.

    Raises:
        OptionError: no such file, or one that says something unknown; file and stage are named.
    """
    tables = read_fields(path)
    found = tables.get("stage")
    if set(tables) != {"stage"} or not isinstance(found, list):
        raise OptionError(f"{path}: expected tables [[stage]] alone, given {', '.join(tables) or 'none'}")
    stages: list[Stage] = []
    for number, table in enumerate(found, start=1):
        try:
            stages.append(_stage(table, stages))
        except OptionError as error:
            name = table.get("name", number) if isinstance(table, Mapping) else number
            raise OptionError(f"{path}: stage {name}: {error}") from None
    return stages


def _stage(table: Any, before: Sequence[Stage]) -> Stage:
    if not isinstance(table, Mapping):
        raise OptionError(f"expected a table, given {table!r}")
    for key in table:
        if key not in KEYS:
            raise OptionError(f"unknown key {key!r}{hint(key, KEYS)}")
    for key in ("name", "kind"):
        if key not in table:
            raise OptionError(f"lacks {key}")
    stage = Stage(**{"start" if key == "from" else key: value for key, value in table.items()})
    known = {one.name: one for one in before}
    if stage.name in known:
        raise OptionError("there is another stage of that name")
    for name in (*filter(None, [stage.start]), *stage.folds):
        if name not in known:
            raise OptionError(f"no stage {name!r} before it{hint(name, list(known))}")
    for name in stage.folds:
        if not known[name].without:
            raise OptionError(f"folds: stage {name!r} leaves nobody out")
    return stage
