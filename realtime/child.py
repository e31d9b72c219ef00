"""A child process of the show: fed and heard through pipes that never block, started again when it dies."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO

from pyanticip.errors import DeviceError
from pyanticip.system import ALONE

__all__ = ["Child", "check_installed", "tell_parent"]

_LONGEST_PAUSE = 30.0
_OPENING_S = 20.0
_WELL_S = 60.0
# What a child that does not read is told is kept up to this; no line but the one it reads goes beyond.
_UNREAD = 1 << 20
_PIPE = 1 << 16
_LOOK_S = 0.002
# One that has not read for so long stands still.
_STUCK_S = 10.0
# One that is killed ends within so long, unless it is within a driver that hangs.
_KILLED_S = 0.1


class Child:
    """Runs ``python -P -m MODULE ARGUMENTS`` and keeps it running.

    Ctrl-C at the terminal reaches the show alone. A child has to end when its standard input does: with the
    show, whatever that dies of. ``name`` is what the person at the terminal, who is told by ``say``, knows it
    as. A child that ends with one of the codes ``final`` is not started again; what a ``quiet`` one writes to
    standard error is not seen.
    """

    #: Seconds that it has to finish by itself, and then when it is told to.
    closing = (2.0, 1.0)
    #: Seconds until it is started again for the first time.
    first_pause = 1.0

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        say: Callable[[str], None],
        final: Sequence[int] = (),
        *,
        quiet: bool = False,
    ) -> None:
        self.name = name
        self._say = say
        self._final = tuple(final)
        self._errors = subprocess.DEVNULL if quiet else None
        # UTF-8 through the pipes, whatever the terminal speaks. Other arguments count from the next start on.
        self._command = [sys.executable, "-X", "utf8", "-P", "-m", module]
        self._arguments = list(arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._pause, self._again = self.first_pause, 0.0
        self._output = b""
        self._unread = b""
        self._read = 0.0
        self._ended = ""
        #: When it was started last (monotonic seconds), how often after the first time, whether for good.
        self.begun = 0.0
        self.restarts = -1
        self.given_up = False
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(
            [*self._command, *self._arguments],
            stdin=pipe,
            stdout=pipe,
            stderr=self._errors,
            bufsize=0,
            **ALONE,
        )
        for end in (process.stdin, process.stdout):
            if end is not None:
                os.set_blocking(end.fileno(), False)
        self._output, self._unread = b"", b""
        self.begun = self._read = time.monotonic()
        self.restarts += 1
        self._ended, self._killed = "", False
        self._greet()

    def _greet(self) -> None:
        """What a new process is told first."""

    def _hear(self, lines: Sequence[str]) -> None:
        """What it has said, before it is judged by that."""

    def _died(self) -> None:
        """Its process has ended, and will be started again."""

    def report_to(self, say: Callable[[str], None]) -> None:
        """Say what it has to say by this from now on."""
        self._say = say

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process is not None else None

    def poll(self) -> list[str]:
        """The lines that it has said; where it has died it is started again, with growing pauses."""
        now = time.monotonic()
        if self._process is None:
            if not self.given_up and now >= self._again:
                try:
                    self._start()
                except OSError as error:
                    # No memory, no descriptors, no processes: perhaps later.
                    self._wait(f"cannot be started ({error.strerror})")
            return []
        lines = self._listen()
        self._hear(lines)
        self.write(b"")
        if self._is_stuck(now) and not self._killed:
            self._say(f"{self.name} stands still")
            # Within a driver it may not even end then: it is not waited for.
            self._killed = True
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_S)
        code = self._process.poll()
        if code is None:
            if now - self.begun > _WELL_S:
                self._pause = self.first_pause
            return lines
        self._release()
        if code in self._final:
            self.given_up, self._ended = True, f"ended (code {code})"
            self._say(f"going on without {self.name}")
            return lines
        self._wait(f"ended (code {code})")
        self._died()
        return lines

    def _is_stuck(self, now: float) -> bool:
        """Whether it has to be killed, for it will not go on."""
        return bool(self._unread) and now - self._read > _STUCK_S

    @property
    def state(self) -> str:
        """What the status says of it: yes, or no and why."""
        return "yes" if self._process is not None else f"no ({self._ended or 'ended'})"

    def _wait(self, why: str) -> None:
        self._ended = why
        self._say(f"{self.name} {why}; starting it again in {self._pause:g} s")
        self._again = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    @property
    def waiting(self) -> int:
        """Bytes that it was told and has not taken."""
        return len(self._unread)

    def opened(self) -> str:
        """Wait until it says ``ready TEXT``, once, before the show begins; the text.

        Raises:
            DeviceError: It has said ``error TEXT`` instead, or nothing.
        """
        deadline = time.monotonic() + _OPENING_S
        said: list[str] = []
        while (process := self._process) is not None and time.monotonic() < deadline:
            has_ended = process.poll() is not None
            self.write(b"")
            said = self._listen()
            if has_ended or said:
                break
            time.sleep(_LOOK_S)
        said = said or [f"error {self.name}: its process does not answer"]
        word, _, text = said[0].partition(" ")
        if word != "ready":
            self.close()
            raise DeviceError(text)
        return text

    def write(self, line: bytes) -> None:
        """Tell it a line, now or when it reads again. Never blocks."""
        if not self._unread:
            self._read = time.monotonic()
        self._unread += line
        if self._process is None or self._process.stdin is None:
            self._unread = b""
            return
        with contextlib.suppress(OSError):
            while self._unread:
                self._unread = self._unread[os.write(self._process.stdin.fileno(), self._unread[:_PIPE]) :]
                self._read = time.monotonic()
        if len(self._unread) > _UNREAD:
            # It hangs: what it has begun to read is all that it gets.
            self._unread = self._unread[: self._unread.index(b"\n") + 1]

    def _listen(self) -> list[str]:
        if self._process is None or self._process.stdout is None:
            return []
        self._output += self._process.stdout.read() or b""
        *lines, self._output = self._output.split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def _release(self) -> None:
        """Let go of a process that has ended."""
        process, self._process = self._process, None
        if process is not None:
            _shut(process.stdin)
            _shut(process.stdout)

    def leave(self) -> None:
        """Let it finish by itself; :meth:`close` waits for that. It is told nothing any more."""
        self.given_up = True
        if self._process is not None:
            _shut(self._process.stdin)
            self._process.stdin = None

    def close(self) -> int | None:
        """End it: let it finish by itself, then make it. Its exit code, if it was there and has ended."""
        self.leave()
        if self._process is None:
            return None
        try:
            return self._end(self._process)
        finally:
            # Not before it has ended: what it still says would break, and Python tell so at the terminal.
            self._release()

    def _end(self, process: subprocess.Popen[bytes]) -> int | None:
        for wait in self.closing:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(wait)
            process.terminate()
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(self.closing[-1])
        return None


def check_installed(what: str, extra: str = "", *packages: str) -> None:
    """Raises a DeviceError where a package that ``what`` needs is missing; ``extra`` brings all of them."""
    for package in packages:
        if importlib.util.find_spec(package.removeprefix("python-")) is None:
            raise DeviceError(f"{what} needs {package}: pip install 'pyanticip[{extra}]'")


def _shut(pipe: IO[bytes] | None) -> None:
    with contextlib.suppress(OSError):
        if pipe is not None:
            pipe.close()


def tell_parent(line: str) -> None:
    """What a child says to whoever began it. Where that has died nobody hears: not a word at the terminal,
    as Python has for what is left in its buffer."""
    with contextlib.suppress(OSError):
        os.write(1, " ".join(line.split()).encode(errors="replace") + b"\n")
