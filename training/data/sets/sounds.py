"""Assigns sounds to takes, with the offset between sound and movement."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pyanticip.errors import FormatError
from pyanticip.untrusted import read_text, read_toml
from training.data.sets.discover import Discovery, printable
from training.data.sets.splits import nfc

NO_SOUND: Final = "none"
_KEYS: Final = ("file", "sound", "offset")


@dataclass(frozen=True)
class Sound:
    """The sound of a take."""

    path: str
    """Relative to the folder of the takes, with / as separator."""
    offset: float = 0.0
    """Time in the sound at which the movement begins, seconds; negative if the movement begins first."""


def pair(folder: Path, discovery: Discovery, manifest: Path | None = None) -> dict[str, Sound]:
    """Return the sound of each take that has one, by the path of the take's first file.

    A WAV or FLAC of the same name beside one of a take's files belongs to it. A manifest overrides that:
    its ``sound`` may be anywhere in the folder, or ``none``; if empty, it is the one beside the take.

    TOML: ``[[take]]`` tables with ``file``, ``sound``, ``offset``. CSV: these three columns under a heading.
    Paths are relative to the folder of the takes.

    Raises:
        FormatError: the manifest cannot be read, or names files that do not exist.
    """
    sounds: dict[str, Sound] = {}
    owner: dict[str, str] = {}
    for source in discovery.sources:
        for path in source.paths:
            owner[nfc(path)] = source.paths[0]
            beside = discovery.sounds.get(PurePosixPath(path).with_suffix("").as_posix())
            if beside is not None:
                sounds.setdefault(source.paths[0], Sound(beside))
    rows: dict[str, str] = {}
    all_sounds = [*discovery.sounds.values(), *chain.from_iterable(discovery.left_out.values())]
    by_nfc = {nfc(path): path for path in all_sounds}
    for where, row in [] if manifest is None else _read(manifest):
        take = owner.get(nfc(_posix(row["file"])))
        if take is None:
            raise FormatError(f"{where}: file {row['file']!r} is not a take in {folder}")
        if take in rows:
            raise FormatError(f"{where}: {row['file']!r} is a take that {rows[take]} names as well")
        rows[take] = where.removeprefix(f"{manifest}: ")
        sound = row.get("sound", "")
        if sound == NO_SOUND:
            sounds.pop(take, None)
            continue
        if not sound and take not in sounds:
            raise FormatError(f"{where}: no sound is given, and there is none beside {row['file']!r}")
        path = _posix(sound) if sound else sounds[take].path
        path = by_nfc.get(nfc(path), path)
        if not (folder / path).is_file():
            raise FormatError(f"{where}: there is no sound {path!r} in {folder}")
        sounds[take] = Sound(path, row.get("offset", 0.0))
    discovery.warnings += _left_out(discovery, sounds, rows)
    return sounds


def _left_out(discovery: Discovery, sounds: Mapping[str, Sound], rows: Mapping[str, str]) -> list[str]:
    """Warnings about sounds beside takes that are not used, a line for each reason."""
    other_format: list[str] = []
    unused: list[str] = []
    for source in discovery.sources:
        take = source.paths[0]
        stems = dict.fromkeys(PurePosixPath(path).with_suffix("").as_posix() for path in source.paths)
        beside = [path for stem in stems for path in discovery.left_out.get(stem, ())]
        if take in rows or not beside:
            continue
        (unused if take in sounds else other_format).append(beside[0])
    lines = []
    for paths, why in (
        (
            other_format,
            "lies beside a take but is neither WAV nor FLAC: the teacher provides the targets",
        ),
        (unused, "another sound beside the same take is used"),
    ):
        more = f"; and {len(paths) - 1} more like it" if len(paths) > 1 else ""
        lines += [f"{printable(paths[0])}: {why}{more}"] if paths else []
    return lines


def _posix(path: str) -> str:
    return PurePosixPath(path.replace("\\", "/")).as_posix()


def _read(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a manifest, each with its place in the file for error messages."""
    rows: list[tuple[str, dict[str, Any]]] = []
    if path.suffix.lower() == ".csv":
        table = csv.DictReader(read_text(path).splitlines())
        try:
            raw_rows = [(table.line_num, raw) for raw in table]
        except csv.Error as error:
            raise FormatError(f"{path}: line {table.line_num}: {error}") from None
        for number, raw in raw_rows:
            where = f"{path}: line {number}"
            if None in raw:
                raise FormatError(f"{where}: more cells than columns (a decimal comma?)")
            row: dict[str, Any] = {str(key): str(value or "").strip() for key, value in raw.items()}
            if "offset" in row:
                row["offset"] = _offset(where, row["offset"] or "0")
            rows.append((where, row))
    else:
        tree = read_toml(path)
        takes = tree.get("take")
        if not isinstance(takes, list) or set(tree) != {"take"}:
            raise FormatError(f"{path}: expected [[take]] tables with file, sound and offset")
        rows = [(f"{path}: take {number}", row) for number, row in enumerate(takes, start=1)]
    for where, row in rows:
        _check(where, row)
    return rows


def _offset(where: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FormatError(f"{where}: offset: expected seconds, got {text!r}") from None


def _check(where: str, row: Mapping[str, Any]) -> None:
    unknown = [key for key in row if key not in _KEYS]
    if unknown or not isinstance(row.get("file"), str) or not row["file"]:
        what = f"no column or key {unknown[0]!r}" if unknown else "no file"
        raise FormatError(f"{where}: {what}; expected file, sound and offset")
    if not isinstance(row.get("sound", ""), str):
        raise FormatError(f"{where}: sound: expected a path, got {row['sound']!r}")
    offset = row.get("offset", 0.0)
    if isinstance(offset, bool) or not isinstance(offset, int | float) or not abs(offset) < 1e6:
        raise FormatError(f"{where}: offset: expected seconds, got {offset!r}")
