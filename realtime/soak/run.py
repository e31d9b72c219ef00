"""``pyanticip soak``: a show plays for hours while one thing after another goes wrong; or short shows are
killed, one after the other, each at a random moment."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
from pythonosc.osc_bundle import OscBundle
from rich.console import Console
from rich.progress import track

from pyanticip.bench.machine import machine
from pyanticip.controls import NEUTRAL
from pyanticip.errors import DeviceError, MotionError
from pyanticip.motion.recording import Control, Raw, read_recording
from realtime.soak.faults import CHILDREN, FAULTS, as_before, possible
from realtime.soak.report import BAD, I64, draw, figures, kill_figures
from realtime.soak.show import Show, alive, below, open_show

__all__ = ["PICTURE", "REPORT", "examine", "kills", "plan", "run"]

REPORT, PICTURE = "soak.json", "soak.png"
Step = TypeVar("Step")
# Between a datagram's leaving and its arrival lies so much at most; at the ends of a file nobody knows.
_EDGE_NS = 50_000_000
_SAMPLE_S = 5.0
# Who is not back after so long is gone: pauses before a restart grow to 30 s, and what stands still is left
# so for 10.
_PATIENCE_S = 60.0
# A fault has so many seconds, if there is time; the first begins when it has been quiet for so long, the last
# leaves so much for the show to be seen whole again.
_EACH, _BEFORE, _AFTER = 12.0, 2.0, 3.0
# When a show is killed, seconds after the first frame; how long what is left of it is looked at.
_MOMENTS = 0.3, 3.0
_LOOK_S = 10.0


def plan(kinds: Sequence[str], seconds: float, chance: Random) -> list[tuple[str, float, float]]:
    """The faults of a show of so many seconds, all kinds at least once, however short it is: each with when
    it begins and how long it lasts, where it does (seconds)."""
    room = max(seconds - _BEFORE - _AFTER, 0.0)
    rounds = max(round(room / (_EACH * len(kinds))), 1)
    order = [kind for _ in range(rounds) for kind in chance.sample(list(kinds), len(kinds))]
    each = room / len(order)
    return [
        (kind, _BEFORE + (n + 0.3 * chance.random()) * each, max(chance.uniform(0.1, 0.5) * each, 0.4))
        for n, kind in enumerate(order)
    ]


def run(seconds: float, out: Path, *, seed: int = 0, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Play for so long, then write ``soak.json`` and, with matplotlib, ``soak.png`` into ``out``.

    Ctrl-C ends it before, with a report of what there is. ``say`` is told of what could not be done.

    Raises:
        OptionError: There is something in the folder.
        DeviceError: The show does not begin.
    """
    with open_show(out, seed, ("udp", "tcp")) as show:
        show.start("take")
        happened, taken, ended = _play(show, seconds, seed, say)
        # The fade at the end is no part of it.
        over = time.monotonic_ns()
        code = show.stop()
        sent, heard = show.suit.left(), np.array(show.ear.heard).reshape(-1, 2)
        files = sorted(show.takes.glob("*.anticip"), key=lambda path: path.stat().st_mtime_ns)
        takes = [examine(path, show.suit.sender, sent[:, 0]) for path in files]
        report = figures(sent[sent[:, 0] < over], heard[heard[:, 0] < over], taken, happened)
        report |= {"ended": ended, "exit_code": code, "takes": takes}
        is_whole = bool(takes) and takes[-1]["whole"] and takes[-1]["ended"] and not takes[-1]["missing"]
        is_whole &= all("why" not in take for take in takes)
        report["well"] = ended in ("", "interrupted") and code == 0 and not report["not_back"] and is_whole
        result = _report(out, show, seed, report)
    with contextlib.suppress(ImportError):
        draw(result, out / PICTURE)
    return result


def _report(out: Path, show: Show, seed: int, report: dict[str, Any]) -> dict[str, Any]:
    there = {"sound": show.pulse is not None, "midi": show.notes is not None}
    result = {**report, "seed": seed, **there, **machine()}
    (out / REPORT).write_text(json.dumps(result, indent=1))
    return result


def _play(
    show: Show, seconds: float, seed: int, say: Callable[[str], None]
) -> tuple[list[dict[str, Any]], I64, str]:
    """Let everything happen as planned: what did, what the show took, and why it was over early."""
    begun, happened, taken = time.monotonic(), list[dict[str, Any]](), [show.taken()]

    def watch() -> None:
        while not show.over.wait(_SAMPLE_S):
            with contextlib.suppress(OSError):
                taken.append(show.taken())

    # What goes wrong is set right before the end.
    # In a thread of its own: the main one may hold the event's lock, waiting for it.
    before = signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=show.over.set).start())
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    there = [word for word, module in CHILDREN.items() if show.children(module)]
    for kind, at, lasts in _tracked(plan(possible(show, there), seconds, Random(seed)), "faults"):
        show.wait(begun + at - time.monotonic())
        if show.over.is_set() or not show.pid:
            break
        show.lasts = lasts
        found = _happen(show, kind, there, say)
        # Of what was interrupted nobody knows.
        happened += [] if show.over.is_set() else [found]
    show.wait(begun + seconds - time.monotonic())
    ended = "interrupted" if show.over.is_set() else "" if show.pid else "the show has ended by itself"
    signal.signal(signal.SIGINT, before)
    show.over.set()
    watching.join()
    return happened, np.array(taken), ended


