"""The process that draws in the terminal: ``python -P -m realtime.monitor.screen PORT TITLE KEYS``.

Frames come over loopback (:mod:`realtime.monitor.feed`), lines and how things stand as JSON through standard
input; when that ends, by whatever death of the show, so does the process, and the terminal is as it was. It
draws ten times a second at most, and where the terminal is slow only this process waits.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import msgpack
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pyanticip.errors import printable
from realtime.monitor.meters import Meters
from realtime.sockets import bind_udp

__all__ = ["main"]

# msgpack has no types.
_unpackb: Callable[..., Any] = msgpack.unpackb  # type: ignore[attr-defined]
_PERIOD = 0.1
_MOST = 65536


def main(arguments: list[str]) -> int:
    """The process."""
    # The terminal's Ctrl-C is for the show.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(10)
    port, title, keys = arguments
    feed = bind_udp("127.0.0.1", int(port), "meters")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    meters = Meters(title, keys == "keys")
    unread = b""
    with Live(meters, console=console, auto_refresh=False, transient=True) as live:
        due = time.monotonic()
        while True:
            ready, _, _ = select.select([feed, sys.stdin], [], [], max(due - time.monotonic(), 0.0))
            if feed in ready:
                _hear(meters, feed.recv(_MOST))
            if sys.stdin in ready:
                said = os.read(sys.stdin.fileno(), _MOST)
                if not said:
                    return 0
                *lines, unread = (unread + said).split(b"\n")
                for line in lines:
                    told = json.loads(line)
                    if "say" in told:
                        console.print(Text(printable(told["say"])))
                    else:
                        meters.stand(told)
            if time.monotonic() >= due:
                live.refresh()
                due = time.monotonic() + _PERIOD


def _hear(meters: Meters, datagram: bytes) -> None:
    """A frame of the show; what else comes is somebody else's."""
    with contextlib.suppress(Exception):
        told = _unpackb(datagram)
        if "status" not in told:
            meters.hear(told)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
