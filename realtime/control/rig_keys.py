"""What of a rig can be set while it plays, key by key: what each takes, and how it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyanticip import _core
from pyanticip.controls import Range, Shape, Smoothing
from pyanticip.errors import OptionError
from pyanticip.vocabulary import EVENTS, HORIZONS_MS, PARAMETERS
from realtime.rig import Rig
from realtime.sinks.config import PARTS, RENAMED, OscConfig
from realtime.sinks.outputs import SENT, Limits

__all__ = ["CONTROLS", "Control", "RigKey", "check_names", "path_of", "rig_keys", "sending"]


@dataclass(frozen=True, slots=True)
class Control:
    """One command: the OSC types of what it takes (N: nothing, T: on or off), what it does; the range of its
    number, or the words that it knows; the number's unit. ``optional``: it may be told nothing, as by a
    button."""

    types: str
    text: str
    limits: Limits = None
    unit: str | None = None
    optional: bool = False


#: By what stands behind ``/anticip/control/``, or the beginning of it where the rest is an argument (those
#: that end with a slash).
CONTROLS: dict[str, Control] = {
    "start": Control("N", "play"),
    "stop": Control("N", "to silence within 1 s"),
    "panic": Control("N", "to silence at once"),
    "freeze": Control("T", "the values stand still"),
    "bypass": Control("T", "the seven scalars play instead of the model"),
    "gain": Control("f", "on loudness", (0.0, 4.0)),
    "smoothing": Control("f", "factor on smoothing", (0.0, 100.0)),
    "lead_ms": Control("f", "how far ahead to play", (HORIZONS_MS[0], HORIZONS_MS[-1]), unit="time.ms"),
    "sound_ms": Control("f", "how long it takes to sound", (0.0, 1000.0), unit="time.ms"),
    "tempo": Control("ff", "a beat that leads the body's: beats a minute, phase"),
    "preset": Control("s", "what the voice plays", tuple(_core.PRESETS)),
    "source": Control("s", "whose suit is heard"),
    "plan": Control("if", "boost of a code of the plan, by so much"),
    "unload": Control("N", "without the mapping"),
    "load": Control("s", "play the mapping", ("mapping",)),
    "rig/merge": Control("s", "set many keys of the rig: a JSON merge patch"),
    "rig/save": Control("s", "write what was set into the rig, or a new one of this name", optional=True),
    "rig/load": Control("s", "play by another rig of the show's folder, as far as it can change"),
    "model/load": Control("s", "step another model of the show's folder"),
    "memory/load": Control("s", "mix with another memory of the show's folder"),
    "learn/": Control("T", "on: note how far it goes; off: that is its range"),
    "calibrate/still": Control("N", "the performer stands"),
    "calibrate/move": Control("N", "the performer moves"),
    "calibrate/save": Control("N", "keep what was calibrated"),
    "calibrate/clear": Control("N", "forget what was calibrated"),
    "calibrate/freeze": Control("T", "learn the range no further"),
    "memory/learn": Control("N", "remember what is played"),
    "memory/freeze": Control("N", "remember no more"),
    "memory/clear": Control("N", "forget this show"),
    "memory/save": Control("s", "write the memory", optional=True),
    "cue/set": Control("s", "a cue of this name, here"),
    "cue/remove": Control("s", "the cue of this name is said no more"),
    "record/start": Control("s", "record into a file", optional=True),
    "record/stop": Control("N", "record no more"),
    "teach/values": Control("sf", "what the next take teaches"),
    "teach/class": Control("ss", "a class, and its label that is shown"),
    "teach/param/": Control("f", "what the next take teaches"),
    "teach/clear": Control("N", "nothing is taught"),
    "teach/output": Control("s", "one more output"),
    "teach/start": Control("s", "begin a take", optional=True),
    "teach/stop": Control("N", "keep the take"),
    "teach/cancel": Control("N", "forget the take"),
    "teach/list": Control("N", "what was taught"),
    "teach/set": Control("ss", "another value or label for a take of before"),
    "teach/remove": Control("s", "forget a take of before"),
    "teach/undo": Control("N", "take the last change back"),
    "teach/fit": Control("N", "learn it, and play it"),
}


_BEGINNINGS = {name.partition("/")[0] for name in CONTROLS}


def check_names(performers: Iterable[str]) -> None:
    """Raises an OptionError where a performer is called as a command begins."""
    for who in performers:
        if who in _BEGINNINGS:
            raise OptionError(f"performer.{who}: /anticip/control/{who} is a command; choose another name")


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
        yield from _table(f"shape/{name}", _SHAPE, rig.shape.get(name, Shape()).model_dump(by_alias=True))
    plain = rig.smoothing.get("default", Smoothing())
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
        stands = table.ranges.get(name, Range()).model_dump()
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
