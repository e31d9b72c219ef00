"""The report page of a fit: takes, cross-validated predictions and confusions.

One HTML file with inline SVG: nothing is fetched, nothing but NumPy is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import counted
from pyanticip.motion.atomic import write_file
from pyanticip.motion.clip import Clip
from pyanticip.teach.frames import HeldOutPrediction, Part
from pyanticip.teach.project import Project
from pyanticip.teach.state import TakeEntry
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE

PAGE = "report.html"

MAX_TAKES = 100
"""Most takes shown on the page."""

F64 = npt.NDArray[np.float64]

_HIPS = ("left_upper_leg", "right_upper_leg")
_FIGURE_TIMES = (0.06, 0.35, 0.65, 0.94)
"""Shares of a take's length at which the body is drawn."""
_MIN_FIGURE_WIDTH, _FIGURE_HEIGHT, _MIN_FIGURE_HEIGHT_M = 62, 112, 2.0
_CHART_WIDTH, _CHART_HEIGHT = 300, 76
# Palette of Okabe and Ito, distinguishable with colour blindness.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 66rem;
  margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .25rem .7rem; text-align: right; }
th { font-weight: 600; color: #555; } td:first-child, th:first-child { text-align: left; }
.takes tr { border-top: 1px solid #ddd; } .takes td { vertical-align: middle; text-align: left; }
.cell { min-width: 3.6rem; text-align: center; } .note { color: #555; } .warning { color: #a33b00; }
h1, h2, p, td:first-child, .takes td { overflow-wrap: anywhere; }
@media (max-width: 60rem) { td, th { padding: .25rem; } .takes tr { display: flex; flex-wrap: wrap; } }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .9em; border-radius: 2px;
  forced-color-adjust: none; }
"""


def write_page(project: Project, parts: Sequence[Part], report: Mapping[str, Any]) -> Path:
    """Write the page of a fit into the project's folder, and return its path.

    Raises:
        DeviceError: it cannot be written.
    """
    path = project.folder / PAGE
    body = [*_head(project, report), *(line for part in parts for line in _part(part))]
    body += _gestures(report["gestures"])
    body += _takes(project, parts, report["gestures"])
    title = escape(project.folder.resolve().name)
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style>" + "\n".join(body) + "</html>\n"
    )
    write_file(path, page.encode())
    return path


def _head(project: Project, report: Mapping[str, Any]) -> Iterable[str]:
    yield f"<h1>{escape(project.folder.resolve().name)}, revision {report['revision']}</h1>"
    lead = f", {report['lead_ms']} ms ahead" if report["lead_ms"] else ""
    yield (
        f"<p>{counted(report['takes'], 'take')}, {report['seconds_of_takes']:.0f} s{lead}."
        " All errors are of frames that were left out when the head was fitted: whole takes where another"
        " shows the same, else blocks of time, which is kinder.</p>"
    )
    for line in report["warnings"]:
        yield f"<p class=warning>{escape(line)}</p>"


def _part(part: Part) -> Iterable[str]:
    report = part.report
    head = f"{report['kind']} on {' and '.join(report['inputs'])}"
    if part.label_of:
        yield f"<h2>Class {escape(part.label_of)} <span class=note>{head}</span></h2>"
        yield from _confusion(report)
    else:
        yield f"<h2>{escape(', '.join(part.outputs))} <span class=note>{head}</span></h2>"
        if report["error"] is None:
            yield "<p class=warning>Not judged: nothing can be left out. Record more takes.</p>"
        else:
            yield "<table><tr><th>error, % of the range<th>cross-validated<th>always the mean</tr>"
            for i, (name, error) in enumerate(report["error"].items()):
                mean = report["error_of_the_mean"][name]
                yield f"<tr><td>{_key(i)}{escape(name)}<td>{100 * error:.1f}<td>{100 * mean:.1f}</tr>"
            yield "</table>"
    for key, reason in (
        ("judged_by_blocks", "no other take shows the same, so left out in blocks of time"),
        ("not_judged", "too short to judge"),
    ):
        if report[key]:
            yield f"<p class=note>{escape(', '.join(report[key]))}: {reason}.</p>"


def _gestures(reports: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    if reports:
        yield "<h2>Gestures <span class=note>each take left out in turn; false alarms in all that shows no"
        yield " such gesture</span></h2><table><tr><th>gesture<th>found<th>missed<th>recognised at"
        yield "<th>end off by<th>false alarms</tr>"
    for row in reports:
        timing = "<td><td>" if row["at"] is None else f"<td>{100 * row['at']:.0f} %<td>{row['end_ms']} ms"
        yield f"<tr><td>{escape(row['gesture'])}<td>{len(row['found'])} of {len(row['takes'])}"
        yield f"<td>{escape(', '.join(row['missed']))}{timing}"
        alarmed_by = f": {escape(', '.join(row['alarmed_by']))}" if row["alarmed_by"] else ""
        yield f"<td>{row['alarms']} in {60 * row['minutes']:.0f} s{alarmed_by}</tr>"
    if reports:
        yield "</table>"


def _confusion(report: Mapping[str, Any]) -> Iterable[str]:
    if report["accuracy"] is None:
        yield "<p class=warning>Not judged: nothing can be left out. Record more takes.</p>"
        return
    labels = report["labels"]
    right = f"{100 * report['accuracy']:.0f} %"
    yield f"<p>{right} of the frames left out are labelled right, each label counting alike.</p>"
    yield (
        "<table><tr><th>shown \\ predicted" + "".join(f"<th class=cell>{escape(n)}" for n in labels) + "</tr>"
    )
    for i, (label, row) in enumerate(zip(labels, report["confusion"], strict=True)):
        cells = []
        for j, share in enumerate(row):
            colour = f"rgba(0,114,178,{share:.2f})" if i == j else f"rgba(213,94,0,{share:.2f})"
            # The ink with the higher contrast.
            ink = "#fff" if i == j and share > 0.85 else "#222"
            # A label of which no take was left out has a share of nothing.
            text = f"{100 * share:.0f} %" if sum(row) else "-"
            cells.append(f'<td class=cell style="background:{colour};color:{ink}">{text}')
        yield f"<tr><td>{_key(i)}{escape(label)}{''.join(cells)}</tr>"
    yield "</table>"
    unjudged = [label for label, row in zip(labels, report["confusion"], strict=True) if not sum(row)]
    if unjudged:
        names = escape(", ".join(unjudged))
        yield f"<p class=note>Not judged, as no take of theirs was left out: {names}.</p>"


def _takes(project: Project, parts: Sequence[Part], gestures: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Every take with figures, targets, held-out predictions and their error; the worst first."""
    evaluated: dict[str, list[tuple[Part, list[HeldOutPrediction]]]] = {
        take.name: [] for take in project.state.takes
    }
    for part in parts:
        by_take: dict[str, list[HeldOutPrediction]] = {}
        for prediction in part.left_out:
            by_take.setdefault(prediction.take, []).append(prediction)
        for name, rows in by_take.items():
            evaluated[name].append((part, rows))
    missed = {name for gesture in gestures for name in gesture["missed"]}
    found = {name for gesture in gestures for name in gesture["found"]}
    errors = {
        name: max([*(_error(*row) for row in rows), float(name in missed)])
        for name, rows in evaluated.items()
    }
    takes = sorted(project.state.takes, key=lambda take: -errors[take.name])
    yield "<h2>Takes <span class=note>the worst first; over time, thick: predicted when left out,"
    yield " thin: wanted, in each output's range; for classes, the probability of each label</span></h2>"
    yield "<table class=takes>"
    for take in takes[:MAX_TAKES]:
        targets = [f"{n} = {v:g}" for n, v in take.values.items()] + [f"{n}: curve" for n in take.columns]
        targets += [f"{n} = {label}" for n, label in take.labels.items()]
        charts = "".join(_chart(take, part, rows) for part, rows in evaluated[take.name])
        results = [_error_text(part, rows) for part, rows in evaluated[take.name]]
        if take.name in found | missed:
            results.append(f"{escape(take.gesture or '')}: {'found' if take.name in found else 'missed'}")
        yield f"<tr><td><b>{escape(take.name)}</b><br>{take.frames / RATE:.1f} s<br>"
        yield f"<span class=note>{escape(', '.join(targets))}</span>"
        yield f"<td>{_figures(project.motion(take), take.begin)}<td>{charts}"
        yield f"<td>{'<br>'.join(results) or 'not judged'}</tr>"
    yield "</table>"
    if len(takes) > MAX_TAKES:
        yield f"<p class=note>And {len(takes) - MAX_TAKES} more.</p>"


def _error(part: Part, rows: Sequence[HeldOutPrediction]) -> float:
    """Share of frames with the wrong label, or the mean error as a share of the range."""
    targets = np.concatenate([row.targets for row in rows])
    predicted = np.concatenate([row.predicted for row in rows])
    if part.label_of:
        return float((predicted.argmax(1) != targets.argmax(1)).mean())
    return float(np.abs(predicted - targets).mean())


def _error_text(part: Part, rows: Sequence[HeldOutPrediction]) -> str:
    percent = 100 * _error(part, rows)
    if not part.label_of:
        return f"{escape(', '.join(part.outputs))}: off by {percent:.1f} %"
    if percent < 0.5:
        return f"{escape(part.label_of)}: right"
    label = int(rows[0].targets[0].argmax())
    counts = np.bincount(
        np.concatenate([row.predicted.argmax(1) for row in rows]), minlength=len(part.outputs)
    )
    counts[label] = 0
    other = part.outputs[int(counts.argmax())]
    return f"{escape(part.label_of)}: {percent:.0f} % wrong, mostly {escape(other)}"


def _chart(take: TakeEntry, part: Part, rows: Sequence[HeldOutPrediction]) -> str:
    """Targets and predictions of every output over the take's time, or the probability of every label."""
    seconds = np.concatenate([row.seconds for row in rows])
    order = np.argsort(seconds, kind="stable")
    x = seconds[order] / max(take.frames / RATE, 1e-9) * _CHART_WIDTH
    targets = np.concatenate([row.targets for row in rows])[order]
    predicted = np.concatenate([row.predicted for row in rows])[order].astype(np.float64)
    shapes = [
        f'<rect width="{_CHART_WIDTH}" height="{_CHART_HEIGHT}" fill="#f6f6f6"/>',
        *(
            _line(x, predicted[:, i], _colour(i), 2.0)
            + ("" if part.label_of else _line(x, targets[:, i], _colour(i), 0.8))
            for i in range(predicted.shape[1])
        ),
    ]
    return (
        f'<svg width="{_CHART_WIDTH}" height="{_CHART_HEIGHT}"'
        f' viewBox="0 -3 {_CHART_WIDTH} {_CHART_HEIGHT + 6}">' + "".join(shapes) + "</svg><br>"
    )


def _line(x: F64, y: F64, colour: str, width: float) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, _CHART_HEIGHT * (1 - y.clip(0, 1)), strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _figures(clip: Clip, begin: int) -> str:
    """The body at a few times of the take, seen from the front and a little from the side."""
    parents = clip.skeleton.parents
    frames = [begin + round(share * (len(clip) - 1 - begin)) for share in _FIGURE_TIMES]
    positions = clip[min(frames) :].positions()[[t - min(frames) for t in frames]].astype(np.float64)
    left, right = (CANONICAL_JOINTS.index(name) for name in _HIPS)
    heights = positions[..., 1] - positions[..., 1].min()
    scale = (_FIGURE_HEIGHT - 6) / max(_MIN_FIGURE_HEIGHT_M, heights.max())
    across = positions[:, left] - positions[:, right]
    heading = (np.arctan2(across[:, 2], across[:, 0]) + 0.5)[:, None]
    beside = positions - positions[:, :1]
    sides = scale * (beside[..., 0] * np.cos(heading) + beside[..., 2] * np.sin(heading))
    each = max(_MIN_FIGURE_WIDTH, math.ceil(2 * np.abs(sides).max()) + 4)
    bones = []
    for i in range(len(frames)):
        xs = (i + 0.5) * each + sides[i]
        ys = _FIGURE_HEIGHT - 3 - scale * heights[i]
        for joint, parent in enumerate(parents):
            if parent >= 0:
                bones.append(f"M{xs[parent]:.1f} {ys[parent]:.1f}L{xs[joint]:.1f} {ys[joint]:.1f}")
    return (
        f'<svg width="{each * len(_FIGURE_TIMES)}" height="{_FIGURE_HEIGHT}">'
        f'<path d="{"".join(bones)}" fill="none"'
        ' stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/></svg>'
    )


def _colour(i: int) -> str:
    return _COLOURS[i % len(_COLOURS)]


def _key(i: int) -> str:
    return f'<span class=key style="background:{_colour(i)}"></span>'
