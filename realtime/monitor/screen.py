"""The process that draws in the terminal: ``python -P -m realtime.monitor.screen PORT TITLE KEYS``.

Frames come over loopback (:mod:`realtime.monitor.feed`); lines to print and the show's health come as JSON
through standard input. When that ends, however the show died, the process restores the terminal and exits. It
draws at most ten times a second; if the terminal is slow, only this process waits.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgpack
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.text import Text

from pyanticip.controls import CANCEL
from pyanticip.errors import printable
from pyanticip.system import ignore_terminal, lower_priority, wait_readable
from pyanticip.vocabulary import PARAMETERS, SCALARS
from realtime.protocols import BEAT_TRUST
from realtime.sockets import bind_udp

# Width of a bar in characters, at most and at least.
_BAR_WIDTH, _MIN_BAR_WIDTH = 28, 4
# Width of a row without its two bars.
_TEXT_WIDTH = 44
_COLOURS = {"playing": "green", "panic": "bold white on red", "waiting": "dim", "silent": "dim"}
_KEYS = "p Esc panic   q quit   s start   x stop   f freeze   b bypass   r record"


class Meters:
    """A rich renderable of the newest frame of :class:`realtime.monitor.feed.MonitorFeed` and of
    :func:`realtime.monitor.health.health`.

    ``keys``: whether to list the keys. Texts come from the network, so their control characters are escaped.
    """

    def __init__(self, title: str, keys: bool = False) -> None:
        self._title = title
        self._keys = keys
        self._frame: dict[str, Any] = {}
        self._health: dict[str, Any] = {}
        self._refused: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._events: list[str] = []

    def set_frame(self, data: Mapping[str, Any]) -> None:
        """Display a frame. Raises LookupError, TypeError or ValueError if ``data`` is none."""
        frame: dict[str, Any] = {name: [float(v) for v in data[name]] for name in _LISTS}
        if [len(frame["scalars"]), len(frame["params"]), len(frame["tempo"])] != [7, 8, 3]:
            raise ValueError("not a frame")
        frame |= {name: float(data[name]) for name in ("seconds", "way_ms")}
        if data.get("place") is not None:
            take, seconds, *_ = data["place"]
            frame["place"] = int(take), float(seconds)
        for name, strength, _ in data["events"]:
            if not str(name).endswith(CANCEL):
                text = f"{printable(str(name))} {float(strength):.2f} at {frame['seconds']:.1f} s"
                # The newest first, because the end of the line may be cut off.
                self._events = [text, *self._events[:2]]
        self._frame = {**frame, "state": printable(str(data["state"]))}

    def set_health(self, health: Mapping[str, Any]) -> None:
        """Display the show's health."""
        self._health = dict(health)
        self._troubles = dict.fromkeys(health["away"], "cannot be reached")
        for name, counts in health["sinks"].items():
            refused = counts.get("refused", 0)
            if refused > self._refused.get(name, refused):
                self._troubles.setdefault(name, "nobody listens")
            self._refused[name] = refused

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield from self._head()
        yield Text()
        bar_width = (options.max_width - _TEXT_WIDTH) // 2
        yield from self._bars(min(max(bar_width, _MIN_BAR_WIDTH), _BAR_WIDTH))
        yield Text("   ".join(self._events), style="yellow", no_wrap=True)
        if self._keys:
            keys = _KEYS if len(_KEYS) <= options.max_width else _KEYS.replace("   f", "\nf")
            yield Text(keys, style="dim", no_wrap=True)

    def _head(self) -> Iterator[Text]:
        state = str(self._frame.get("state") or self._health.get("state", "waiting"))
        words = [(self._title, "bold"), (state, _COLOURS.get(state, "yellow"))]
        if self._frame:
            words.append((f"{self._frame['seconds']:.1f} s", ""))
        health = self._health
        words += [("bypass", "yellow")] if health.get("bypass") else []
        words += [("recording", "red")] if health.get("recording") else []
        yield _line(words)
        if not health:
            return
        playing = [(name, gone_s) for name, plays, _, gone_s in health["senders"] if plays]
        others = len(health["senders"]) - len(playing)
        name, gone_s = playing[0] if playing else ("", 0)
        suit = f"{health['source']} of {name or 'a file'}" if playing else f"no {health['source']} yet"
        words = [(suit, "" if playing else "dim")]
        words += [(f"gone for {gone_s} s", "yellow")] if gone_s else []
        words += [(f"{health['rate']:.1f} frames a second", "")] if health["rate"] else []
        words += [(f"{health['lost']} lost", "")] if health["lost"] else []
        words += [(f"{others} wait", "yellow")] if others else []
        yield _line(words)
        words = [(f"lead {health['lead_ms']:.0f} ms", "")]
        if self._frame:
            bpm, _, trust = self._frame["tempo"]
            words.append((f"tempo {bpm:.0f}" if trust >= BEAT_TRUST else "no tempo", ""))
            foreseen = self._frame["trust"]
            words += [(f"{100 * sum(foreseen) / len(foreseen):.0f} % foreseen", "")] if foreseen else []
            take, seconds = self._frame.get("place", (-1, 0.0))
            words += [(f"at {seconds:.1f} s of take {take}", "")] if take >= 0 else []
        yield _line([*words, (f"model on {health['backend']}", "")])
        names = [name for name in health["sinks"] if name not in _INTERNAL_SINKS]
        troubles = [(name, self._troubles.get(name, "")) for name in names]
        # Those in trouble first, because the end of the line may be cut off.
        troubles.sort(key=lambda pair: not pair[1])
        receivers = [(f"{name}: {why}", "red") if why else (name, "green") for name, why in troubles]
        yield _line(receivers or [("no receiver", "dim")])

    def _bars(self, width: int) -> Iterator[Text]:
        """Rows of scalars and parameters. Not a rich table, because that measures its columns slowly."""
        scalars = self._frame.get("scalars") or [0.0] * len(SCALARS)
        params = self._frame.get("params") or [0.0] * len(PARAMETERS)
        left: list[list[str | Text]] = [
            [f"{name.replace('_', ' '):19} ", _scalar_bar(name, v, width), f" {v:5.2f}  "]
            for name, v in zip(SCALARS, scalars, strict=True)
        ]
        left += [[" " * (19 + 1 + width + 8)]] * (len(params) - len(left))
        for scalar, name, value in zip(left, PARAMETERS, params, strict=True):
            param_bar = bar(value, "magenta", width)
            yield Text.assemble(*scalar, (f"{name:10} ", "bold"), param_bar, f" {value:4.2f}", no_wrap=True)


