"""A soak drawn by the minute. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from realtime.soak.figures import BAR_MS

__all__ = ["draw"]

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
    for one in result["happened"]:
        where = kinds.index(one["kind"])
        colour = _BAD if one["back_s"] is None else _INK
        begin, length = one["at_s"] / 60.0, max(one["lasted_s"] / 60.0, 0.02)
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
