"""The remote control: OSC commands under ``/anticip/control/``, answered under ``/anticip/reply/``.

With several performers, each one's commands are under their name, and some commands apply to all.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pyanticip.errors import MotionError, OptionError, one_line, printable, suggestion, utf8
from realtime.control.budget import Bucket, Budgets, Lines
from realtime.control.rig_keys import CONTROLS
from realtime.osc import message, read_message, split
from realtime.sockets import bind_udp, host_and_port, is_loopback

#: Executes a command with its arguments and returns the text of the reply, as an awaitable if it takes a
#: while. A MotionError becomes an error reply.
Action = Callable[..., str | Awaitable[str]]


class Remote(Protocol):
    """A group of commands for :class:`ControlServer`."""

    actions: dict[str, Action]
    #: Commands whose last word is an argument: "teach/param/" takes "teach/param/cutoff".
    families: dict[str, Action]

    def close(self) -> None:
        """Finish pending work."""
        ...


CONTROL = "/anticip/control/"
"""OSC address prefix of commands."""

_REPLY = "/anticip/reply/"
_PREFIX = CONTROL.encode()
# Longer datagrams are rejected; further messages of a datagram are ignored.
_MAX_DATAGRAM_BYTES, _MAX_MESSAGES, _MAX_ARGUMENTS = 8192, 32, 300
# Commands per second and in a burst of one host; the burst covers all that a program sends when it starts.
_RATE, _BURST = 200.0, 1000.0
# The same for each command that needs files or processes.
_SLOW_RATE, _SLOW_BURST = 1.0, 10.0
# Commands are processed for this time (one may take longer), then the loop is left to others for that time.
_READ_S, _REST_S = 0.0015, 0.005
# Maximum bytes of a reply to this machine; to others, the request's size but at least the second.
_MAX_REPLY_BYTES, _MIN_REPLY_BYTES = 4096, 48
_MAX_NAME_CHARS = 100


class _Request(NamedTuple):
    """A command: its sender, its name, and the maximum size of the reply."""

    peer: tuple[Any, ...]
    name: str
    max_bytes: int


class ControlServer:
    """Receives and executes commands in the asyncio loop.

    Each command is answered with ``/anticip/reply/<command>``: ``ok`` or ``error`` and a line of text, to the
    sender's port or to ``reply_port`` at its host; to other machines cut to the size of the request. Anything
    that is not OSC or not a command is counted, never raised, as are commands beyond a host's budget
    (``ignored``). ``refused`` takes lines on refused commands: printable, rate limited, none twice in a row.
    ``performers`` are the names of those who have commands of their own.
    """

    def __init__(
        self,
        host: str,
        port: int,
        actions: Mapping[str, Action],
        reply_port: int | None = None,
        families: Mapping[str, Action] | None = None,
        refused: Callable[[str], None] = lambda line: None,
        performers: Sequence[str] = (),
    ) -> None:
        self._sock = bind_udp(host, port, "control server")
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._reply_port = reply_port
        self._actions = dict(actions)
        self._families = dict(families or {})
        self._refused = Lines(refused)
        self._performers = performers
        self._budgets = Budgets(_RATE, _BURST)
        # A separate, larger budget, so that stop and panic work whatever else is sent, by however many.
        self._stop_budgets = Budgets(_RATE, _BURST, 64)
        # Budgets of the commands that need files or processes, from their first use on.
        self._slow: dict[str, Bucket] = {}
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._queue: deque[tuple[bytes, tuple[Any, ...]]] = deque()
        self._rest_timer: asyncio.TimerHandle | None = None
        self.counts = {"commands": 0, "errors": 0, "alien": 0, "ignored": 0}
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def description(self) -> str:
        """Line for the terminal: its address, and whether it is open to the network."""
        line = f"remote control: {CONTROL.rstrip('/')} at {host_and_port(*self.address)}"
        return (
            line
            if is_loopback(self.address[0])
            else f"{line}, open to whoever reaches it: it has no password"
        )

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the commands, and prefixes of those whose rest is an argument."""
        return tuple(self._actions), tuple(self._families)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start receiving commands."""
        self._loop = loop
        loop.add_reader(self._sock.fileno(), self._read)

    def _read(self) -> None:
        deadline = time.monotonic() + _READ_S
        while time.monotonic() < deadline:
            if self._queue:
                self._process(*self._queue.popleft())
                continue
            try:
                data, peer = self._sock.recvfrom(_MAX_DATAGRAM_BYTES + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue
            self._receive(data, peer)
        if self._loop is not None:
            # More is waiting, but the show comes first.
            self._loop.remove_reader(self._sock.fileno())
            self._rest_timer = self._loop.call_later(_REST_S, self._resume)

    def _resume(self) -> None:
        if self._loop is not None:
            self.start(self._loop)
            self._read()

    def _receive(self, data: bytes, peer: tuple[Any, ...]) -> None:
        try:
            if len(data) > _MAX_DATAGRAM_BYTES:
                raise ValueError("too long")
            for command in split(data, _MAX_MESSAGES):
                if not command.startswith(_PREFIX):
                    # Messages of other programs do not use up the budget.
                    self.counts["alien"] += 1
                    continue
                name = _command_of(command[len(_PREFIX) :].partition(b"\0")[0].decode(errors="replace"))
                budgets = self._stop_budgets if name in ("panic", "stop") else self._budgets
                if not budgets.take(str(peer[0])):
                    self.counts["ignored"] += 1
                    self._refused(f"too many commands from {peer[0]}: not all are obeyed")
                    continue
                # panic overtakes all other commands.
                enqueue = self._queue.appendleft if name == "panic" else self._queue.append
                enqueue((command, peer))
        except ValueError:
            self.counts["alien"] += 1

    def _process(self, data: bytes, peer: tuple[Any, ...]) -> None:
        try:
            name = data[len(_PREFIX) :].partition(b"\0")[0].decode()
            max_bytes = _MAX_REPLY_BYTES if is_loopback(peer[0]) else max(len(data), _MIN_REPLY_BYTES)
        except ValueError:
            self.counts["alien"] += 1
            return
        request = _Request(peer, name, max_bytes)
        try:
            # Some programs send nil for a pressed button.
            params = read_message(data, _MAX_ARGUMENTS).params
            self._obey(request, tuple(argument for argument in params if argument is not None))
        except Exception:
            # A remote must not stop the show.
            self.counts["alien"] += 1
            self._answer(request, "error", "malformed: expected what the types say, in UTF-8")

    def _obey(self, request: _Request, arguments: tuple[Any, ...]) -> None:
        name = request.name
        action = self._actions.get(name)
        if action is None:
            family = next((family for family in self._families if name.startswith(family)), None)
            if family is None:
                self._answer(request, "error", self._unknown(name))
                return
            action, arguments = self._families[family], (name.removeprefix(family), *arguments)
        elif _is_button(name):
            if _is_release(arguments):
                self._reply(request, "ok", "released")
                return
            # panic is obeyed whatever its arguments.
            if (len(arguments) == 1 and _is_value(arguments[0])) or _command_of(name) == "panic":
                arguments = ()
        self.counts["commands"] += 1
        try:
            if name in self._pending:
                raise OptionError(f"{name}: the one before is not done yet")
            if name in self._slow and not self._slow[name].take():
                raise OptionError(f"{name}: too often")
            result = action(*arguments)
        except (MotionError, OSError) as error:
            self._answer(request, "error", str(error))
        except TypeError:
            self._answer(request, "error", f"{name}: wrong number of arguments: {len(arguments)}")
        else:
            if isinstance(result, str):
                self._answer(request, "ok", result)
            else:
                self._slow.setdefault(name, Bucket(_SLOW_RATE, _SLOW_BURST))
                self._pending[name] = asyncio.ensure_future(self._later(request, result))

    async def _later(self, request: _Request, pending: Awaitable[str]) -> None:
        try:
            answer = "ok", await pending
        except Exception as error:
            # The remote must get an answer, and the terminal no traceback.
            answer = "error", _text_of(error)
        finally:
            self._pending.pop(request.name, None)
        self._answer(request, *answer)

    def _answer(self, request: _Request, status: str, text: str) -> None:
        if status == "error":
            self._refuse(request.name, text)
        self._reply(request, status, text)

    def _unknown(self, name: str) -> str:
        """Error text for an unknown command: it belongs to one performer, needs a project, or is misspelt."""
        candidates = [f"{performer}/{name}" for performer in self._performers]
        matches = [one for one in candidates if one in self._actions or one.startswith(tuple(self._families))]
        if matches:
            return f"is for one performer: {', '.join(matches)}"
        performer, _, rest = name.partition("/")
        prefix, command = (f"{performer}/", rest) if performer in self._performers else ("", name)
        if command.startswith("teach/") and not any(
            one.startswith(f"{prefix}teach/") for one in self._actions
        ):
            return (
                f"{performer if prefix else 'this show'} has no project to teach: expected `teach` in the rig"
            )
        known = [one for one in (*self._actions, *self._families) if one.startswith(prefix)]
        return f"unknown command{suggestion(name[:_MAX_NAME_CHARS], known) or '; docs/osc.md has them all'}"

    def _refuse(self, name: str, text: str) -> None:
        self.counts["errors"] += 1
        # Names come from the network and must not contain control characters.
        self._refused(printable(f"refused {CONTROL}{name}: {text}")[:300])

    def _reply(self, request: _Request, status: str, text: str) -> None:
        """Send a reply, cut to the maximum size; not sent if not even an empty text fits."""
        max_bytes = request.max_bytes - len(message(_REPLY + request.name, [status, ""]))
        if max_bytes < 0:
            return
        # A text with its terminating zero is padded to whole words of four bytes.
        # A path in it need not be valid Unicode.
        text = utf8(text).encode()[: max_bytes // 4 * 4 + 3].decode(errors="ignore")
        peer = request.peer
        where = (peer[0], self._reply_port, *peer[2:]) if self._reply_port else peer
        with contextlib.suppress(OSError):
            self._sock.sendto(message(_REPLY + request.name, [status, text]), where)

    def close(self) -> None:
        """Stop receiving and cancel pending commands."""
        for task in self._pending.values():
            task.cancel()
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._sock.fileno())
            self._loop = None
        self._sock.close()


def number(name: str, value: object) -> float:
    """A finite number from an OSC argument."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OptionError(f"{name}: expected a number, got {value!r}")
    return float(value)


