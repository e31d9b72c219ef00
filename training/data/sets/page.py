"""``pyanticip train data inspect``: a page that shows what is in a set."""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import OptionError
from training.data.sets import draw
from training.data.sets.format import MotionSet
from training.data.sets.overview import chosen, overview

STYLE: Final = """
body { font: 15px/1.45 sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
td, th { border-bottom: 1px solid #ddd; padding: .2rem .7rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
img { max-width: 100%; display: block; margin: .7rem 0; }
.warning { background: #fff4df; border-left: 4px solid #d08c2c; padding: .3rem .8rem; margin: .3rem 0; }
code { font-size: 12px; overflow-wrap: anywhere; } p.note { color: #555; }
"""

MOST_LINES: Final = 60
"""Subjects and unusable files that are listed; the JSON has all."""

Row = Sequence[object]


def _table(head: Row, rows: Sequence[Row]) -> str:
    def line(cells: Row, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


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


def as_page(report: dict[str, Any], drawn: Sequence[tuple[str, str, bytes]]) -> str:
    """One HTML page that needs no other file."""
    name = Path(report["set"]).resolve().name
    body = [
        f"<h1>The set {html.escape(name)}</h1>",
        f"<p class=note>digest <code>{report['digest']}</code><br>made by "
        f"<code>{html.escape(json.dumps(report['made_by'], sort_keys=True))}</code></p>",
        *(f"<div class=warning>{html.escape(line)}</div>" for line in report["warnings"][:MOST_LINES]),
        _table(*totals_rows(report)),
    ]
    seconds = report["clip_seconds"]
    body.append(
        f"<p>Clips of {seconds['shortest']} to {seconds['longest']} s, half of them above "
        f"{seconds['median']} s. 50 frames a second.</p>"
    )
    said = ""
    for title, (_, caption, png) in zip(_titles(len(drawn)), drawn, strict=True):
        body.append(f"<h2>{title}</h2>" if title else "")
        body.append(f"<p class=note>{html.escape(caption)}</p>" if caption != said else "")
        said = caption
        body.append(f'<img alt="{html.escape(caption)}" src="data:image/png;base64,{_encoded(png)}">')
    head, rows = _subjects(report)
    body += ["<h2>Subjects</h2>", _table(head, rows[:MOST_LINES])]
    if len(rows) > MOST_LINES:
        body.append(f"<p>and {len(rows) - MOST_LINES} more: see the JSON</p>")
    refused = report["refused"]
    if refused:
        body.append(f"<h2>{len(refused)} takes that could not be used</h2>")
        body.append(_table(["file", "why"], [[f["path"], f["reason"]] for f in refused[:MOST_LINES]]))
    head_of_page = f'<meta charset="utf-8"><title>{html.escape(name)}</title><style>{STYLE}</style>'
    start = f'<!doctype html><html lang="en"><head>{head_of_page}</head>'
    return f"{start}<body>{''.join(body)}</body></html>\n"


def _titles(number: int) -> list[str]:
    first = ["Amounts", "Poses", "Spread", "Over time"]
    return [first[n] if n < len(first) else "" for n in range(number)]


def _encoded(png: bytes) -> str:
    return base64.b64encode(png).decode()


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
        target = Path(out)
        alone = target.suffix.lower() in (".html", ".htm")
        if not alone and target.is_file():
            raise OptionError(f"{target}: is a file, expected a folder or a name that ends in .html")
        drawn = pictures(found)
        folder = target.parent if alone else target
        folder.mkdir(parents=True, exist_ok=True)
        files = [target if alone else target / "index.html"]
        files[0].write_text(as_page(report, drawn), encoding="utf-8")
        if not alone:
            files.append(target / "overview.json")
            files[1].write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            for name, _, png in drawn:
                files.append(target / f"{name}.png")
                files[-1].write_bytes(png)
    return report | {"files": [str(file) for file in files]}
