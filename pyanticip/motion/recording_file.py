"""A recording's file as the process that writes it needs it: the types of records, and a file that is new.

It loads no NumPy: there is such a process beside every show.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from pyanticip.errors import OptionError
from pyanticip.motion.atomic import writing

__all__ = ["CONTROL", "FRAME", "HEADER", "NOTE", "OUTPUT", "RAW", "create", "write_all"]

HEADER, RAW, FRAME, OUTPUT, NOTE, CONTROL = range(6)


def create(path: Path, begins: bytes) -> IO[bytes]:
    """A new unbuffered file that begins so; what is there already is never overwritten.

    Raises:
        OptionError: It exists.
        DeviceError: It cannot be written; none is there then.
    """
    with writing(path):
        try:
            file = path.open("xb", buffering=0)
        except FileExistsError:
            raise OptionError(f"{path}: exists already; a recording is never overwritten") from None
        try:
            write_all(file, begins)
        except OSError:
            file.close()
            path.unlink()
            raise
        return file


def write_all(file: IO[bytes], data: bytes) -> None:
    """Write to an unbuffered file, which may take a part at a time."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
