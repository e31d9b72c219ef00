"""The process that draws in the terminal: ``python -P -m realtime.monitor.screen PORT TITLE KEYS``.

Frames come over loopback (:mod:`realtime.monitor.feed`), lines and how things stand as JSON through standard
input; when that ends, by whatever death of the show, so does the process, and the terminal is as it was. It
draws ten times a second at most, and where the terminal is slow only this process waits.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgpack
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.text import Text

from pyanticip.controls import CANCEL
from pyanticip.errors import printable
from pyanticip.system import ignore_terminal, lower_priority, readable
from pyanticip.vocabulary import PARAMETERS, SCALARS
from realtime.protocols import BEAT_TRUST
from realtime.sockets import bind_udp

__all__ = ["Meters", "bar", "bar_from_middle", "main"]

_WIDTH = 28
# Everything in a row but its two bars, and the shortest bar.
_WORDS, _SHORTEST = 44, 4
_COLOURS = {"playing": "green", "panic": "bold white on red", "waiting": "dim", "silent": "dim"}
_KEYS = "p Esc panic   s start   x stop   f freeze   b bypass   r record   q quit"


class Meters:
    """Told the frames of :class:`realtime.monitor.feed.MonitorFeed` and, once a second, how things stand
    (:func:`realtime.monitor.health.health`); drawn by rich as often as the terminal wants it.

    ``keys``: say which there are. Texts come from the network: nothing of them is obeyed by the terminal.
    """

    def __init__(self, title: str, keys: bool = False) -> None:
        self._title = title
        self._keys = keys
        self._frame: dict[str, Any] = {}
        self._health: dict[str, Any] = {}
        self._refused: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._events: list[str] = []

    def hear(self, told: Mapping[str, Any]) -> None:
        """A frame. Raises LookupError, TypeError or ValueError where it is none."""
        frame: dict[str, Any] = {name: [float(v) for v in told[name]] for name in _LISTS}
        if [len(frame["scalars"]), len(frame["params"]), len(frame["tempo"])] != [7, 8, 3]:
            raise ValueError("not a frame")
        frame |= {name: float(told[name]) for name in ("seconds", "way_ms")}
        for name, strength, _ in told["events"]:
            if not str(name).endswith(CANCEL):
                said = f"{printable(str(name))} {float(strength):.2f} at {frame['seconds']:.1f} s"
                self._events = [*self._events[-2:], said]
        self._frame = {**frame, "state": printable(str(told["state"]))}

    def stand(self, health: Mapping[str, Any]) -> None:
        """How things stand."""
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
        yield from self._bars(min(max((options.max_width - _WORDS) // 2, _SHORTEST), _WIDTH))
        yield Text("   ".join(self._events), style="yellow", no_wrap=True)
        if self._keys:
            yield Text(_KEYS, style="dim", no_wrap=True)

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
        playing = [(name, gone) for name, plays, _, gone in health["senders"] if plays]
        others = len(health["senders"]) - len(playing)
        name, gone = playing[0] if playing else ("", 0)
        suit = f"{health['source']} of {name or 'a file'}" if playing else f"no {health['source']} yet"
        words = [(suit, "" if playing else "dim")]
        words += [(f"gone for {gone} s", "yellow")] if gone else []
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
        yield _line([*words, (f"model on {health['backend']}", "")])
        hears = [name for name in health["sinks"] if name not in _OURS]
        told = [(name, self._troubles.get(name, "")) for name in hears]
        # Those in trouble first: the end of the line may be out of sight.
        told.sort(key=lambda one: not one[1])
        receivers = [(f"{name}: {why}", "red") if why else (name, "green") for name, why in told]
        yield _line(receivers or [("no receiver", "dim")])

    def _bars(self, wide: int) -> Iterator[Text]:
        """Scalars beside parameters. No table of rich's: measuring its columns takes longer than all else."""
        scalars = self._frame.get("scalars") or [0.0] * len(SCALARS)
        params = self._frame.get("params") or [0.0] * len(PARAMETERS)
        left: list[list[str | Text]] = [
            [f"{name.replace('_', ' '):19} ", _scalar_bar(name, v, wide), f" {v:5.2f}  "]
            for name, v in zip(SCALARS, scalars, strict=True)
        ]
        left += [[" " * (19 + 1 + wide + 8)]] * (len(params) - len(left))
        for beside, name, value in zip(left, PARAMETERS, params, strict=True):
            drawn = bar(value, "magenta", wide)
            yield Text.assemble(*beside, (f"{name:10} ", "bold"), drawn, f" {value:4.2f}", no_wrap=True)


_LISTS = ("scalars", "params", "tempo", "trust")
# Who draws or counts is no receiver.
_OURS = ("monitor", "meters", "announced", "oscquery")


def _line(words: list[tuple[str, str]]) -> Text:
    """Words beside each other, cut off where the terminal ends."""
    parts = [part for text, style in words for part in ((printable(text), style), "   ")]
    return Text.assemble(*parts[:-1], no_wrap=True, overflow="ellipsis")


def _scalar_bar(name: str, value: float, wide: int) -> Text:
    if name == "transition_pressure":  # -2 to 2
        return bar_from_middle(value / 2.0, "cyan", wide)
    return bar(value, "cyan", wide)


def bar(value: float, colour: str, wide: int = _WIDTH) -> Text:
    """A bar of eighths of a character, for a value in 0..1."""
    return Text(_blocks(value, wide).ljust(wide), style=colour, no_wrap=True)


def bar_from_middle(value: float, colour: str, wide: int = _WIDTH) -> Text:
    """A bar that goes right from the middle, or left (in halves of a character), for a value in -1..1."""
    left = wide // 2
    halves = round(min(max(-value, 0.0), 1.0) * left * 2) if math.isfinite(value) else 0
    drawn = ("▐" * (halves % 2) + "█" * (halves // 2)).rjust(left) + _blocks(value, wide - left)
    return Text(drawn.ljust(wide), style=colour, no_wrap=True)


def _blocks(value: float, wide: int) -> str:
    """So much of so many characters, in eighths."""
    eighths = round(min(max(value, 0.0), 1.0) * wide * 8) if math.isfinite(value) else 0
    full, part = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")


# msgpack has no types.
_unpackb: Callable[..., Any] = msgpack.unpackb  # type: ignore[attr-defined]
_PERIOD = 0.1
_MOST = 65536


def main(arguments: list[str]) -> int:
    """The process."""
    ignore_terminal()
    lower_priority(10)
    port, title, keys = arguments
    feed = bind_udp("127.0.0.1", int(port), "meters")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    meters = Meters(title, keys == "keys")
    unread = b""
    with Live(meters, console=console, auto_refresh=False, transient=True) as live:
        due = time.monotonic()
        while True:
            ready = readable(due - time.monotonic(), feed)
            if feed in ready:
                _hear(meters, feed.recv(_MOST))
            if 0 in ready:
                said = os.read(0, _MOST)
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
