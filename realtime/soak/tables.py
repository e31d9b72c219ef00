"""A soak's figures for people."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table

from realtime.soak.figures import BAR_MS

__all__ = ["deaths", "faults", "is_over_well", "is_well"]


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
