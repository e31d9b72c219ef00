"""The commands of the remote control, and the keys of a rig that can be set live, with their argument
types."""

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
from realtime.sinks.outputs import MESSAGES, Limits


@dataclass(frozen=True, slots=True)
class Control:
    """Description of a command.

    ``types`` are the OSC types of its arguments (N: none, T: on or off), ``text`` says what it does,
    ``limits`` is the range of its number or its known words, ``unit`` the number's unit. ``optional``: the
    argument may be missing, as from a button.
    """

    types: str
    text: str
    limits: Limits = None
    unit: str | None = None
    optional: bool = False


#: Commands by their name behind ``/anticip/control/``, or by its prefix, ending with a slash, if the rest is
#: an argument.
CONTROLS: dict[str, Control] = {
    "start": Control("N", "play"),
    "stop": Control("N", "to silence within 1 s"),
    "panic": Control("N", "to silence at once"),
    "freeze": Control("T", "the values stand still"),
    "bypass": Control("T", "the seven scalars play instead of the model"),
    "gain": Control("f", "factor on loudness", (0.0, 4.0)),
    "smoothing": Control("f", "factor on smoothing", (0.0, 100.0)),
    "lead_ms": Control("f", "how far ahead to play", (HORIZONS_MS[0], HORIZONS_MS[-1]), unit="time.ms"),
    "sound_ms": Control("f", "latency from sending to sound", (0.0, 1000.0), unit="time.ms"),
    "tempo": Control("ff", "an external beat: beats per minute, phase"),
    "preset": Control("s", "what the voice plays", tuple(_core.PRESETS)),
    "source": Control("s", "the only sender to listen to"),
    "plan": Control("if", "boost a code of the plan"),
    "unload": Control("N", "play without the mapping"),
    "load": Control("s", "play the mapping", ("mapping",)),
    "rig/merge": Control("s", "set many keys of the rig: a JSON merge patch"),
    "rig/save": Control("s", "write the changes into the rig, or into a new one of this name", optional=True),
    "rig/load": Control("s", "play by another rig of the show's folder, as far as it can change"),
    "model/load": Control("s", "step another model of the show's folder"),
    "memory/load": Control("s", "mix with another memory of the show's folder"),
    "learn/": Control("T", "on: learn its range; off: use it"),
    "calibrate/still": Control("N", "the performer stands still"),
    "calibrate/move": Control("N", "the performer moves"),
    "calibrate/save": Control("N", "keep what was calibrated"),
    "calibrate/clear": Control("N", "forget what was calibrated"),
    "calibrate/freeze": Control("T", "stop learning the range"),
    "memory/learn": Control("N", "remember what is played"),
    "memory/freeze": Control("N", "stop remembering"),
    "memory/clear": Control("N", "forget this show"),
    "memory/save": Control("s", "write the memory", optional=True),
    "cue/set": Control("s", "set a cue of this name, here"),
    "cue/remove": Control("s", "remove the cue of this name"),
    "record/start": Control("s", "record into a file", optional=True),
    "record/stop": Control("N", "stop recording"),
    "teach/values": Control("sf", "what the next take teaches"),
    "teach/class": Control("ss", "a class, and the label that is shown"),
    "teach/param/": Control("f", "what the next take teaches"),
    "teach/clear": Control("N", "nothing is taught"),
    "teach/output": Control("s", "add an output"),
    "teach/start": Control("s", "begin a take", optional=True),
    "teach/stop": Control("N", "keep the take"),
    "teach/cancel": Control("N", "forget the take"),
    "teach/list": Control("N", "what was taught"),
    "teach/set": Control("ss", "change a value or label of an earlier take"),
    "teach/remove": Control("s", "remove an earlier take"),
    "teach/undo": Control("N", "take the last change back"),
    "teach/fit": Control("N", "learn it, and play it"),
}


_COMMAND_PREFIXES = {name.partition("/")[0] for name in CONTROLS}


def check_names(performers: Iterable[str]) -> None:
    """Raise an OptionError if a performer's name is the beginning of a command."""
    for name in performers:
        if name in _COMMAND_PREFIXES:
            raise OptionError(f"performer.{name}: /anticip/control/{name} is a command; choose another name")


