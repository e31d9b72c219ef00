"""What is done to a clip to make a variation of it: another movement, and a worse view of it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_toml
from training.data.corrupt import Corruption
from training.data.glitches import Glitches

TABLES: Final = ("corruption", "glitches")
"""Fields of a recipe that are tables of their own."""

Movement = Literal["varied", "simple", "none"]


@dataclass(frozen=True)
class Recipe:
    """How copies are made.

    :raises OptionError: a movement that does not exist, or a share outside 0 to 1.
    """

    movement: Movement = "varied"
    """``varied``: everything that :func:`training.data.examples.vary` does; ``simple``: the three below;
    ``none``: the movement stays."""
    warp: float = 1.0
    """Share that is warped in time (simple)."""
    mirror: float = 0.5
    """Share with left and right exchanged (simple)."""
    yaw: float = 1.0
    """Share that is turned about the vertical (simple)."""
    slowly: float = 0.0
    """Share that is done at 0.4 to 0.8 of its speed (varied)."""
    corruption: Corruption = field(default_factory=Corruption)
    glitches: Glitches | None = field(default=None, repr=False)
    """Bad stretches, and a set that says which frames they are."""

    def __post_init__(self) -> None:
        if self.movement not in ("varied", "simple", "none"):
            raise OptionError(f"movement is one of varied, simple, none, given {self.movement!r}")
        for name in ("warp", "mirror", "yaw", "slowly"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise OptionError(f"{name} is a share from 0 to 1, given {getattr(self, name)}")

    def record(self) -> dict[str, Any]:
        """As plain values."""
        found = {name: getattr(self, name) for name in ("movement", "warp", "mirror", "yaw", "slowly")}
        found["corruption"] = _plain(self.corruption)
        return found if self.glitches is None else found | {"glitches": _plain(self.glitches)}


def _plain(table: Corruption | Glitches) -> dict[str, Any]:
    """The fields as JSON has them."""
    values = dataclasses.asdict(table).items()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def read_recipe(path: Path) -> Recipe:
    """A recipe from TOML: the fields of :class:`Recipe`, a table ``[corruption]``, and ``[glitches]`` for bad
    stretches.

    Raises:
        FormatError: no such file, not TOML, a key that does not exist, or a value that makes no sense.
    """
    tree = read_toml(path)
    corruption, glitches = tree.pop("corruption", {}), tree.pop("glitches", None)
    for name, given in (("corruption", corruption), ("glitches", {} if glitches is None else glitches)):
        if not isinstance(given, dict):
            raise FormatError(f"{path}: {name}: expected a table, given {given!r}")
    try:
        worse = Corruption(**_fields(Corruption, corruption, f"{path}: [corruption]"))
        bad = None
        if glitches is not None:
            bad = Glitches(**_fields(Glitches, glitches, f"{path}: [glitches]"))
        return Recipe(**_fields(Recipe, tree, str(path)), corruption=worse, glitches=bad)
    except OptionError as error:
        raise FormatError(f"{path}: {error}") from None


def _fields(
    kind: type[Recipe] | type[Corruption] | type[Glitches], table: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Values of the types that the defaults have."""
    known = {found.name: found.default for found in dataclasses.fields(kind) if found.name not in TABLES}
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise FormatError(f"{where}: no key {key!r}; expected some of {', '.join(known)}")
        default = known[key]
        if isinstance(default, str):
            fits, expected = isinstance(value, str), "a word"
        elif isinstance(default, float):
            fits, expected = _number(value), "a number"
        else:
            fits, expected = _like(default, value)
        if not fits:
            raise FormatError(f"{where}: {key}: expected {expected}, given {value!r}")
        given[key] = tuple(value) if isinstance(value, list) else value
    return given


def _number(value: object, whole: bool = False) -> bool:
    return not isinstance(value, bool) and isinstance(value, int if whole else int | float)


def _like(default: Any, value: object) -> tuple[bool, str]:
    """Whether a list is one of names, or a range of numbers, as the default is; and what to expect."""
    if isinstance(default[0], str):
        return isinstance(value, list) and all(isinstance(item, str) for item in value), "a list of names"
    whole = isinstance(default[0], int)
    fits = isinstance(value, list) and len(value) == 2 and all(_number(item, whole) for item in value)
    return fits, "[low, high]" + (", whole numbers" if whole else "")
