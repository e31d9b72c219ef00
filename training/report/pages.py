"""Reports as pages: titles, text, tables and pictures, as Markdown or as HTML with the pictures inside."""

import base64
import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import OptionError

STYLE: Final = """
body { font: 15px/1.45 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { border-bottom: 1px solid #ddd; padding: .2rem .7rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
img { max-width: 100%; }
figure { margin: 1.5rem 0; }
figcaption { color: #555; }
"""

DPI: Final = 80
PAGES: Final = (".html", ".htm")
_FILE: Final = re.compile(r"\.[a-z]{2,}", re.IGNORECASE)

Row = Sequence[str]
Part = tuple[str, Any]
"""``("title" | "text", str)``, ``("table", rows)`` or ``("image", (name, caption, png))``."""


def number(value: float | None, digits: int = 4) -> str:
    """A number as it stands in a table."""
    if value is None:
        return "-"
    text = f"{value:.{digits}g}"
    return text if "e" not in text or abs(value) < 1e-4 else f"{value:.0f}"


def pyplot() -> Any:
    """matplotlib.pyplot, drawing into memory."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def png(figure: Any, dpi: int = DPI) -> bytes:
    """A figure as PNG; it is closed."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    pyplot().close(figure)
    return buffer.getvalue()


def bare(axis: Any) -> None:
    """Take away an axis's upper and right borders; small labels."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(labelsize=8)


def as_markdown(parts: Sequence[Part]) -> str:
    """The parts as Markdown: the first title above the others, pictures as links to files."""
    lines: list[str] = []
    mark = "#"
    for kind, value in parts:
        if kind == "title":
            lines += [f"{mark} {value}", ""]
            mark = "##"
        elif kind == "text":
            lines += [value, ""]
        elif kind == "table":
            head, *rest = value
            lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
            lines += [f"| {' | '.join([*row, *[''] * (len(head) - len(row))])} |" for row in rest] + [""]
        else:
            lines += [f"![{value[1]}]({value[0]}.png)", ""]
    return "\n".join(lines)


def _inline(text: str) -> str:
    """Text as HTML, with the two marks that the parts use as Markdown does: **bold** and `code`."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", bold)


def as_html(parts: Sequence[Part], name: str) -> str:
    """The parts as one HTML page, with that name, that needs no other file."""
    body: list[str] = []
    depth = 1
    for kind, value in parts:
        if kind == "title":
            body.append(f"<h{depth}>{html.escape(value)}</h{depth}>")
            depth = 2
        elif kind == "text":
            body.append(f"<p>{_inline(value)}</p>")
        elif kind == "table":
            head, *rest = value
            rows = ["<tr>" + "".join(f"<th>{_inline(c)}</th>" for c in head) + "</tr>"]
            rows += ["<tr>" + "".join(f"<td>{_inline(c)}</td>" for c in row) + "</tr>" for row in rest]
            body.append("<table>\n" + "\n".join(rows) + "\n</table>")
        else:
            data = base64.b64encode(value[2]).decode("ascii")
            text = html.escape(value[1])
            image = f'<img alt="{text}" src="data:image/png;base64,{data}">'
            body.append(f"<figure>{image}<figcaption>{text}</figcaption></figure>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(name)}</title>"
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def report_paths(
    target: Path, name: str = "report", data: str = "", *, endings: str = ".html"
) -> tuple[Path, Path]:
    """The page of a report, and the file of its numbers; both are as yet to come or an earlier report's.

    Args:
        target: see :func:`write`, which all of these are of.
        name: of the files in a folder.
        data: of the JSON there, if it is called otherwise.
        endings: of the names that the caller takes, for the message.

    Raises:
        OptionError: neither a folder nor a page, or one of the two files is there without the other, so that
            it is none of a report.
    """
    alone = target.suffix.lower() in PAGES
    a_file = target.exists() or _FILE.fullmatch(target.suffix)  # "runs/v0.2" is a folder to come
    if target.is_dir() if alone else a_file and not target.is_dir():
        raise OptionError(f"report {target}: expected a folder or a name that ends in {endings}")
    page = target if alone else target / f"{name}.html"
    figures = page.with_suffix(".json") if alone else target / f"{data or name}.json"
    check_pair(page, figures)
    return page, figures


def check_pair(page: Path, figures: Path) -> None:
    """Refuse to write a report over one of two files that is there without the other.

    Raises:
        OptionError: it is.
    """
    there = [file for file in (page, figures) if file.exists()]
    if len(there) == 1:
        raise OptionError(f"{there[0]}: is there already and of no report; give another place for the report")


def write(
    parts: Sequence[Part],
    numbers: Mapping[str, Any],
    target: Path,
    title: str,
    *,
    name: str = "report",
    data: str = "",
) -> list[Path]:
    """Write a report, and the numbers beside it.

    Args:
        parts: what to show.
        numbers: of the JSON.
        target: a folder, which gets ``report.html``, ``.json``, ``.md`` and the pictures; or a file
            ``NAME.html``, which gets ``NAME.json`` beside it.
        title: of the page.
        name: of the files in a folder.
        data: of the JSON there, if it is called otherwise.

    Returns:
        The files, the page first.

    Raises:
        OptionError: see :func:`report_paths`.
    """
    page, figures = report_paths(target, name, data)
    page.parent.mkdir(parents=True, exist_ok=True)
    files = [page, figures]
    page.write_text(as_html(parts, title), encoding="utf-8")
    figures.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    if page != target:
        files.append(page.with_suffix(".md"))
        files[2].write_text(as_markdown(parts), encoding="utf-8")
        for kind, value in parts:
            if kind == "image":
                files.append(target / f"{value[0]}.png")
                files[-1].write_bytes(value[2])
    return files
