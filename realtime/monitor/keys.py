"""Single-key commands in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TextIO

from pyanticip.errors import MotionError
from pyanticip.system import cooked_keys, is_foreground_group, pressed_keys, raw_keys
from realtime.pipeline import Pipeline

_ESCAPE = "\x1b"
# Interval of polling a terminal that cannot be watched.
_POLL_INTERVAL_S = 0.05
# Interval of checking whether a background process is in the foreground again.
_BACKGROUND_INTERVAL_S = 0.5
# Escape sequences of arrows and other keys, also the Linux console's (F1) and those with Alt, Shift or Ctrl.
_SEQUENCE = re.compile(r"\x1b+[\[O]\[?[0-9;]*[A-Za-z~^$@]")


def is_foreground(stream: TextIO) -> bool:
    """Whether a stream is a terminal with this process in its foreground; others must not touch it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return stream.isatty() and is_foreground_group(stream.fileno())
    return False


class Keys:
    """Reads single keys of standard input in the asyncio loop, from :meth:`start` to :meth:`close`.

    p and Esc panic, s starts, x stops; f toggles freeze, b bypass and r recording; q calls ``quit``.
    ``actions`` are the show's commands by name; ``say`` reports errors, ``done`` is called after every
    command. If standard input is not a terminal, nothing is read.
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
        # Terminal settings to restore; None: they were not changed.
        self._settings: list[Any] | None = None
        # Keeps the running task referenced.
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start reading keys as they are pressed."""
        if not is_foreground(sys.stdin):
            return
        self._settings = raw_keys(sys.stdin.fileno())
        self._loop = loop
        if self._settings is None:
            self._poll()
        else:
            self._listen()

    def _listen(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(sys.stdin.fileno(), self._on_readable)

    def close(self) -> None:
        """Restore the terminal."""
        if self._loop is None:
            return
        if self._settings is not None:
            self._loop.remove_reader(sys.stdin.fileno())
        self._loop = None
        # In the background this would stop the process, and the shell has restored its own settings.
        if is_foreground(sys.stdin):
            cooked_keys(sys.stdin.fileno(), self._settings)

    def _poll(self) -> None:
        """Poll a terminal that cannot notify the event loop (Windows)."""
        for key in pressed_keys().lower():
            self._press(key)
        if self._loop is not None:
            self._loop.call_later(_POLL_INTERVAL_S, self._poll)

    def _on_readable(self) -> None:
        if not is_foreground(sys.stdin):
            # The keys are the foreground process's, which may leave them unread for long.
            if self._loop is not None:
                self._loop.remove_reader(sys.stdin.fileno())
                self._loop.call_later(_BACKGROUND_INTERVAL_S, self._listen)
            return
        try:
            pressed = os.read(sys.stdin.fileno(), 1024).decode("ascii", "replace")
        except OSError:
            pressed = ""
        if not pressed:
            # The terminal was closed.
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
                result = self._actions[str(name)](*arguments)
            except (MotionError, OSError) as error:
                self._say(f"{name}: {error}")
            else:
                if isinstance(result, Awaitable):
                    self._task = asyncio.ensure_future(self._wait(str(name), result))
            self._done()

    async def _wait(self, name: str, result: Awaitable[object]) -> None:
        try:
            await result
        except (MotionError, OSError) as error:
            self._say(f"{name}: {error}")
        self._done()
