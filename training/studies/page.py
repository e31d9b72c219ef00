"""What a study's runs say: tables with paired differences, and a figure, from whatever runs there are."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from training.report.pages import png, pyplot
from training.report.tables import interval, paired, place, spread, table
from training.studies.engine import RUNS, Line, Measure, Row, Study, read

BEGIN: Final = "<!-- tables: written by the study, do not edit -->"
END: Final = "<!-- end of tables -->"
DRAWS: Final = 4000
FEWEST: Final = 4
"""Units from which a bootstrap over them is worth its name."""


class View:
    """The runs of a study from one side.

    Args:
        study: whose runs they are.
        lines: all of its runs.
        name: of the view.
    """

    def __init__(self, study: Study[Any], lines: Sequence[Line], name: str) -> None:
        self.name = name
        self.runs: dict[str, dict[int, dict[str, Row]]] = {arm: {} for arm in study.arms}
        self.rivals: dict[str, dict[str, Row]] = {}
        self.lines: dict[str, list[Line]] = {arm: [] for arm in study.arms}
        for line in lines:
            units = study.units(line, name)
            if units and line["seed"] is None:
                self.rivals[line["arm"]] = units
            elif units:
                self.runs[line["arm"]].setdefault(line["seed"], {}).update(units)
                self.lines[line["arm"]].append(line)
        self.runs = {arm: found for arm, found in self.runs.items() if found}
        self.held = next(iter(self.rivals.values()), {})
        self.subjects = list(self.held or next(iter(next(iter(self.runs.values()), {}).values()), {}))

    def value(self, rows: dict[str, Row], measure: Measure, subjects: Sequence[str] | None = None) -> float:
        """One number of a run, over all units or over some, with repetitions."""
        names = [s for s in (self.subjects if subjects is None else subjects) if s in rows]
        return measure.value([rows[n] for n in names], [self.held.get(n, {}) for n in names])

    def values(self, arm: str, measure: Measure) -> list[float]:
        """A number of every seed's run."""
        return [self.value(rows, measure) for _, rows in sorted(self.runs[arm].items())]

    def common(self, one: str, other: str) -> list[int]:
        """The seeds that two arms have."""
        return sorted(set(self.runs.get(one, {})) & set(self.runs.get(other, {})))

    def apart(
        self, one: str, other: str, measure: Measure, subjects: Sequence[str] | None = None
    ) -> list[float]:
        """A number of one arm less that of the other, for every common seed."""
        first, second = self.runs.get(one, {}), self.runs.get(other, {})
        return [
            self.value(first[seed], measure, subjects) - self.value(second[seed], measure, subjects)
            for seed in self.common(one, other)
        ]

    def difference(self, one: str, other: str, measure: Measure) -> dict[str, Any]:
        """Paired by seed, with the 95 % interval by Student's t; from four units on that of a bootstrap over
        units and seeds."""
        found = paired(self.apart(one, other, measure))
        if len(self.subjects) >= FEWEST and found["seeds"] > 1:
            found["low"], found["high"] = self._bootstrap(one, other, measure)
        return found

    def _bootstrap(self, one: str, other: str, measure: Measure) -> tuple[float, float]:
        rng = np.random.default_rng(0)
        # There are few ways to draw units: what a draw of them gives is looked up.
        known: dict[tuple[int, ...], NDArray[np.float64]] = {}
        found = []
        for _ in range(DRAWS):
            drawn = tuple(sorted(rng.integers(len(self.subjects), size=len(self.subjects)).tolist()))
            if drawn not in known:
                names = [self.subjects[i] for i in drawn]
                known[drawn] = np.array(self.apart(one, other, measure, names))
            apart = known[drawn]
            found.append(apart[rng.integers(len(apart), size=len(apart))].mean())
        low, high = np.quantile(found, [0.025, 0.975])
        return float(low), float(high)


def report(study: Study[Any], folder: Path, *, page: bool = True) -> dict[str, Any]:
    """What a folder of runs says; with ``page`` also written into its ``page.md`` and drawn beside it.

    Returns:
        ``tables``, Markdown; ``differences`` by view, pair and measure; ``runs``, how many.

    Raises:
        FormatError: no runs.
    """
    lines = read(folder, study)
    views = [View(study, lines, name) for name in study.views or study.cases]
    views = [view for view in views if view.runs]
    if not views:
        raise FormatError(f"{folder / RUNS}: no runs of {study.title!r}")
    differences = {
        view.name: {
            f"{one} less {other}": {m.title: view.difference(one, other, m) for m in study.measures}
            for one, other in study.pairs
            if view.common(one, other)
        }
        for view in views
    }
    runs = [line for line in lines if line["seed"] is not None]
    options = ", ".join(f"{name} {value}" for name, value in runs[0]["options"].items())
    text = f"{len(runs)} runs{f'; {options}' if options else ''}.\n"
    text += "".join(_view(study, view, differences[view.name]) for view in views)
    if page:
        place(folder / "page.md", study.title, text, BEGIN, END)
        (folder / "page.png").write_bytes(draw(study, views[0], differences[views[0].name]))
    return {"tables": text, "differences": differences, "runs": len(runs)}


