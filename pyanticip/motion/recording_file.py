"""A recording's file as the process that writes it needs it: the types of records, and a file that is new.

It loads no NumPy: there is such a process beside every show.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from pyanticip.errors import OptionError

__all__ = ["CONTROL", "FRAME", "HEADER", "NOTE", "OUTPUT", "RAW", "create"]

HEADER, RAW, FRAME, OUTPUT, NOTE, CONTROL = range(6)


def create(path: Path) -> IO[bytes]:
    """A new unbuffered file; what is there already is never overwritten.

    Raises
    ------
    OptionError
        It exists, or cannot be made.
    """
    try:
        return path.open("xb", buffering=0)
    except FileExistsError:
        raise OptionError(f"{path}: exists already; a recording is never overwritten") from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from None
