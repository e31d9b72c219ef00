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


class _LineQueue:
    def __init__(self, say: Say) -> None:
        self._say = say
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._dropped = 0
        # Not a daemon: the interpreter exits only once all lines are printed, not in the middle of one.
        self._thread = threading.Thread(target=self._run, name="lines")
        self._thread.start()

    def say(self, line: str) -> None:
        """Queue a line."""
        if self._queue.qsize() >= _MAX_LINES:
            self._dropped += 1
            return
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._queue.put(f"{dropped} lines were dropped: the terminal did not read them")
        self._queue.put(line)

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            # Errors of the caller's function cannot be reported here, nor those of a closed terminal.
            with contextlib.suppress(Exception):
                self._say(line)

    def close(self) -> None:
        """Wait for the queued lines to be printed, for a limited time."""
        self._queue.put(None)
        self._thread.join(_CLOSE_TIMEOUT_S)


@contextlib.contextmanager
def threaded_say(say: Say) -> Iterator[Say]:
    """Wrap ``say`` for the time a show plays: it is called from a thread of its own and blocks nobody.

    A terminal blocks after Ctrl-S, while text is selected in a Windows console, or when its connection
    stalls; a pager reads no more than it shows. On exit the queued lines are waited for, at most one second;
    the thread prints the rest when the terminal continues.
    """
    lines = _LineQueue(say)
    try:
        yield lines.say
    finally:
        lines.close()
