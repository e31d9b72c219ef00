"""The asyncio loop, as each system can have it: signals, standard input, and one that waits for sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from pyanticip.system import signals

__all__ = ["input_lines", "obey_signals", "run_loop"]

_T = TypeVar("_T")
_MOST_READ = 1 << 16


def run_loop(main: Coroutine[Any, Any, _T]) -> _T:
    """:func:`asyncio.run` in a loop that waits for sockets, which the usual one of Windows cannot."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(main)


def obey_signals(
    loop: asyncio.AbstractEventLoop, interrupt: Callable[[], object], end: Callable[[], object]
) -> None:
    """What Ctrl-C and its like do from now on, where this is the main thread.

    A terminal that is closed tells so more than once: only Ctrl-C and `kill` do not wait when repeated.
    """

    def obey(number: int, act: Callable[[], object]) -> None:
        def tell(*_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(act)
                return
            # Where the loop has handlers, closing it takes them away.
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.raise_signal(number)

        try:
            loop.add_signal_handler(number, act)
        except NotImplementedError:  # Windows
            signal.signal(number, tell)

    with contextlib.suppress(ValueError, RuntimeError):
        for number in signals("SIGINT", "SIGTERM"):
            obey(number, interrupt)
        for number in signals("SIGHUP", "SIGQUIT", "SIGBREAK"):
            obey(number, end)


async def input_lines() -> AsyncIterator[bytes]:
    """The lines of standard input until it ends; what has no end is not given.

    A thread reads them: there are loops that cannot wait for a pipe.
    """
    loop = asyncio.get_running_loop()
    came: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        data = b"begin"
        while data:
            try:
                data = os.read(0, _MOST_READ)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(came.put_nowait, data)

    threading.Thread(target=read, daemon=True).start()
    rest = b""
    while data := await came.get():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
