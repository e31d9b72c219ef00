"""What is done to a clip to make a variation of it: another movement, and a worse view of it."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_toml
from training.data.corrupt import Corruption, Share, Table
from training.data.glitches import Glitches


class Recipe(Table):
    """How copies are made."""

    movement: Literal["varied", "simple", "none"] = "varied"
    """``varied``: everything that :func:`training.data.examples.vary` does; ``simple``: the three below;
    ``none``: the movement stays."""
    warp: Share = 1.0
    """Share that is warped in time (simple)."""
    mirror: Share = 0.5
    """Share with left and right exchanged (simple)."""
    yaw: Share = 1.0
    """Share that is turned about the vertical (simple)."""
    slowly: Share = 0.0
    """Share that is done at 0.4 to 0.8 of its speed (varied)."""
    corruption: Corruption = Corruption()
    # Without any, copies lie in the cache where they did before there were glitches.
    glitches: Glitches | None = Field(default=None, repr=False)
    """Bad stretches, and a set that says which frames they are."""

    def record(self) -> dict[str, Any]:
        """As plain values; numbers as they were given, which pydantic's own JSON has as floats."""
        told = self.model_dump(exclude={"glitches"} if self.glitches is None else None)
        found: dict[str, Any] = json.loads(json.dumps(told))
        return found


def read_recipe(path: Path) -> Recipe:
    """A recipe from TOML: the fields of :class:`Recipe`, a table ``[corruption]``, and ``[glitches]`` for bad
    stretches.

    Raises:
        FormatError: no such file, not TOML, a key that does not exist, or a value that makes no sense.
    """
    tree = read_toml(path)
    try:
        return Recipe(**tree)
    except OptionError as error:
        raise FormatError(f"{path}: {error}") from None
