"""Record types and file creation, for the process that writes a recording beside a show.

Does not import NumPy, to keep that process small.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from pyanticip.errors import OptionError
from pyanticip.motion.atomic import write_all, writing

HEADER, RAW, FRAME, OUTPUT, NOTE, CONTROL = range(6)


def create(path: Path, start: bytes) -> IO[bytes]:
    """Create an unbuffered file that begins with ``start``; existing files are never overwritten.

    Raises:
        OptionError: The file exists.
        DeviceError: It cannot be written; then no file is left.
    """
    with writing(path):
        try:
            file = path.open("xb", buffering=0)
        except FileExistsError:
            raise OptionError(f"{path}: already exists; a recording is never overwritten") from None
        try:
            write_all(file, start)
        except OSError:
            file.close()
            path.unlink()
            raise
        return file
