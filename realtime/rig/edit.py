"""Writes changed settings into a rig file and leaves the rest, including comments, as it is."""

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
from realtime.rig.load import MAX_RIG_BYTES, parse_rig
from realtime.rig.paths import relative_paths

Tree = Mapping[str, Any]
TableFactory = Callable[[], MutableMapping[str, Any]]

# Without it, two threads that read the same text would overwrite each other's changes.
_lock = threading.Lock()


def edit_rig(path: Path, before: Tree, after: Tree, source: Path | None = None) -> None:
    """Write the difference between two trees of settings into a rig file, which is created if missing.
    Thread-safe.

    Keys that are in ``before`` but not in ``after`` are removed. Paths in both are relative to the working
    folder, and are written relative to the file's folder. The text to edit is taken from ``source`` if given;
    if that file is missing or empty, all of ``after`` is written. Nothing is written if the result would not
    be a rig.

    Raises:
        RigError: The file is not a rig, or would not be one.
        DeviceError: It cannot be read or written.
    """
    with _lock:
        _edit(path, before, after, source or path)


def _edit(path: Path, before: Tree, after: Tree, source: Path) -> None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before, after = relative_paths(before, source.parent), relative_paths(after, path.parent)
    try:
        data = read_file(source, MAX_RIG_BYTES, RigError, "a rig") if source.exists() else b""
        text, desired = _move_comments_inside(data.decode("utf-8-sig")), parse_toml(data, source, RigError)
        before = before if desired else {}
        _check_lists(desired, before, after, source)
        _change(desired, before, after, dict, dict)
        parse_rig(desired, str(source))
        # In a file with dotted keys only inline tables can be added.
        for new_table in (tomlkit.table, tomlkit.inline_table):
            document = tomlkit.parse(text)
            _change(document, before, after, new_table, tomlkit.inline_table)
            new = _move_comments_above(tomlkit.dumps(document))
            with contextlib.suppress(tomllib.TOMLDecodeError):
                if _without_empty(tomllib.loads(new)) == _without_empty(desired):
                    break
        else:
            raise RigError(f"{source}: its form cannot be edited: expected plain tables")
    except (tomllib.TOMLDecodeError, TOMLKitError, UnicodeDecodeError) as error:
        raise RigError(f"{source}: not valid TOML: {error}") from None
    except OSError as error:
        raise DeviceError(f"{source}: cannot be read ({(error.strerror or str(error)).lower()})") from None
    if "\r\n" in text:
        # New lines end as those of the file do.
        new = re.sub("\r?\n", "\r\n", new)
    write_file(path, new.encode("utf-8"))


# A table's head, and the comment above it, which tomlkit counts as the end of the previous table.
_TABLE_HEAD, _COMMENT = r"(^[ \t]*\[\[?[^][,\n]+\]\]?[ \t]*(?:#[^\n]*)?\r?\n)", r"[ \t]*#[^\n]*\n"
_COMMENT_MARK = "#\u2060above\u2060"


def _move_comments_inside(text: str) -> str:
    """Move the comment above each table into the table, so that it stays with it; a comment at the beginning
    of the file stays there."""

    def move(found: re.Match[str]) -> str:
        return found[2] + re.sub("(?m)^(?=.)", _COMMENT_MARK, found[1]) if found.start() else found[0]

    return re.sub(f"((?:^{_COMMENT})+){_TABLE_HEAD}", move, text, flags=re.MULTILINE)


def _move_comments_above(text: str) -> str:
    """The inverse of :func:`_move_comments_inside`."""
    marked = re.compile(f"{_TABLE_HEAD}((?:^{_COMMENT_MARK}{_COMMENT})+)", re.MULTILINE)
    return marked.sub(lambda found: found[2] + found[1], text).replace(_COMMENT_MARK, "")


def _check_lists(desired: Tree, before: Tree, after: Tree, source: Path) -> None:
    """Raise a RigError if a list of tables to be changed has another length than in ``before``."""
    for name in {**before, **after}:
        current, old = desired.get(name), before.get(name)
        if _are_tables(current) and old != after.get(name) and len(current) != len(old or ()):
            mismatch = f"expected {len(old or ())} of them, as the show has, got {len(current)}"
            raise RigError(f"{source}: {name}: {mismatch}; nothing is written")


def _change(
    table: MutableMapping[str, Any],
    before: Tree,
    after: Tree,
    new_table: TableFactory,
    new_inline: TableFactory,
) -> None:
    """Apply the difference between ``before`` and ``after`` to a table of the file. ``new_table`` makes new
    tables, ``new_inline`` those within lists."""
    for name in {**before, **after}:
        old: Any = before.get(name)
        new: Any = after.get(name)
        if old == new:
            continue
        current: Any = table.get(name)
        if name not in after or new == {}:
            table.pop(name, None)
        elif isinstance(new, Mapping):
            if not isinstance(current, MutableMapping):
                table[name] = _make_table(new_table, new)
            else:
                _change(current, old if isinstance(old, Mapping) else {}, new, new_table, new_inline)
        elif (
            all(map(_are_named, (new, current, old)))
            and len(current) == len(old)
            and _names(new) != _names(old)
        ):
            # Tables that stay keep their comments (except between inline tables), also at another index.
            by_name = {old_item["name"]: (one, old_item) for one, old_item in zip(current, old, strict=True)}
            del current[:]
            for new_item in new:
                one, old_item = by_name.get(new_item["name"], (_make_table(dict, new_item), new_item))
                _change(one, old_item, new_item, new_inline, new_inline)
                current.append(one)
        elif all(map(_are_tables, (new, current, old))) and len(new) == len(current) == len(old):
            for one, old_item, new_item in zip(current, old, new, strict=True):
                _change(one, old_item, new_item, new_inline, new_inline)
        elif _are_tables(new):
            table.pop(name, None)
            table[name] = [_make_table(new_table, one) for one in new]
        else:
            table[name] = new


def _make_table(factory: TableFactory, tree: Tree) -> MutableMapping[str, Any]:
    table = factory()
    for name, value in tree.items():
        table[name] = _make_table(factory, value) if isinstance(value, Mapping) else value
    return table


def _without_empty(tree: Tree) -> dict[str, Any]:
    """The tree without empty tables, which files with dotted keys do not have."""
    found = {
        name: _without_empty(value) if isinstance(value, Mapping) else value for name, value in tree.items()
    }
    found = {n: [_without_empty(one) for one in v] if _are_tables(v) else v for n, v in found.items()}
    return {name: value for name, value in found.items() if value != {}}


def _are_tables(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _are_named(value: object) -> TypeGuard[list[Any]]:
    return _are_tables(value) and all("name" in one for one in value)


def _names(tables: list[Any]) -> list[str]:
    return [one["name"] for one in tables]
