"""The recorder: a child process that writes a show to disk, so that no disk can stall the show.

:class:`Recorder` packs records and hands them over through a pipe that never blocks; what the child does not
take in time waits in a bounded queue, what does not fit there is dropped and counted. The child
(:mod:`realtime.recording.writer`) is there before there is a file: which one to make, and where it ends, is
told it between the records. Where it dies, or its disk is full, the next part of the recording is another
file, ``NAME.2.anticip``.
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
from realtime.recording.writer import CLOSE, OPEN, missing

__all__ = ["Begun", "Recorder"]

#: What a file begins with: when, its header, and the commands that make it begin where things stand.
Begun = Callable[[], tuple[int, Mapping[str, Any], Sequence[tuple[int, str, Sequence[object]]]]]

# What was handed over outlives a kill: at most a frame is lost. The child does not wake for each.
_HAND_OVER_NS = 20_000_000
_BATCH = 1 << 16
_QUEUE = 4 << 20
_PIPE = 1 << 20
# The child tells of its file once a second; what it has been silent about for so long is not written.
_SILENT_S = 4.0
# Where the disk is full, room is looked for so often.
_LOOK_S = 5.0
# Who waits for a file asks for it so often.
_POLL_S = 0.01
_GONE = "the recorder's process has died"


@dataclass(slots=True)
class _Take:
    """A recording: the file that was asked for, how to begin another, the one that is written now, its
    number among all files, how many parts came before, whether there is a file at all, and how many records
    were dropped by the time that it was over.

    Of the file also: how many records it was given, those that it begins with among them, and how many are on
    the disk. ``owed`` is of parts whose writer died: the last file, its bytes that were on the disk by then,
    and how many more records it, and what was to follow it, should have."""

    requested_path: Path
    begun: Begun
    path: Path
    number: int = 0
    parts: int = -1
    is_made: bool = False
    dropped: int | None = None
    given: int = 0
    begins: int = 0
    written: int = 0
    owed: tuple[bytes, int, int] = (b"", 0, 0)


class Recorder(recording.Records, Child):
    """The parent's end. No call blocks (but :meth:`wait` and :meth:`close`) or raises OSError.

    ``spare`` is a folder for the next part where the disk of the first is full. :meth:`poll` is called now
    and then; ``say`` is told of what changes, once.
    """

    closing = (5.0, 1.0)
    first_pause = 0.1

    def __init__(
        self,
        say: Callable[[str], None] = lambda line: None,
        spare: Path | None = None,
        limit: int = _QUEUE,
    ) -> None:
        #: Records of this recording that will be in no file.
        self.dropped = 0
        # Why nothing is written (empty: it is); of a silent child that it is; why a file was not begun.
        self._trouble, self._is_silent = "", False
        self._refusal: MotionError | None = None
        # What was said of files that ended early.
        self._short: dict[Path, str] = {}
        self._spare, self._limit = spare, limit
        self._take: _Take | None = None
        self._before: _Take | None = None
        # By their numbers, those that the child was told to finish.
        self._closing: dict[int, _Take] = {}
        self._number = 0
        self._opening = False
        # Of the file: bytes that are on the disk, when the child told so; what more the disk takes, if known.
        self._bytes, self._synced_at = 0, 0.0
        self._free: int | None = None
        self._look = 0.0
        self._queue = bytearray()
        self._counts: list[int] = []
        self._sent_ns = 0
        super().__init__("the recorder", "realtime.recording.writer", [], say)

    # -- files -------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The file that is recorded into."""
        return None if self._take is None else self._take.path

    @property
    def is_opening(self) -> bool:
        """Whether a file is being made. The one before may be finished meanwhile."""
        return self._opening

    @property
    def busy(self) -> bool:
        """Whether a file is being made or finished: :meth:`poll` tells when it is."""
        return self._opening or bool(self._closing)

    @property
    def _why(self) -> str:
        """Why nothing is written."""
        silent = time.monotonic() - self._synced_at
        if not self._trouble and silent > _SILENT_S:
            return f"nothing written for {silent:.0f} s"
        return self._trouble

    @property
    def words(self) -> list[str]:
        """What the status says: whether what is played is written, what of it is on the disk since when, what
        was dropped, what more the disk takes."""
        if self._take is None:
            return ["recording=no"]
        if self._why:
            return [f"recording=no ({self._why})", f"dropped_records={self.dropped}"]
        return [
            "recording=yes",
            f"recorded_mb={self._bytes / 1e6:.1f}",
            f"synced_s={time.monotonic() - self._synced_at:.0f}",
            f"dropped_records={self.dropped}",
            *([] if self._free is None else [f"disk_gb={self._free / 1e9:.1f}"]),
        ]

    def open(self, path: Path, begun: Begun) -> None:
        """Record into a new file from now on; the one before goes on where that cannot be made."""
        # Of an earlier file of this name that nobody stopped.
        self._short.pop(path, None)
        self._before = self._take
        self._take = _Take(path, begun, path)
        self._begin(self._take)

    def finish(self) -> Path | None:
        """End the file, if there is one; its path."""
        take, self._take = self._take, None
        if take is None:
            return None
        take.dropped = self.dropped
        if not self._trouble and self.pid is not None:
            self._closing[take.number] = take
            self._post([recording.pack_control(take.number, CLOSE, ())])
            self._hand_over()
        else:
            self._finished(take, self._trouble or _GONE)
        self._trouble = ""
        return take.path

    def _finished(self, take: _Take, why: str = "") -> None:
        """Tell of a recording that is over; ``why`` its last file was not finished by the child."""
        dropped = self.dropped if take.dropped is None else take.dropped
        lost = f", {dropped} records dropped" if dropped else ""
        after = f", which goes on from {take.requested_path}" if take.parts > 0 else ""
        if not why:
            self._say(f"recorded {take.path}{after}{lost}")
            return
        ends = f"ends early: {why}{lost}" if take.is_made else f"is not recorded: {why}"
        self._say(line := f"{take.path} {ends}")
        self._short[take.path] = line

    def _begin(self, take: _Take) -> None:
        """Begin a file, or the next part."""
        t_ns, header, commands = take.begun()
        records = [recording.pack_header(*recording.complete_header(header, t_ns))]
        records += [recording.pack_control(*command) for command in commands]
        take.given, take.begins, take.written = len(records), len(records), 0
        take.parts += 1
        self._number += 1
        take.number, self._opening, self._synced_at = self._number, True, time.monotonic()
        # As bytes: a name need not be UTF-8.
        spare = b"" if self._spare is None else os.fsencode(self._spare.absolute())
        told = os.fsencode(take.requested_path.absolute()), take.parts > 0, spare, len(records), take.owed
        self._post([recording.pack_control(take.number, OPEN, told), *records])
        self._hand_over()

    def wait(self, timeout: float = 20.0) -> None:
        """Until the file that was opened last is there.

        Raises:
            OptionError: It exists already.
            DeviceError: It cannot be made, or the child does not answer.
        """
        deadline = time.monotonic() + timeout
        while self._opening:
            if time.monotonic() > deadline:
                raise DeviceError(f"{self.path}: the recorder does not answer")
            self.poll()
            time.sleep(0.005)
        self.check()

    async def settled(self, timeout: float = 10.0) -> None:
        """Until no file is being made or finished. Raises a DeviceError: the child does not answer."""
        deadline = time.monotonic() + timeout
        while self.busy:
            if time.monotonic() > deadline:
                late = [f"{self.path} is not made"] if self._opening else []
                late += [f"{take.path} is not finished" for take in self._closing.values()]
                raise DeviceError(f"the recorder does not answer: {', '.join(late)}")
            await asyncio.sleep(_POLL_S)
            self.poll()

    def check_end(self, path: Path) -> None:
        """Raises a DeviceError where a file that was finished ended early."""
        if (line := self._short.pop(path, None)) is not None:
            raise DeviceError(line)

    def check(self) -> None:
        """Raises a MotionError where the file that was to be made could not be."""
        why, self._refusal = self._refusal, None
        if why is not None:
            raise why

    def poll(self) -> list[str]:
        """See whether it lives, and hear how its file is."""
        self._hand_over()
        lines = super().poll()
        now = time.monotonic()
        if self._take is not None and self._trouble and not self._opening and now >= self._look:
            self._look = now + _LOOK_S
            if self.pid is not None:
                self._begin(self._take)
        is_silent = self._take is not None and now - self._synced_at > _SILENT_S and self.pid is not None
        if is_silent != self._is_silent:
            self._is_silent = is_silent
            self._say(
                "the recorder stands still, nothing is written" if is_silent else "the recorder goes on"
            )
        return lines

    def _hear(self, lines: Sequence[str]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):
                number, word, *what = json.loads(line)
                if self._take is not None and number == self._take.number:
                    self._hear_of(self._take, word, *what)
                elif word in ("closed", "failed", "refused"):
                    self._hear_of_before(number, "" if word == "closed" else what[0])

    def _hear_of_before(self, number: int, why: str) -> None:
        """A file has ended that another follows, or none; ``why`` not as it should."""
        if number in self._closing:
            self._finished(self._closing.pop(number), why)
        elif self._before is not None and number == self._before.number:
            self._trouble = why
            if not why:
                self._finished(self._before)
                self._before = None

    def _hear_of(self, take: _Take, word: str, *what: Any) -> None:
        self._synced_at, take.owed = time.monotonic(), (b"", 0, 0)
        if word == "at":
            self._bytes, self._free, take.written = what
        elif word == "closed":
            self._finished(take)
            self._take = None
        elif word == "opened":
            if self._before is not None:
                self._finished(self._before, self._trouble)
            take.is_made = True
            if take.parts:
                take.path = Path(what[0])
                self.dropped += what[1]
            else:
                self.dropped = 0
            self._say(f"recording to {take.path}")
            self._opening, self._before, self._trouble = False, None, ""
            self._bytes, self._free = 0, None
        elif word == "refused" and not take.parts:
            # What was recorded before goes on.
            self._opening, self._take, self._before = False, self._before, None
            self._refusal = (OptionError if what[1] else DeviceError)(what[0])
        elif word in ("refused", "failed"):
            if word == "failed" or self._trouble != what[0]:
                self._say(f"nothing is recorded: {what[0]}; trying again")
            self._opening, self._trouble = False, str(what[0])

    def _died(self) -> None:
        """What it had not written yet is lost, and counted by the next one; what comes from now on waits for
        the next part."""
        self._queue.clear()
        self._counts.clear()
        for over in [*self._closing.values(), *filter(None, [self._before])]:
            self._finished(over, _GONE)
        self._closing, self._before = {}, None
        if (take := self._take) is not None:
            if self._opening:
                path, at, owed = take.owed
                take.owed = path, at, owed + take.given - take.begins
            else:
                take.owed = os.fsencode(take.path.absolute()), self._bytes, take.given - take.written
            self._trouble = _GONE
            self._begin(take)

    # -- records -----------------------------------------------------------------------------------

    def _put(self, record: bytes) -> None:
        if self._take is None:
            return
        is_lost = bool(self._trouble) and not self._opening
        if is_lost or len(self._queue) + len(record) > self._limit:
            self.dropped += 1
            # A stalled child may have come back.
            self._hand_over()
            return
        self._post([record])
        self._take.given += 1
        if len(self._queue) >= _BATCH or time.monotonic_ns() - self._sent_ns >= _HAND_OVER_NS:
            self._hand_over()

    def _post(self, records: Iterable[bytes]) -> None:
        for record in records:
            self._queue += record
            self._counts.append(len(record))

    def _hand_over(self) -> None:
        """Send what the pipe takes now."""
        self._sent_ns = time.monotonic_ns()
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
        whole = 0
        for length in self._counts:
            if length > sent:
                break
            sent -= length
            whole += 1
        del self._counts[:whole]
        if self._counts:
            self._counts[0] -= sent

    def _greet(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            widen_pipe(self._process.stdin.fileno(), _PIPE)

    def leave(self) -> None:
        """See :meth:`Child.leave`; where the child still has to take something, :meth:`close` sees to it."""
        self._hand_over()
        if not self._queue:
            super().leave()

    def close(self, timeout: float = 5.0) -> int | None:
        """Hand over the rest, end the child and wait for it, at most ``timeout`` seconds each."""
        deadline = time.monotonic() + timeout
        while self.pid is not None and self._queue and time.monotonic() < deadline:
            self.poll()
            time.sleep(0.01)
        if self.pid is None and self._opening and (take := self._take) is not None:
            # No other will count what one that died has left.
            path, at, owed = take.owed
            self.dropped += missing(path, at, owed + take.given - take.begins)
        else:
            self.dropped += len(self._counts)
        self._queue.clear()
        self._counts.clear()
        code = super().close()
        for take in [*self._closing.values(), *filter(None, [self._before, self._take])]:
            self._finished(take, self._trouble or "the recorder has failed")
        self._closing, self._before, self._take = {}, None, None
        return code

    def _end(self, process: subprocess.Popen[bytes]) -> int | None:
        code = super()._end(process)
        # What it said at last.
        self._hear(self._read_lines())
        return code
