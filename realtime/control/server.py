"""The performer's remote control: OSC under ``/anticip/control/``, answered under ``/anticip/reply/``."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from pythonosc.dispatcher import Dispatcher
from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip.errors import MotionError, OptionError, printable
from realtime.sockets import bind_udp

__all__ = ["CONTROL", "Action", "ControlServer", "Remote", "number", "switch"]

#: Takes the arguments of a command, returns what the reply says, now or (awaitable) when it is done. A
#: MotionError becomes an error reply.
Action = Callable[..., str | Awaitable[str]]


class Remote(Protocol):
    """Commands of one matter, for :class:`ControlServer`."""

    actions: dict[str, Action]
    #: Commands whose last word is an argument: "teach/param/" takes "teach/param/cutoff".
    families: dict[str, Action]

    def close(self) -> None:
        """Finish what was begun."""
        ...


CONTROL = "/anticip/control/"
"""What stands before the name of a command."""

_REPLY = "/anticip/reply/"
_BURST = 16


class ControlServer:
    """Listens for commands in the asyncio loop.

    Each command is answered with ``/anticip/reply/<command>``: ``ok`` or ``error`` and a line of text, to
    where it came from (or to ``reply_port`` there). What is not OSC or not ours is counted, never raised.
    ``refused`` is told of commands that were not obeyed, one printable line each, none twice in a row.
    """

    def __init__(
        self,
        host: str,
        port: int,
        actions: Mapping[str, Action],
        reply_port: int | None = None,
        families: Mapping[str, Action] | None = None,
        refused: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._sock = bind_udp(host, port, "control server")
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._reply_port = reply_port
        self._actions = dict(actions)
        self._families = dict(families or {})
        self._refused = refused
        self._refusal = ""
        self._pending: set[asyncio.Task[None]] = set()
        self.counts = {"commands": 0, "errors": 0, "alien": 0}
        # strict_timing would *sleep* until a bundle's time tag and stall the loop.
        self._dispatcher = Dispatcher(strict_timing=False)
        for name in self._actions:
            self._dispatcher.map(CONTROL + name, self._handle, needs_reply_address=True)
        self._dispatcher.set_default_handler(self._unknown, needs_reply_address=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The commands, and the beginnings of those whose rest is an argument."""
        return tuple(self._actions), tuple(self._families)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Obey from now on."""
        self._loop = loop
        loop.add_reader(self._sock.fileno(), self._readable)

    def _readable(self) -> None:
        for _ in range(_BURST):
            try:
                data, peer = self._sock.recvfrom(65536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue
            try:
                self._dispatcher.call_handlers_for_packet(data, peer)
            except Exception:
                # python-osc raises several kinds for bytes that are not OSC; a remote must not stop us.
                self.counts["alien"] += 1

    def _handle(self, peer: tuple[Any, ...], address: str, *arguments: Any) -> None:
        name = address.removeprefix(CONTROL)
        self._obey(peer, name, self._actions[name], arguments)

    def _obey(self, peer: tuple[Any, ...], name: str, action: Action, arguments: tuple[Any, ...]) -> None:
        self.counts["commands"] += 1
        # Nil is how some programs press a button.
        arguments = tuple(argument for argument in arguments if argument is not None)
        try:
            found = action(*arguments)
        except (MotionError, OSError) as error:
            self._answer(peer, name, "error", str(error))
        except TypeError:
            self._answer(peer, name, "error", f"{name}: wrong number of arguments: {len(arguments)}")
        else:
            if isinstance(found, str):
                self._answer(peer, name, "ok", found)
            else:
                task = asyncio.ensure_future(self._later(peer, name, found))
                self._pending.add(task)
                task.add_done_callback(self._pending.discard)

    async def _later(self, peer: tuple[Any, ...], name: str, found: Awaitable[str]) -> None:
        try:
            answer = "ok", await found
        except (MotionError, OSError) as error:
            answer = "error", str(error)
        self._answer(peer, name, *answer)

    def _answer(self, peer: tuple[Any, ...], name: str, verdict: str, text: str) -> None:
        if verdict == "error":
            self._refuse(name, text)
        self._reply(peer, name, verdict, text)

    def _unknown(self, peer: tuple[Any, ...], address: str, *arguments: Any) -> None:
        if not address.startswith(CONTROL):
            self.counts["alien"] += 1
            return
        name = address.removeprefix(CONTROL)
        for family, action in self._families.items():
            if name.startswith(family):
                self._obey(peer, name, action, (name.removeprefix(family), *arguments))
                return
        self._refuse(name, "unknown command")
        known = ", ".join(sorted(self._actions))
        self._reply(peer, name, "error", f"unknown command; known: {known}")

    def _refuse(self, name: str, text: str) -> None:
        self.counts["errors"] += 1
        # Names come from the network: nothing that a terminal obeys.
        line = printable(f"refused {CONTROL}{name}: {text}")[:300]
        if line != self._refusal:
            self._refusal = line
            self._refused(line)

    def _reply(self, peer: tuple[Any, ...], name: str, *words: str) -> None:
        builder = OscMessageBuilder(_REPLY + name)
        for word in words:
            builder.add_arg(word, "s")
        where = (peer[0], self._reply_port, *peer[2:]) if self._reply_port else peer
        with contextlib.suppress(OSError):
            self._sock.sendto(builder.build().dgram, socket.MSG_DONTWAIT, where)

    def close(self) -> None:
        """Stop listening; what is not done yet is given up."""
        for task in self._pending:
            task.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._sock.fileno())
            self._loop = None
        self._sock.close()


def number(name: str, value: object) -> float:
    """A finite number from an OSC argument."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OptionError(f"{name}: expected a number, got {value!r}")
    return float(value)


def switch(name: str, value: object = 1) -> bool:
    """On or off from an OSC argument: T, F or a number; on where none is given."""
    return value if isinstance(value, bool) else number(name, value) != 0.0
