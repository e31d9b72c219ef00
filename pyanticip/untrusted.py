"""The one door for files of anybody's: what kind, how large, how deep. What is not so is one line."""

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

__all__ = [
    "BROKEN_ARCHIVE",
    "check_file",
    "check_unpacked",
    "open_file",
    "parse_json",
    "parse_toml",
    "read_file",
    "read_json",
    "read_text",
    "read_toml",
]

# What an archive may unpack to: so much, and so many times its own size besides. Motion that stands still
# packs a thousandfold, real motion three times.
_UNPACKED, _TIMES = 64 << 20, 100
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, ValueError, OSError, KeyError, EOFError, RuntimeError)
"""What reading an archive raises that is damaged, locked by a password or packed in an unknown way."""
_TEXT = 256 << 20
_DEEPEST = 50


def open_file(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> io.BufferedReader:
    """A file to read from. What is no file on a disk (a folder, a pipe, a device) is never waited for.

    Raises:
        MotionError: An ``error``: it is missing, something else, or cannot be read.
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
    """Refuse what another library could not open, or would wait for; an ``error`` as of :func:`open_file`."""
    open_file(path, error).close()


def read_file(
    path: str | os.PathLike[str], most: int, error: type[MotionError] = FormatError, what: str = "such a file"
) -> bytes:
    """The bytes of a file, of which ``what`` has ``most`` at most.

    Raises:
        MotionError: An ``error``: as :func:`open_file`, or it is larger.
    """
    with open_file(path, error) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            limit = f"{most >> 20} MB" if most >= 1 << 20 else f"{most} bytes"
            raise error(f"{path}: is larger than {limit}, the most {what} may have")
        try:
            data = file.read(size + 1)  # room for as much is taken, however little comes
        except OSError as problem:
            raise error(f"{path}: cannot be read: {reason(problem)}") from None
    if len(data) > size:
        raise error(f"{path}: grew while it was read")
    return data


def read_text(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> str:
    """A text in UTF-8 of 256 MB at most, without the mark that it may begin with.

    Raises:
        MotionError: An ``error``: as :func:`read_file`, or it is no such text.
    """
    try:
        return read_file(path, _TEXT, error, "a text").decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: cannot be read: not UTF-8 at byte {problem.start}") from None


def read_json(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> Any:
    """What a file of JSON says; an ``error`` as of :func:`read_file` and :func:`parse_json`."""
    return parse_json(read_file(path, _TEXT, error, "a text"), str(path), error)


def parse_json(data: bytes, where: str, error: type[MotionError] = FormatError) -> Any:
    """What JSON says; an ``error`` where it is none, or too deep, or has a number of thousands of digits."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise error(f"{where} is not valid JSON") from None


def parse_toml(data: bytes, where: object, error: type[MotionError] = FormatError) -> dict[str, Any]:
    """What TOML says; an ``error`` as of :func:`parse_json`, which tells the line."""
    try:
        tree = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise error(f"{where}: not a text file in UTF-8") from None
    except RecursionError:
        raise error(f"{where}: not valid TOML: too deep") from None
    except ValueError as problem:
        raise error(f"{where}: not valid TOML: {one_line(problem)}") from None
    # Dotted keys nest without tomllib's recursion, and would end that of whoever walks through them.
    level: list[Any] = [tree]
    for _ in range(_DEEPEST):
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
    """What a file of TOML says; an ``error`` as of :func:`read_file` and :func:`parse_toml`."""
    return parse_toml(read_file(path, _TEXT, error, "a text"), path, error)


def check_unpacked(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive of ``size`` bytes that unpacks to far more than motion can; its word is taken, for
    no more than it says is ever unpacked.

    Raises:
        FormatError: It does.
    """
    unpacked, most = sum(member.file_size for member in archive.infolist()), _UNPACKED + _TIMES * size
    if unpacked > most:
        raise FormatError(f"{path}: unpacks to {unpacked >> 20} MB, of {size} bytes at most {most >> 20} MB")
