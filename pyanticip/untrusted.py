"""The one door for files of anybody's: what kind, how large, how deep. What is not so is one line."""

from __future__ import annotations

import json
import os
import stat
import tomllib
import zipfile
from pathlib import Path
from typing import IO, Any

from pyanticip.errors import FormatError, MotionError, one_line, reason

__all__ = ["check_unpacked", "open_file", "parse_json", "parse_toml", "read_file"]

# What an archive may unpack to: so much, and so many times its own size besides. Motion that stands still
# packs a thousandfold, real motion three times.
_UNPACKED, _TIMES = 64 << 20, 100


def open_file(path: str | os.PathLike[str], error: type[MotionError] = FormatError) -> IO[bytes]:
    """A file to read from. What is no file on a disk (a folder, a pipe, a device) is never waited for.

    Raises
    ------
    MotionError
        An ``error``: it is missing, something else, or cannot be read.
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
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be read: {reason(problem)}") from None


def read_file(
    path: str | os.PathLike[str], most: int, error: type[MotionError] = FormatError, what: str = "such a file"
) -> bytes:
    """The bytes of a file, of which ``what`` has ``most`` at most.

    Raises
    ------
    MotionError
        An ``error``: as :func:`open_file`, or it is larger.
    """
    with open_file(path, error) as file:
        try:
            data = file.read(most + 1)
        except OSError as problem:
            raise error(f"{path}: cannot be read: {reason(problem)}") from None
    if len(data) > most:
        size = f"{most >> 20} MB" if most >= 1 << 20 else f"{most} bytes"
        raise error(f"{path}: is larger than {size}, the most {what} may have")
    return data


def parse_json(data: bytes, where: str, error: type[MotionError] = FormatError) -> Any:
    """What JSON says; an ``error`` where it is none, or too deep, or has a number of thousands of digits."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise error(f"{where} is not valid JSON") from None


def parse_toml(data: bytes, where: object, error: type[MotionError] = FormatError) -> dict[str, Any]:
    """What TOML says; an ``error`` as of :func:`parse_json`, which tells the line."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise error(f"{where}: not a text file in UTF-8") from None
    except RecursionError:
        raise error(f"{where}: not valid TOML: too deep") from None
    except ValueError as problem:
        raise error(f"{where}: not valid TOML: {one_line(problem)}") from None


def check_unpacked(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive of ``size`` bytes that unpacks to far more than motion can; its word is taken, for
    no more than it says is ever unpacked.

    Raises
    ------
    FormatError
        It does.
    """
    unpacked, most = sum(member.file_size for member in archive.infolist()), _UNPACKED + _TIMES * size
    if unpacked > most:
        raise FormatError(f"{path}: unpacks to {unpacked >> 20} MB, of {size} bytes at most {most >> 20} MB")
