"""Prints lines for the user from a thread, so that a blocked terminal stalls nothing else."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator

Say = Callable[[str], None]

# Maximum number of queued lines; further ones are dropped and counted.
_MAX_LINES = 1000
# Time to print the queued lines at the end.
_CLOSE_TIMEOUT_S = 1.0


@contextlib.contextmanager
def threaded_say(say: Say) -> Iterator[Say]:
    """Wrap ``say`` for the time a show plays: it is called from a thread of its own and blocks nobody.

    A terminal blocks after Ctrl-S, while text is selected in a Windows console, or when its connection
    stalls; a pager reads no more than it shows. On exit the queued lines are waited for, at most one second;
    the thread prints the rest when the terminal continues.
    """
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    dropped = 0

    def put(line: str) -> None:
        nonlocal dropped
        if lines.qsize() >= _MAX_LINES:
            dropped += 1
            return
        if dropped:
            lines.put(f"{dropped} lines were dropped: the terminal did not read them")
            dropped = 0
        lines.put(line)

    def print_all() -> None:
        while (line := lines.get()) is not None:
            # Errors of the caller's function cannot be reported here, nor those of a closed terminal.
            with contextlib.suppress(Exception):
                say(line)

    # Not a daemon: the interpreter exits only once all lines are printed, not in the middle of one.
    thread = threading.Thread(target=print_all, name="lines")
    thread.start()
    try:
        yield put
    finally:
        lines.put(None)
        thread.join(_CLOSE_TIMEOUT_S)
