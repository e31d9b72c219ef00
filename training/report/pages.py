"""Report pages of titles, text, tables and images, as Markdown or as HTML with embedded images."""

import base64
import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import OptionError
from pyanticip.motion.atomic import write_files, writing
from training.report.tables import table_row, without_html

STYLE: Final = """
body { font: 15px/1.45 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
td, th { border-bottom: 1px solid #ddd; padding: .2rem .7rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
img { max-width: 100%; }
figure { margin: 1.5rem 0; }
figcaption { color: #555; }
h1, h2, p { overflow-wrap: anywhere; }
"""

DPI: Final = 80
PAGES: Final = (".html", ".htm")
_FIGURES: Final = re.compile(r"[^A-Za-z]*[A-Za-z]{0,2}")
_FILE: Final = re.compile(r"\.[a-z]{2,}", re.IGNORECASE)

Row = Sequence[str]
Part = tuple[str, Any]
"""``("title" | "text", str)``, ``("table", rows)`` or ``("image", (name, caption, png))``."""


def number(value: float | None, digits: int = 4) -> str:
    """Format a number for a table."""
    if value is None:
        return "-"
    text = f"{value:.{digits}g}"
    return text if "e" not in text or abs(value) < 1e-4 else f"{value:.0f}"


def pyplot() -> Any:
    """Import matplotlib.pyplot with the in-memory backend."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def png(figure: Any, dpi: int = DPI) -> bytes:
    """Render a figure as PNG and close it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    pyplot().close(figure)
    return buffer.getvalue()


def remove_spines(axis: Any) -> None:
    """Remove the top and right spines of an axis, and use small tick labels."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(labelsize=8)


def as_markdown(parts: Sequence[Part]) -> str:
    """Render the parts as Markdown: the first title is the page's, images are links to files."""
    lines: list[str] = []
    mark = "#"
    for kind, value in parts:
        if kind == "title":
            lines += [f"{mark} {without_html(value)}", ""]
            mark = "##"
        elif kind == "text":
            lines += [without_html(value), ""]
        elif kind == "table":
            head, *rest = value
            lines += [table_row(head), "|" + "---|" * len(head)]
            lines += [table_row([*row, *[""] * (len(head) - len(row))]) for row in rest] + [""]
        else:
            lines += [f"![{without_html(value[1])}]({value[0]}.png)", ""]
    return "\n".join(lines)


def _inline(text: str) -> str:
    """Escape text as HTML, and convert the Markdown marks that parts use: **bold**, *emphasis* and `code`."""
    pieces = re.split(r"`([^`]+)`", html.escape(text))
    for at, piece in enumerate(pieces):
        if at % 2:
            pieces[at] = f"<code>{piece}</code>"
            continue
        bold = re.sub(r"\*\*(\S|\S.*?\S)\*\*", r"<strong>\1</strong>", piece)
        pieces[at] = re.sub(r"(?<![\w*])\*([^\s*]|[^\s*][^*]*[^\s*])\*(?![\w*])", r"<em>\1</em>", bold)
    return "".join(pieces)


def _cell(text: str) -> str:
    """A cell of a table as HTML; figures stay on one line, with their interval and unit."""
    cell = _inline(text)
    return cell.replace(" ", "&nbsp;") if _FIGURES.fullmatch(text) else cell


def as_html(parts: Sequence[Part], name: str) -> str:
    """Render the parts as a self-contained HTML page with the title ``name``."""
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
            rows += ["<tr>" + "".join(f"<td>{_cell(c)}</td>" for c in row) + "</tr>" for row in rest]
            body.append("<table>\n" + "\n".join(rows) + "\n</table>")
        else:
            data = base64.b64encode(value[2]).decode("ascii")
            text = html.escape(value[1])
            image = f'<img alt="{text}" src="data:image/png;base64,{data}">'
            body.append(f"<figure>{image}<figcaption>{text}</figcaption></figure>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(name)}</title>"
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def report_paths(
    target: Path, name: str = "report", data: str = "", *, endings: str = ".html"
) -> tuple[Path, Path]:
    """Paths of a report's page and of its numbers; either both exist, from an earlier report, or neither.

    Args:
        target: see :func:`write`.
        name: stem of the files in a folder.
        data: stem of the JSON file there, if different.
        endings: suffixes that the caller accepts, for the error message.

    Raises:
        OptionError: the target is neither a folder nor a page, or only one of the two files exists, which
            is then not a report's.
    """
    is_page = target.suffix.lower() in PAGES
    is_file = target.exists() or _FILE.fullmatch(target.suffix)  # "runs/v0.2" is a new folder
    if target.is_dir() if is_page else is_file and not target.is_dir():
        raise OptionError(f"report {target}: expected a folder or a name that ends in {endings}")
    page = target if is_page else target / f"{name}.html"
    figures = page.with_suffix(".json") if is_page else target / f"{data or name}.json"
    check_pair(page, figures)
    return page, figures


def check_pair(page: Path, figures: Path) -> None:
    """Refuse to overwrite one of two files if the other does not exist: it is then not a report's.

    Raises:
        OptionError: exactly one of them exists.
    """
    existing = [file for file in (page, figures) if file.exists()]
    if len(existing) == 1:
        raise OptionError(
            f"{existing[0]}: exists and is not part of a report; give another path for the report"
        )


def write(
    parts: Sequence[Part],
    numbers: Mapping[str, Any],
    target: Path,
    title: str,
    *,
    name: str = "report",
    data: str = "",
) -> list[Path]:
    """Write a report, and its numbers as JSON.

    Args:
        parts: content of the page.
        numbers: content of the JSON file.
        target: a folder, which gets ``report.html``, ``.json``, ``.md`` and the pictures; or a file
            ``NAME.html``, which gets ``NAME.json`` beside it.
        title: title of the page.
        name: stem of the files in a folder.
        data: stem of the JSON file there, if different.

    Returns:
        The written files, the page first.

    Raises:
        OptionError: see :func:`report_paths`.
        DeviceError: they cannot be written; without room for all of them, the old ones stay.
    """
    page, figures = report_paths(target, name, data)
    with writing(page):
        page.parent.mkdir(parents=True, exist_ok=True)
    files = {page: as_html(parts, title).encode(), figures: (json.dumps(numbers, indent=1) + "\n").encode()}
    if page != target:
        files[page.with_suffix(".md")] = as_markdown(parts).encode()
        files |= {target / f"{value[0]}.png": value[2] for kind, value in parts if kind == "image"}
    write_files(files)
    return list(files)
