"""Registry of the parts of models. Does not import torch: modules are imported when a model is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from operator import attrgetter
from typing import Any, Final

from pyanticip.errors import OptionError, foreign_errors
from pyanticip.models.core.config import PartConfig, PositionConfig
from pyanticip.models.parts.field.config import FieldConfig
from pyanticip.models.parts.planning.config import PlanConfig
from pyanticip.models.parts.positions.prism.config import PrismConfig
from pyanticip.models.parts.positions.trajectory.config import TrajectoryConfig

_PARTS: Final = "pyanticip.models.parts"


@dataclass(frozen=True)
class Entry:
    """Registry entry of a part.

    ``part`` is its class, a :class:`~pyanticip.models.core.part.Part` constructed from a model's
    configuration, or ``"module:Class"`` to import it lazily; ``config`` the class of its options; ``prefix``
    the prefix of their names in the flat form, empty without one.
    """

    part: Any
    config: type[PartConfig] = PartConfig
    prefix: str = ""


PARTS: Final[dict[str, dict[str, Entry]]] = {
    "positions": {
        "sinusoidal": Entry(f"{_PARTS}.positions.fixed:Sinusoidal", PositionConfig),
        "rope": Entry(f"{_PARTS}.positions.fixed:Rope", PositionConfig),
        "alibi": Entry(f"{_PARTS}.positions.fixed:Alibi", PositionConfig),
        "trajectory": Entry(
            f"{_PARTS}.positions.trajectory.module:TrajectoryPositions.from_model_config",
            TrajectoryConfig,
            "trajectory_",
        ),
        "prism": Entry(f"{_PARTS}.positions.prism.module:PrismPositions", PrismConfig, "prism_"),
    },
    "control_field": {
        "field": Entry(f"{_PARTS}.field.control_field:ControlField.from_model_config", FieldConfig, "field_")
    },
    "planning": {"signal": Entry(f"{_PARTS}.planning.signal:PlanningSignal", PlanConfig, "plan_")},
}
"""Entries by the option of :class:`~pyanticip.models.config.ModelConfig` that selects one, and by ``kind``:
a :class:`~pyanticip.models.core.part.Positions`, a :class:`~pyanticip.models.core.part.Gate` for every
block, a :class:`~pyanticip.models.parts.planning.signal.PlanningSignal`."""

_BASES: Final = {
    "positions": "pyanticip.models.core.part:Positions",
    "control_field": "pyanticip.models.core.part:Gate",
    "planning": f"{_PARTS}.planning.signal:PlanningSignal",
}
"""The class of the parts of each option."""

DEFAULT_KINDS: Final = {"control_field": "field", "planning": "signal"}
"""The kind selected by ``True``, and by options without a ``kind``."""


GROUP: Final = "pyanticip.parts"
"""Entry-point group of other packages: ``positions.leaky = "theirs:LEAKY"``, where ``LEAKY`` is an
:class:`Entry`. Built-in kinds cannot be replaced."""


def entry(option: str, kind: object) -> Entry:
    """Look up a part by the model's option and its kind.

    Raises:
        OptionError: the kind is unknown, claimed by several entry points, or its entry point fails to load.
    """
    kinds = PARTS[option]
    if isinstance(kind, str) and kind in kinds:
        return kinds[kind]
    others = [point for point in metadata.entry_points(group=GROUP) if point.name.startswith(f"{option}.")]
    found = [point for point in others if point.name == f"{option}.{kind}"]
    if not found:
        known = dict.fromkeys((*kinds, *sorted(point.name.partition(".")[2] for point in others)))
        raise OptionError(f"model option {option} must be one of none, {', '.join(known)}, got {kind!r}")
    if len(found) > 1:
        claims = ", ".join(point.value for point in found)
        raise OptionError(f"model option {option}: {kind!r} is claimed more than once: {claims}")
    with foreign_errors(f"model option {option}: {found[0].value} cannot be used", ours=False):
        loaded = found[0].load()
        if not isinstance(loaded, Entry):
            raise TypeError("it is not a pyanticip.models.parts.registry.Entry")
        if not (isinstance(loaded.config, type) and issubclass(loaded.config, PartConfig)):
            raise TypeError("its config is not a subclass of PartConfig")
    return loaded


def part_config(option: str, value: Any) -> Any:
    """Build the options of a part from a mapping; any other value is returned unchanged.

    Raises:
        OptionError: an unknown kind, or options that it does not have.
    """
    return entry(option, value.get("kind")).config(**value) if isinstance(value, Mapping) else value


def build(option: str, config: PartConfig | None, *args: Any) -> Any:
    """Build the module of a part from the arguments of its class; ``None`` without a ``config``.

    Raises:
        OptionError: a part of another package cannot be built, or is not of the option's class.
    """
    if config is None:
        return None
    part = entry(option, config.kind).part
    if config.kind in PARTS[option]:
        return _imported(part)(*args)
    with foreign_errors(f"model option {option}: {config.kind!r} cannot be built"):
        built = _imported(part)(*args)
        if not isinstance(built, base := _imported(_BASES[option])):
            raise TypeError(f"it makes {type(built).__name__}, expected {base.__name__}")
    return built


def _imported(part: Any) -> Any:
    """What a ``"module:name"`` names; anything else is returned unchanged."""
    if not isinstance(part, str):
        return part
    home, _, name = part.partition(":")
    return attrgetter(name)(import_module(home))


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a model's options to the nested form, in which each part's options are a mapping.

    Raises:
        OptionError: a flat option of a part that is not selected has a value other than its default.
    """
    found = dict(options)
    for option, kinds in PARTS.items():
        part = found.get(option)
        if part is None or part is False or part == "none":
            found[option] = None
        elif part is True and option in DEFAULT_KINDS:
            found[option] = {"kind": DEFAULT_KINDS[option]}
        elif isinstance(part, PartConfig):
            found[option] = part.to_dict()
        elif isinstance(part, str):
            found[option] = {"kind": part}
        elif isinstance(part, Mapping):
            found[option] = {"kind": DEFAULT_KINDS.get(option), **part}
        for kind, each in kinds.items():
            names = [name for name in options if each.prefix and name.startswith(each.prefix)]
            if not names:
                continue
            flat = {name.removeprefix(each.prefix): found.pop(name) for name in names}
            part, defaults = found[option], each.config(kind=kind).to_dict()
            if isinstance(part, Mapping) and part.get("kind") == kind:
                found[option] = {**part, **flat}
                continue
            for name, value in flat.items():
                # Older checkpoints list the options of all parts at their defaults.
                if value != defaults.get(name):
                    chosen = True if DEFAULT_KINDS.get(option) == kind else kind
                    raise OptionError(
                        f"model option {each.prefix}{name}={value!r} does nothing with "
                        f"{option}={options.get(option)!r}: choose {option}={chosen!r}, or leave it out"
                    )
    return found
