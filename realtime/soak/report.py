"""Results of a soak test: figures, tables and a picture (which needs matplotlib).

A *missed* bundle is one of the 50 a second that did not arrive, counted by frame numbers. A *gap* is the time
between two consecutive bundles, 20 ms when all is well. It is attributed to every fault that was active
during it, from its start until the show had recovered, or to no fault. *Latency* is the time from when a
frame left the suit to the next bundle's arrival (kernel timestamp), for frames that no simulated network
delayed and whose bundle arrived before the next frame left.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Group
from rich.table import Column, Table

from pyanticip.bench.machine import percentiles
from realtime.soak.suit import CLEAN, DISTURBED

I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Longest gap that is acceptable.
MAX_GAP_MS = 30.0
#: Kind of the gaps without a fault.
QUIET = "no fault"
_MINUTE_NS = 60_000_000_000
# Time after its end in which a fault may still cause a gap.
_AFTER_S = 0.2
#: Columns of kills that must be 0 or empty.
FAILURES = ("unreadable", "torn", "not_silent", "notes_left", "outlived")


def figures(sent: I64, received: I64, usage: I64, happened: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of a show: of the whole, of each kind of fault and of each minute.

    Args:
        sent: of the suit's datagrams, the time that each left (monotonic ns) and its kind, (N, 2).
        received: of at least two bundles, the arrival time (monotonic ns) and frame number, (M, 2).
        usage: samples of time (monotonic ns), memory of the show and of its children (bytes), descriptors,
            processes, (K, 5).
        happened: the faults, as of :func:`realtime.soak.run.run`.
    """
    (times, numbers), (sent_times, sent_kinds) = received.T, sent[sent[:, 0] >= received[0, 0]].T
    gaps, missed = np.diff(times) / 1e6, np.maximum(np.diff(numbers) - 1, 0)
    clean, next_clean = sent_times[sent_kinds == CLEAN][:-1], sent_times[sent_kinds == CLEAN][1:]
    arrival = np.append(times, np.iinfo(np.int64).max)[np.searchsorted(times, clean)]
    clean, latency = clean[arrival < next_clean], (arrival - clean)[arrival < next_clean] / 1e6

    def gap_figures(selected: Flags) -> dict[str, Any]:
        return {
            "bundles": int(selected.sum()),
            "missed": int(missed[selected].sum()),
            "gap_ms": round(float(gaps[selected].max(initial=0.0)), 2),
            "over_bar": int((gaps[selected] > MAX_GAP_MS).sum()),
        }

    def during(faults: Sequence[dict[str, Any]]) -> Flags:
        selected, since = np.zeros(len(gaps), np.bool_), (times - times[0]) / 1e9
        for one in faults:
            selected |= (since[1:] > one["at_s"]) & (since[:-1] < one["at_s"] + one["lasted_s"] + _AFTER_S)
        return selected

    def of_kind(kind: str) -> dict[str, Any]:
        faults = [one for one in happened if one["kind"] == kind]
        recovery_s = [one["back_s"] for one in faults if one["back_s"] is not None]
        row = {"back_s": max(recovery_s, default=None), "not_back": len(faults) - len(recovery_s)}
        return {"kind": kind, "times": len(faults), **gap_figures(during(faults)), **row}

    def of_minute(minute: int) -> dict[str, Any]:
        begin = times[0] + minute * _MINUTE_NS

        def within(t_ns: I64) -> Flags:
            return np.asarray((t_ns >= begin) & (t_ns < begin + _MINUTE_NS), np.bool_)

        latency_ms = percentiles(latency[within(clean)], (50, 99))
        row: dict[str, Any] = {"minute": minute, "latency_ms": latency_ms, **gap_figures(within(times[1:]))}
        if len(samples := usage[within(usage[:, 0]), 1:]):
            show, children, row["descriptors"], row["processes"] = samples.max(axis=0).tolist()
            row |= {"show_mb": round(show / 1e6, 1), "children_mb": round(children / 1e6, 1)}
        return row

    length = int(times[-1] - times[0])
    kinds = sorted({one["kind"] for one in happened})
    return {
        "seconds": round(length / 1e9, 1),
        "frames_sent": int((sent_kinds >= DISTURBED).sum()),
        **gap_figures(np.ones(len(gaps), np.bool_)),
        "bundles": len(times),
        "latency_ms": percentiles(latency, (50, 99)),
        "latency_of": len(latency),
        "not_back": sum(one["back_s"] is None for one in happened),
        "by_kind": [*map(of_kind, kinds), {"kind": QUIET, "times": 0, **gap_figures(~during(happened))}],
        "by_minute": [of_minute(minute) for minute in range(-(-length // _MINUTE_NS))],
        "happened": list(happened),
    }


def kill_figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summary of all kills: median and worst of each duration, and the number of failures of each kind."""
    summary: dict[str, Any] = {name: sum(bool(row[name]) for row in rows) for name in FAILURES}
    for name in ("lost_ms", "fade_ms", "gone_ms", "start_s"):
        if found := sorted(row[name] for row in rows if row[name] is not None):
            summary[name] = {"p50": found[len(found) // 2], "max": found[-1]}
    return summary


def table(result: dict[str, Any]) -> Group:
    """A table of the kinds of faults, and a summary."""
    heads = ("times", "missed", "gap, ms", f"over {MAX_GAP_MS:g}", "back, s", "not back")
    shown = Table(Column("", no_wrap=True), *(Column(head, justify="right") for head in heads))
    for row in result["by_kind"]:
        back = "-" if row.get("back_s") is None else f"{row['back_s']:.1f}"
        cells = (row["times"], row["missed"], f"{row['gap_ms']:.1f}", row["over_bar"], back)
        shown.add_row(row["kind"], *map(str, cells), str(row.get("not_back", "-")))
    ms, lines = result["latency_ms"], [result["ended"]] if result["ended"] else []
    for last in result["takes"][-1:]:
        if "why" in last:
            found = f"cannot be read: {last['why']}"
        else:
            found = "is damaged" if not last["whole"] else "is whole" if last["ended"] else "has no end"
            found += f", {last['missing']} of {last['sent']} datagrams missing"
        lines.insert(0, f"the last of {len(result['takes'])} recordings {found}")
    return Group(
        shown,
        f"{result['seconds']:.0f} s: {result['frames_sent']} frames sent, {result['bundles']} bundles,"
        f" {result['missed']} missed; longest gap {result['gap_ms']:.1f} ms",
        f"latency p50 {ms.get('p50', 0):.2f}, p99 {ms.get('p99', 0):.2f} ms of {result['latency_of']} frames",
        *lines,
    )


def kill_lines(result: dict[str, Any]) -> list[str]:
    """Summary of kills as text."""
    names = {
        "lost_ms": "lost of the recording, ms",
        "fade_ms": "until silence at the receiver, ms",
        "gone_ms": "until no process is left, ms",
        "start_s": "the next start, s",
    }
    spread = [(name, result[key]) for key, name in names.items() if key in result]
    words = ", ".join(f"{name.replace('_', ' ')} {result[name]}" for name in FAILURES)
    return [
        *(f"{name}: median {found['p50']:g}, worst {found['max']:g}" for name, found in spread),
        f"{result['kills']} kills: {words}",
        *([result["ended"]] if result["ended"] else []),
    ]


def draw(result: dict[str, Any], out: Path) -> None:
    """Write a PNG of latency, gaps, missed bundles, memory, descriptors and processes, and every fault.

    Raises:
        ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure

    rows, happened, minutes = result["by_minute"], result["happened"], result["seconds"] / 60.0
    figure = Figure(figsize=(11.0, 13.0), layout="constrained")
    *lines, faults = figure.subplots(6, 1, sharex=True, height_ratios=(2, 2, 1, 2, 1.5, 5))
    for axes, label, columns in zip(
        lines,
        ("latency, ms", "gap, ms", "missed", "memory, MB", "count"),
        (("p50", "p99"), ("gap_ms",), ("missed",), ("show_mb", "children_mb"), ("descriptors", "processes")),
        strict=True,
    ):
        for name in columns:
            values = [row["latency_ms"].get(name, row.get(name)) for row in rows]
            axes.plot([row["minute"] + 0.5 for row in rows], values, marker=".", label=name)
        axes.set(ylabel=label, ylim=(0, None))
        axes.legend(loc="upper right", fontsize=8, ncols=3, frameon=False)
    lines[1].axhline(MAX_GAP_MS, color="tab:red", linewidth=0.8)
    kinds = sorted({one["kind"] for one in happened}, reverse=True)
    min_width = minutes / 400.0  # about two pixels, so that every bar is visible
    for one in happened:
        begin, length = one["at_s"] / 60.0, max(one["lasted_s"] / 60.0, min_width)
        colour = "tab:red" if one["back_s"] is None else "tab:blue"
        faults.barh(kinds.index(one["kind"]), length, left=begin, height=0.6, color=colour)
    faults.set(xlim=(0.0, minutes), yticks=range(len(kinds)), yticklabels=kinds, xlabel="minutes")
    for axes in (*lines, faults):
        axes.grid(alpha=0.25)
    figure.suptitle(
        f"{minutes:.0f} minutes, {len(happened)} faults (bars: until all was as before);"
        f" {result['missed']} of {result['missed'] + result['bundles']} bundles missed"
    )
    figure.savefig(out, dpi=100)
