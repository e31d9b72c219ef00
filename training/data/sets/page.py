"""``pyanticip train data inspect``: statistics of a set and a page about it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import counted
from training.data.sets import draw
from training.data.sets.format import MotionSet
from training.data.sets.overview import overview, pick_clips
from training.report.pages import Part, report_paths, write

MAX_LINES: Final = 60
"""Subjects, warnings and unusable files listed on the page; the JSON has all."""


def totals_rows(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heading and rows of the table of the splits."""
    head = ["", "subjects", "takes", "clips", "minutes", "onsets a second", "phrases a second", "by sound"]
    rows = []
    for name, totals in [*report["splits"].items(), ("all", report["total"])]:
        events = totals["events_per_second"]
        rows.append(
            [
                name,
                *(str(totals[key]) for key in ("subjects", "takes", "clips")),
                f"{totals['minutes']:.1f}",
                f"{events['onset']:.2f}",
                f"{events['phrase']:.2f}",
                str(totals["taught_by_sound"]),
            ]
        )
    return head, rows


def _subjects(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            name,
            totals["split"],
            str(totals["takes"]),
            str(totals["clips"]),
            f"{totals['minutes']:.2f}",
            f"{totals['events_per_second']['onset']:.2f}",
            str(totals["taught_by_sound"]),
            str(totals["with_missing_joints"]),
        ]
        for name, totals in report["subjects"].items()
    ]
    head = ["subject", "split", "takes", "clips", "minutes", "onsets a second", "by sound", "joints missing"]
    return head, rows


def pictures(motion_set: MotionSet) -> list[tuple[str, str, bytes]]:
    """Draw the pictures; returns name, caption and PNG of each."""
    numbers = pick_clips(motion_set)
    images = [
        ("amounts", "Minutes of each subject, and lengths of the clips.", draw.amounts(motion_set)),
        (
            "poses",
            "Some clips, up to 12 s of each, on the canonical body and on one ground; the performer's left "
            "is blue, the right red. Joints that are missing are drawn at rest.",
            draw.poses(motion_set, numbers),
        ),
        (
            "spreads",
            "How the scalars (black titles) and parameters (grey) are spread over their ranges.",
            draw.spreads(motion_set),
        ),
    ]
    for number in numbers[:3]:
        caption = "The same clips over time; red lines are onsets, thick blue ones phrases."
        images.append((f"clip-{number}", caption, draw.course(motion_set, number)))
    return images


def parts_of(report: dict[str, Any], images: Sequence[tuple[str, str, bytes]]) -> list[Part]:
    """The parts of the page, from a report of :func:`overview` and its pictures."""
    made_by = json.dumps(report["made_by"], sort_keys=True)
    head, rows = totals_rows(report)
    seconds = report["clip_seconds"]
    parts: list[Part] = [
        ("title", f"The set {Path(report['set']).resolve().name}"),
        ("text", f"Digest `{report['digest']}`, made by `{made_by}`."),
        *(("text", f"**Warning:** {line}") for line in report["warnings"][:MAX_LINES]),
        ("table", [head, *rows]),
        (
            "text",
            f"Clips of {seconds['shortest']} to {seconds['longest']} s, half of them above "
            f"{seconds['median']} s. 50 frames a second.",
        ),
    ]
    titles = dict(
        zip([name for name, _, _ in images], ("Amounts", "Poses", "Spread", "Over time"), strict=False)
    )
    for image in images:
        if image[0] in titles:
            parts.append(("title", titles[image[0]]))
        parts.append(("image", image))
    head, rows = _subjects(report)
    parts += [("title", "Subjects"), ("table", [head, *rows[:MAX_LINES]])]
    if len(rows) > MAX_LINES:
        parts.append(("text", f"and {len(rows) - MAX_LINES} more: see the JSON"))
    refused = report["refused"]
    if refused:
        parts.append(("title", f"{counted(len(refused), 'take')} that could not be used"))
        rows = [[entry["path"], entry["reason"]] for entry in refused[:MAX_LINES]]
        parts.append(("table", [["file", "why"], *rows]))
    return parts


def inspect(path: Path | str, out: Path | str | None = None, *, verify: bool = False) -> dict[str, Any]:
    """Summarise a set, and optionally write a page about it.

    Args:
        path: the set.
        out: an .html file, or a folder for index.html, overview.json and the pictures; None writes nothing.
        verify: read all arrays and compare their sha256.

    Returns:
        The values of :func:`training.data.sets.overview.overview`, and ``files``, the written files.

    Raises:
        FormatError: there is no set, or it is damaged.
        OptionError: ``out`` is a file of another kind.
    """
    if out is not None:
        report_paths(Path(out), "index", "overview")  # before minutes of work
    motion_set = MotionSet.open(path, verify=verify)
    report = overview(motion_set)
    files: list[Path] = []
    if out is not None:
        parts = parts_of(report, pictures(motion_set))
        files = write(
            parts, report, Path(out), Path(report["set"]).resolve().name, name="index", data="overview"
        )
    return report | {"files": [str(file) for file in files]}