_LISTS = ("scalars", "params", "tempo", "trust")
# Sinks that are not receivers.
_INTERNAL_SINKS = ("monitor", "meters", "announced", "oscquery")


def _line(words: list[tuple[str, str]]) -> Text:
    """A line of (text, style), cut off at the width of the terminal."""
    parts = [part for text, style in words for part in ((printable(text), style), "   ")]
    return Text.assemble(*parts[:-1], no_wrap=True, overflow="ellipsis")


def _scalar_bar(name: str, value: float, width: int) -> Text:
    if name == "transition_pressure":  # -2 to 2
        return bar_from_middle(value / 2.0, "cyan", width)
    return bar(value, "cyan", width)


def bar(value: float, colour: str, width: int = _BAR_WIDTH) -> Text:
    """A bar for a value in 0..1, with a resolution of an eighth of a character."""
    return Text(_blocks(value, width).ljust(width), style=colour, no_wrap=True)


def bar_from_middle(value: float, colour: str, width: int = _BAR_WIDTH) -> Text:
    """A bar for a value in -1..1, from the middle to the right or (in halves of a character) to the left."""
    left = width // 2
    halves = round(min(max(-value, 0.0), 1.0) * left * 2) if math.isfinite(value) else 0
    blocks = ("▐" * (halves % 2) + "█" * (halves // 2)).rjust(left) + _blocks(value, width - left)
    return Text(blocks.ljust(width), style=colour, no_wrap=True)


def _blocks(value: float, width: int) -> str:
    """Block characters for the share ``value`` of ``width`` characters."""
    eighths = round(min(max(value, 0.0), 1.0) * width * 8) if math.isfinite(value) else 0
    full, part = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")


_DRAW_INTERVAL_S = 0.1
_READ_SIZE = 65536


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    ignore_terminal()
    lower_priority(10)
    port, title, keys = arguments
    feed = bind_udp("127.0.0.1", int(port), "meters")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    meters = Meters(title, keys == "keys")
    unread = b""
    with Live(meters, console=console, auto_refresh=False, transient=True) as live:
        draw_at = time.monotonic()
        while True:
            ready = wait_readable(draw_at - time.monotonic(), feed)
            if feed in ready:
                _on_datagram(meters, feed.recv(_READ_SIZE))
            if 0 in ready:
                data = os.read(0, _READ_SIZE)
                if not data:
                    return 0
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    message = json.loads(line)
                    if "say" in message:
                        console.print(Text(printable(message["say"])))
                    else:
                        meters.set_health(message)
            if time.monotonic() >= draw_at:
                live.refresh()
                draw_at = time.monotonic() + _DRAW_INTERVAL_S


def _on_datagram(meters: Meters, datagram: bytes) -> None:
    """Display a frame of the show; datagrams of other programs are ignored."""
    with contextlib.suppress(Exception):
        message = msgpack.unpackb(datagram)
        if "status" not in message:
            meters.set_frame(message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
