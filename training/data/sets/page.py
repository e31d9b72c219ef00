"""``pyanticip train data inspect``: a page that shows what is in a set."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from training.data.sets import draw
from training.data.sets.format import MotionSet
from training.data.sets.overview import chosen, overview
from training.report.pages import Part, write

MOST_LINES: Final = 60
"""Subjects and unusable files that are listed; the JSON has all."""


def totals_rows(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heading and rows of the table of the sides."""
    head = ["", "subjects", "takes", "clips", "minutes", "onsets a second", "phrases a second", "by sound"]
    rows = []
    for name, found in [*report["splits"].items(), ("all", report["total"])]:
        events = found["events_per_second"]
        rows.append(
            [
                name,
                *(str(found[key]) for key in ("subjects", "takes", "clips")),
                f"{found['minutes']:.1f}",
                f"{events['onset']:.2f}",
                f"{events['phrase']:.2f}",
                str(found["taught_by_sound"]),
            ]
        )
    return head, rows


def _subjects(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            name,
            found["split"],
            str(found["takes"]),
            str(found["clips"]),
            f"{found['minutes']:.2f}",
            f"{found['events_per_second']['onset']:.2f}",
            str(found["taught_by_sound"]),
            str(found["with_missing_joints"]),
        ]
        for name, found in report["subjects"].items()
    ]
    head = ["subject", "split", "takes", "clips", "minutes", "onsets a second", "by sound", "joints missing"]
    return head, rows


def pictures(found: MotionSet) -> list[tuple[str, str, bytes]]:
    """Name, caption and PNG of every picture."""
    numbers = chosen(found)
    drawn = [
        ("amounts", "How much there is of whom, and how long the clips are.", draw.amounts(found)),
        (
            "poses",
            "Some clips, up to 12 s of each, on the canonical body and on one ground; the performer's left "
            "is red, the right blue. Joints that are missing are drawn at rest.",
            draw.poses(found, numbers),
        ),
        (
            "spreads",
            "How the scalars (black titles) and parameters (grey) are spread over their ranges.",
            draw.spreads(found),
        ),
    ]
    for number in numbers[:3]:
        caption = "The same clips over time; red lines are onsets, thick blue ones phrases."
        drawn.append((f"clip-{number}", caption, draw.course(found, number)))
    return drawn


def parts_of(report: dict[str, Any], drawn: Sequence[tuple[str, str, bytes]]) -> list[Part]:
    """What the page shows."""
    made_by = json.dumps(report["made_by"], sort_keys=True)
    head, rows = totals_rows(report)
    seconds = report["clip_seconds"]
    parts: list[Part] = [
        ("title", f"The set {Path(report['set']).resolve().name}"),
        ("text", f"Digest `{report['digest']}`, made by `{made_by}`."),
        *(("text", f"**Warning:** {line}") for line in report["warnings"][:MOST_LINES]),
        ("table", [head, *rows]),
        (
            "text",
            f"Clips of {seconds['shortest']} to {seconds['longest']} s, half of them above "
            f"{seconds['median']} s. 50 frames a second.",
        ),
    ]
    titles = dict(
        zip([name for name, _, _ in drawn], ("Amounts", "Poses", "Spread", "Over time"), strict=False)
    )
    for picture in drawn:
        if picture[0] in titles:
            parts.append(("title", titles[picture[0]]))
        parts.append(("image", picture))
    head, rows = _subjects(report)
    parts += [("title", "Subjects"), ("table", [head, *rows[:MOST_LINES]])]
    if len(rows) > MOST_LINES:
        parts.append(("text", f"and {len(rows) - MOST_LINES} more: see the JSON"))
    refused = report["refused"]
    if refused:
        parts.append(("title", f"{len(refused)} takes that could not be used"))
        rows = [[found["path"], found["reason"]] for found in refused[:MOST_LINES]]
        parts.append(("table", [["file", "why"], *rows]))
    return parts


def inspect(path: Path | str, out: Path | str | None = None, *, verify: bool = False) -> dict[str, Any]:
    """What is in a set, and a page about it.

    Args:
        path: the set.
        out: an .html file, or a folder for index.html, overview.json and the pictures; nothing if not given.
        verify: read all arrays and compare their sha256.

    Returns:
        What :func:`training.data.sets.overview.overview` says, and ``files``, what was written.

    Raises:
        FormatError: no set, or a damaged one.
        OptionError: ``out`` is a file of another kind.
    """
    found = MotionSet.open(path, verify=verify)
    report = overview(found)
    files: list[Path] = []
    if out is not None:
        parts = parts_of(report, pictures(found))
        files = write(
            parts, report, Path(out), Path(report["set"]).resolve().name, name="index", data="overview"
        )
    return report | {"files": [str(file) for file in files]}
