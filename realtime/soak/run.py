"""``pyanticip soak``: a show with all that it has plays for hours, and one thing after another goes wrong."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pyanticip.errors import DeviceError, MotionError
from pyanticip.motion.recording import Control, Raw, Recording, read_recording
from realtime.soak.faults import FaultContext, plan
from realtime.soak.faults_around import every
from realtime.soak.figures import FaultRecord, Log, figures
from realtime.soak.osc_recorder import Guest
from realtime.soak.processes import sample
from realtime.soak.show_process import ShowEndedError, ShowProcess, report, soak_setup
from realtime.soak.suit import Suit

__all__ = ["PICTURE", "examine", "in_order", "run"]

I64 = npt.NDArray[np.int64]
# Between a datagram's leaving and its arrival lies so much at most; at the ends of a file nobody knows.
_EDGE_NS = 50_000_000


def in_order(folder: Path) -> list[Path]:
    """The recordings in a folder, the oldest first."""
    files = [path for path in folder.glob("*.anticip") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_mtime_ns)


def examine(path: Path, sender: str, left: I64) -> dict[str, Any]:
    """A recording beside what the suit ``sender`` sent, at these times (monotonic ns, in order).

    ``missing`` are datagrams that left while it was recorded and are not in it; ``ended``: the show itself
    wrote its end into it.
    """
    try:
        taken = read_recording(path)
        came, last, ended = _heard(taken, sender)
    except MotionError as error:
        return {"file": path.name, "readable": False, "why": str(error)}
    begin, end = (came[0] + _EDGE_NS, came[-1] - _EDGE_NS) if len(came) else (0, 0)
    # One comes after it left: what left within has come a little later.
    sent = int(((left >= begin) & (left < end)).sum())
    got = int(((came >= begin) & (came < end + _EDGE_NS // 10)).sum())
    return {
        "file": path.name,
        "readable": True,
        "whole": not taken.warnings,
        "ended": ended,
        "seconds": round((last - came[0]) / 1e9, 3) if len(came) else 0.0,
        "sent": sent,
        "missing": max(sent - got, 0),
    }


def _heard(taken: Recording, sender: str) -> tuple[I64, int, bool]:
    """When a sender's datagrams came, of when the last record is, whether the end is the last command."""
    came, last, ended = [], 0, False
    for record in taken:
        last = max(last, record.t_ns)
        if isinstance(record, Raw) and record.source.endswith(f"@{sender}"):
            came.append(record.t_ns)
        elif isinstance(record, Control):
            ended = record.name == "end"
    return np.array(came, np.int64), last, ended


PICTURE = "soak.png"
_SAMPLE_S = 5.0


def run(
    seconds: float, out: Path, *, seed: int = 0, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Play for so long, then write ``soak.json`` and, with matplotlib, ``soak.png`` into ``out``.

    Ctrl-C ends it before, with a report of what there is. ``say`` is told what ends it otherwise.

    Raises
    ------
    OptionError
        There is something in the folder.
    DeviceError
        The show does not begin, or this system does not tell of its processes.
    """
    guests = (Guest("udp"), Guest("tcp"))
    with contextlib.ExitStack() as stack:
        for guest in guests:
            stack.callback(guest.close)
        more = [{"port": guest.port, "transport": guest.transport} for guest in guests]
        built = stack.enter_context(soak_setup(out, more))
        show, ear = built.show, built.ear
        show.start("take")
        suit = stack.enter_context(contextlib.closing(Suit(show.source, seed)))
        if not show.until(lambda: len(ear.times) > 1, 20.0):
            raise DeviceError("soak: the show does not hear the suit")
        log = Log(suit.left, suit.due, suit.what, ear.times, ear.numbers)
        context = FaultContext(show, suit, guests, built.pulse, random.Random(seed), 0.0)
        ended = _play(context, log, seconds, seed, say)
        if ended:
            say(ended)
        # The fade at the end is no part of it.
        log = log.until(time.monotonic_ns())
        code = show.stop()
        left = np.array(suit.left, np.int64)
        takes = [examine(path, suit.sender, left) for path in in_order(show.takes)]
        told = {
            **figures(log),
            "planned_s": seconds,
            "ended": ended,
            "exit_code": code,
            "takes": takes,
            "last_take": takes[-1] if takes else None,
            "happened": [_told(one, log) for one in log.happened],
        }
        result = report(out, built, seed, told)
    with contextlib.suppress(ImportError):
        from realtime.soak.tables import draw

        draw(result, out / PICTURE)
    return result


def _told(one: FaultRecord, log: Log) -> dict[str, Any]:
    begun = log.times[0]
    at, lasted = (one.begun_ns - begun) / 1e9, (one.ended_ns - one.begun_ns) / 1e9
    return {"kind": one.kind, "at_s": round(at, 2), "lasted_s": round(lasted, 2), "back_s": one.back}


def _play(context: FaultContext, log: Log, seconds: float, seed: int, say: Callable[[str], None]) -> str:
    """Let everything happen as planned; why it was over early, or nothing."""
    show, stopped = context.show, threading.Event()
    watch = threading.Thread(target=_watch, args=(show, log, stopped), daemon=True)
    watch.start()
    bar = Progress(
        TextColumn("{task.description:24}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[told]}", markup=False),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    faults = every(show, context.pulse)
    begun = time.monotonic()
    task = bar.add_task("playing", total=seconds, told="")
    try:
        with bar:
            for planned in plan(list(faults), seconds, seed):
                while (left := begun + planned.at - time.monotonic()) > 0.0 and show.pid:
                    bar.update(task, completed=time.monotonic() - begun, description="playing")
                    time.sleep(min(left, 0.2))
                bar.update(task, completed=time.monotonic() - begun, description=planned.kind)
                now = replace(context, chance=random.Random(planned.seed), lasts=planned.lasts)
                at, back = time.monotonic_ns(), None
                try:
                    back = faults[planned.kind](now)
                except ShowEndedError:
                    raise
                except Exception as error:
                    # What it was to lay hands on may not be there, a fault too soon after another: no reason
                    # to end the show.
                    say(f"{planned.kind}: {type(error).__name__}: {error}")
                log.happened.append(FaultRecord(planned.kind, at, time.monotonic_ns(), back))
                lost = sum(one.back is None for one in log.happened)
                bar.update(task, told=f"{len(log.happened)} faults, {lost} not mended")
            while time.monotonic() - begun < seconds and show.pid:
                bar.update(task, completed=time.monotonic() - begun, description="playing")
                time.sleep(0.1)
    except KeyboardInterrupt:
        return "interrupted"
    except ShowEndedError as error:
        return str(error)
    finally:
        stopped.set()
        watch.join()
    return ""


def _watch(show: ShowProcess, log: Log, stopped: threading.Event) -> None:
    """Look at what it takes, now and then."""
    while not stopped.wait(_SAMPLE_S if log.samples else 0.0):
        with contextlib.suppress(OSError, ShowEndedError):
            log.samples.append(sample(show.pid, time.monotonic_ns()))
