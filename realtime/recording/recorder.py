"""The recorder: a child process that writes a show to disk, so that no disk can stall the show.

:class:`Recorder` packs records and hands them over through a non-blocking socket; what the child does not
take in time waits in a bounded queue, what does not fit there is dropped and counted. The child
(``python -P -m realtime.recording.recorder``) writes whole records only and syncs the file every second. It
lives in a session of its own, so that Ctrl-C in the terminal does not reach it; it ends when the socket does,
with its parent, however that dies, after writing what the parent had sent.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import DeviceError
from pyanticip.motion import recording

__all__ = ["Recorder"]

# Waking the child for every frame would cost a context switch each; a quarter of a second keeps the promise
# that a kill loses at most one.
_HAND_OVER_NS = 250_000_000
_BATCH = 1 << 16
_QUEUE = 4 << 20
_SOCKET_BUFFER = 1 << 20
_SYNC_S = 1.0


class Recorder:
    """The parent's end. No call blocks (but :meth:`close`, for at most a few seconds) or raises OSError.

    ``dropped`` counts the records that will not be in the file; ``failed`` is True once the child has gone.
    """

    def __init__(self, sock: socket.socket, process: subprocess.Popen[bytes], limit: int = _QUEUE) -> None:
        self.dropped = 0
        self.failed = False
        self._socket = sock
        self._process = process
        self._limit = limit
        self._queue = bytearray()
        self._counts: list[int] = []
        self._sent_ns = 0
        sock.setblocking(False)

    @classmethod
    def start(cls, path: str | os.PathLike[str], header: Mapping[str, Any]) -> Recorder:
        """Make the file, write its header, and start the child that writes the rest.

        Raises
        ------
        OptionError
            The file exists already, or cannot be made.
        DeviceError
            The child cannot be started.
        """
        t_ns, whole = recording.complete_header(header)
        first = recording.pack_header(t_ns, whole)
        with recording.create(Path(path)) as file:
            file.write(_core.recording_header() + first)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            with contextlib.suppress(OSError):
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
            with theirs:
                command = [sys.executable, "-P", "-m", "realtime.recording.recorder"]
                command += [str(theirs.fileno()), str(file.fileno()), str(path)]
                fds = (theirs.fileno(), file.fileno())
                try:
                    process = subprocess.Popen(
                        command, pass_fds=fds, start_new_session=True, stdin=subprocess.DEVNULL
                    )
                except OSError as error:
                    ours.close()
                    raise DeviceError(f"{path}: the recorder cannot be started: {error}") from None
        return cls(ours, process)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def raw(self, t_ns: int, source: str, data: bytes) -> None:
        """A datagram as it came from ``source`` (the name of its protocol)."""
        self._put(recording.pack_raw(t_ns, source, data))

    def frame(self, t_ns: int, seq: int, t_source_ns: int, quats: npt.ArrayLike, root: npt.ArrayLike) -> None:
        """A pose: quats (J, 4), root (3,)."""
        self._put(recording.pack_frame(t_ns, seq, t_source_ns, quats, root))

    def output(
        self,
        t_ns: int,
        seq: int,
        params: npt.ArrayLike,
        scalars: npt.ArrayLike,
        events: Sequence[Sequence[Any]] = (),
        field: Sequence[float] = (),
        plan: Sequence[tuple[int, float]] = (),
    ) -> None:
        """What was sent, and what the model told of itself."""
        self._put(recording.pack_output(t_ns, seq, params, scalars, events, field, plan))

    def control(self, t_ns: int, name: str, arguments: Sequence[object]) -> None:
        """A command that was obeyed."""
        self._put(recording.pack_control(t_ns, name, arguments))

    def note(self, t_ns: int, text: str) -> None:
        """A remark."""
        self._put(recording.pack_note(t_ns, text))

    def _put(self, record: bytes) -> None:
        if self.failed or len(self._queue) + len(record) > self._limit:
            self.dropped += 1
            # A stalled child may have come back.
            self._hand_over()
            return
        self._queue += record
        self._counts.append(len(record))
        if len(self._queue) >= _BATCH or time.monotonic_ns() - self._sent_ns >= _HAND_OVER_NS:
            self._hand_over()

    def _hand_over(self) -> None:
        """Send what the socket takes now."""
        self._sent_ns = time.monotonic_ns()
        if self.failed or not self._queue:
            return
        try:
            sent = self._socket.send(self._queue)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._give_up()
            return
        del self._queue[:sent]
        self._forget(sent)

    def _forget(self, sent: int) -> None:
        """Take sent bytes off the queue's record lengths."""
        whole = 0
        for length in self._counts:
            if length > sent:
                break
            sent -= length
            whole += 1
        del self._counts[:whole]
        if self._counts:
            self._counts[0] -= sent

    def _give_up(self) -> None:
        self.failed = True
        self.dropped += len(self._counts)
        self._counts.clear()
        self._queue.clear()

    def close(self, timeout: float = 5.0) -> None:
        """Hand over the rest, end the child and wait for it, at most ``timeout`` seconds each."""
        with self._socket:
            if not self.failed and self._queue:
                self._socket.settimeout(timeout)
                deadline = time.monotonic() + timeout
                while self._queue and not self.failed and time.monotonic() < deadline:
                    with contextlib.suppress(TimeoutError):
                        self._hand_over()
                if self._queue:
                    self._give_up()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code:
            self.failed = True


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _whole(buffer: bytes) -> int:
    """Where the last whole record of ``buffer`` ends."""
    at = 0
    while True:
        found, _, end = _core.recording_next(buffer, at)
        if found != "record":
            return at
        at = end


def record(sock: socket.socket, file: int) -> None:
    """Write what comes until the socket ends; whole records only."""
    buffer = b""
    unsynced = False
    synced = time.monotonic()
    while True:
        wait = max(synced + _SYNC_S - time.monotonic(), 0.0) if unsynced else None
        ready, _, _ = select.select([sock], [], [], wait)
        if ready:
            try:
                data = sock.recv(1 << 18)
            except ConnectionError:
                data = b""
            if not data:
                break
            buffer += data
            end = _whole(buffer)
            if end:
                start = os.lseek(file, 0, os.SEEK_END)
                try:
                    _write(file, buffer[:end])
                except OSError:
                    # A full disk must not leave half a record behind.
                    with contextlib.suppress(OSError):
                        os.ftruncate(file, start)
                    raise
                buffer = buffer[end:]
                unsynced = True
        if unsynced and time.monotonic() - synced >= _SYNC_S:
            os.fsync(file)
            unsynced, synced = False, time.monotonic()
    os.fsync(file)


def main(arguments: Sequence[str]) -> int:
    """The child: socket and file as descriptors, and the file's name for messages."""
    # The terminal's Ctrl-C is for the parent; when it ends, the socket tells.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    descriptor, file, name = int(arguments[0]), int(arguments[1]), arguments[2]
    try:
        with socket.socket(fileno=descriptor) as sock:
            record(sock, file)
    except OSError as error:
        print(f"{name}: recording stopped: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
