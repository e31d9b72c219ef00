"""The asyncio loop, as each system can have it: signals, standard input, one that waits for sockets, and the
children that serve in it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from pyanticip.errors import OptionError
from pyanticip.system import ignore_terminal, lower_priority, signals
from realtime.child import tell_parent

__all__ = ["Datagrams", "check_no_loop", "child_main", "input_lines", "obey_signals", "run_loop"]

_T = TypeVar("_T")
_MOST_READ = 1 << 16


def check_no_loop() -> None:
    """:func:`run_loop` can be called in this thread.

    Raises:
        OptionError: a loop runs in it, as in Jupyter.
    """
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise OptionError("an event loop runs in this thread already: play in a thread of its own")


def run_loop(main: Coroutine[Any, Any, _T]) -> _T:
    """:func:`asyncio.run` in a loop that waits for sockets, which the usual one of Windows cannot."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(main)


@contextlib.contextmanager
def obey_signals(interrupt: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """What Ctrl-C and its like do meanwhile in the loop that runs, where this is the main thread; behind it
    what they did before. What the loop itself was told to do at one (``add_signal_handler``) is done as well.

    A terminal that is closed tells so more than once: only Ctrl-C and `kill` do not wait when repeated.
    """
    loop, before = asyncio.get_running_loop(), {}
    acts = dict.fromkeys(signals("SIGINT", "SIGTERM"), interrupt)
    acts |= dict.fromkeys(signals("SIGHUP", "SIGQUIT", "SIGBREAK"), end)

    def tell(number: int, _: object) -> None:
        loop.call_soon_threadsafe(acts[signal.Signals(number)])

    try:
        with contextlib.suppress(ValueError):
            for number in acts:
                # Not by the loop: it forgets whom it told before, and that of Windows cannot.
                before[number] = signal.signal(number, tell)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


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


class Datagrams(asyncio.DatagramProtocol):
    """Hands on what comes, whoever sent it."""

    def __init__(self, hear: Callable[[bytes], object]) -> None:
        self._hear = hear

    def datagram_received(self, data: bytes, addr: object) -> None:
        """One of them."""
        self._hear(data)


def child_main(serving: Coroutine[Any, Any, None], nice: int) -> int:
    """The process of a child that serves; its exit code.

    What goes wrong is told to the parent. ``nice`` is by how much others come first.
    """
    ignore_terminal()
    # Nobody's request is worth a line, and the show's processor comes first.
    logging.disable(logging.CRITICAL)
    lower_priority(nice)
    try:
        run_loop(serving)
    except Exception as error:
        tell_parent(f"error {error}")
        return 1
    return 0
