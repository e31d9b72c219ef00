"""Helpers for options: seeds, ``name=value`` settings, merging of tables."""

import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyanticip.errors import OptionError


def derived_seed(seed: int, *path: int) -> int:
    """Derive a 63-bit seed for one purpose, step or process; different paths give independent numbers."""
    high, low = np.random.SeedSequence([seed, *path]).generate_state(2, np.uint32)
    return (int(high) << 31) ^ int(low)


def seed_list(text: str) -> list[int]:
    """Parse seeds from text such as ``0-4`` or ``0,2,7``; duplicates are dropped.

    Raises:
        OptionError: malformed text.

    >>> seed_list("0-2,7")
    [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise OptionError(f"seeds: expected numbers and ranges such as 0-4 or 0,2,7, got {text!r}")
        if int(last or first) < int(first):
            raise OptionError(f"seeds: expected a range that rises, such as 0-4, got {part.strip()!r}")
        found.extend(range(int(first), int(last or first) + 1))
    return list(dict.fromkeys(found))


def setting(given: str) -> tuple[str, str, Any]:
    """Parse ``table.name=value`` into (table, name, value); the table may be empty. The value is TOML, or
    else plain text.

    Raises:
        OptionError: no ``=``.

    >>> setting("model.bias=random"), setting("betas=[0.9, 0.99]")
    (('model', 'bias', 'random'), ('', 'betas', [0.9, 0.99]))
    """
    name, equals, text = given.partition("=")
    if not equals:
        raise OptionError(f"--set: expected NAME=VALUE, got {given!r}")
    table, _, field_name = name.strip().rpartition(".")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    return table, field_name, value


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables of options; later ones win, and nested tables are merged name by name.

    >>> merge({"steps": 1, "model": {"ff": 8}}, {"model": {"heads": 2}})
    {'steps': 1, 'model': {'ff': 8, 'heads': 2}}
    """
    found: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
            found[name] = {**found[name], **value} if both else value
    return found
