"""The namespace as OSCQuery has it, made of the tables that the show itself goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from realtime.control.described import CONTROLS, Control
from realtime.control.rig_keys import RigKey
from realtime.control.server import CONTROL
from realtime.sinks.base import Extra
from realtime.sinks.outputs import Limits, Message, sent

__all__ = ["Attributes", "Nodes", "controls", "described", "outputs"]

#: The attributes of a node, by the names of the proposal.
Attributes = dict[str, Any]
#: Nodes by their addresses.
Nodes = dict[str, Attributes]

_READ, _WRITE = 1, 2


def outputs(
    prefix: str,
    send: Sequence[str],
    extras: Iterable[Extra] = (),
    cues: Iterable[str] = (),
    gestures: Iterable[str] = (),
) -> Nodes:
    """What is sent. ``OPTIONAL`` and ``REPEATS`` are for our own server: there only once it was sent, and of
    as many types as were sent."""
    told = sent(prefix, send, extras, cues, gestures)
    return {address: described(message) for address, message in told}


def described(message: Message) -> Attributes:
    """The node of a message that is sent."""
    node: Attributes = {"TYPE": message.types, "ACCESS": _READ, "DESCRIPTION": message.text}
    if any(message.limits):
        node["RANGE"] = [_range(limits) for limits in message.limits]
    if any(message.units):
        node["UNIT"] = list(message.units)
    if not message.always:
        node["OPTIONAL"] = True
    if message.repeats:
        node["REPEATS"] = True
    return node


def controls(
    names: Iterable[str],
    members: Mapping[str, Iterable[str]] | None = None,
    values: Mapping[str, Any] | None = None,
    keys: Iterable[RigKey] = (),
    who: str = "",
) -> Nodes:
    """What is obeyed: commands by name, of each family in ``members`` one for each of these, and ``keys`` of
    the rig; of ``who``, if there are several performers.

    ``values`` are those of commands that can be asked for.
    """
    found = {name: _control(CONTROLS.get(name), (values or {}).get(name)) for name in names}
    for family, each in (members or {}).items():
        found |= {family + member: _control(CONTROLS.get(family), None) for member in each}
    for key, takes, value in keys:
        found[f"rig/{key}"] = node = _control(takes, None)
        # An address has what stands before the value behind it, of any type.
        if len(value) == len(takes.types):
            node |= {"ACCESS": _READ | _WRITE, "VALUE": list(value)}
    begin = CONTROL + (f"{who}/" if who else "")
    return {begin + name: node for name, node in found.items()}


def _control(told: Control | None, value: Any) -> Attributes:
    told = told or Control("N", "")
    node: Attributes = {"TYPE": told.types, "ACCESS": _WRITE, "DESCRIPTION": told.text}
    if told.limits is not None:
        node["RANGE"] = [_range(told.limits)] * len(told.types)
    if told.unit is not None:
        node["UNIT"] = [told.unit]
    if value is not None:
        node |= {"ACCESS": _READ | _WRITE, "VALUE": [value]}
    return node


def _range(limits: Limits) -> dict[str, Any] | None:
    if limits is None:
        return None
    if isinstance(limits[0], str):
        return {"VALS": list(limits)}
    return {"MIN": limits[0], "MAX": limits[1]}