def _tracked(steps: Sequence[Step], name: str) -> Iterable[Step]:
    return track(steps, name, console=Console(stderr=True), disable=not sys.stderr.isatty())


def _happen(show: Show, kind: str, there: Sequence[str], say: Callable[[str], None]) -> dict[str, Any]:
    """A fault: when it began (since the first bundle) and how long it lasted until all was as before, and of
    that since it was set right, None where it was not (seconds)."""
    at, back = time.monotonic_ns(), None
    try:
        FAULTS[kind](show)
        righted = time.monotonic()
        if show.until(as_before(show, there), _PATIENCE_S):
            back = round(time.monotonic() - righted, 2)
    except Exception as error:
        # What it was to lay hands on may not be there, a fault too soon after another: no reason to end.
        say(f"{kind}: {type(error).__name__}: {error}")
    at_s, lasted_s = (at - show.ear.heard[0]) / 1e9, (time.monotonic_ns() - at) / 1e9
    return {"kind": kind, "at_s": round(at_s, 3), "lasted_s": round(lasted_s, 3), "back_s": back}


def examine(path: Path, sender: str, left: I64) -> dict[str, Any]:
    """A recording beside what the suit ``sender`` sent, at these times (monotonic ns, in order).

    ``missing`` are datagrams that left while it was recorded and are not in it; ``ended``: the show itself
    wrote its end into it.
    """
    came, ended = array("q"), False
    try:
        taken = read_recording(path)
        for record in taken:
            if isinstance(record, Raw) and record.source.endswith(f"@{sender}"):
                came.append(record.t_ns)
            elif isinstance(record, Control):
                ended = record.name == "end"
    except MotionError as error:
        return {"file": path.name, "whole": False, "ended": False, "why": str(error)}
    # One comes after it left, and at the ends of a file nobody knows: what left within came a little later.
    begin, end = (came[0] + _EDGE_NS, came[-1] - _EDGE_NS) if came else (0, 0)
    sent = int(((left >= begin) & (left < end)).sum())
    got = sum(begin <= t_ns < end + _EDGE_NS // 10 for t_ns in came)
    whole, missing = not taken.warnings, max(sent - got, 0)
    return {"file": path.name, "whole": whole, "ended": ended, "sent": sent, "missing": missing}


def kills(count: int, out: Path, *, seed: int = 0, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Kill so many shows, then write ``soak.json`` into ``out``; Ctrl-C ends it before.

    Raises as :func:`run` does.
    """
    chance = Random(seed)
    rows: list[dict[str, Any]] = []
    ended, last = "", {}
    with open_show(out, seed) as show:
        try:
            for n in _tracked(range(count), "killed"):
                rows.append(_kill(show, f"take{n}", chance.uniform(*_MOMENTS)))
            # The last of them begins after all, and ends as it should.
            last = {"start_s": round(show.start("last"), 2), "exit_code": show.stop()}
        except KeyboardInterrupt:
            ended = "interrupted"
        except DeviceError as error:
            ended = str(error)
            say(ended)
        report = {"kills": len(rows), **kill_figures(rows), "last": last, "ended": ended, "rows": rows}
        fine = ended in ("", "interrupted") and last.get("exit_code", 0) == 0
        report["well"] = fine and not any(report[name] for name in BAD)
        return _report(out, show, seed, report)


def _kill(show: Show, take: str, moment: float) -> dict[str, Any]:
    """One show, from its beginning until nothing is left of it."""
    ear, start = show.ear, show.start(take)
    time.sleep(moment)
    children = list(below(show.pid))
    killed = show.kill()
    until, gone = time.monotonic() + _LOOK_S, None
    while time.monotonic() < until and (gone is None or not _is_silent(ear.recent[-1][1])):
        if gone is None and not any(map(alive, children)):
            gone = time.monotonic_ns()
        time.sleep(0.005)
    # Of a show that said nothing but silence nothing is faded.
    silent = next((t_ns for t_ns, data in [*ear.recent] if t_ns > killed and _is_silent(data)), None)
    path, lost, torn = show.takes / f"{take}.anticip", None, 0
    try:
        taken = read_recording(path)
        lost = killed - max((record.t_ns for record in taken), default=taken.start_ns or 0)
        torn = len(taken.warnings)
        path.unlink()
    except MotionError:
        pass
    return {
        "start_s": round(start, 2),
        "fade_ms": None if silent is None else round((silent - killed) / 1e6, 1),
        "gone_ms": None if gone is None else round((gone - killed) / 1e6, 1),
        "lost_ms": None if lost is None else round(lost / 1e6, 1),
        "unreadable": lost is None,
        "torn": torn,
        "not_silent": not _is_silent(ear.recent[-1][1]),
        "notes_left": len(show.notes or ()),
        "outlived": [pid for pid in children if alive(pid)],
    }


def _is_silent(bundle: bytes) -> bool:
    params = next(message.params for message in OscBundle(bundle) if message.address == "/anticip/params")
    return np.allclose(params, NEUTRAL, rtol=0.0, atol=1e-3)
