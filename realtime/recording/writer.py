"""The recorder's process: ``python -P -m realtime.recording.writer``.

Records come through standard input, and between them, as commands of the names below, which file they go to.
It writes whole records only and syncs the file every second. It ends when standard input does, with the show,
however that dies, after writing what had been sent. What the show should know goes to standard output, a line
of JSON each: the number of the file that is meant, ``opened``, ``refused``, ``failed``, ``closed`` or ``at``,
and what belongs to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError
from pyanticip.motion.recording_file import CONTROL, create
from pyanticip.system import ignore_terminal, readable
from pyanticip.untrusted import open_file

__all__ = ["CLOSE", "OPEN", "main", "missing"]

#: Path, whether it is another part of a recording, a spare folder or nothing, records that it begins with,
#: and what the writer before owes: a file, bytes of it, and how many records should follow these. Its time is
#: the file's number.
OPEN = "recorder/open"
CLOSE = "recorder/close"

# msgpack has no types.
_unpackb: Callable[..., Any] = msgpack.unpackb  # type: ignore[attr-defined]
_SYNC_S = 1.0
# A disk that was full is written to again when so much is free.
_ROOM = 8 << 20
_MOST_PARTS = 10_000
# While it records it does not wake for every frame, which would cost a context switch each, but so often:
# what waits in the pipe meanwhile outlives the show.
_NAP_S, _MOST_READ = 0.1, 1 << 18


class Writer:
    """Takes records, tells of the file that they are in."""

    def __init__(self) -> None:
        self._number = 0
        self._path = Path()
        self._file = -1
        self._bytes = self._records = 0
        self._unsynced = False
        self._synced = 0.0
        self._free: int | None = None
        # Records that belong to a file that could not be made.
        self._skip = 0
        # Those that came when no file could be written.
        self._lost = 0

    def take(self, buffer: bytes) -> bytes:
        """Write the whole records of the buffer, do what is told between them; what is left of it."""
        at = begun = count = 0
        while True:
            found, start, end = _core.recording_next(buffer, at)
            if found != "record":
                break
            _, number, name, *rest = (
                _unpackb(buffer[start:end]) if buffer[start + 1] == CONTROL else (0, 0, "")
            )
            if name in (OPEN, CLOSE) or self._skip:
                self._write(buffer[begun:at], count)
                begun, count = end, -1
                if name == OPEN:
                    self._open(number, *rest[0])
                elif name != CLOSE:
                    self._skip -= 1
                elif number == self._number:
                    self.close()
            at = end
            count += 1
        self._write(buffer[begun:at], count)
        return buffer[at:]

    def _open(
        self, number: int, name: bytes, is_part: bool, spare: bytes, count: int, owed: tuple[bytes, int, int]
    ) -> None:
        self._lost += missing(*owed)
        path = Path(os.fsdecode(name))
        try:
            made = _next_part(path, os.fsdecode(spare)) if is_part else path
            with create(made, _core.recording_header()) as file:
                descriptor = os.dup(file.fileno())
        except (MotionError, OSError) as error:
            self._skip = count
            self._tell(number, "refused", str(error), isinstance(error, OptionError))
            return
        self.close()
        self._number, self._path, self._file = number, made, descriptor
        self._bytes = self._records = 0
        self._unsynced, self._synced = True, time.monotonic()
        self._tell(self._number, "opened", str(made), self._lost)
        self._lost = 0

    def _write(self, data: bytes, count: int) -> None:
        if self._file < 0:
            self._lost += count
        if self._file < 0 or not data:
            return
        start = os.lseek(self._file, 0, os.SEEK_END)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self._lost += count
            self._fail(error, start)
        else:
            self._bytes = start + len(data)
            self._records += count
            self._unsynced = True

    def _fail(self, error: OSError, start: int | None = None) -> None:
        # A full disk must not leave half a record behind.
        with contextlib.suppress(OSError):
            if start is not None:
                os.ftruncate(self._file, start)
            if start == len(_core.recording_header()):
                # Not even its header's record: nobody misses it.
                self._path.unlink()
        with contextlib.suppress(OSError):
            os.close(self._file)
        self._file = -1
        self._tell(self._number, "failed", f"{self._path}: {error.strerror}")

    @property
    def is_open(self) -> bool:
        """Whether there is a file."""
        return self._file >= 0

    def look(self) -> float:
        """Sync where it is time for it, and tell; seconds until it is time again."""
        left = self._synced + _SYNC_S - time.monotonic()
        if self._file < 0:
            return _SYNC_S
        if left > 0.0:
            return left
        try:
            if self._unsynced:
                os.fsync(self._file)
        except OSError as error:
            self._fail(error)
            return _SYNC_S
        with contextlib.suppress(OSError):  # its folder has another name by now
            self._free = shutil.disk_usage(self._path.parent).free
        self._unsynced, self._synced = False, time.monotonic()
        self._tell(self._number, "at", self._bytes, self._free, self._records)
        return _SYNC_S

    def close(self) -> bool:
        """Finish the file, if there is one; whether all of it is on the disk."""
        if self._file < 0:
            return True
        try:
            os.fsync(self._file)
            os.close(self._file)
        except OSError as error:
            self._fail(error)
            return False
        self._file = -1
        self._tell(self._number, "closed", str(self._path))
        return True

    def _tell(self, number: int, *what: object) -> None:
        # The show may be gone already.
        with contextlib.suppress(OSError):
            os.write(1, json.dumps([number, *what]).encode() + b"\n")


def missing(name: bytes, at: int, count: int) -> int:
    """How many of so many records are not in a file behind its first bytes."""
    if not count or not name:
        return count
    try:
        with open_file(os.fsdecode(name)) as file:
            file.seek(max(at, len(_core.recording_header())))
            data = file.read()
    except (MotionError, OSError):
        return count
    at = 0
    while count:
        found, _, at = _core.recording_next(data, at)
        if found != "record":
            break
        count -= 1
    return count


def _next_part(path: Path, spare: str) -> Path:
    """Where a recording goes on: NAME.2.anticip and so on, in the spare folder where its own has no room."""
    why = []
    for folder in [path.parent, Path(spare)] if spare else [path.parent]:
        try:
            if shutil.disk_usage(folder).free >= _ROOM:
                parts = (folder / f"{path.stem}.{n}{path.suffix}" for n in range(2, _MOST_PARTS))
                return next(part for part in parts if not part.exists())
            why.append(f"{folder}: less than {_ROOM >> 20} MB are free")
        except OSError as error:
            why.append(f"{folder}: {error.strerror}")
    raise OptionError("; ".join(why))


def main() -> int:
    """The process."""
    ignore_terminal()
    writer, rest = Writer(), b""
    while True:
        if readable(writer.look()):
            data = os.read(0, _MOST_READ)
            if not data:
                return 0 if writer.close() else 1
            rest = writer.take(rest + data)
            if writer.is_open and len(data) < _MOST_READ:
                time.sleep(_NAP_S)


if __name__ == "__main__":
    sys.exit(main())