def _view(study: Study[Any], view: View, differences: dict[str, dict[str, Any]]) -> str:
    subjects = f" ({', '.join(view.subjects)})" if len(view.subjects) > 1 else ""
    parts = [f"\n**{view.name.capitalize() or 'All'}**{subjects}, mean ± standard deviation over seeds.\n"]
    for number, (caption, columns) in enumerate(study.tables):
        cost = ("seeds", "parameters", "CPU s") if number == 0 else ()
        rows = [
            (arm, *_cost(view, arm)[: len(cost)], *(_cell(view.values(arm, m), m.digits) for m in columns))
            for arm in view.runs
        ]
        rows += [
            (name, *("" for _ in cost), *(_cell([view.value(units, m)], m.digits) for m in columns))
            for name, units in view.rivals.items()
        ]
        parts.append(f"{caption}:\n\n" + table(["", *cost, *(m.title for m in columns)], rows))
    if differences:
        drawn = len(view.subjects) >= FEWEST
        how = f"a bootstrap over {len(view.subjects)} units and seeds" if drawn else "Student's t"
        parts.append(f"Differences, paired by seed, 95 % interval by {how} (bold: without zero):\n")
    for _, columns in study.tables if differences else ():
        found = [(pair, *(_gap(gaps[m.title]) for m in columns)) for pair, gaps in differences.items()]
        parts.append(table(["", *(m.title for m in columns)], found))
    return "\n".join(parts)


def _cost(view: View, arm: str) -> tuple[str, str, str]:
    """Seeds, parameters and the median of the processor's seconds."""
    lines = view.lines[arm]
    seconds = [line["cpu_seconds"] for line in lines if "cpu_seconds" in line]
    parameters = f"{lines[0]['parameters']:,}" if "parameters" in lines[0] else "-"
    return str(len(view.runs[arm])), parameters, f"{np.median(seconds):.0f}" if seconds else "-"


def _cell(values: Sequence[float], digits: int) -> str:
    return "-" if any(math.isnan(value) for value in values) else spread(values, digits)


def _gap(gap: dict[str, Any]) -> str:
    if math.isnan(gap["mean"]):
        return "-"
    low, high = gap["low"], gap["high"]
    # Some draws of units may hold none that has the measure.
    if low is None or math.isnan(low):
        return f"{gap['mean']:+.4f} (-)"
    shown = f"{gap['mean']:+.4f}"
    return f"{shown if round(low, 4) <= 0.0 <= round(high, 4) else f'**{shown}**'} ({interval(low, high)})"


def draw(study: Study[Any], view: View, differences: dict[str, dict[str, Any]]) -> bytes:
    """The first table's columns with every seed, and the paired differences with their intervals, as PNG."""
    columns = study.tables[0][1]
    width = 2.6 * len(columns) + 1.5
    figure, axes = pyplot().subplots(2, len(columns), figsize=(width, 6.5), squeeze=False)
    for (top, bottom), measure in zip(axes.T, columns, strict=True):
        for number, arm in enumerate(view.runs):
            values = view.values(arm, measure)
            top.plot([number] * len(values), values, ".", color=f"C{number}", ms=7, alpha=0.6)
            top.plot([number - 0.3, number + 0.3], [np.mean(values)] * 2, color=f"C{number}", lw=2)
        top.set_xticks(range(len(view.runs)), list(view.runs), rotation=60, ha="right", fontsize=8)
        top.set_title(measure.title, fontsize=10)
        for row, found in enumerate(differences.values()):
            gap = found[measure.title]
            if gap["low"] is not None:
                bottom.plot([gap["low"], gap["high"]], [-row, -row], color="C0", lw=1.4)
            bottom.plot(gap["mean"], -row, "o", color="C0", ms=4)
        bottom.set_ylim(0.5 - max(len(differences), 1), 0.5)
        bottom.axvline(0.0, color="black", lw=0.8)
        bottom.set_yticks([])
    axes[1, 0].set_yticks(range(0, -len(differences), -1), list(differences), fontsize=8)
    figure.suptitle(f"{view.name or study.title}: every seed and their mean; paired differences", fontsize=11)
    figure.tight_layout()
    return png(figure)
