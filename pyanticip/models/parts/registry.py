"""The parts that a model may have, a line each. No torch: modules are imported when a model is built."""

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

_HERE: Final = "pyanticip.models.parts"


@dataclass(frozen=True)
class Entry:
    """A part: its class, a :class:`~pyanticip.models.core.part.Part` made of a model's configuration, or
    ``"module:Class"`` where that is to be imported late; the class of its options; and how their names begin
    in the flat form, where they have one."""

    part: Any
    config: type[PartConfig] = PartConfig
    prefix: str = ""


PARTS: Final[dict[str, dict[str, Entry]]] = {
    "positions": {
        "sinusoidal": Entry(f"{_HERE}.positions.fixed:Sinusoidal", PositionConfig),
        "rope": Entry(f"{_HERE}.positions.fixed:Rope", PositionConfig),
        "alibi": Entry(f"{_HERE}.positions.fixed:Alibi", PositionConfig),
        "trajectory": Entry(
            f"{_HERE}.positions.trajectory.module:TrajectoryPositions.of", TrajectoryConfig, "trajectory_"
        ),
        "prism": Entry(f"{_HERE}.positions.prism.module:PrismPositions", PrismConfig, "prism_"),
    },
    "control_field": {"field": Entry(f"{_HERE}.field.control_field:ControlField.of", FieldConfig, "field_")},
    "planning": {"signal": Entry(f"{_HERE}.planning.signal:PlanningSignal.of", PlanConfig, "plan_")},
}
"""By the option of :class:`~pyanticip.models.config.ModelConfig` that asks for one of them, and by ``kind``:
a :class:`~pyanticip.models.core.part.Positions`, a :class:`~pyanticip.models.core.part.Gate` for every
block, a :class:`~pyanticip.models.parts.planning.signal.PlanningSignal`."""

USUAL: Final = {"control_field": "field", "planning": "signal"}
"""The kinds that ``True`` stands for, and options without a ``kind``."""


GROUP: Final = "pyanticip.parts"
"""Entry points of other packages: ``positions.leaky = "theirs:LEAKY"``, where ``LEAKY`` is an
:class:`Entry`. Built-in kinds cannot be taken."""


def entry(option: str, kind: object) -> Entry:
    """A part by the model's option and its kind.

    Raises:
        OptionError: an unknown kind, one of two packages, or of one that cannot be used.
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
        theirs = found[0].load()
        if not isinstance(theirs, Entry):
            raise TypeError("it is no pyanticip.models.parts.registry.Entry")
    return theirs


def part_config(option: str, given: Any) -> Any:
    """The options of a part; what is no mapping stays as it is.

    Raises:
        OptionError: an unknown kind, or options that it does not have.
    """
    return entry(option, given.get("kind")).config(**given) if isinstance(given, Mapping) else given


def build(option: str, config: PartConfig | None, *args: Any) -> Any:
    """The module of a part, ``None`` where there is none; ``args`` are what its class takes."""
    if config is None:
        return None
    part = entry(option, config.kind).part
    if isinstance(part, str):
        home, _, name = part.partition(":")
        part = attrgetter(name)(import_module(home))
    return part(*args)


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a model with those of the parts inside the parts, whether they came so or flat.

    Raises:
        OptionError: options of a part that is not there, other than those that it has anyway.
    """
    found = dict(options)
    for option, kinds in PARTS.items():
        part = found.get(option)
        if part is None or part is False or part == "none":
            found[option] = None
        elif part is True and option in USUAL:
            found[option] = {"kind": USUAL[option]}
        elif isinstance(part, PartConfig):
            found[option] = part.to_dict()
        elif isinstance(part, str):
            found[option] = {"kind": part}
        elif isinstance(part, Mapping):
            found[option] = {"kind": USUAL.get(option), **part}
        for kind, each in kinds.items():
            names = [name for name in options if each.prefix and name.startswith(each.prefix)]
            if not names:
                continue
            flat = {name.removeprefix(each.prefix): found.pop(name) for name in names}
            part, usual = found[option], each.config(kind=kind).to_dict()
            if isinstance(part, Mapping) and part.get("kind") == kind:
                found[option] = {**part, **flat}
                continue
            for name, given in flat.items():
                # Older checkpoints list the options of all parts.
                if given != usual.get(name):
                    chosen = True if USUAL.get(option) == kind else kind
                    raise OptionError(
                        f"model option {each.prefix}{name}={given!r} does nothing with "
                        f"{option}={options.get(option)!r}: choose {option}={chosen!r}, or leave it out"
                    )
    return found
