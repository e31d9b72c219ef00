"""What a soak has shown: figures of times and numbers, tables for people, and a picture (needs matplotlib).

A *missed* bundle is one of the 50 a second that should have left and did not come: numbers of frames count
them. A *gap* is the time between two bundles that follow each other, 20 ms where all is well. It belongs to
each fault that was going on within it, from its beginning until all was as before, or to none. *Latency* is
the time from a frame's leaving the suit until the next bundle comes, as the kernel stamps it, of frames that
no network of ours delayed and whose bundle came before the next frame left.
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

__all__ = ["BAD", "BAR_MS", "I64", "QUIET", "draw", "figures", "kill_figures", "kill_lines", "table"]

I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: No gap should be longer.
BAR_MS = 30.0
#: The kind of what happens while nothing does.
QUIET = "no fault"
_MINUTE_NS = 60_000_000_000
# A fault may be heard so much later than it was over.
_AFTER_S = 0.2
#: Of kills, what should not have been so.
BAD = ("unreadable", "torn", "not_silent", "notes_left", "outlived")


def figures(sent: I64, heard: I64, taken: I64, happened: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a show's times (monotonic ns) say, of the whole, of each kind of fault and of each minute.

    ``sent`` (N, 2) of the suit's datagrams when each left and what it was; ``heard`` (M, 2) of the bundles,
    two or more, when each came and its number; ``taken`` (K, 5) when, memory of the show and of its children
    (bytes), descriptors, processes.
    """
    (times, numbers), (left, what) = heard.T, sent[sent[:, 0] >= heard[0, 0]].T
    gaps, missed = np.diff(times) / 1e6, np.maximum(np.diff(numbers) - 1, 0)
    clean, after = left[what == CLEAN][:-1], left[what == CLEAN][1:]
    came = np.append(times, np.iinfo(np.int64).max)[np.searchsorted(times, clean)]
    clean, latency = clean[came < after], (came - clean)[came < after] / 1e6

    def of(which: Flags) -> dict[str, Any]:
        return {
            "bundles": int(which.sum()),
            "missed": int(missed[which].sum()),
            "gap_ms": round(float(gaps[which].max(initial=0.0)), 2),
            "over_bar": int((gaps[which] > BAR_MS).sum()),
        }

    def during(faults: Sequence[dict[str, Any]]) -> Flags:
        found, since = np.zeros(len(gaps), np.bool_), (times - times[0]) / 1e9
        for one in faults:
            found |= (since[1:] > one["at_s"]) & (since[:-1] < one["at_s"] + one["lasted_s"] + _AFTER_S)
        return found

    def of_kind(kind: str) -> dict[str, Any]:
        these = [one for one in happened if one["kind"] == kind]
        back = [one["back_s"] for one in these if one["back_s"] is not None]
        row = {"back_s": max(back, default=None), "not_back": len(these) - len(back)}
        return {"kind": kind, "times": len(these), **of(during(these)), **row}

    def of_minute(minute: int) -> dict[str, Any]:
        begin = times[0] + minute * _MINUTE_NS

        def within(t_ns: I64) -> Flags:
            return np.asarray((t_ns >= begin) & (t_ns < begin + _MINUTE_NS), np.bool_)

        latency_ms = percentiles(latency[within(clean)], (50, 99))
        row: dict[str, Any] = {"minute": minute, "latency_ms": latency_ms, **of(within(times[1:]))}
        if len(these := taken[within(taken[:, 0]), 1:]):
            show, children, row["descriptors"], row["processes"] = these.max(axis=0).tolist()
            row |= {"show_mb": round(show / 1e6, 1), "children_mb": round(children / 1e6, 1)}
        return row

    length = int(times[-1] - times[0])
    kinds = sorted({one["kind"] for one in happened})
    return {
        "seconds": round(length / 1e9, 1),
        "frames_sent": int((what >= DISTURBED).sum()),
        **of(np.ones(len(gaps), np.bool_)),
        "bundles": len(times),
        "latency_ms": percentiles(latency, (50, 99)),
        "latency_of": len(latency),
        "not_back": sum(one["back_s"] is None for one in happened),
        "by_kind": [*map(of_kind, kinds), {"kind": QUIET, "times": 0, **of(~during(happened))}],
        "by_minute": [of_minute(minute) for minute in range(-(-length // _MINUTE_NS))],
        "happened": list(happened),
    }


def kill_figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the deaths have cost, of all of them: median and worst, and how many went wrong."""
    told: dict[str, Any] = {name: sum(bool(row[name]) for row in rows) for name in BAD}
    for name in ("lost_ms", "fade_ms", "gone_ms", "start_s"):
        if found := sorted(row[name] for row in rows if row[name] is not None):
            told[name] = {"p50": found[len(found) // 2], "max": found[-1]}
    return told


def table(result: dict[str, Any]) -> Group:
    """What each kind of fault did, and the whole."""
    heads = ("times", "missed", "gap, ms", f"over {BAR_MS:g}", "back, s", "not back")
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
    """What kills have cost."""
    names = {
        "lost_ms": "lost of the recording, ms",
        "fade_ms": "until silence at the receiver, ms",
        "gone_ms": "until no process is left, ms",
        "start_s": "the next start, s",
    }
    spread = [(name, result[key]) for key, name in names.items() if key in result]
    words = ", ".join(f"{name.replace('_', ' ')} {result[name]}" for name in BAD)
    return [
        *(f"{name}: median {found['p50']:g}, worst {found['max']:g}" for name, found in spread),
        f"{result['kills']} kills: {words}",
        *([result["ended"]] if result["ended"] else []),
    ]


def draw(result: dict[str, Any], out: Path) -> None:
    """Write a PNG: latency, gaps, missed bundles, memory, descriptors and processes, and every fault.

    Raises ImportError where matplotlib is missing.
    """
    from matplotlib.figure import Figure

    rows, happened, minutes = result["by_minute"], result["happened"], result["seconds"] / 60.0
    figure = Figure(figsize=(11.0, 13.0), layout="constrained")
    *lines, faults = figure.subplots(6, 1, sharex=True, height_ratios=(2, 2, 1, 2, 1.5, 5))
    for axes, label, drawn in zip(
        lines,
        ("latency, ms", "gap, ms", "missed", "memory, MB", "count"),
        (("p50", "p99"), ("gap_ms",), ("missed",), ("show_mb", "children_mb"), ("descriptors", "processes")),
        strict=True,
    ):
        for name in drawn:
            values = [row["latency_ms"].get(name, row.get(name)) for row in rows]
            axes.plot([row["minute"] + 0.5 for row in rows], values, marker=".", label=name)
        axes.set(ylabel=label, ylim=(0, None))
        axes.legend(loc="upper right", fontsize=8, ncols=3, frameon=False)
    lines[1].axhline(BAR_MS, color="tab:red", linewidth=0.8)
    kinds = sorted({one["kind"] for one in happened}, reverse=True)
    thinnest = minutes / 400.0  # about two pixels: a thinner bar may not be seen
    for one in happened:
        begin, length = one["at_s"] / 60.0, max(one["lasted_s"] / 60.0, thinnest)
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
