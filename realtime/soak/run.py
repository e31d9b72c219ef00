"""``pyanticip soak``: play a show for hours while faults are injected one after the other; or, with
``--kills``, kill short shows at random moments."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from pythonosc.osc_bundle import OscBundle

from pyanticip.bench.machine import machine
from pyanticip.controls import NEUTRAL
from pyanticip.errors import DeviceError, MotionError
from pyanticip.motion.atomic import write_file
from pyanticip.motion.recording import Control, Raw, read_recording
from realtime.programs.render import with_progress
from realtime.soak.faults import CHILDREN, FAULTS, available_faults, recovery_check
from realtime.soak.report import FAILURES, I64, draw, figures, kill_figures
from realtime.soak.show import Show, alive, descendants, open_show

REPORT, PICTURE = "soak.json", "soak.png"
# Longest transit time of a datagram. Those within it of a recording's ends are not counted as missing.
_EDGE_NS = 50_000_000
# Interval of the samples of memory, descriptors and processes.
_SAMPLE_S = 5.0
# Longest recovery from a fault: pauses before a restart grow to 30 s, and a stuck child is left alone for 10.
_RECOVERY_TIMEOUT_S = 60.0
# Average time from one fault to the next, if there is enough.
_FAULT_INTERVAL_S = 12.0
# Time without faults at the beginning, and at the end, where the show has to have recovered.
_BEGINNING_S, _ENDING_S = 2.0, 3.0
# Range of times after the first frame at which a show is killed.
_KILL_TIMES_S = 0.3, 3.0
# How long a killed show's children and receiver are observed.
_OBSERVE_S = 10.0


def plan(kinds: Sequence[str], seconds: float, random: Random) -> list[tuple[str, float, float]]:
    """Random faults of a show of this length: the kind, start and duration of each, in seconds.

    Every kind occurs at least once, however short the show.
    """
    available = max(seconds - _BEGINNING_S - _ENDING_S, 0.0)
    rounds = max(round(available / (_FAULT_INTERVAL_S * len(kinds))), 1)
    order = [kind for _ in range(rounds) for kind in random.sample(list(kinds), len(kinds))]
    slot = available / len(order)
    return [
        (kind, _BEGINNING_S + (n + 0.3 * random.random()) * slot, max(random.uniform(0.1, 0.5) * slot, 0.4))
        for n, kind in enumerate(order)
    ]


def run(seconds: float, out: Path, *, seed: int = 0, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Play for ``seconds``, then write ``soak.json`` and, with matplotlib, ``soak.png`` into ``out``.

    Ctrl-C ends it early, with a report. ``say`` receives faults that could not be injected.

    Raises:
        OptionError: The folder is not empty.
        DeviceError: The show does not start.
    """
    with open_show(out, seed, ("udp", "tcp")) as show:
        show.start("take")
        happened, usage, ended = _play(show, seconds, seed, say)
        # The fade-out at the end is not evaluated.
        end_ns = time.monotonic_ns()
        code = show.stop()
        sent, received = show.suit.sent(), np.array(show.receiver.received).reshape(-1, 2)
        files = sorted(show.takes.glob("*.anticip"), key=lambda path: path.stat().st_mtime_ns)
        takes = [examine(path, show.suit.sender, sent[:, 0]) for path in files]
        report = figures(sent[sent[:, 0] < end_ns], received[received[:, 0] < end_ns], usage, happened)
        report |= {"ended": ended, "exit_code": code, "takes": takes}
        is_whole = bool(takes) and takes[-1]["whole"] and takes[-1]["ended"] and not takes[-1]["missing"]
        is_whole &= all("why" not in take for take in takes)
        report["well"] = ended in ("", "interrupted") and code == 0 and not report["not_back"] and is_whole
        result = _report(out, show, seed, report)
    with contextlib.suppress(ImportError):
        draw(result, out / PICTURE)
    return result


def _report(out: Path, show: Show, seed: int, report: dict[str, Any]) -> dict[str, Any]:
    available = {"sound": show.pulse is not None, "midi": show.notes is not None}
    result = {**report, "seed": seed, **available, **machine()}
    write_file(out / REPORT, json.dumps(result, indent=1).encode())
    return result


def _play(
    show: Show, seconds: float, seed: int, say: Callable[[str], None]
) -> tuple[list[dict[str, Any]], I64, str]:
    """Inject the planned faults; returns them, samples of the show's usage, and why it ended early."""
    started, happened, usage = time.monotonic(), list[dict[str, Any]](), [show.usage()]

    def sample() -> None:
        while not show.over.wait(_SAMPLE_S):
            with contextlib.suppress(OSError):
                usage.append(show.usage())

    # Ctrl-C ends the waits, so that an active fault is still reverted. The event is set on a thread: the main
    # one may hold its lock while it waits for it.
    old_handler = signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=show.over.set).start())
    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    processes = [word for word, module in CHILDREN.items() if show.children(module)]
    faults = plan(available_faults(show, processes), seconds, Random(seed))
    for kind, start_s, duration_s in with_progress(faults, len(faults), sys.stderr.isatty(), "faults"):
        show.wait(started + start_s - time.monotonic())
        if show.over.is_set() or not show.pid:
            break
        show.fault_s = duration_s
        result = _inject(show, kind, processes, say)
        # The result of an interrupted fault is unknown.
        happened += [] if show.over.is_set() else [result]
    show.wait(started + seconds - time.monotonic())
    ended = "interrupted" if show.over.is_set() else "" if show.pid else "the show has ended by itself"
    signal.signal(signal.SIGINT, old_handler)
    show.over.set()
    sampler.join()
    return happened, np.array(usage), ended


