"""A program in a pseudo-terminal: its output, and key presses."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()].|[=>])")


class InTerminal:
    """``python -m pyanticip WORDS`` as the foreground of a new terminal of 100 by 40 characters."""

    def __init__(self, *words: str, folder: Path, program: tuple[str, ...] = ("-m", "pyanticip")) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.before: list[Any] = termios.tcgetattr(self.slave)
        self.raw = ""
        self.process = subprocess.Popen(
            [sys.executable, *program, *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=folder,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            preexec_fn=self._own,
        )

    def _own(self) -> None:
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def read(self, seconds: float = 0.05) -> str:
        """The raw output so far."""
        while select.select([self.master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.raw += os.read(self.master, 65536).decode(errors="replace")
                continue
            break
        return self.raw

    @property
    def text(self) -> str:
        """The output without escape sequences."""
        return SEQUENCE.sub("", self.read())

    def wait_for(self, words: str, seconds: float = 40.0, after: int = 0) -> int:
        """Wait until ``words`` occur after position ``after``; returns the position behind them."""
        deadline = time.monotonic() + seconds
        while (found := self.text.find(words, after)) < 0:
            assert time.monotonic() < deadline, f"waited in vain for {words!r}: {self.text[-3000:]}"
            assert self.process.poll() is None or words in self.text, self.text[-3000:]
        return found + len(words)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self, seconds: float = 30.0) -> int:
        """Wait until the program ends; returns its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < deadline, f"does not end: {self.text[-3000:]}"
        self.read()
        return self.process.returncode

    def restored(self) -> bool:
        """Whether the terminal has its former settings, and shows its cursor."""
        shown = self.raw.rfind("\x1b[?25h") >= self.raw.rfind("\x1b[?25l")
        return bool(termios.tcgetattr(self.slave) == self.before) and shown

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
