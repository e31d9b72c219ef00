"""Reads every untrusted file: checks its kind, size and nesting; anything else is an error of one line."""

from __future__ import annotations

import io
import json
import os
import stat
import tomllib
import zipfile
import zlib
from pathlib import Path
from typing import Any

from pyanticip.errors import FormatError, MotionError, one_line, reason

# An archive may unpack to this many bytes, and this many times its own size besides: a still pose compresses
# a thousandfold, real motion threefold.
_UNPACKED_BYTES, _UNPACKED_RATIO = 64 << 20, 100
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, ValueError, OSError, KeyError, EOFError, RuntimeError)
"""Raised on reading an archive that is damaged, encrypted or of an unknown compression."""
_MAX_TEXT_BYTES = 256 << 20
_MAX_TOML_DEPTH = 50


def open_file(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> io.BufferedReader:
    """Open a regular file for reading, without ever blocking on a pipe or a device.

    Raises:
        MotionError: An ``error``: it is missing, no regular file, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            mode = os.fstat(handle).st_mode
            if stat.S_ISDIR(mode):
                raise error(f"{path}: is a folder, expected a file")
            if not stat.S_ISREG(mode):
                raise error(f"{path}: is a pipe or a device, expected a file on a disk")
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise
    except error:
        raise
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be read: {reason(problem)}") from None


def check_file(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> None:
    """Raise what :func:`open_file` does, before a library opens the file itself."""
    open_file(path, error).close()


def read_file(
    path: str | os.PathLike[str], most: int, error: type[MotionError] = FormatError, what: str = "such a file"
) -> bytes:
    """The bytes of a file of ``most`` bytes at most; ``what`` names its kind in the error.

    Raises:
        MotionError: An ``error``: as :func:`open_file`, or it is larger.
    """
    with open_file(path, error) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            limit = f"{most >> 20} MB" if most >= 1 << 20 else f"{most} bytes"
            raise error(f"{path}: is larger than {limit}, the most {what} may have")
        try:
            data = file.read(size + 1)  # read() allocates this much at once, so it is bounded by the size
        except OSError as problem:
            raise error(f"{path}: cannot be read: {reason(problem)}") from None
    if len(data) > size:
        raise error(f"{path}: grew while it was read")
    return data


def read_text(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> str:
    """A UTF-8 file of 256 MB at most, without its byte order mark.

    Raises:
        MotionError: An ``error``: as :func:`read_file`, or it is not UTF-8.
    """
    try:
        return read_file(path, _MAX_TEXT_BYTES, error, "a text").decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: cannot be read: not UTF-8 at byte {problem.start}") from None


def read_json(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> Any:
    """The value in a JSON file; raises as :func:`read_file` and :func:`parse_json`."""
    return parse_json(read_file(path, _MAX_TEXT_BYTES, error, "a text"), str(path), error)


def parse_json(data: bytes, where: str, error: type[MotionError] = FormatError) -> Any:
    """The value of a JSON text; an ``error`` if it is invalid, too deep, or a number is too long."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise error(f"{where} is not valid JSON") from None


def safetensors_header(data: bytes, most: int) -> dict[str, Any]:
    """The header of a safetensors file whose end may be missing; empty for any other file, and for a header
    of more than ``most`` bytes."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size]) if size <= most else None
    except (ValueError, RecursionError):
        header = None
    return header if isinstance(header, dict) else {}


def parse_toml(data: bytes, where: object, error: type[MotionError] = FormatError) -> dict[str, Any]:
    """The tables of a TOML text; an ``error`` with the line where it is invalid or too deep."""
    try:
        tree = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise error(f"{where}: not a text file in UTF-8") from None
    except RecursionError:
        raise error(f"{where}: not valid TOML: too deep") from None
    except ValueError as problem:
        raise error(f"{where}: not valid TOML: {one_line(problem)}") from None
    # tomllib does not recurse for dotted keys: their depth would overflow whoever walks the tree.
    level: list[Any] = [tree]
    for _ in range(_MAX_TOML_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    if level:
        raise error(f"{where}: not valid TOML: too deep")
    return tree


def read_toml(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> dict[str, Any]:
    """The tables of a TOML file; raises as :func:`read_file` and :func:`parse_toml`."""
    return parse_toml(read_file(path, _MAX_TEXT_BYTES, error, "a text"), path, error)


def check_unpacked(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive of ``size`` bytes that unpacks to far more than motion can.

    The sizes it declares are trusted: no more than that is ever unpacked.

    Raises:
        FormatError: It unpacks to too much.
    """
    unpacked = sum(member.file_size for member in archive.infolist())
    most = _UNPACKED_BYTES + _UNPACKED_RATIO * size
    if unpacked > most:
        raise FormatError(f"{path}: unpacks to {unpacked >> 20} MB, of {size} bytes at most {most >> 20} MB")
