"""Lines for the person at the terminal, who may have stopped it: nothing else waits until they are read."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator

__all__ = ["beside"]

Say = Callable[[str], None]

# So many lines wait; what is said then is left out, and how many were is told.
_MOST = 1000
# At the end what waits has so long, seconds.
_PARTING_S = 1.0


class _Lines:
    def __init__(self, say: Say) -> None:
        self._say = say
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._left_out = 0
        # No daemon: the program ends once all is said, not in the middle of a line that nobody reads.
        self._thread = threading.Thread(target=self._run, name="lines")
        self._thread.start()

    def say(self, line: str) -> None:
        """Say it when its turn comes."""
        if self._waiting.qsize() >= _MOST:
            self._left_out += 1
            return
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            self._waiting.put(f"{left_out} lines were not told: nobody read them")
        self._waiting.put(line)

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            # The caller's own, who cannot be told here; a terminal that has gone hears nothing.
            with contextlib.suppress(Exception):
                self._say(line)

    def close(self) -> None:
        """Let what waits be said, if that is soon."""
        self._waiting.put(None)
        self._thread.join(_PARTING_S)


@contextlib.contextmanager
def beside(say: Say) -> Iterator[Say]:
    """``say`` as it is called while a show plays: from a thread of its own, so that nobody waits.

    A terminal stands still after Ctrl-S, where text is marked in a console of Windows, or with its
    connection; a pager reads no more than it shows. Behind the block all is said, or what was not read within
    a second waits for a reader.
    """
    lines = _Lines(say)
    try:
        yield lines.say
    finally:
        lines.close()