def _inject(show: Show, kind: str, processes: Sequence[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Inject a fault and wait for recovery.

    ``at_s`` is its start since the first bundle, ``lasted_s`` the time until the show had recovered, and
    ``back_s`` the part of it after the fault was reverted; None: it did not recover.
    """
    start_ns, back_s = time.monotonic_ns(), None
    try:
        FAULTS[kind](show)
        reverted = time.monotonic()
        if show.until(recovery_check(show, processes), _RECOVERY_TIMEOUT_S):
            back_s = round(time.monotonic() - reverted, 2)
    except Exception as error:
        # Its target may be missing when it follows another fault too soon; the test goes on.
        say(f"{kind}: {type(error).__name__}: {error}")
    at_s, lasted_s = (start_ns - show.receiver.received[0]) / 1e9, (time.monotonic_ns() - start_ns) / 1e9
    return {"kind": kind, "at_s": round(at_s, 3), "lasted_s": round(lasted_s, 3), "back_s": back_s}


def examine(path: Path, sender: str, sent_ns: I64) -> dict[str, Any]:
    """Compare a recording with what the suit ``sender`` sent at these times (monotonic ns, ascending).

    ``missing`` is the number of datagrams sent during the recording that are not in it; ``ended``: the show
    recorded its regular end.
    """
    received, ended = array("q"), False
    try:
        recording = read_recording(path)
        for record in recording:
            if isinstance(record, Raw) and record.source.endswith(f"@{sender}"):
                received.append(record.t_ns)
            elif isinstance(record, Control):
                ended = record.name == "end"
    except MotionError as error:
        return {"file": path.name, "whole": False, "ended": False, "why": str(error)}
    # Without the ends of the file, where datagrams were on their way; those in between arrive a little later.
    begin, end = (received[0] + _EDGE_NS, received[-1] - _EDGE_NS) if received else (0, 0)
    sent = int(((sent_ns >= begin) & (sent_ns < end)).sum())
    count = sum(begin <= t_ns < end + _EDGE_NS // 10 for t_ns in received)
    whole, missing = not recording.warnings, max(sent - count, 0)
    return {"file": path.name, "whole": whole, "ended": ended, "sent": sent, "missing": missing}


def kills(count: int, out: Path, *, seed: int = 0, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Kill ``count`` shows, then write ``soak.json`` into ``out``; Ctrl-C ends it early.

    Raises the errors of :func:`run`.
    """
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    ended, last = "", {}
    with open_show(out, seed) as show:
        try:
            for n in with_progress(range(count), count, sys.stderr.isatty(), "killed"):
                rows.append(_kill(show, f"take{n}", random.uniform(*_KILL_TIMES_S)))
            # After all kills a show must still start, and end normally.
            last = {"start_s": round(show.start("last"), 2), "exit_code": show.stop()}
        except KeyboardInterrupt:
            ended = "interrupted"
        except DeviceError as error:
            ended = str(error)
            say(ended)
        report = {"kills": len(rows), **kill_figures(rows), "last": last, "ended": ended, "rows": rows}
        is_ok = ended in ("", "interrupted") and last.get("exit_code", 0) == 0
        report["well"] = is_ok and not any(report[name] for name in FAILURES)
        return _report(out, show, seed, report)


def _kill(show: Show, take: str, delay_s: float) -> dict[str, Any]:
    """Start a show, kill it after ``delay_s``, and observe what remains of it."""
    receiver, start_s = show.receiver, show.start(take)
    time.sleep(delay_s)
    children = list(descendants(show.pid))
    killed_ns = show.kill()
    deadline, gone_ns = time.monotonic() + _OBSERVE_S, None
    while time.monotonic() < deadline and (gone_ns is None or not _is_silent(receiver.recent[-1][1])):
        if gone_ns is None and not any(map(alive, children)):
            gone_ns = time.monotonic_ns()
        time.sleep(0.005)
    silent_ns = next(
        (t_ns for t_ns, data in [*receiver.recent] if t_ns > killed_ns and _is_silent(data)), None
    )
    path, lost_ns, torn = show.takes / f"{take}.anticip", None, 0
    try:
        recording = read_recording(path)
        lost_ns = killed_ns - max((record.t_ns for record in recording), default=recording.start_ns or 0)
        torn = len(recording.warnings)
        path.unlink()
    except MotionError:
        pass
    return {
        "start_s": round(start_s, 2),
        "fade_ms": None if silent_ns is None else round((silent_ns - killed_ns) / 1e6, 1),
        "gone_ms": None if gone_ns is None else round((gone_ns - killed_ns) / 1e6, 1),
        "lost_ms": None if lost_ns is None else round(lost_ns / 1e6, 1),
        "unreadable": lost_ns is None,
        "torn": torn,
        "not_silent": not _is_silent(receiver.recent[-1][1]),
        "notes_left": len(show.notes or ()),
        "outlived": [pid for pid in children if alive(pid)],
    }


def _is_silent(bundle: bytes) -> bool:
    """Whether a bundle's parameters are neutral."""
    params = next(message.params for message in OscBundle(bundle) if message.address == "/anticip/params")
    return np.allclose(params, NEUTRAL, rtol=0.0, atol=1e-3)
