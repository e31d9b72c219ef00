"""``pyanticip soak --kills N``: a short show is killed at a random moment, time and again.

Of each death: how long until the receiver was told of silence, what the recording has lost, whether notes
sound on, how long processes outlive the show, how long the next one takes to begin.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from pyanticip.controls import NEUTRAL
from pyanticip.errors import DeviceError, MotionError
from pyanticip.motion.recording import read_recording
from realtime.soak.osc_recorder import ReceivedDatagram
from realtime.soak.processes import alive, below
from realtime.soak.show_process import SoakSetup, report, soak_setup
from realtime.soak.suit import Suit

__all__ = ["kills", "summary"]

# When it dies, seconds after the first frame; how long what is left of it is looked at.
_MOMENTS = 0.3, 3.0
_LOOK_S = 10.0


def kills(
    count: int, out: Path, *, seed: int = 0, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Kill so many shows, then write ``soak.json`` into ``out``; Ctrl-C ends it before.

    Raises as :func:`realtime.soak.run.run` does.
    """
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    ended, last = "", {}
    bar = Progress(console=Console(stderr=True), disable=not sys.stderr.isatty())
    with soak_setup(out) as built, contextlib.closing(Suit(built.show.source, seed)), bar:
        try:
            for n in bar.track(range(count), description="killed"):
                rows.append(_kill(built, f"take{n}", chance.uniform(*_MOMENTS)))
            # The last of them begins after all, and ends as it should.
            last = {"start_s": round(built.show.start("last"), 2), "exit_code": built.show.stop()}
        except KeyboardInterrupt:
            ended = "interrupted"
        except DeviceError as error:
            ended = str(error)
            say(ended)
        told = {"kills": len(rows), **summary(rows), "last": last, "ended": ended, "rows": rows}
        return report(out, built, seed, told)


def _kill(built: SoakSetup, take: str, moment: float) -> dict[str, Any]:
    """One show, from its beginning until nothing is left of it."""
    show, ear, _, notes = built
    start = show.start(take)
    heard = len(ear.times)
    if not show.until(lambda: len(ear.times) > heard, 20.0):
        raise DeviceError("soak: the show does not hear the suit")
    time.sleep(moment)
    children = list(below(show.pid))
    killed = show.kill()
    until = time.monotonic() + _LOOK_S
    gone: int | None = None
    while time.monotonic() < until and (gone is None or not _is_silent(ear.recent[-1])):
        if gone is None and not any(map(alive, children)):
            gone = time.monotonic_ns()
        time.sleep(0.005)
    silent = next((one.t_ns for one in [*ear.recent] if one.t_ns > killed and _is_silent(one)), None)
    row: dict[str, Any] = {
        "moment_s": round(moment, 3),
        "start_s": round(start, 2),
        "silent": _is_silent(ear.recent[-1]),
        # Of a show that said nothing but silence nothing is faded.
        "fade_ms": None if silent is None else round((silent - killed) / 1e6, 1),
        "notes_left": 0 if notes is None else notes.sounding,
        "gone_ms": None if gone is None else round((gone - killed) / 1e6, 1),
        "left": [pid for pid in children if alive(pid)],
    }
    path = show.takes / f"{take}.anticip"
    try:
        taken = read_recording(path)
        last = max((record.t_ns for record in taken), default=taken.start_ns or 0)
    except MotionError as error:
        return {**row, "readable": False, "why": str(error), "lost_ms": None}
    path.unlink()
    return {
        **row,
        "readable": True,
        "torn": len(taken.warnings),
        "lost_ms": round((killed - last) / 1e6, 1),
    }


def _is_silent(heard: ReceivedDatagram) -> bool:
    params = heard.values("/anticip/params")
    return all(abs(float(str(a)) - b) < 1e-3 for a, b in zip(params, NEUTRAL, strict=True))


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    """Median and worst."""
    ordered = sorted(values)
    return {"p50": ordered[len(ordered) // 2], "max": ordered[-1]} if ordered else None


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the deaths have cost, of all of them."""
    found: dict[str, Any] = {
        name: _spread([row[name] for row in rows if row.get(name) is not None])
        for name in ("lost_ms", "fade_ms", "gone_ms", "start_s")
    }
    return {
        **found,
        "unreadable": sum(not row["readable"] for row in rows),
        "torn": sum(bool(row.get("torn")) for row in rows),
        "not_silent": sum(not row["silent"] for row in rows),
        "notes_left": sum(row["notes_left"] > 0 for row in rows),
        "outlived": sum(bool(row["left"]) for row in rows),
    }
