"""Writing what was found out while playing into a rig file, and leaving the rest as it is, comments too."""

from __future__ import annotations

import contextlib
import re
import threading
import tomllib
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, TypeGuard

from pyanticip.errors import DeviceError, RigError
from pyanticip.motion.atomic import write_file
from pyanticip.untrusted import parse_toml, read_file
from realtime.rig.load import LARGEST, parse_rig
from realtime.rig.paths import relative_to

__all__ = ["edit_rig"]

Tree = Mapping[str, Any]
Make = Callable[[], MutableMapping[str, Any]]

# Of two threads that had read the same text, one would write over what the other has written.
_ONE_AT_A_TIME = threading.Lock()


def edit_rig(path: Path, before: Tree, after: Tree, source: Path | None = None) -> None:
    """Write into a rig file what differs between two trees of settings; it is made if it is not there. Any
    thread may call it.

    What is in ``before`` and not in ``after`` is taken out. Paths in both are from where the program runs,
    and are written relative to the file's folder. ``source`` is the file that the text is taken from where it
    is another; where it is gone, or says nothing, all of ``after`` is written. Nothing is written where the
    result would be no rig.

    Raises:
        RigError: The file is no rig, or would not be one.
        DeviceError: It cannot be read or written.
    """
    with _ONE_AT_A_TIME:
        _edit(path, before, after, source or path)


def _edit(path: Path, before: Tree, after: Tree, source: Path) -> None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before, after = relative_to(before, source.parent), relative_to(after, path.parent)
    try:
        data = read_file(source, LARGEST, RigError, "a rig") if source.exists() else b""
        text, desired = _inside(data.decode("utf-8")), parse_toml(data, source, RigError)
        before = before if desired else {}
        _check_lists(desired, before, after, source)
        _change(desired, before, after, dict, dict)
        parse_rig(desired, str(source))
        # In a file with dotted keys new tables can only stand inline.
        for outer in (tomlkit.table, tomlkit.inline_table):
            document = tomlkit.parse(text)
            _change(document, before, after, outer, tomlkit.inline_table)
            new = _above(tomlkit.dumps(document))
            with contextlib.suppress(tomllib.TOMLDecodeError):
                if _filled(tomllib.loads(new)) == _filled(desired):
                    break
        else:
            raise RigError(f"{source}: its form cannot be edited: expected plain tables")
    except (tomllib.TOMLDecodeError, TOMLKitError, UnicodeDecodeError) as error:
        raise RigError(f"{source}: not valid TOML: {error}") from None
    except OSError as error:
        raise DeviceError(f"{source}: cannot be read ({(error.strerror or str(error)).lower()})") from None
    write_file(path, new.encode("utf-8"))


# A table's head, and the comment above it, which tomlkit takes for the end of the table before.
_HEAD, _COMMENT = r"(^[ \t]*\[\[?[^][,\n]+\]\]?[ \t]*(?:#[^\n]*)?\r?\n)", r"[ \t]*#[^\n]*\n"
_MARK = "#\u2060above\u2060"


def _inside(text: str) -> str:
    """The comment above each table as the first lines within it, so that it stays with the table; one at the
    beginning is the file's."""

    def moved(found: re.Match[str]) -> str:
        return found[2] + re.sub("(?m)^(?=.)", _MARK, found[1]) if found.start() else found[0]

    return re.sub(f"((?:^{_COMMENT})+){_HEAD}", moved, text, flags=re.MULTILINE)


def _above(text: str) -> str:
    """What :func:`_inside` was given."""
    marked = re.compile(f"{_HEAD}((?:^{_MARK}{_COMMENT})+)", re.MULTILINE)
    return marked.sub(lambda found: found[2] + found[1], text).replace(_MARK, "")


def _check_lists(desired: Tree, before: Tree, after: Tree, source: Path) -> None:
    """Raises a RigError where a list of tables would be written over another one than ``before`` tells of."""
    for name in {**before, **after}:
        there, old = desired.get(name), before.get(name)
        if _are_tables(there) and old != after.get(name) and len(there) != len(old or ()):
            counted = f"expected {len(old or ())} of them, as the show has, got {len(there)}"
            raise RigError(f"{source}: {name}: {counted}; nothing is written")


def _change(table: MutableMapping[str, Any], before: Tree, after: Tree, outer: Make, inner: Make) -> None:
    """Make of a table of the file what makes ``after`` of ``before``; new tables are made by ``outer``, those
    in lists by ``inner``."""
    for name in {**before, **after}:
        old: Any = before.get(name)
        new: Any = after.get(name)
        if old == new:
            continue
        there: Any = table.get(name)
        if name not in after or new == {}:
            table.pop(name, None)
        elif isinstance(new, Mapping):
            if not isinstance(there, MutableMapping):
                table[name] = _made(outer, new)
            else:
                _change(there, old if isinstance(old, Mapping) else {}, new, outer, inner)
        elif (
            all(map(_are_named, (new, there, old))) and len(there) == len(old) and _names(new) != _names(old)
        ):
            # Those that stay keep their comments, but for those between inline ones, wherever they stand now.
            known = {was["name"]: (one, was) for one, was in zip(there, old, strict=True)}
            del there[:]
            for becomes in new:
                one, was = known.get(becomes["name"], (_made(dict, becomes), becomes))
                _change(one, was, becomes, inner, inner)
                there.append(one)
        elif all(map(_are_tables, (new, there, old))) and len(new) == len(there) == len(old):
            for one, was, becomes in zip(there, old, new, strict=True):
                _change(one, was, becomes, inner, inner)
        elif _are_tables(new):
            table.pop(name, None)
            table[name] = [_made(outer, one) for one in new]
        else:
            table[name] = new


def _made(make: Make, tree: Tree) -> MutableMapping[str, Any]:
    made = make()
    for name, value in tree.items():
        made[name] = _made(make, value) if isinstance(value, Mapping) else value
    return made


def _filled(tree: Tree) -> dict[str, Any]:
    """Without the tables that have become empty: dotted keys have none."""
    found = {name: _filled(value) if isinstance(value, Mapping) else value for name, value in tree.items()}
    found = {n: [_filled(one) for one in v] if _are_tables(v) else v for n, v in found.items()}
    return {name: value for name, value in found.items() if value != {}}


def _are_tables(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _are_named(value: object) -> TypeGuard[list[Any]]:
    return _are_tables(value) and all("name" in one for one in value)


def _names(tables: list[Any]) -> list[str]:
    return [one["name"] for one in tables]