_UNIT = (0.0, 1.0)
_SHAPE = {
    "in": Control("ff", "this range becomes 0 to 1", _UNIT),
    "invert": Control("T", "inverted"),
    "threshold": Control("f", "a gate", _UNIT),
    "hysteresis": Control("f", "the gate closes this far below", _UNIT),
    "toggle": Control("T", "0 or 1, alternating as the gate opens"),
    "steps": Control("i", "number of values", (2, 1024)),
}
_SMOOTHING = {
    "kind": Control("s", "how it is smoothed", ("spring", "one-euro", "none")),
    "half_life": Control("f", "half-life of a spring", (0.001, 60.0), unit="time.second"),
    "min_cutoff": Control("f", "cutoff of one-euro, at rest", (0.001, 1000.0), unit="freq.hz"),
    "beta": Control("f", "how fast the cutoff of one-euro rises", (0.0, 1000.0)),
}
_RANGE = {
    "low": Control("f", "value at 0"),
    "high": Control("f", "value at 1"),
    "curve": Control("s", "curve between them", ("linear", "exponential", "power")),
    "exponent": Control("f", "exponent of the power curve", (0.001, 100.0)),
}
_NAMES = {"shape": _SHAPE, "smoothing": _SMOOTHING}
_GROUPS = {"param": PARAMETERS, "event": EVENTS}
_ORDER = ("frame", "scalars", "param", *PARAMETERS, "params", "tempo", "bpm", "event", *EVENTS, *PARTS)


class RigKey(NamedTuple):
    """One key behind ``rig/``: its argument types, and its value (empty if unset)."""

    key: str
    takes: Control
    value: tuple[Any, ...]


def rig_keys(rig: Rig, taught: Iterable[str]) -> Iterator[RigKey]:
    """The live keys of a rig: of the eight parameters and the ``taught`` outputs, and of each OSC
    receiver."""
    for name in (*PARAMETERS, *(f"taught/{name}" for name in taught)):
        yield from _table(f"shape/{name}", _SHAPE, rig.shape.get(name, Shape()).model_dump(by_alias=True))
    plain = rig.smoothing.get("default", Smoothing())
    for name in (*PARAMETERS, "default"):
        yield from _table(f"smoothing/{name}", _SMOOTHING, rig.smoothing.get(name, plain).model_dump())
    for number, table in enumerate(rig.osc):
        yield from _receiver(f"osc/{number}", table)


def _table(prefix: str, fields: dict[str, Control], values: dict[str, Any]) -> Iterator[RigKey]:
    for field, takes in fields.items():
        value = values[field]
        value = () if value is None else value if isinstance(value, tuple) else (value,)
        yield RigKey(f"{prefix}/{field}", takes, value)


def _receiver(prefix: str, table: OscConfig) -> Iterator[RigKey]:
    for name in (*PARTS, *PARAMETERS, *EVENTS):
        group = next((part for part, names in _GROUPS.items() if name in names), name)
        on = bool({name, group} & set(table.send))
        yield RigKey(f"{prefix}/send/{name}", Control("T", f"send it to {table.url}"), (on,))
    for name in RENAMED:
        default = next((tail for tail in MESSAGES if tail.partition("/")[2] == name), name)
        address = table.addresses.get(name, (f"{table.prefix.rstrip('/')}/{default}",))
        yield RigKey(
            f"{prefix}/addresses/{name}", Control("s", "address, and arguments before the value"), address
        )
    for name in PARAMETERS:
        values = table.ranges.get(name, Range()).model_dump()
        yield from _table(f"{prefix}/ranges/{name}", _RANGE, values)


def path_of(key: str) -> list[str | int]:
    """The path to a key in the tree of a rig; names may contain a slash, as in ``taught/cutoff``."""
    table, _, rest = key.partition("/")
    if table in _NAMES:
        name, _, field = rest.rpartition("/")
        is_whole_table = not name or (name == "taught" and field not in _NAMES[table])
        return [table, rest] if is_whole_table else [table, name, field]
    if table == "osc":
        number, _, rest = rest.partition("/")
        part, _, name = rest.partition("/")
        remainder = name.split("/") if part == "ranges" else [name]
        index = int(number) if number.isascii() and number.isdigit() else number
        return [part for part in (table, index, part, *remainder) if part != ""]
    return [table] if not rest else [table, rest]


def with_part(send: Sequence[str], name: str, on: bool) -> list[str]:
    """The list ``send`` with or without ``name``; a group whose members are all sent is written as one."""
    chosen = set(send)
    for part, names in _GROUPS.items():
        if name in names and part in chosen:
            chosen = chosen - {part} | set(names)
    chosen = chosen | {name} if on else chosen - {name}
    for part, names in _GROUPS.items():
        if on and name in names and chosen.issuperset(names):
            chosen = chosen - set(names) | {part}
    return sorted(chosen, key=lambda one: (_ORDER.index(one) if one in _ORDER else len(_ORDER), one))
