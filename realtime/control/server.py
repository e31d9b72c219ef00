"""The performer's remote control: OSC under ``/anticip/control/``, answered under ``/anticip/reply/``.

Of several performers each one's commands stand under their name, and some are for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip.errors import MotionError, OptionError, one_line, printable, suggestion
from realtime.control.budget import Bucket, Budgets, Lines
from realtime.control.rig_keys import CONTROLS, check_names
from realtime.osc import read_message, split
from realtime.sockets import bind_udp, host_and_port, is_loopback

__all__ = [
    "CONTROL",
    "Action",
    "ControlServer",
    "Remote",
    "commands_of_all",
    "number",
    "rounded_float",
    "switch",
]

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
_OURS = CONTROL.encode()
# Longer datagrams, and what stands behind so many messages in one, are not obeyed.
_LONGEST, _MOST, _MOST_ARGUMENTS = 8192, 32, 300
# Commands of one host, a second and at once (all that a program says when it begins); and each of those that
# files or processes are needed for.
_RATE, _BURST = 200.0, 1000.0
_SLOW_RATE, _SLOW_BURST = 1.0, 10.0
# The loop does so much at once (seconds; one command may be longer), and then something else.
_READING, _RESTING = 0.0015, 0.005
# What a reply may have, bytes: to programs of this machine, and at least to others.
_REPLY_MOST, _REPLY_LEAST = 4096, 48
_LONGEST_NAME = 100


class _Asked(NamedTuple):
    """Who asked for which command, and how long the answer may be."""

    peer: tuple[Any, ...]
    name: str
    room: int


def _packed(address: str, *words: str) -> bytes:
    builder = OscMessageBuilder(address)
    for word in words:
        builder.add_arg(word, "s")
    dgram: bytes = builder.build().dgram
    return dgram


class ControlServer:
    """Listens for commands in the asyncio loop.

    Each command is answered with ``/anticip/reply/<command>``: ``ok`` or ``error`` and a line of text, to
    where it came from (or to ``reply_port`` there); on another machine cut to the length of what asked. What
    is not OSC or not ours is counted, never raised; so is what is more than a host's share (``ignored``).
    ``refused`` is told of commands that were not obeyed, a few printable lines, none twice in a row.
    ``performers`` are those who have commands of their own.
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
        # Whatever else was asked for and by however many, there is silence.
        self._silences = Budgets(_RATE, _BURST, 64)
        # Those that files or processes are needed for, once they were asked for.
        self._slow: dict[str, Bucket] = {}
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._waiting: deque[tuple[bytes, tuple[Any, ...]]] = deque()
        self._resting: asyncio.TimerHandle | None = None
        self.counts = {"commands": 0, "errors": 0, "alien": 0, "ignored": 0}
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def description(self) -> str:
        """Where it obeys, and whom, for the person at the terminal."""
        line = f"remote control: {CONTROL.rstrip('/')} at {host_and_port(*self.address)}"
        return (
            line
            if is_loopback(self.address[0])
            else f"{line}, open to whoever reaches it: it has no password"
        )

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The commands, and the beginnings of those whose rest is an argument."""
        return tuple(self._actions), tuple(self._families)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Obey from now on."""
        self._loop = loop
        loop.add_reader(self._sock.fileno(), self._readable)

    def _readable(self) -> None:
        until = time.monotonic() + _READING
        while time.monotonic() < until:
            if self._waiting:
                self._take(*self._waiting.popleft())
                continue
            try:
                data, peer = self._sock.recvfrom(_LONGEST + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue
            self._hear(data, peer)
        if self._loop is not None:
            # Much to do: the show comes first.
            self._loop.remove_reader(self._sock.fileno())
            self._resting = self._loop.call_later(_RESTING, self._go_on)

    def _go_on(self) -> None:
        if self._loop is not None:
            self.start(self._loop)
            self._readable()

    def _hear(self, data: bytes, peer: tuple[Any, ...]) -> None:
        try:
            if len(data) > _LONGEST:
                raise ValueError("too long")
            for one in split(data, _MOST):
                if not one.startswith(_OURS):
                    # Other programs' messages cost nothing of what is for commands.
                    self.counts["alien"] += 1
                    continue
                name = _command_of(one[len(_OURS) :].partition(b"\0")[0].decode(errors="replace"))
                budgets = self._silences if name in ("panic", "stop") else self._budgets
                if not budgets.take(str(peer[0])):
                    self.counts["ignored"] += 1
                    self._refused(f"too many commands from {peer[0]}: not all are obeyed")
                    continue
                # However much is to be done, silence comes first.
                put = self._waiting.appendleft if name == "panic" else self._waiting.append
                put((one, peer))
        except ValueError:
            self.counts["alien"] += 1

    def _take(self, data: bytes, peer: tuple[Any, ...]) -> None:
        try:
            name = data[len(_OURS) :].partition(b"\0")[0].decode()
            room = _REPLY_MOST if is_loopback(peer[0]) else max(len(data), _REPLY_LEAST)
        except ValueError:
            self.counts["alien"] += 1
            return
        asked = _Asked(peer, name, room)
        try:
            # Nil is how some programs press a button.
            told = read_message(data, _MOST_ARGUMENTS).params
            self._obey(asked, tuple(argument for argument in told if argument is not None))
        except Exception:
            # A remote must not stop us.
            self.counts["alien"] += 1
            self._answer(asked, "error", "malformed: expected what the types say, in UTF-8")

    def _obey(self, asked: _Asked, arguments: tuple[Any, ...]) -> None:
        name = asked.name
        action = self._actions.get(name)
        if action is None:
            family = next((family for family in self._families if name.startswith(family)), None)
            if family is None:
                self._answer(asked, "error", self._unknown(name))
                return
            action, arguments = self._families[family], (name.removeprefix(family), *arguments)
        elif _is_button(name):
            if _is_released(arguments):
                self._reply(asked, "ok", "released")
                return
            # Silence is what panic is for, whatever stands behind it.
            if (len(arguments) == 1 and _is_value(arguments[0])) or _command_of(name) == "panic":
                arguments = ()
        self.counts["commands"] += 1
        try:
            if name in self._pending:
                raise OptionError(f"{name}: the one before is not done yet")
            if name in self._slow and not self._slow[name].take():
                raise OptionError(f"{name}: too often")
            found = action(*arguments)
        except (MotionError, OSError) as error:
            self._answer(asked, "error", str(error))
        except TypeError:
            self._answer(asked, "error", f"{name}: wrong number of arguments: {len(arguments)}")
        else:
            if isinstance(found, str):
                self._answer(asked, "ok", found)
            else:
                self._slow.setdefault(name, Bucket(_SLOW_RATE, _SLOW_BURST))
                self._pending[name] = asyncio.ensure_future(self._later(asked, found))

    async def _later(self, asked: _Asked, found: Awaitable[str]) -> None:
        try:
            answer = "ok", await found
        except (MotionError, OSError) as error:
            answer = "error", str(error)
        except Exception as error:
            # A remote must not wait for ever, nor fill the terminal.
            answer = "error", one_line(error)
        finally:
            self._pending.pop(asked.name, None)
        self._answer(asked, *answer)

    def _answer(self, asked: _Asked, verdict: str, text: str) -> None:
        if verdict == "error":
            self._refuse(asked.name, text)
        self._reply(asked, verdict, text)

    def _unknown(self, name: str) -> str:
        """Why there is no command of this name: one performer has it, something lacks, or it is misspelt."""
        several = [f"{who}/{name}" for who in self._performers]
        found = [one for one in several if one in self._actions or one.startswith(tuple(self._families))]
        if found:
            return f"is for one performer: {', '.join(found)}"
        who, _, rest = name.partition("/")
        own, asked = (f"{who}/", rest) if who in self._performers else ("", name)
        if asked.startswith("teach/") and not any(one.startswith(f"{own}teach/") for one in self._actions):
            return f"{who if own else 'this show'} has no project to teach: expected `teach` in the rig"
        known = [one for one in (*self._actions, *self._families) if one.startswith(own)]
        return f"unknown command{suggestion(name[:_LONGEST_NAME], known) or '; docs/osc.md has them all'}"

    def _refuse(self, name: str, text: str) -> None:
        self.counts["errors"] += 1
        # Names come from the network: nothing that a terminal obeys.
        self._refused(printable(f"refused {CONTROL}{name}: {text}")[:300])

    def _reply(self, asked: _Asked, verdict: str, text: str) -> None:
        """Answer; what has no room is cut off, and an answer that has none at all is not sent."""
        room = asked.room - len(_packed(_REPLY + asked.name, verdict, ""))
        if room < 0:
            return
        # With its end a text fills whole words of four bytes.
        text = text.encode()[: room // 4 * 4 + 3].decode(errors="ignore")
        peer = asked.peer
        where = (peer[0], self._reply_port, *peer[2:]) if self._reply_port else peer
        with contextlib.suppress(OSError):
            self._sock.sendto(_packed(_REPLY + asked.name, verdict, text), where)

    def close(self) -> None:
        """Stop listening; what is not done yet is given up."""
        for task in self._pending.values():
            task.cancel()
        if self._resting is not None:
            self._resting.cancel()
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
    """A float of OSC, which has seven digits, as it was meant and not as 64 bits have it."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def switch(name: str, value: object = 1) -> bool:
    """On or off from an OSC argument: T, F or a number; on where none is given."""
    return value if isinstance(value, bool) else number(name, value) != 0.0


def _command_of(name: str) -> str:
    """What is commanded: of several performers one's name may stand before it."""
    return name if name in CONTROLS else name.partition("/")[2] or name


def _is_button(name: str) -> bool:
    """Whether a command needs nothing: buttons say all the same that they are pressed (1) or released (0).
    Where a name may be missing, one number alone is a button's, and no name."""
    control = CONTROLS.get(_command_of(name))
    return control is not None and (control.types == "N" or control.optional)


def _is_value(argument: object) -> bool:
    return isinstance(argument, int | float)


def _is_released(arguments: tuple[object, ...]) -> bool:
    return len(arguments) == 1 and _is_value(arguments[0]) and not arguments[0]


# What is about one suit, one model or one take.
_OF_ONE = frozenset({"source", "plan", "cue/set", "cue/remove", "rig/merge"})


def commands_of_all(
    actions: Mapping[str, Mapping[str, Action]],
    families: Mapping[str, Mapping[str, Action]],
    shared: frozenset[str],
) -> tuple[dict[str, Action], dict[str, Action]]:
    """Commands and families of the whole show, of those of each performer by name.

    ``<performer>/<command>`` is for one, and what of ``shared`` makes sense for all at once, ``<command>``.
    Raises an OptionError where a performer is called as a command begins.
    """
    one = {f"{who}/{name}": act for who, own in actions.items() for name, act in own.items()}
    several = {f"{who}/{name}": act for who, own in families.items() for name, act in own.items()}
    check_names(actions)
    both = {
        name: _for_all({who: one[f"{who}/{name}"] for who in actions})
        for name in next(iter(actions.values()))
        if name in shared - _OF_ONE
    }
    return one | both, several


def _for_all(acts: Mapping[str, Action]) -> Action:
    """One command to all: nobody is left out because another refused."""

    def act(*arguments: object) -> str | Awaitable[str]:
        found: dict[str, str | Awaitable[str]] = {}
        refused: dict[str, str] = {}
        for who, one in acts.items():
            try:
                found[who] = one(*arguments)
            except (MotionError, OSError) as error:
                refused[who] = str(error)
        answers = {who: answer for who, answer in found.items() if isinstance(answer, str)}
        pending = {who: answer for who, answer in found.items() if not isinstance(answer, str)}
        return _later(answers, pending, refused) if pending else _reply(answers, refused)

    return act


async def _later(answers: dict[str, str], pending: dict[str, Awaitable[str]], refused: dict[str, str]) -> str:
    # All at once: where the show ends meanwhile, or one fails, none is left that nobody awaits.
    done = await asyncio.gather(*pending.values(), return_exceptions=True)
    for who, answer in zip(pending, done, strict=True):
        if isinstance(answer, BaseException):
            refused[who] = str(answer) if isinstance(answer, MotionError | OSError) else one_line(answer)
        else:
            answers[who] = answer
    return _reply(answers, refused)


def _reply(answers: dict[str, str], refused: dict[str, str]) -> str:
    if refused:
        raise OptionError("; ".join(f"{who}: {text}" for who, text in refused.items()))
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    return "; ".join(f"{who}: {text}" for who, text in answers.items())
