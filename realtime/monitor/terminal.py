"""Meters in the terminal below what a show says there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from realtime.child import Child
from realtime.clock import Clock
from realtime.monitor.feed import MonitorFeed
from realtime.monitor.keys import in_front
from realtime.sockets import free_port

__all__ = ["Terminal", "can_draw"]

# Frames for each that is drawn.
_EVERY = 5


def can_draw() -> bool:
    """Whether meters can be drawn: both outputs are a terminal that moves its cursor, and it is ours now."""
    return (
        sys.stdout.isatty()
        and sys.stderr.isatty()
        and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        and in_front(sys.stderr)
    )


class Terminal(Child):
    """Runs :mod:`realtime.monitor.screen`. ``say`` is how lines are said where that is not there."""

    def __init__(self, title: str, say: Callable[[str], None]) -> None:
        self._port = free_port()
        self._plain = say
        self._health: Callable[[], Mapping[str, Any]] | None = None
        keys = "keys" if in_front(sys.stdin) else "none"
        super().__init__("the meters", "realtime.monitor.screen", [str(self._port), title, keys], say)

    def attend(self, clock: Clock, health: Callable[[], Mapping[str, Any]]) -> MonitorFeed:
        """Show how things stand, once a second, and the frames of the sink that is returned."""
        self._health = health
        return MonitorFeed(self._port, clock, "meters", _EVERY)

    def say(self, line: str) -> None:
        """A line above the meters."""
        if self.pid is None:
            self._plain(line)
        else:
            self.write(json.dumps({"say": line}).encode() + b"\n")

    def tell(self) -> None:
        """How things stand now."""
        if self._health is not None:
            self.write(json.dumps(self._health()).encode() + b"\n")

    def poll(self) -> list[str]:
        """See whether it lives, and tell it how things stand: once a second."""
        lines = super().poll()
        self.tell()
        return lines