def rounded_float(value: object) -> object:
    """Round an OSC float, which has seven digits, to the decimal number that was meant."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def switch(name: str, value: object = 1) -> bool:
    """On or off from an OSC argument: T, F or a number."""
    return value if isinstance(value, bool) else number(name, value) != 0.0


def _command_of(name: str) -> str:
    """The name of a command without the performer's name that may precede it."""
    return name if name in CONTROLS else name.partition("/")[2] or name


def _is_button(name: str) -> bool:
    """Whether a command may be sent without arguments, so that one number means a button: pressed (1) or
    released (0)."""
    control = CONTROLS.get(_command_of(name))
    return control is not None and (control.types == "N" or control.optional)


def _is_value(argument: object) -> bool:
    return isinstance(argument, int | float)


def _is_release(arguments: tuple[object, ...]) -> bool:
    return len(arguments) == 1 and _is_value(arguments[0]) and not arguments[0]


# Commands on one suit, one model or one take.
_PER_PERFORMER = frozenset({"source", "plan", "cue/set", "cue/remove", "rig/merge"})


def commands_of_all(
    actions: Mapping[str, Mapping[str, Action]],
    families: Mapping[str, Mapping[str, Action]],
    shared: frozenset[str],
) -> tuple[dict[str, Action], dict[str, Action]]:
    """Combine the commands and families of each performer, by name, into those of the whole show.

    ``<performer>/<command>`` is for one performer, ``<command>`` for all if it is ``shared`` and makes sense
    for all at once.
    """
    own_commands, own_families = (
        {
            f"{performer}/{name}": action
            for performer, own in by_performer.items()
            for name, action in own.items()
        }
        for by_performer in (actions, families)
    )
    shared_commands = {
        name: _for_all({performer: own_commands[f"{performer}/{name}"] for performer in actions})
        for name in next(iter(actions.values()))
        if name in shared - _PER_PERFORMER
    }
    return own_commands | shared_commands, own_families


