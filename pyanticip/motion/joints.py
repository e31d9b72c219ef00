"""Joint maps: guessed from a skeleton's names, written to and read from TOML, and applied to a clip."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyanticip import _core
from pyanticip.errors import FormatError, OptionError, suggestion
from pyanticip.motion.clip import Clip
from pyanticip.motion.skeleton import Skeleton
from pyanticip.untrusted import parse_toml, read_file
from pyanticip.vocabulary import CANONICAL_JOINTS

Joints = Mapping[str, tuple[str, ...]]
"""Canonical joint -> the file's joint, or the first and last joint of a chain."""

_TRUNK = ("spine", "chest", "upper_chest")

_CHAIN_END_NAMES = {"left_hand": "left_fingerbase", "right_hand": "right_fingerbase"}
"""Name given to the last joint of a chain, where the default (a number appended) would read as a prop."""

_MAX_BYTES = 1 << 20


def guess_joints(skeleton: Skeleton) -> dict[str, tuple[str, ...]]:
    """The joint map that the joints' names suggest; canonical joints that are not found are left out."""
    ends = _core.guess_joints(list(skeleton.names), skeleton.parents, skeleton.offsets)
    return {
        joint: tuple(dict.fromkeys(skeleton.names[index] for index in pair))
        for joint, pair in zip(CANONICAL_JOINTS, ends, strict=True)
        if pair is not None
    }


def as_toml(skeleton: Skeleton) -> str:
    """The guessed map as TOML to edit, with the unused joints in a comment."""
    joint_map = guess_joints(skeleton)
    lines = [
        "# Which joint is which: the canonical joint = the file's joint, or [first, last] of a chain.",
        "# Joints that are not listed are not used. Pass this file with --joints.",
        "[joints]",
    ]
    for joint in CANONICAL_JOINTS:
        names = joint_map.get(joint)
        if names is None:
            lines.append(f'# {joint} = ""')
        else:
            value = _text(names[0]) if len(names) == 1 else f"[{', '.join(map(_text, names))}]"
            lines.append(f"{joint} = {value}")
    used = {name for names in joint_map.values() for name in names}
    unused = [name for name in skeleton.names if name not in used]
    if unused:
        lines.append(f"# not used: {', '.join(map(_text, unused))}")
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    # JSON strings are valid TOML; control characters are escaped, so that a terminal does not obey them.
    return json.dumps(name, ensure_ascii=not name.isprintable())


def read_joints(path: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Read a joint map from a TOML file; raises a FormatError."""
    file = Path(path)
    try:
        return checked_joints(parse_toml(read_file(file, _MAX_BYTES, what="a map of joints"), file))
    except OptionError as error:
        raise FormatError(f"{file}: {error}") from None


def checked_joints(tree: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The joint map in the contents of a TOML file, or in a table of tuples; raises an OptionError."""
    table = tree.get("joints", tree) if isinstance(tree, Mapping) else None
    if not isinstance(table, Mapping) or not table:
        raise OptionError("expected a table [joints]")
    joint_map = {}
    for joint, value in table.items():
        if joint not in CANONICAL_JOINTS:
            hint = (
                suggestion(str(joint), CANONICAL_JOINTS) or f"; expected one of {', '.join(CANONICAL_JOINTS)}"
            )
            raise OptionError(f"joints.{joint}: unknown joint{hint}")
        names = [value] if isinstance(value, str) else value
        if (
            not isinstance(names, list | tuple)
            or not 1 <= len(names) <= 2
            or not all(isinstance(n, str) for n in names)
        ):
            raise OptionError(f"joints.{joint}: expected a name or [first, last], got {value!r}")
        joint_map[joint] = tuple(names)
    return joint_map


def with_joints(clip: Clip, joints: Joints) -> Clip:
    """``clip`` with its joints renamed to the map's canonical names, the others to ``... (unmapped)``.

    Raises:
        OptionError: A joint that the skeleton does not have, or that the map uses twice.
    """
    body = clip.skeleton
    new: dict[str, str] = {}
    for joint, names in joints.items():
        # Trunk joints are recognised by their order, so a chain is named only by its last joint.
        chain = names[-1:] if joint in _TRUNK else names
        for number, name in enumerate(chain):
            if name not in body.names:
                hint = suggestion(name, body.names) or f"; there are {', '.join(body.names)}"
                raise OptionError(f"joints.{joint}: no joint {name!r} in the file{hint}")
            if name in new:
                raise OptionError(f"joints.{joint}: {name!r} is named twice")
            new[name] = joint if number == 0 else _CHAIN_END_NAMES.get(joint, f"{joint}_{number + 1}")
    renamed = tuple(new.get(name, f"{name} (unmapped)") for name in body.names)
    return replace(clip, skeleton=Skeleton(renamed, body.parents, body.offsets, body.rest, body.tips))
