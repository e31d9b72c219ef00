"""A child process of the show: non-blocking pipes in both directions, restarted when it dies."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO

from pyanticip.errors import DeviceError, reason
from pyanticip.system import OWN_PROCESS_GROUP

_MAX_RETRY_DELAY_S = 30.0
_READY_TIMEOUT_S = 20.0
# A child that has run this long is restarted without an increased delay.
_STABLE_S = 60.0
# Input that the child has not read is kept up to this size; beyond it only the line being written is kept.
_MAX_UNSENT_BYTES = 1 << 20
_WRITE_BYTES = 1 << 16
_POLL_S = 0.002
# A child that has not read its pending input for this long is stuck.
_STUCK_TIMEOUT_S = 10.0
# A killed process exits within this time unless it is stuck in a driver.
_KILL_TIMEOUT_S = 0.1
# Killed processes that had not exited when they were closed; a later close reaps them.
_unreaped: list[subprocess.Popen[bytes]] = []


class Child:
    """Runs ``python -P -m MODULE ARGUMENTS`` and keeps it running.

    Ctrl-C at the terminal reaches the show only. A child must exit when its standard input ends, so that it
    ends with the show however the show dies. ``name`` is the child's name in lines passed to ``say``. A child
    that exits with one of ``final_codes`` is not restarted; the standard error of a ``quiet`` one is
    discarded.
    """

    #: Seconds it has to exit by itself, and then after being terminated.
    close_timeouts_s = (2.0, 1.0)
    #: Seconds until the first restart; doubled for each one that follows.
    first_retry_delay_s = 1.0

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        say: Callable[[str], None],
        final_codes: Sequence[int] = (),
        *,
        quiet: bool = False,
    ) -> None:
        self.name = name
        self._say = say
        self._final_codes = tuple(final_codes)
        self._errors = subprocess.DEVNULL if quiet else None
        # UTF-8 through the pipes whatever the terminal's encoding. Changed arguments apply at the next start.
        self._command = [sys.executable, "-X", "utf8", "-P", "-m", module]
        self._arguments = list(arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._retry_delay_s, self._retry_at = self.first_retry_delay_s, 0.0
        self._output = b""
        self._unsent = b""
        self._last_read_at = 0.0
        self._exit_reason = ""
        #: Time of the last start, in monotonic seconds.
        self.started_at = 0.0
        #: Number of restarts.
        self.restarts = -1
        #: Whether it will not be restarted any more.
        self.given_up = False
        try:
            self._start()
        except OSError as error:  # out of memory, descriptors or processes
            raise DeviceError(f"{name} cannot be started ({reason(error)})") from None

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(
            [*self._command, *self._arguments],
            stdin=pipe,
            stdout=pipe,
            stderr=self._errors,
            bufsize=0,
            **OWN_PROCESS_GROUP,
        )
        for end in (process.stdin, process.stdout):
            if end is not None:
                os.set_blocking(end.fileno(), False)
        self._output, self._unsent = b"", b""
        self.started_at = self._last_read_at = time.monotonic()
        self.restarts += 1
        self._exit_reason, self._is_killed = "", False
        self._on_start()

    def _on_start(self) -> None:
        """Called after each start; writes what a new process must receive first."""

    def _on_output(self, lines: Sequence[str]) -> None:
        """Called with the lines the child wrote, before its liveness is checked."""

    def _on_exit(self) -> None:
        """Called when the process has ended and will be restarted."""

    def report_to(self, say: Callable[[str], None]) -> None:
        """Pass lines for the user to ``say`` from now on."""
        self._say = say

    @property
    def pid(self) -> int | None:
        """Process id while it runs, else None."""
        return self._process.pid if self._process is not None else None

    def poll(self) -> list[str]:
        """Return the lines it wrote; a child that has died is restarted, with increasing delays."""
        now = time.monotonic()
        if self._process is None:
            if not self.given_up and now >= self._retry_at:
                try:
                    self._start()
                except OSError as error:
                    # Out of memory, descriptors or processes: it may work later.
                    self._schedule_restart(f"cannot be started ({error.strerror})")
            return []
        lines = self._read_lines()
        self._on_output(lines)
        self.write(b"")
        if self._is_stuck(now) and not self._is_killed:
            self._say(f"{self.name} is not responding")
            # Stuck in a driver it may not exit even then, so do not wait long.
            self._is_killed = True
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_TIMEOUT_S)
        code = self._process.poll()
        if code is None:
            if now - self.started_at > _STABLE_S:
                self._retry_delay_s = self.first_retry_delay_s
            return lines
        self._close_pipes()
        if code in self._final_codes:
            self.given_up, self._exit_reason = True, f"ended (code {code})"
            self._say(f"continuing without {self.name}")
            return lines
        self._schedule_restart(f"ended (code {code})")
        self._on_exit()
        return lines

    def _is_stuck(self, now: float) -> bool:
        """Whether it has to be killed because it makes no progress."""
        return bool(self._unsent) and now - self._last_read_at > _STUCK_TIMEOUT_S

    @property
    def state(self) -> str:
        """State for the status: ``yes``, or ``no`` and the reason."""
        return "yes" if self._process is not None else f"no ({self._exit_reason or 'ended'})"

    def _schedule_restart(self, reason: str) -> None:
        self._exit_reason = reason
        self._say(f"{self.name} {reason}; restarting it in {self._retry_delay_s:g} s")
        self._retry_at = time.monotonic() + self._retry_delay_s
        self._retry_delay_s = min(2 * self._retry_delay_s, _MAX_RETRY_DELAY_S)

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes written to it that it has not read yet."""
        return len(self._unsent)

    def wait_until_ready(self) -> str:
        """Wait for its first line, ``ready TEXT``, and return the text; called once, before the show begins.

        Raises:
            DeviceError: It wrote ``error TEXT`` instead, or nothing in time.
        """
        deadline = time.monotonic() + _READY_TIMEOUT_S
        lines: list[str] = []
        while (process := self._process) is not None and time.monotonic() < deadline:
            has_ended = process.poll() is not None
            self.write(b"")
            lines = self._read_lines()
            if has_ended or lines:
                break
            time.sleep(_POLL_S)
        lines = lines or [f"error {self.name}: its process does not answer"]
        word, _, text = lines[0].partition(" ")
        if word != "ready":
            self.close()
            raise DeviceError(text)
        return text

    def write(self, line: bytes) -> None:
        """Send it a line, now or when it reads again. Never blocks."""
        if not self._unsent:
            self._last_read_at = time.monotonic()
        self._unsent += line
        if self._process is None or self._process.stdin is None:
            self._unsent = b""
            return
        with contextlib.suppress(OSError):
            while self._unsent:
                self._unsent = self._unsent[
                    os.write(self._process.stdin.fileno(), self._unsent[:_WRITE_BYTES]) :
                ]
                self._last_read_at = time.monotonic()
        if len(self._unsent) > _MAX_UNSENT_BYTES:
            # It is stuck: keep only the line that it has begun to read.
            self._unsent = self._unsent[: self._unsent.index(b"\n") + 1]

    def _read_lines(self) -> list[str]:
        if self._process is None or self._process.stdout is None:
            return []
        self._output += self._process.stdout.read() or b""
        *lines, self._output = self._output.split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def _close_pipes(self) -> None:
        """Close the pipes of a process that has ended, and forget it."""
        process, self._process = self._process, None
        if process is not None:
            _close_pipe(process.stdin)
            _close_pipe(process.stdout)

    def begin_close(self) -> None:
        """Close its input so that it exits by itself, which :meth:`close` waits for."""
        self.given_up = True
        if self._process is not None:
            _close_pipe(self._process.stdin)
            self._process.stdin = None

    def close(self) -> int | None:
        """Let it exit by itself, then terminate and kill it. Returns its exit code; None if it did not run or
        exit."""
        self.begin_close()
        if self._process is None:
            return None
        try:
            return self._end(self._process)
        finally:
            # Only once it has exited: writing to a closed pipe would raise, and Python print that.
            self._close_pipes()

    def _end(self, process: subprocess.Popen[bytes]) -> int | None:
        _unreaped[:] = [killed for killed in _unreaped if killed.poll() is None]
        for wait in self.close_timeouts_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(wait)
            process.terminate()
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(self.close_timeouts_s[-1])
        _unreaped.append(process)
        return None


def check_installed(what: str, extra: str = "", *packages: str) -> None:
    """Raise a DeviceError if a package that ``what`` needs is missing; ``extra`` installs all of them."""
    for package in packages:
        if importlib.util.find_spec(package.removeprefix("python-")) is None:
            raise DeviceError(f"{what} needs {package}: pip install 'pyanticip[{extra}]'")


def _close_pipe(pipe: IO[bytes] | None) -> None:
    with contextlib.suppress(OSError):
        if pipe is not None:
            pipe.close()


def tell_parent(line: str) -> None:
    """Write a line from a child to its parent.

    It bypasses Python's buffer, for which the interpreter would print an error at exit if the parent had
    died.
    """
    with contextlib.suppress(OSError):
        os.write(1, " ".join(line.split()).encode(errors="replace") + b"\n")
