"""Which joint is which: the map that a skeleton's names suggest, as a file to edit, and back again."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyanticip import _core
from pyanticip.errors import FormatError, OptionError, suggestion
from pyanticip.motion.clip import Clip
from pyanticip.motion.skeleton import Skeleton
from pyanticip.untrusted import parse_toml, read_file
from pyanticip.vocabulary import CANONICAL_JOINTS

Joints = Mapping[str, tuple[str, ...]]
"""Names of a file's joints by the name of the canonical joint: one, or the first and the last of a chain."""

_TRUNK = ("spine", "chest", "upper_chest")

_PARTS = {"left_hand": "left_fingerbase", "right_hand": "right_fingerbase"}
"""What the last joint of a chain is called where its number would make it a thing that hangs on the first."""

_LARGEST = 1 << 20


def guessed(skeleton: Skeleton) -> dict[str, tuple[str, ...]]:
    """What the names of a skeleton's joints suggest; a joint that is not found is left out."""
    ends = _core.guess_joints(list(skeleton.names), skeleton.parents, skeleton.offsets)
    return {
        joint: tuple(dict.fromkeys(skeleton.names[index] for index in pair))
        for joint, pair in zip(CANONICAL_JOINTS, ends, strict=True)
        if pair is not None
    }


def as_toml(skeleton: Skeleton) -> str:
    """The guessed map as TOML to edit, with the names that nothing was made of."""
    found = guessed(skeleton)
    lines = [
        "# Which joint is which: the canonical joint = the file's joint, or [first, last] of a chain.",
        "# Joints that stand nowhere here are not used. Give it back with --joints.",
        "[joints]",
    ]
    for joint in CANONICAL_JOINTS:
        names = found.get(joint)
        if names is None:
            lines.append(f'# {joint} = ""')
        else:
            value = _text(names[0]) if len(names) == 1 else f"[{', '.join(map(_text, names))}]"
            lines.append(f"{joint} = {value}")
    used = {name for names in found.values() for name in names}
    left = [name for name in skeleton.names if name not in used]
    if left:
        lines.append(f"# not used: {', '.join(map(_text, left))}")
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    # TOML's basic strings are JSON's; nothing stands in them that a terminal obeys.
    return json.dumps(name, ensure_ascii=not name.isprintable())


def read_joints(path: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """The map of a TOML file; :class:`FormatError` where it is none."""
    file = Path(path)
    tree = parse_toml(read_file(file, _LARGEST, what="a map of joints"), file)
    table = tree.get("joints", tree)
    if not isinstance(table, dict) or not table:
        raise FormatError(f"{file}: expected a table [joints]")
    found = {}
    for joint, value in table.items():
        if joint not in CANONICAL_JOINTS:
            hint = suggestion(joint, CANONICAL_JOINTS) or f"; expected one of {', '.join(CANONICAL_JOINTS)}"
            raise FormatError(f"{file}: joints.{joint}: unknown joint{hint}")
        names = [value] if isinstance(value, str) else value
        if (
            not isinstance(names, list)
            or not 1 <= len(names) <= 2
            or not all(isinstance(n, str) for n in names)
        ):
            raise FormatError(f"{file}: joints.{joint}: expected a name or [first, last], given {value!r}")
        found[joint] = tuple(names)
    return found


def with_joints(clip: Clip, joints: Joints) -> Clip:
    """``clip`` with its joints named after the map, so that they are taken for what it says, no more.

    Raises:
        OptionError: A name that the skeleton does not have, or that the map uses twice.
    """
    body = clip.skeleton
    new: dict[str, str] = {}
    for joint, names in joints.items():
        # The trunk is told by the order of its joints: one for each.
        given = names[-1:] if joint in _TRUNK else names
        for number, name in enumerate(given):
            if name not in body.names:
                hint = suggestion(name, body.names) or f"; there are {', '.join(body.names)}"
                raise OptionError(f"joints.{joint}: no joint {name!r} in the file{hint}")
            if name in new:
                raise OptionError(f"joints.{joint}: {name!r} is named twice")
            new[name] = joint if number == 0 else _PARTS.get(joint, f"{joint}_{number + 1}")
    renamed = tuple(new.get(name, f"{name} (unmapped)") for name in body.names)
    return replace(clip, skeleton=Skeleton(renamed, body.parents, body.offsets, body.rest, body.tips))
