"""The position schemes, a line each. No torch: a scheme's module is imported when a model is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

from pyanticip.errors import OptionError
from pyanticip.models.parts.positions.config import PositionConfig
from pyanticip.models.parts.positions.prism.config import PrismConfig
from pyanticip.models.parts.positions.trajectory.config import TrajectoryConfig

_HERE = "pyanticip.models.parts.positions"


@dataclass(frozen=True)
class Scheme:
    """A scheme: ``part`` its class, a :class:`~pyanticip.models.core.part.Positions`, or ``"module:Class"``
    where that is to be imported late; ``config`` the class of its options."""

    part: Any
    config: type[PositionConfig] = PositionConfig


SCHEMES: dict[str, Scheme] = {
    "sinusoidal": Scheme(f"{_HERE}.sinusoidal:Sinusoidal"),
    "rope": Scheme(f"{_HERE}.rope:Rope"),
    "alibi": Scheme(f"{_HERE}.alibi:Alibi"),
    "trajectory": Scheme(f"{_HERE}.trajectory.module:TrajectoryPositions.of", TrajectoryConfig),
    "prism": Scheme(f"{_HERE}.prism.module:PrismPositions", PrismConfig),
}


def position_config(options: Mapping[str, Any]) -> PositionConfig:
    """The options of a scheme, by its ``kind``.

    :raises OptionError: an unknown scheme, or options that it does not have.
    """
    scheme = SCHEMES.get(options.get("kind", ""))
    if scheme is None:
        raise OptionError(
            f"model option positions must be one of none, {', '.join(SCHEMES)}, got {options.get('kind')!r}"
        )
    return scheme.config(**options)


def build_positions(model: Any) -> Any:
    """The module of a model's position scheme, from the model's configuration."""
    if model.positions is None:
        from pyanticip.models.core.part import Positions

        return Positions()
    part = SCHEMES[model.positions.kind].part
    if isinstance(part, str):
        home, _, name = part.partition(":")
        part = attrgetter(name)(import_module(home))
    return part(model)
