"""What of a rig can be set while it plays, key by key: what each takes, and how it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.control.described import Control
from realtime.rig import Rig, SmoothingRig
from realtime.rig.mapping import ShapeRig
from realtime.sinks.config import PARTS, RENAMED, OscConfig, RangeConfig
from realtime.sinks.outputs import SENT

__all__ = ["RigKey", "path_of", "rig_keys", "sending"]

_UNIT = (0.0, 1.0)
_SHAPE = {
    "in": Control("ff", "this part becomes 0 to 1", _UNIT),
    "invert": Control("T", "turned round"),
    "threshold": Control("f", "a gate", _UNIT),
    "hysteresis": Control("f", "the gate shuts so much below", _UNIT),
    "toggle": Control("T", "0 or 1, by turns as the gate opens"),
    "steps": Control("i", "so many values", (2, 1024)),
}
_SMOOTHING = {
    "kind": Control("s", "how it is smoothed", ("spring", "one-euro", "none")),
    "half_life": Control("f", "of a spring", (0.001, 60.0), unit="time.second"),
    "min_cutoff": Control("f", "of one-euro, at rest", (0.001, 1000.0), unit="freq.hz"),
    "beta": Control("f", "how one-euro opens", (0.0, 1000.0)),
}
_RANGE = {
    "low": Control("f", "at 0"),
    "high": Control("f", "at 1"),
    "curve": Control("s", "between them", ("linear", "exponential", "power")),
    "exponent": Control("f", "of the power", (0.001, 100.0)),
}
_NAMES = {"shape": _SHAPE, "smoothing": _SMOOTHING}
_GROUPS = {"param": PARAMETERS, "event": EVENTS}
_ORDER = ("frame", "scalars", "param", *PARAMETERS, "params", "tempo", "event", *EVENTS, *PARTS)


class RigKey(NamedTuple):
    """One key behind ``rig/``: what it takes, and how it stands (none: it says nothing)."""

    key: str
    takes: Control
    value: tuple[Any, ...]


def rig_keys(rig: Rig, taught: Iterable[str]) -> Iterator[RigKey]:
    """The keys of a rig that plays, of the eight and of the ``taught`` outputs, and of each OSC receiver."""
    for name in (*PARAMETERS, *(f"taught/{name}" for name in taught)):
        yield from _table(f"shape/{name}", _SHAPE, rig.shape.get(name, ShapeRig()).model_dump(by_alias=True))
    plain = rig.smoothing.get("default", SmoothingRig())
    for name in (*PARAMETERS, "default"):
        yield from _table(f"smoothing/{name}", _SMOOTHING, rig.smoothing.get(name, plain).model_dump())
    for number, table in enumerate(rig.osc):
        yield from _receiver(f"osc/{number}", table)


def _table(head: str, fields: dict[str, Control], stands: dict[str, Any]) -> Iterator[RigKey]:
    for field, takes in fields.items():
        value = stands[field]
        value = () if value is None else value if isinstance(value, tuple) else (value,)
        yield RigKey(f"{head}/{field}", takes, value)


def _receiver(head: str, table: OscConfig) -> Iterator[RigKey]:
    for name in (*PARTS, *PARAMETERS, *EVENTS):
        group = next((part for part, names in _GROUPS.items() if name in names), name)
        on = bool({name, group} & set(table.send))
        yield RigKey(f"{head}/send/{name}", Control("T", f"{table.url} is sent it"), (on,))
    for name in RENAMED:
        default = next((tail for tail in SENT if tail.partition("/")[2] == name), name)
        address = table.addresses.get(name, (f"{table.prefix.rstrip('/')}/{default}",))
        yield RigKey(f"{head}/addresses/{name}", Control("s", "where, and what stands before it"), address)
    for name in PARAMETERS:
        stands = table.ranges.get(name, RangeConfig()).model_dump()
        yield from _table(f"{head}/ranges/{name}", _RANGE, stands)


def path_of(key: str) -> list[str | int]:
    """The way to a key in the tree of a rig: a name may have a stroke in it, as ``taught/cutoff`` has."""
    table, _, rest = key.partition("/")
    if table in _NAMES:
        name, _, field = rest.rpartition("/")
        return [table, name, field] if name and field in _NAMES[table] else [table, rest]
    if table == "osc":
        number, _, rest = rest.partition("/")
        part, _, name = rest.partition("/")
        where = name.split("/") if part == "ranges" else [name]
        at = int(number) if number.isascii() and number.isdigit() else number
        return [part for part in (table, at, part, *where) if part != ""]
    return [table] if not rest else [table, rest]


def sending(send: Sequence[str], name: str, on: bool) -> list[str]:
    """What is sent with this one or without it; a group whose members are all sent is said as one."""
    chosen = set(send)
    for part, names in _GROUPS.items():
        if name in names and part in chosen:
            chosen = chosen - {part} | set(names)
    chosen = chosen | {name} if on else chosen - {name}
    for part, names in _GROUPS.items():
        if on and name in names and chosen.issuperset(names):
            chosen = chosen - set(names) | {part}
    return sorted(chosen, key=lambda one: (_ORDER.index(one) if one in _ORDER else len(_ORDER), one))
