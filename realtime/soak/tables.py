"""A soak's figures for people: as tables, and drawn by the minute (which needs matplotlib)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from realtime.soak.figures import BAR_MS

__all__ = ["deaths", "draw", "faults", "is_over_well", "is_well"]


def faults(result: dict[str, Any]) -> Group:
    """What each kind of fault did, and the whole."""
    table = Table("", "times", "missed", "gap, ms", f"over {BAR_MS:g}", "back, s", "not back")
    table.columns[0].no_wrap = True
    for row in result["by_kind"]:
        back = row.get("back_s", {})
        shown = "-" if back.get("max") is None else f"{back['max']:.1f}"
        cells = (row["times"], row["missed"], f"{row['gap_ms']:.1f}", row["over_bar"], shown)
        table.add_row(row["kind"], *map(str, cells), str(row.get("not_back", "-")))
    for column in table.columns[1:]:
        column.justify = "right"
    last, ms = result["last_take"], result["latency_ms"]
    lines = [
        f"{result['seconds']:.0f} s: {result['frames_sent']} frames sent, {result['bundles']} bundles,"
        f" {result['missed']} missed; longest gap {result['gap_ms']:.1f} ms",
        f"latency p50 {ms.get('p50', 0):.2f}, p99 {ms.get('p99', 0):.2f} ms of {result['latency_of']} frames",
        "no recording" if last is None else _take(last),
        *([result["ended"]] if result["ended"] else []),
    ]
    return Group(table, *lines)


def _take(last: dict[str, Any]) -> str:
    if not last["readable"]:
        return f"the last recording cannot be read: {last['why']}"
    whole = "whole" if last["whole"] and last["ended"] else "not whole"
    lost = f"{last['missing']} of {last['sent']} datagrams missing"
    return f"the last recording ({last['seconds']:.0f} s) is {whole}, {lost}"


def is_well(result: dict[str, Any]) -> bool:
    """Whether the show lived, everything came back, and the last recording is whole."""
    last = result["last_take"]
    return bool(
        result["ended"] in ("", "interrupted")
        and result["exit_code"] == 0
        and result["not_back"] == 0
        and last
        and last["readable"]
        and last["whole"]
        and last["ended"]
        and not last["missing"]
    )


def deaths(result: dict[str, Any]) -> Group:
    """What kills have cost."""
    table = Table("", "median", "worst")
    for name, told in (
        ("lost of the recording, ms", "lost_ms"),
        ("until silence at the receiver, ms", "fade_ms"),
        ("until no process is left, ms", "gone_ms"),
        ("the next start, s", "start_s"),
    ):
        if (found := result[told]) is not None:
            table.add_row(name, f"{found['p50']:g}", f"{found['max']:g}")
    for column in table.columns[1:]:
        column.justify = "right"
    counted = ("unreadable", "torn", "not_silent", "notes_left", "outlived")
    words = ", ".join(f"{name.replace('_', ' ')} {result[name]}" for name in counted)
    return Group(table, f"{result['kills']} kills: {words}", *([result["ended"]] if result["ended"] else []))


def is_over_well(result: dict[str, Any]) -> bool:
    """Whether every death was heard as silence, left a recording and nothing else."""
    names = ("unreadable", "torn", "not_silent", "notes_left", "outlived")
    return not any(result[name] for name in names) and result["ended"] in ("", "interrupted")


_INK, _QUIET, _BAD = "#1f4e79", "#9aa5b1", "#b3261e"


def draw(result: dict[str, Any], out: Path) -> None:
    """Write a PNG: latency, gaps, missed bundles, memory, descriptors and processes, and every fault.

    Raises ImportError where matplotlib is missing.
    """
    from matplotlib.figure import Figure

    rows = result["by_minute"]
    at = [row["minute"] + 0.5 for row in rows]
    figure = Figure(figsize=(11.0, 13.0), layout="constrained")
    latency, gap, missed, memory, counts, faults = figure.subplots(
        6, 1, sharex=True, height_ratios=(2, 2, 1, 2, 1.5, 5)
    )

    def line(axes: Any, *keys: str, colour: str, label: str) -> None:
        values = [_at(row, keys) for row in rows]
        axes.plot(at, values, marker=".", color=colour, label=label)

    line(latency, "latency_ms", "p50", colour=_INK, label="show, p50")
    line(latency, "latency_ms", "p99", colour=_BAD, label="show, p99")
    line(latency, "suit_late_ms", "p99", colour=_QUIET, label="suit's own timer late, p99")
    latency.set(ylabel="latency, ms", ylim=(0, None))
    line(gap, "gap_ms", colour=_INK, label="longest gap of bundles")
    gap.axhline(BAR_MS, color=_BAD, linewidth=0.8, label=f"{BAR_MS:g} ms")
    gap.set(ylabel="gap, ms", ylim=(0, None))
    missed.bar(at, [row["missed"] for row in rows], color=_INK)
    missed.set(ylabel="missed")
    line(memory, "show_mb", colour=_INK, label="show")
    line(memory, "children_mb", colour=_QUIET, label="its children")
    memory.set(ylabel="memory, MB", ylim=(0, None))
    line(counts, "descriptors", colour=_INK, label="open descriptors")
    line(counts, "processes", colour=_QUIET, label="processes")
    counts.set(ylabel="count", ylim=(0, None))
    kinds = sorted({one["kind"] for one in result["happened"]}, reverse=True)
    thinnest = result["seconds"] / 60.0 / 400.0  # about two pixels: a thinner bar may not be seen
    for one in result["happened"]:
        where = kinds.index(one["kind"])
        colour = _BAD if one["back_s"] is None else _INK
        begin, length = one["at_s"] / 60.0, max(one["lasted_s"] / 60.0, thinnest)
        faults.barh(where, length, left=begin, height=0.6, color=colour)
    faults.set(xlim=(0.0, result["seconds"] / 60.0))
    faults.set(yticks=range(len(kinds)), yticklabels=kinds, xlabel="minutes")
    faults.tick_params(axis="y", labelsize=8)
    for axes in (latency, gap, memory, counts):
        axes.legend(loc="upper right", fontsize=8, ncols=3, frameon=False)
    for axes in (latency, gap, missed, memory, counts, faults):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{result['seconds'] / 60:.0f} minutes, {len(result['happened'])} faults (bars: until all was as"
        f" before); {result['missed']} of {result['missed'] + result['bundles']} bundles missed"
    )
    figure.savefig(out, dpi=100)


def _at(row: dict[str, Any], keys: tuple[str, ...]) -> Any:
    found: Any = row
    for key in keys:
        found = found.get(key) if found else None
    return found
