"""The recorder's process: ``python -P -m realtime.recording.writer``.

It reads records from standard input and, between them, the commands :data:`OPEN` and :data:`CLOSE`. It writes
whole records only and syncs the file every second. When standard input ends, because the show has ended or
died, it writes what was sent and exits. It reports to standard output, one JSON array a line: the number of
the file, then ``opened``, ``refused``, ``failed``, ``closed`` or ``at``, and its values.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import time
from pathlib import Path

import msgpack

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError
from pyanticip.motion.recording_file import CONTROL, create
from pyanticip.system import ignore_terminal, wait_readable
from pyanticip.untrusted import open_file

#: Command that opens a file; its time is the file's number. Arguments: path, whether it is a further part of
#: a recording, spare folder (may be empty), number of initial records, and the ``unconfirmed`` records of the
#: writer before: a file, its confirmed bytes, and the number of records that should follow them.
OPEN = "recorder/open"
#: Command that closes the file whose number is its time.
CLOSE = "recorder/close"

_SYNC_INTERVAL_S = 1.0
# Free space that a further part needs.
_MIN_FREE_BYTES = 8 << 20
_MAX_PARTS = 10_000
# While recording it sleeps between reads, to save a context switch for every frame. Records in the pipe
# survive the death of the show.
_SLEEP_S = 0.1
_MAX_READ_BYTES = 1 << 18


class Writer:
    """Writes records to files and reports on them."""

    def __init__(self) -> None:
        self._number = 0
        self._path = Path()
        self._file = -1
        self._bytes = self._records = 0
        self._is_dirty = False
        self._synced_at = 0.0
        self._free_bytes: int | None = None
        # Number of next records to skip, because their file could not be created.
        self._records_to_skip = 0

    def process(self, buffer: bytes) -> bytes:
        """Write the complete records of the buffer and execute commands; returns the incomplete rest."""
        offset = written_to = count = 0
        while True:
            kind, start, end = _core.recording_next(buffer, offset)
            if kind != "record":
                break
            _, number, name, *arguments = (
                msgpack.unpackb(buffer[start:end]) if buffer[start + 1] == CONTROL else (0, 0, "")
            )
            if name in (OPEN, CLOSE) or self._records_to_skip:
                self._write(buffer[written_to:offset], count)
                written_to, count = end, -1
                if name == OPEN:
                    self._open(number, *arguments[0])
                elif name != CLOSE:
                    self._records_to_skip -= 1
                elif number == self._number:
                    self.close()
            offset = end
            count += 1
        self._write(buffer[written_to:offset], count)
        return buffer[offset:]

    def _open(
        self,
        number: int,
        name: bytes,
        is_part: bool,
        spare: bytes,
        count: int,
        unconfirmed: tuple[bytes, int, int],
    ) -> None:
        path = Path(os.fsdecode(name))
        try:
            part = _next_part(path, os.fsdecode(spare)) if is_part else path
            with create(part, _core.recording_header()) as file:
                descriptor = os.dup(file.fileno())
        except (MotionError, OSError) as error:
            self._records_to_skip = count
            self._send(number, "refused", str(error), isinstance(error, OptionError))
            return
        self.close()
        self._number, self._path, self._file = number, part, descriptor
        self._bytes = self._records = 0
        self._is_dirty, self._synced_at = True, time.monotonic()
        self._send(self._number, "opened", str(part), count_missing(*unconfirmed))

    def _write(self, data: bytes, count: int) -> None:
        if self._file < 0 or not data:
            return
        start = os.lseek(self._file, 0, os.SEEK_END)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self._fail(error, start)
        else:
            self._bytes = start + len(data)
            self._records += count
            self._is_dirty = True

    def _fail(self, error: OSError, start: int | None = None) -> None:
        # A full disk must not leave an incomplete record in the file.
        with contextlib.suppress(OSError):
            if start is not None:
                os.ftruncate(self._file, start)
            if start == len(_core.recording_header()):
                # It has not even the header's record, so is useless.
                self._path.unlink()
        with contextlib.suppress(OSError):
            os.close(self._file)
        self._file = -1
        self._send(self._number, "failed", f"{self._path}: {error.strerror}", self._records)

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._file >= 0

    def sync_if_due(self) -> float:
        """Sync the file and report if it is due; returns the seconds until it is due again."""
        remaining_s = self._synced_at + _SYNC_INTERVAL_S - time.monotonic()
        if self._file < 0:
            return _SYNC_INTERVAL_S
        if remaining_s > 0.0:
            return remaining_s
        try:
            if self._is_dirty:
                self._sync()
        except OSError as error:
            self._fail(error)
            return _SYNC_INTERVAL_S
        with contextlib.suppress(OSError):  # its folder was renamed
            self._free_bytes = shutil.disk_usage(self._path.parent).free
        self._is_dirty, self._synced_at = False, time.monotonic()
        self._send(self._number, "at", self._bytes, self._free_bytes, self._records)
        return _SYNC_INTERVAL_S

    def _sync(self) -> None:
        os.fsync(self._file)
        # Some network folders count no links at all.
        if not os.fstat(self._file).st_nlink and not self._path.exists():
            # Somebody deleted it: what it holds goes with it.
            self._records = 0
            raise OSError(errno.ENOENT, "has been deleted")

    def close(self) -> bool:
        """Close the file, if one is open; returns whether all of it is on the disk."""
        if self._file < 0:
            return True
        try:
            self._sync()
            os.close(self._file)
        except OSError as error:
            self._fail(error)
            return False
        self._file = -1
        self._send(self._number, "closed", str(self._path))
        return True

    def _send(self, number: int, *values: object) -> None:
        # The show may have ended already.
        with contextlib.suppress(OSError):
            os.write(1, json.dumps([number, *values]).encode() + b"\n")


def count_missing(name: bytes, offset: int, count: int) -> int:
    """How many of ``count`` records are missing in a file after its first ``offset`` bytes."""
    if not count or not name:
        return count
    try:
        with open_file(os.fsdecode(name)) as file:
            file.seek(max(offset, len(_core.recording_header())))
            data = file.read()
    except (MotionError, OSError):
        return count
    offset = 0
    while count:
        kind, _, offset = _core.recording_next(data, offset)
        if kind != "record":
            break
        count -= 1
    return count


def _next_part(path: Path, spare: str) -> Path:
    """Path of the next part, NAME.2.anticip and so on; in the spare folder if the first has no room."""
    reasons = []
    for folder in [path.parent, Path(spare)] if spare else [path.parent]:
        try:
            if shutil.disk_usage(folder).free >= _MIN_FREE_BYTES:
                parts = (folder / f"{path.stem}.{n}{path.suffix}" for n in range(2, _MAX_PARTS))
                return next(part for part in parts if not part.exists())
            reasons.append(f"{folder}: less than {_MIN_FREE_BYTES >> 20} MB are free")
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
    raise OptionError("; ".join(reasons))


def main() -> int:
    """Main function of the process."""
    ignore_terminal()
    writer, buffer = Writer(), b""
    while True:
        if wait_readable(writer.sync_if_due()):
            data = os.read(0, _MAX_READ_BYTES)
            if not data:
                return 0 if writer.close() else 1
            buffer = writer.process(buffer + data)
            if writer.is_open and len(data) < _MAX_READ_BYTES:
                time.sleep(_SLEEP_S)


if __name__ == "__main__":
    sys.exit(main())
