"""Tables and a figure of the arms of a question, from whatever runs there are."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyanticip.errors import FormatError
from training.report.tables import interval, paired, place, spread, table
from training.study.arms import KIND, Question, reference_file
from training.study.motion_report import DRAWS, SIDES, Measure, Study, difference
from training.study.runs import read

BEGIN: Final = "<!-- tables: written by `pyanticip evaluate study-parts {}`, do not edit -->"
END: Final = "<!-- end of tables -->"

SEEDS: Final = 3
"""Seeds of a whole study."""


def load(question: Question, folder: Path) -> tuple[Study, dict[str, Any]]:
    """The runs of a question in a folder, and its rivals' scores by name.

    Raises:
        FormatError: a file that is no run of it, none at all, or runs that learned from different motion.
    """
    file = reference_file(folder, question)
    if not file.is_file():
        raise FormatError(f"{folder}: no runs of {question.name}")
    kept = read(file)
    runs: dict[str, dict[int, dict[str, Any]]] = {}
    for path in sorted(folder.glob(f"{question.name}-*-seed*.json")):
        run = read(path)
        if run.get("kind") != KIND or run.get("question") != question.name or run["arm"] not in question.arms:
            raise FormatError(f"{path}: not a run of {question.name}")
        if run["motion"] != kept["motion"]:
            raise FormatError(f"{path}: learned from other motion than the others")
        runs.setdefault(run["arm"], {})[run["seed"]] = run
    if not runs:
        raise FormatError(f"{folder}: no runs of {question.name}")
    study = Study({name: runs[name] for name in question.arms if name in runs}, kept["reference"])
    return study, kept["rivals"]


def report(question: Question, folder: Path, out: Path | None = None, seeds: int = SEEDS) -> dict[str, Any]:
    """Tables of a folder of runs; with ``out`` also written into the question's page.

    Args:
        question: whose arms they are.
        folder: of the runs.
        out: folder of the page, whose tables are replaced between two marks (a page that is missing is
            begun), and of its figure, a PNG of the same name.
        seeds: of the whole study, to say how much of it is there.

    Returns:
        ``tables``, Markdown; ``differences`` by side, pair and measure; ``runs`` and ``planned``.
    """
    study, rivals = load(question, folder)
    pairs = [pair for pair in question.pairs if study.common(*pair)]
    # Three validation subjects are too few to draw from: there the intervals are over seeds alone.
    differences: dict[str, Any] = {
        "validation": {
            f"{one} - {other}": {
                m.title: paired(study.apart(one, other, "validation", m)) for m in question.measures
            }
            for one, other in pairs
        },
        "held out": {
            f"{one} - {other}": {
                m.title: difference(study, one, other, "held out", m) for m in question.measures
            }
            for one, other in pairs
        },
    }
    done = sum(len(found) for found in study.runs.values())
    result: dict[str, Any] = {
        "runs": done,
        "planned": len(question.arms) * seeds,
        "differences": differences,
        "tables": _tables(question, study, rivals, differences, len(question.arms) * seeds),
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        page = out / f"{question.name}.md"
        place(
            page, question.title, result["tables"], BEGIN.format(question.name.removeprefix("motion-")), END
        )
        draw(question, study, differences["validation"], page.with_suffix(".png"))
    return result


def _tables(
    question: Question, study: Study, rivals: dict[str, Any], differences: dict[str, Any], planned: int
) -> str:
    done = sum(len(found) for found in study.runs.values())
    some = next(iter(next(iter(study.runs.values())).values()))["options"]
    schedule = some["schedule"]
    parts = [
        f"{done} {'runs' if done > planned else f'of {planned} runs'} are in. Each: "
        f"{schedule['steps']} updates of "
        f"{schedule['batch_frames']:,} frames, peak learning rate {schedule['peak_lr']:g}, "
        f"{some['data']['copies']} varied copies of every take.\n"
    ]
    for side in SIDES:
        subjects = ", ".join(sorted(study.rows(None, side)))
        parts.append(
            f"**{side.capitalize()}** (subjects {subjects}), mean ± standard deviation over seeds.\n"
        )
        for number, (caption, columns) in enumerate(question.tables):
            parts.append(f"{caption}:\n")
            cost = ("seeds", "parameters", "CPU s") if number == 0 else ()
            head = ["", *cost, *(measure.title for measure in columns)]
            parts.append(table(head, _rows(study, rivals, side, columns, bool(cost))))
    for side, over in (("validation", "seeds"), ("held out", "subjects and seeds")):
        many = len(study.rows(None, side))
        how = (
            "by Student's t over seeds"
            if over == "seeds"
            else f"of a bootstrap ({DRAWS:,} draws) over the {many} subjects and the seeds"
        )
        parts.append(
            f"Differences, {side}, paired by seed, with the 95 % interval {how} (bold: without zero):\n"
        )
        for _, columns in question.tables:
            head = ["", *(measure.title for measure in columns)]
            rows = _compared(differences[side], columns, over)
            # What only one arm has cannot be compared.
            if any(cell != "-" for row in rows for cell in row[1:]):
                parts.append(table(head, rows))
    return "\n".join(parts)


def _rows(
    study: Study, rivals: dict[str, Any], side: str, columns: Sequence[Measure], cost: bool
) -> list[tuple[str, ...]]:
    rows = []
    for name, found in study.runs.items():
        each = list(found.values())
        seconds = f"{np.median([run['cpu_seconds'] for run in each]):.0f}"
        told = (str(len(each)), f"{each[0]['parameters']:,}", seconds) if cost else ()
        values = [list(study.values(name, side, measure).values()) for measure in columns]
        cells = (_cell(v, m.digits) for v, m in zip(values, columns, strict=True))
        rows.append((name, *told, *cells))
    for name, scores in rivals.items():
        blank = ("", "", "") if cost else ()
        values = [[study.value({"scores": scores}, side, measure)] for measure in columns]
        rows.append((name, *blank, *(_cell(v, m.digits) for v, m in zip(values, columns, strict=True))))
    return rows


def _cell(values: Sequence[float], digits: int) -> str:
    return "-" if any(math.isnan(value) for value in values) else spread(values, digits)


def _compared(differences: dict[str, Any], columns: Sequence[Measure], over: str) -> list[tuple[str, ...]]:
    low, high = ("low", "high") if over == "seeds" else ("subjects_low", "subjects_high")
    rows = []
    for pair, found in differences.items():
        cells = []
        for measure in columns:
            gap = found[measure.title]
            if math.isnan(gap["mean"]):
                cells.append("-")
                continue
            shown, edges = f"{gap['mean']:+.4f}", (gap[low], gap[high])
            # Some draws of subjects may hold none that has the measure.
            if gap["seeds"] < 2 or math.isnan(edges[0]):
                edges = None, None
            elif not round(edges[0], 4) <= 0.0 <= round(edges[1], 4):
                shown = f"**{shown}**"
            cells.append(f"{shown} ({interval(*edges)})")
        rows.append((pair.replace(" - ", " less "), *cells))
    return rows


def draw(question: Question, study: Study, differences: dict[str, Any], path: Path) -> None:
    """The first table's columns with every seed, and the paired differences with their intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = question.tables[0][1]
    figure, axes = plt.subplots(2, len(columns), figsize=(2.6 * len(columns) + 1.5, 6.5), squeeze=False)
    for i, measure in enumerate(columns):
        top, bottom = axes[0, i], axes[1, i]
        for number, name in enumerate(study.runs):
            values = list(study.values(name, "validation", measure).values())
            top.plot([number] * len(values), values, ".", color=f"C{number}", ms=7, alpha=0.6)
            top.plot([number - 0.3, number + 0.3], [np.mean(values)] * 2, color=f"C{number}", lw=2)
        top.set_xticks(range(len(study.runs)), list(study.runs), rotation=60, ha="right", fontsize=8)
        top.set_title(measure.title, fontsize=10)
        for row, (_, found) in enumerate(differences.items()):
            gap = found[measure.title]
            if math.isnan(gap["mean"]):
                continue
            if gap["low"] is not None:
                bottom.plot([gap["low"], gap["high"]], [-row, -row], color="C0", lw=1.4)
            bottom.plot(gap["mean"], -row, "o", color="C0", ms=4)
        bottom.set_ylim(0.5 - len(differences), 0.5)
        bottom.axvline(0.0, color="black", lw=0.8)
        names = [pair.replace(" - ", " less ") for pair in differences] if i == 0 else []
        bottom.set_yticks(range(0, -len(names), -1), names, fontsize=8)
        if i:
            bottom.set_yticks([])
        bottom.tick_params(axis="x", labelsize=8)
        top.tick_params(axis="y", labelsize=8)
    axes[1, 0].set_xlabel("difference, 95 % over seeds", fontsize=8)
    figure.suptitle("validation subjects: every seed and their mean; paired differences", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)