def _for_all(by_performer: Mapping[str, Action]) -> Action:
    """A command for all performers; an error of one does not leave out the others."""

    def act(*arguments: object) -> str | Awaitable[str]:
        results: dict[str, str | Awaitable[str]] = {}
        errors: dict[str, str] = {}
        for performer, action in by_performer.items():
            try:
                results[performer] = action(*arguments)
            except (MotionError, OSError) as error:
                errors[performer] = str(error)
        answers = {performer: answer for performer, answer in results.items() if isinstance(answer, str)}
        pending = {performer: answer for performer, answer in results.items() if not isinstance(answer, str)}
        return _later(answers, pending, errors) if pending else _reply(answers, errors)

    return act


async def _later(answers: dict[str, str], pending: dict[str, Awaitable[str]], refused: dict[str, str]) -> str:
    # Gathered, so that all are awaited even if the show ends meanwhile or one fails.
    done = await asyncio.gather(*pending.values(), return_exceptions=True)
    for performer, answer in zip(pending, done, strict=True):
        if isinstance(answer, BaseException):
            refused[performer] = _text_of(answer)
        else:
            answers[performer] = answer
    return _reply(answers, refused)


def _text_of(error: BaseException) -> str:
    return str(error) if isinstance(error, MotionError | OSError) else one_line(error)


def _reply(answers: dict[str, str], refused: dict[str, str]) -> str:
    if refused:
        raise OptionError("; ".join(f"{performer}: {text}" for performer, text in refused.items()))
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    return "; ".join(f"{performer}: {text}" for performer, text in answers.items())
