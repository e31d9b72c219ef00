"""The performer's hand on the keyboard of the terminal: each key a command like the remote control's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TextIO

from pyanticip.errors import MotionError
from pyanticip.system import cooked_keys, pressed_keys, raw_keys, terminal_is_ours
from realtime.pipeline import Pipeline

__all__ = ["Keys", "in_front"]

_ESCAPE = "\x1b"
_LOOK_S = 0.05
# In the background it is looked so often whether keys are ours again.
_AWAY_S = 0.5
# Arrows and their like begin as Esc does: of Linux' console (F1) and with Alt, Shift or Ctrl, too.
_SEQUENCE = re.compile(r"\x1b+[\[O]\[?[0-9;]*[A-Za-z~^$@]")


def in_front(stream: TextIO) -> bool:
    """Whether a stream is a terminal, and we are its foreground: one in the background must not touch it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return stream.isatty() and terminal_is_ours(stream.fileno())
    return False


class Keys:
    """Reads single keys of standard input in the asyncio loop, from :meth:`start` to :meth:`close`.

    p and Esc panic, s starts, x stops, f freezes, b bypasses, r records (f, b and r the other way round
    again), q is ``quit``. ``actions`` are the show's; ``say`` is told what was refused, ``done`` when one was
    obeyed. Where standard input is no terminal, nothing is read.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        actions: Mapping[str, Callable[..., object]],
        quit: Callable[[], None],
        say: Callable[[str], None],
        done: Callable[[], None],
    ) -> None:
        self._pipeline = pipeline
        self._actions = actions
        self._quit = quit
        self._say = say
        self._done = done
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: list[Any] | None = None
        self._later: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read keys from now on, each as it is pressed."""
        if not in_front(sys.stdin):
            return
        self._before = raw_keys(sys.stdin.fileno())
        self._loop = loop
        if self._before is None:
            self._look()
        else:
            self._listen()

    def _listen(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(sys.stdin.fileno(), self._readable)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._loop is None:
            return
        if self._before is not None:
            self._loop.remove_reader(sys.stdin.fileno())
        self._loop = None
        # From the background it would stop us, and the shell has set its own.
        if in_front(sys.stdin):
            cooked_keys(sys.stdin.fileno(), self._before)

    def _look(self) -> None:
        """Where a terminal does not say that something was pressed, it is asked."""
        for key in pressed_keys().lower():
            self._press(key)
        if self._loop is not None:
            self._loop.call_later(_LOOK_S, self._look)

    def _readable(self) -> None:
        if not in_front(sys.stdin):
            # Somebody else's, who may leave them unread for long.
            if self._loop is not None:
                self._loop.remove_reader(sys.stdin.fileno())
                self._loop.call_later(_AWAY_S, self._listen)
            return
        try:
            pressed = os.read(sys.stdin.fileno(), 1024).decode("ascii", "replace")
        except OSError:
            pressed = ""
        if not pressed:
            # The terminal has gone.
            if self._loop is not None:
                self._loop.remove_reader(sys.stdin.fileno())
            return
        if not pressed.strip(_ESCAPE):
            self._press(_ESCAPE)
            return
        for key in _SEQUENCE.sub("", pressed).replace(_ESCAPE, "").lower():
            self._press(key)

    def _press(self, key: str) -> None:
        mixer = self._pipeline.mixer
        commands: dict[str, tuple[object, ...]] = {
            "p": ("panic",),
            _ESCAPE: ("panic",),
            "s": ("start",),
            "x": ("stop",),
            "f": ("freeze", int(mixer.mode != "frozen")),
            "b": ("bypass", int(not mixer.bypass)),
            "r": ("record/start" if self._pipeline.tape is None else "record/stop",),
        }
        if key == "q":
            self._quit()
        elif key in commands:
            name, *arguments = commands[key]
            try:
                done = self._actions[str(name)](*arguments)
            except (MotionError, OSError) as error:
                self._say(f"{name}: {error}")
            else:
                if isinstance(done, Awaitable):
                    self._later = asyncio.ensure_future(self._wait(str(name), done))
            self._done()

    async def _wait(self, name: str, done: Awaitable[object]) -> None:
        try:
            await done
        except (MotionError, OSError) as error:
            self._say(f"{name}: {error}")
        self._done()
