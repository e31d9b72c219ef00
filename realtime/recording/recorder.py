"""The recorder: a child process that writes a show to disk, so that a slow disk cannot stall the show.

:class:`Recorder` packs records and writes them to a non-blocking pipe; what the child does not read in time
waits in a bounded queue, and what does not fit there is dropped and counted. The child
(:mod:`realtime.recording.writer`) is started before there is a file; commands between the records tell it to
open and close files. If it dies, or its disk is full, the recording continues in another file,
``NAME.2.anticip``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyanticip.errors import DeviceError, MotionError, OptionError
from pyanticip.motion import recording
from pyanticip.system import widen_pipe
from realtime.child import Child
from realtime.recording.writer import CLOSE, OPEN, count_missing

#: Returns the start of a file: time, header, and commands that restore the current state.
FileStart = Callable[[], tuple[int, Mapping[str, Any], Sequence[tuple[int, str, Sequence[object]]]]]

# Records are flushed to the pipe at least this often, so that a kill loses at most a frame; not one by one,
# so that the child does not wake for each.
_FLUSH_INTERVAL_NS = 20_000_000
_FLUSH_BYTES = 1 << 16
_MAX_QUEUE_BYTES = 4 << 20
_PIPE_BYTES = 1 << 20
# The child reports once a second; after this time without a report nothing is assumed to be written.
_SILENCE_TIMEOUT_S = 4.0
# Interval of attempts to continue after a failure, such as a full disk.
_ATTEMPT_INTERVAL_S = 5.0
# Polling interval while waiting for a file.
_POLL_S = 0.01
_DIED = "the recorder's process has died"


@dataclass(slots=True)
class _Session:
    """A recording, which may have several parts.

    Attributes:
        requested_path: The file that was asked for.
        start: Returns the start of a new part.
        path: The file that is written now.
        number: Its number among all files of this recorder.
        parts: Number of parts before it; -1 before the first one begins.
        is_made: Whether a file has been created.
        dropped: Number of dropped records when the recording ended; None while it lasts.
        records_sent: Records sent to the child for this file, including the initial ones.
        initial_records: Records that the file begins with.
        records_written: Records that are on the disk.
        unconfirmed: After the child died, until a part is created: the last file, its bytes on the disk by
            the last report, and how many more records it and the parts after it should have.
    """

    requested_path: Path
    start: FileStart
    path: Path
    number: int = 0
    parts: int = -1
    is_made: bool = False
    dropped: int | None = None
    records_sent: int = 0
    initial_records: int = 0
    records_written: int = 0
    unconfirmed: tuple[bytes, int, int] = (b"", 0, 0)

    @property
    def new_records(self) -> int:
        """Records sent to the child for this file after the initial ones."""
        return self.records_sent - self.initial_records


class Recorder(recording.Records, Child):
    """The parent's end of the recorder. Only :meth:`wait` and :meth:`close` block; no method raises OSError.

    ``spare`` is a folder for the next part if the disk of the first is full. :meth:`poll` has to be called
    regularly; ``say`` takes a line on each change.
    """

    close_timeouts_s = (5.0, 1.0)
    first_retry_delay_s = 0.1

    def __init__(self, say: Callable[[str], None] = lambda line: None, spare: Path | None = None) -> None:
        #: Number of records of this recording that are in no file.
        self.dropped = 0
        #: Whether no record is missing in the recordings that have ended.
        self.complete = True
        # Why nothing is written; empty while writing.
        self._failure = ""
        self._is_silent = False
        # Why a file could not be opened.
        self._refusal: MotionError | None = None
        # Lines on files that ended early.
        self._early_ends: dict[Path, str] = {}
        self._spare_folder = spare
        self._session: _Session | None = None
        self._previous: _Session | None = None
        # Recordings that the child was told to finish, by the number of their file.
        self._finishing: dict[int, _Session] = {}
        self._file_count = 0
        self._is_opening = False
        # Bytes of the file that are on the disk, and when the child last reported.
        self._synced_bytes, self._synced_at = 0, 0.0
        # Free space of its disk, if known.
        self._free_bytes: int | None = None
        self._next_attempt_at = 0.0
        self._queue = bytearray()
        self._record_sizes: list[int] = []
        self._flushed_ns = 0
        super().__init__("the recorder", "realtime.recording.writer", [], say)

    # -- files -------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The file that is being recorded, if any."""
        return None if self._session is None else self._session.path

    @property
    def is_opening(self) -> bool:
        """Whether a file is being created. The previous one may be finished meanwhile."""
        return self._is_opening

    @property
    def busy(self) -> bool:
        """Whether a file is being created or finished; updated by :meth:`poll`."""
        return self._is_opening or bool(self._finishing)

    @property
    def _failure_reason(self) -> str:
        """Why nothing is written, or empty."""
        silent = time.monotonic() - self._synced_at
        if not self._failure and silent > _SILENCE_TIMEOUT_S:
            return f"nothing written for {silent:.0f} s"
        return self._failure

    @property
    def status_words(self) -> list[str]:
        """Words of the status: whether it records, megabytes on the disk, seconds since the last sync,
        dropped records, free disk space."""
        if self._session is None:
            return ["recording=no"]
        if self._failure_reason:
            return [f"recording=no ({self._failure_reason})", f"dropped_records={self.dropped}"]
        return [
            "recording=yes",
            f"recorded_mb={self._synced_bytes / 1e6:.1f}",
            f"synced_s={time.monotonic() - self._synced_at:.0f}",
            f"dropped_records={self.dropped}",
            *([] if self._free_bytes is None else [f"disk_gb={self._free_bytes / 1e9:.1f}"]),
        ]

    def open(self, path: Path, start: FileStart) -> None:
        """Record into a new file from now on; if it cannot be created, the previous recording continues."""
        # A line on an earlier file of this name.
        self._early_ends.pop(path, None)
        self._previous = self._session
        self._session = _Session(path, start, path)
        self._begin_file(self._session)

    def finish(self) -> Path | None:
        """End the recording, if there is one; returns its path."""
        session, self._session = self._session, None
        if session is None:
            return None
        session.dropped = self.dropped
        if not self._failure and self.pid is not None:
            self._finishing[session.number] = session
            self._enqueue([recording.pack_control(session.number, CLOSE, ())])
            self._flush()
        else:
            self._report_end(session, self._failure or _DIED)
        self._failure = ""
        return session.path

    def _report_end(self, session: _Session, reason: str = "") -> None:
        """Report the end of a recording; ``reason`` if the child did not finish its last file."""
        dropped = self.dropped if session.dropped is None else session.dropped
        lost = f", {dropped} records dropped" if dropped else ""
        self.complete &= not (dropped or reason)
        after = f", which goes on from {session.requested_path}" if session.parts > 0 else ""
        if not reason:
            self._say(f"recorded {session.path}{after}{lost}")
            return
        ends = f"ends early: {reason}{lost}" if session.is_made else f"is not recorded: {reason}"
        self._say(line := f"{session.path} {ends}")
        self._early_ends[session.path] = line

    def _begin_file(self, session: _Session) -> None:
        """Begin the first or the next part."""
        t_ns, header, commands = session.start()
        records = [recording.pack_header(*recording.complete_header(header, t_ns))]
        records += [recording.pack_control(*command) for command in commands]
        session.records_sent, session.initial_records, session.records_written = len(records), len(records), 0
        session.parts += 1
        self._file_count += 1
        session.number, self._is_opening, self._synced_at = self._file_count, True, time.monotonic()
        # Bytes, because a file name need not be UTF-8.
        spare = b"" if self._spare_folder is None else os.fsencode(self._spare_folder.absolute())
        arguments = (
            os.fsencode(session.requested_path.absolute()),
            session.parts > 0,
            spare,
            len(records),
            session.unconfirmed,
        )
        self._enqueue([recording.pack_control(session.number, OPEN, arguments), *records])
        self._flush()

    def wait(self, timeout: float = 20.0) -> None:
        """Wait until the file that was opened last is created.

        Raises:
            OptionError: It already exists.
            DeviceError: It cannot be created, or the child does not answer.
        """
        deadline = time.monotonic() + timeout
        while self._is_opening:
            if time.monotonic() > deadline:
                raise DeviceError(f"{self.path}: the recorder does not answer")
            self.poll()
            time.sleep(0.005)
        self.check()

    async def settled(self, timeout: float = 10.0) -> None:
        """Wait until no file is being created or finished. Raises a DeviceError if the child does not
        answer."""
        deadline = time.monotonic() + timeout
        while self.busy:
            if time.monotonic() > deadline:
                late = [f"{self.path} is not made"] if self._is_opening else []
                late += [f"{session.path} is not finished" for session in self._finishing.values()]
                raise DeviceError(f"the recorder does not answer: {', '.join(late)}")
            await asyncio.sleep(_POLL_S)
            self.poll()

    def check_end(self, path: Path) -> None:
        """Raise a DeviceError if a finished file ended early."""
        if (line := self._early_ends.pop(path, None)) is not None:
            raise DeviceError(line)

    def check(self) -> None:
        """Raise a MotionError if the requested file could not be created."""
        reason, self._refusal = self._refusal, None
        if reason is not None:
            raise reason

    def poll(self) -> list[str]:
        """Flush, read the child's reports and restart it if necessary; see :meth:`Child.poll`."""
        self._flush()
        lines = super().poll()
        now = time.monotonic()
        if (
            self._session is not None
            and self._failure
            and not self._is_opening
            and now >= self._next_attempt_at
        ):
            self._next_attempt_at = now + _ATTEMPT_INTERVAL_S
            if self.pid is not None:
                self._begin_file(self._session)
        is_silent = (
            self._session is not None and now - self._synced_at > _SILENCE_TIMEOUT_S and self.pid is not None
        )
        if is_silent != self._is_silent:
            self._is_silent = is_silent
            self._say(
                "the recorder is not responding, nothing is written" if is_silent else "the recorder goes on"
            )
        return lines

    def _on_output(self, lines: Sequence[str]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):
                number, word, *values = json.loads(line)
                if self._session is not None and number == self._session.number:
                    self._on_file_message(self._session, word, *values)
                elif word in ("closed", "failed", "refused"):
                    reason, written = ("", 0) if word == "closed" else values
                    self._on_other_file_ended(number, reason, written if word == "failed" else 0)

    def _on_other_file_ended(self, number: int, reason: str, written: int) -> None:
        """Handle the end of a file other than the current one; ``reason`` if it was not finished, with
        ``written`` records."""
        if number in self._finishing:
            self._report_end(self._finishing.pop(number), reason)
        elif self._previous is not None and number == self._previous.number:
            self._failure = reason
            if reason:
                self.dropped += self._previous.records_sent - max(written, self._previous.initial_records)
            else:
                self._report_end(self._previous)
                self._previous = None

    def _on_file_message(self, session: _Session, word: str, *values: Any) -> None:
        self._synced_at = time.monotonic()
        if word == "at":
            self._synced_bytes, self._free_bytes, session.records_written = values
        elif word == "closed":
            self._report_end(session)
            self._session = None
        elif word == "opened":
            if self._previous is not None:
                self._report_end(self._previous, self._failure)
            session.is_made, session.unconfirmed = True, (b"", 0, 0)
            if session.parts:
                session.path = Path(values[0])
                self.dropped += values[1]
            else:
                self.dropped = 0
            self._say(f"recording to {session.path}")
            self._is_opening, self._previous, self._failure = False, None, ""
            self._synced_bytes, self._free_bytes = 0, None
        elif word == "refused" and not session.parts:
            # The previous recording continues.
            if self._failure:
                self.dropped += session.new_records
            elif self._previous is not None:
                self._previous.records_sent += session.new_records
            self._is_opening, self._session, self._previous = False, self._previous, None
            self._refusal = (OptionError if values[1] else DeviceError)(values[0])
        elif word in ("refused", "failed"):
            written = 0 if word == "refused" else values[1]
            self.dropped += session.records_sent - max(written, session.initial_records)
            if word == "failed" or self._failure != values[0]:
                self._say(f"nothing is recorded: {values[0]}; trying again")
            self._is_opening, self._failure = False, str(values[0])

    def _on_exit(self) -> None:
        """Begin the next part, in which the new process counts the records that the old one lost."""
        self._queue.clear()
        self._record_sizes.clear()
        for ended in [*self._finishing.values(), *filter(None, [self._previous])]:
            self._report_end(ended, _DIED)
        self._finishing, self._previous = {}, None
        if (session := self._session) is not None:
            if self._is_opening:
                path, synced_bytes, unconfirmed = session.unconfirmed
                session.unconfirmed = path, synced_bytes, unconfirmed + session.new_records
            elif not self._failure:
                session.unconfirmed = (
                    os.fsencode(session.path.absolute()),
                    self._synced_bytes,
                    session.records_sent - session.records_written,
                )
            self._failure = _DIED
            self._begin_file(session)

    # -- records -----------------------------------------------------------------------------------

    def _put(self, record: bytes) -> None:
        if self._session is None:
            return
        is_lost = bool(self._failure) and not self._is_opening
        if is_lost or len(self._queue) + len(record) > _MAX_QUEUE_BYTES:
            self.dropped += 1
            # A stalled child may be reading again.
            self._flush()
            return
        self._enqueue([record])
        self._session.records_sent += 1
        if len(self._queue) >= _FLUSH_BYTES or time.monotonic_ns() - self._flushed_ns >= _FLUSH_INTERVAL_NS:
            self._flush()

    def _enqueue(self, records: Iterable[bytes]) -> None:
        for record in records:
            self._queue += record
            self._record_sizes.append(len(record))

    def _flush(self) -> None:
        """Write as much of the queue as the pipe takes."""
        self._flushed_ns = time.monotonic_ns()
        pipe = None if self._process is None else self._process.stdin
        if not self._queue or pipe is None:
            return
        try:
            sent = os.write(pipe.fileno(), self._queue)
        except BrokenPipeError:
            super().poll()
            return
        except OSError:
            return
        del self._queue[:sent]
        complete = 0
        for length in self._record_sizes:
            if length > sent:
                break
            sent -= length
            complete += 1
        del self._record_sizes[:complete]
        if self._record_sizes:
            self._record_sizes[0] -= sent

    def _on_start(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            widen_pipe(self._process.stdin.fileno(), _PIPE_BYTES)

    def begin_close(self) -> None:
        """See :meth:`Child.begin_close`; if the queue is not empty, left to :meth:`close`."""
        self._flush()
        if not self._queue:
            super().begin_close()

    def close(self, timeout: float = 5.0) -> int | None:
        """Flush the queue for at most ``timeout`` seconds, then end the child."""
        deadline = time.monotonic() + timeout
        while self.pid is not None and self._queue and time.monotonic() < deadline:
            self.poll()
            time.sleep(0.01)
        session, unsent = self._session, len(self._record_sizes)
        if session is not None and self.pid is None and self._is_opening:
            self.dropped += session.new_records
        elif self._is_opening or not self._failure:
            self.dropped += unsent
            if session is not None:
                session.records_sent -= unsent
        self._queue.clear()
        self._record_sizes.clear()
        code = super().close()
        if self._session is not None:
            # No other child will count them.
            self.dropped += count_missing(*self._session.unconfirmed)
        for session in [*self._finishing.values(), *filter(None, [self._previous, self._session])]:
            self._report_end(session, self._failure or "the recorder has failed")
        self._finishing, self._previous, self._session = {}, None, None
        return code

    def _end(self, process: subprocess.Popen[bytes]) -> int | None:
        code = super()._end(process)
        # Its last reports.
        self._on_output(self._read_lines())
        return code
