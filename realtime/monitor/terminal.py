"""Meters in the terminal, below the messages of the show."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from realtime.child import Child
from realtime.clock import Clock
from realtime.monitor.feed import MonitorFeed
from realtime.monitor.keys import is_foreground
from realtime.sockets import free_port

# The meters receive every fifth frame.
_FRAME_INTERVAL = 5


def can_draw() -> bool:
    """Whether meters can be drawn: standard output and error are a terminal with cursor control, and this
    process is in its foreground."""
    return (
        sys.stdout.isatty()
        and sys.stderr.isatty()
        and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        and is_foreground(sys.stderr)
    )


class Terminal(Child):
    """Runs :mod:`realtime.monitor.screen`. ``say`` prints lines while that does not run."""

    def __init__(self, title: str, say: Callable[[str], None]) -> None:
        self._port = free_port()
        self._say_plainly = say
        self._health: Callable[[], Mapping[str, Any]] | None = None
        keys = "keys" if is_foreground(sys.stdin) else "none"
        super().__init__("the meters", "realtime.monitor.screen", [str(self._port), title, keys], say)

    def display(self, clock: Clock, health: Callable[[], Mapping[str, Any]]) -> MonitorFeed:
        """Display ``health()`` once a second, and the frames of the returned sink."""
        self._health = health
        return MonitorFeed(self._port, clock, "meters", _FRAME_INTERVAL)

    def say(self, line: str) -> None:
        """Print a line above the meters."""
        if self.pid is None:
            self._say_plainly(line)
        else:
            self.write(json.dumps({"say": line}).encode() + b"\n")

    def send_health(self) -> None:
        """Send the current health to the process."""
        if self._health is not None:
            self.write(json.dumps(self._health()).encode() + b"\n")

    def poll(self) -> list[str]:
        """See :meth:`Child.poll`; also sends the current health. Call it once a second."""
        lines = super().poll()
        self.send_health()
        return lines
