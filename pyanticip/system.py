"""What differs between Linux, macOS and Windows: clocks, files, processes and the terminal.

Elsewhere only sockets (:mod:`realtime.sockets`, :mod:`realtime.sources.udp`), priorities
(:mod:`realtime.tuning`) and measurements look at the platform.

``make check`` type-checks the packages for all three platforms.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

if sys.platform == "win32":
    import _winapi
    import ctypes
    import msvcrt
else:
    import fcntl
    import termios
    import tty

# Interval at which a Windows pipe is polled for input.
_POLL_S = 0.005

#: Popen arguments of a child process that must not receive Ctrl-C from the terminal; its parent does.
OWN_PROCESS_GROUP: dict[str, Any]
if sys.platform == "win32":
    OWN_PROCESS_GROUP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    OWN_PROCESS_GROUP = {"start_new_session": True}

#: Whether an open file may be renamed, and another take its name.
REPLACES_OPEN_FILES = sys.platform != "win32"
#: Whether a folder can be opened, and so locked.
LOCKS_FOLDERS = sys.platform != "win32"


def clock_is_fine() -> bool:
    """Whether Python's monotonic clock resolves less than a millisecond, enough to time frames."""
    return time.get_clock_info("monotonic").resolution < 0.001


# -- files ---------------------------------------------------------------------------------------------


def try_lock(handle: int) -> bool | None:
    """Take an exclusive lock on an open file; it lasts until the handle is closed, or the process dies.

    Returns:
        True: locked; False: another process holds the lock; None: this file system has no locks.
    """
    try:
        if sys.platform == "win32":
            os.lseek(handle, 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


# -- processes -----------------------------------------------------------------------------------------


def lower_priority(by: int) -> None:
    """Raise this process's niceness by ``by``; on Windows, move it to the class below normal."""
    with contextlib.suppress(OSError, AttributeError):
        if sys.platform == "win32":
            below_normal = 0x4000
            ctypes.windll.kernel32.SetPriorityClass(
                ctypes.c_void_p(ctypes.windll.kernel32.GetCurrentProcess()), below_normal
            )
        else:
            os.nice(by)


def cores() -> int:
    """Number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def cores_and_load() -> tuple[int, float] | None:
    """Processors that this process may use, and the load average of the last minute; None on Windows."""
    if sys.platform == "win32":
        return None
    else:
        return cores(), os.getloadavg()[0]


def restart_program(*more: str) -> NoReturn:
    """Restart this program in place, ``more`` arguments appended; on Windows, which cannot, as a child."""
    command = [sys.executable, *sys.orig_argv[1:], *more]
    if sys.platform == "win32":
        sys.exit(subprocess.call(command))
    else:
        os.execv(sys.executable, command)


def widen_pipe(descriptor: int, size: int) -> None:
    """Set a pipe's capacity to ``size`` bytes, where the system allows it (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)


def shell_quote(text: str) -> str:
    """A text as a shell argument, quoted where needed."""
    return subprocess.list2cmdline([text]) if sys.platform == "win32" else shlex.quote(text)


# -- the terminal and standard input -------------------------------------------------------------------


def available_signals(*names: str) -> list[signal.Signals]:
    """Those of the named signals that this platform has."""
    return [signal.Signals[name] for name in names if name in signal.Signals.__members__]


def ignore_terminal() -> None:
    """Ignore the terminal's signals (Ctrl-C, hang-up); the parent handles them, and closes our input."""
    for number in available_signals("SIGINT", "SIGHUP", "SIGQUIT", "SIGBREAK"):
        signal.signal(number, signal.SIG_IGN)


def is_foreground_group(descriptor: int) -> bool:
    """Whether we are the terminal's foreground process group; a background one must not touch it."""
    if sys.platform == "win32":
        return True
    else:
        return os.tcgetpgrp(descriptor) == os.getpgrp()


def raw_keys(descriptor: int) -> list[Any] | None:
    """Switch a terminal to unbuffered input, and return its former settings for :func:`cooked_keys`.

    None: this platform has no such mode (Windows); poll :func:`pressed_keys` instead.
    """
    if sys.platform == "win32":
        return None
    else:
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor, termios.TCSANOW)
        return before


def cooked_keys(descriptor: int, before: list[Any] | None) -> None:
    """Restore the terminal settings that :func:`raw_keys` returned."""
    if sys.platform != "win32" and before is not None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def pressed_keys() -> str:
    """Characters typed since the last call, without arrow and function keys; ``""`` except on Windows."""
    keys = ""
    if sys.platform == "win32":
        while msvcrt.kbhit():
            key = msvcrt.getwch()
            if key in ("\x00", "\xe0"):  # the first half of an arrow
                msvcrt.getwch()
            else:
                keys += key
    return keys


def wait_readable(seconds: float, *sockets: socket.socket) -> Sequence[socket.socket | int]:
    """Those of ``sockets`` and standard input (as 0) that are readable or closed; waits up to ``seconds``."""
    if sys.platform == "win32":
        deadline = time.monotonic() + seconds
        while True:
            ready: list[socket.socket | int] = [0] if _input_is_ready() else []
            remaining = deadline - time.monotonic()
            wait = 0.0 if ready else min(max(remaining, 0.0), _POLL_S)
            if sockets:
                ready += select.select(sockets, [], [], wait)[0]
            elif wait:
                time.sleep(wait)
            if ready or remaining <= 0.0:
                return ready
    else:
        inputs: list[socket.socket | int] = [0, *sockets]
        return select.select(inputs, [], [], max(seconds, 0.0))[0]


if sys.platform == "win32":

    def _input_is_ready() -> bool:
        try:
            return bool(_winapi.PeekNamedPipe(msvcrt.get_osfhandle(0))[0])
        except OSError:  # the other end is closed
            return True
