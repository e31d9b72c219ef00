"""What Linux, macOS and Windows do each in its own way.

But for priorities (:mod:`realtime.tuning`), stamps of datagrams (:mod:`realtime.sources.udp`) and what there
is of it in asyncio (:mod:`realtime.loop`), which not every process loads, nothing else asks where it runs.

``make check`` types the packages as each of the three sees them.
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

__all__ = [
    "ALONE",
    "LOCKS_FOLDERS",
    "REPLACES_OPEN_FILES",
    "begin_anew",
    "clock_is_fine",
    "cooked_keys",
    "cores_and_load",
    "ignore_terminal",
    "lower_priority",
    "pressed_keys",
    "quoted",
    "raw_keys",
    "readable",
    "signals",
    "terminal_is_ours",
    "try_lock",
    "widen_pipe",
]

# How often Windows is asked whether a pipe has something to read.
_LOOK_S = 0.005

#: What a child process is begun with, so that Ctrl-C at the terminal reaches its parent alone.
ALONE: dict[str, Any]
if sys.platform == "win32":
    ALONE = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    ALONE = {"start_new_session": True}


#: Whether a file that is open may be renamed, and another take its place.
REPLACES_OPEN_FILES = sys.platform != "win32"
#: Whether a folder can be opened, and so be locked.
LOCKS_FOLDERS = sys.platform != "win32"


def clock_is_fine() -> bool:
    """Whether Python's monotonic clock ticks often enough to time a frame by."""
    return time.get_clock_info("monotonic").resolution < 0.001


# -- files ---------------------------------------------------------------------------------------------


def try_lock(handle: int) -> bool | None:
    """Lock an open file until its handle is closed, however that comes.

    True: it is ours; False: somebody else has it; None: there are no locks here.
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
    """Let others go first: ``by`` steps of niceness, on Windows the class below the ordinary one."""
    with contextlib.suppress(OSError, AttributeError):
        if sys.platform == "win32":
            below_normal = 0x4000
            ctypes.windll.kernel32.SetPriorityClass(
                ctypes.c_void_p(ctypes.windll.kernel32.GetCurrentProcess()), below_normal
            )
        else:
            os.nice(by)


def cores() -> int:
    """How many processors we may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def cores_and_load() -> tuple[int, float] | None:
    """How many processors we may use, and how many are asked for; None where nobody tells (Windows)."""
    if sys.platform == "win32":
        return None
    else:
        return cores(), os.getloadavg()[0]


def begin_anew(*more: str) -> NoReturn:
    """Begin this program again in place of itself; on Windows, which cannot, as its child.

    ``more`` arguments come last.
    """
    command = [sys.executable, *sys.orig_argv[1:], *more]
    if sys.platform == "win32":
        sys.exit(subprocess.call(command))
    else:
        os.execv(sys.executable, command)


def widen_pipe(descriptor: int, size: int) -> None:
    """Let a pipe hold ``size`` bytes, where the system lets us (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)


def quoted(text: str) -> str:
    """A text as it is typed in a command: in quotes where it has blanks."""
    return subprocess.list2cmdline([text]) if sys.platform == "win32" else shlex.quote(text)


# -- the terminal and standard input -------------------------------------------------------------------


def signals(*names: str) -> list[signal.Signals]:
    """Those of these that there are."""
    return [signal.Signals[name] for name in names if name in signal.Signals.__members__]


def ignore_terminal() -> None:
    """Leave what the terminal says (Ctrl-C, that it is closed) to the parent; our input ends with that."""
    for number in signals("SIGINT", "SIGHUP", "SIGQUIT", "SIGBREAK"):
        signal.signal(number, signal.SIG_IGN)


def terminal_is_ours(descriptor: int) -> bool:
    """Whether a terminal's foreground is ours: who is in the background must not touch it."""
    if sys.platform == "win32":
        return True
    else:
        return os.tcgetpgrp(descriptor) == os.getpgrp()


def raw_keys(descriptor: int) -> list[Any] | None:
    """Let a terminal give each key as it is pressed; what it was set to before. None: it has to be asked."""
    if sys.platform == "win32":
        return None
    else:
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor, termios.TCSANOW)
        return before


def cooked_keys(descriptor: int, before: list[Any] | None) -> None:
    """Set a terminal to what it was before :func:`raw_keys`."""
    if sys.platform != "win32" and before is not None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def pressed_keys() -> str:
    """What was pressed since the last time, arrows and their like left out, where it has to be asked."""
    found = ""
    if sys.platform == "win32":
        while msvcrt.kbhit():
            key = msvcrt.getwch()
            if key in ("\x00", "\xe0"):  # the first half of an arrow
                msvcrt.getwch()
            else:
                found += key
    return found


def readable(seconds: float, *sockets: socket.socket) -> Sequence[socket.socket | int]:
    """Which of some sockets, and standard input (as 0), can be read or have ended; waits so long at most."""
    if sys.platform == "win32":
        until = time.monotonic() + seconds
        while True:
            found: list[socket.socket | int] = [0] if _input_waits() else []
            left = until - time.monotonic()
            wait = 0.0 if found else min(max(left, 0.0), _LOOK_S)
            if sockets:
                found += select.select(sockets, [], [], wait)[0]
            elif wait:
                time.sleep(wait)
            if found or left <= 0.0:
                return found
    else:
        waited_for: list[socket.socket | int] = [0, *sockets]
        return select.select(waited_for, [], [], max(seconds, 0.0))[0]


if sys.platform == "win32":

    def _input_waits() -> bool:
        try:
            return bool(_winapi.PeekNamedPipe(msvcrt.get_osfhandle(0))[0])
        except OSError:  # the other end is gone
            return True
