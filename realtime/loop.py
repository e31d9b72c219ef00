"""Portable helpers around the asyncio loop: signals, standard input, datagrams, and the main function of
child processes that run one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from http import HTTPStatus
from typing import Any, TypeVar

from pyanticip.errors import OptionError
from pyanticip.system import available_signals, ignore_terminal, lower_priority
from realtime.child import tell_parent

_T = TypeVar("_T")
_READ_BYTES = 1 << 16


def check_no_loop() -> None:
    """Check that :func:`run_loop` can be called in this thread.

    Raises:
        OptionError: A loop runs in it already, as in Jupyter.
    """
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise OptionError("an event loop runs in this thread already: play in a thread of its own")


def run_loop(main: Coroutine[Any, Any, _T]) -> _T:
    """Like :func:`asyncio.run`, in a selector loop: the default loop of Windows cannot wait for sockets."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(main)


@contextlib.contextmanager
def obey_signals(interrupt: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """Handle signals in the running loop: Ctrl-C and ``kill`` call ``interrupt``, SIGHUP and its like
    ``end``.

    Only in the main thread; the previous handlers are restored on exit. Handlers that the loop itself has
    (``add_signal_handler``) are called as well. A closing terminal signals more than once, so it calls
    ``end``, which may be repeated, not ``interrupt``, which ends at once the second time.
    """
    loop, previous = asyncio.get_running_loop(), {}
    handlers = dict.fromkeys(available_signals("SIGINT", "SIGTERM"), interrupt)
    handlers |= dict.fromkeys(available_signals("SIGHUP", "SIGQUIT", "SIGBREAK"), end)

    def on_signal(number: int, _: object) -> None:
        loop.call_soon_threadsafe(handlers[signal.Signals(number)])

    try:
        with contextlib.suppress(ValueError):
            for number in handlers:
                # Not with add_signal_handler: it forgets the previous handler, and Windows lacks it.
                previous[number] = signal.signal(number, on_signal)
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler or signal.SIG_DFL)


async def input_lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input until it ends, without a last one that has no newline.

    A thread reads them, because some loops cannot wait for a pipe.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        data = b"begin"
        while data:
            try:
                data = os.read(0, _READ_BYTES)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(chunks.put_nowait, data)

    threading.Thread(target=read, daemon=True).start()
    rest = b""
    while data := await chunks.get():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line


class Datagrams(asyncio.DatagramProtocol):
    """Passes every datagram to a function, whoever sent it."""

    def __init__(self, on_datagram: Callable[[bytes], object]) -> None:
        self._on_datagram = on_datagram

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Called by asyncio for each datagram."""
        self._on_datagram(data)


def refuse_malformed(answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap a ``process_request`` of websockets: a repeated header, such as a second Host, or an address that
    cannot be parsed is answered with 400."""

    def process(connection: Any, request: Any) -> Any:
        try:
            return answer(connection, request)
        # LookupError: websockets raises its MultipleValuesError where a header is read.
        except (LookupError, ValueError) as error:
            return connection.respond(HTTPStatus.BAD_REQUEST, f"malformed request: {error}\n")

    return process


def child_main(serving: Coroutine[Any, Any, None], nice: int) -> int:
    """Run the server ``serving`` in a child process and return its exit code.

    An error is reported to the parent. ``nice`` is the amount by which the priority is lowered.
    """
    ignore_terminal()
    # Requests must not print at the terminal, and the show comes first on the processor.
    logging.disable(logging.CRITICAL)
    lower_priority(nice)
    try:
        run_loop(serving)
    except Exception as error:
        tell_parent(f"error {error}")
        return 1
    return 0
