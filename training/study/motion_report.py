"""The table and the figure of the study of geometry on motion, from whatever runs there are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.vocabulary import HORIZONS_MS
from training.report.tables import interval, paired, place, spread, table
from training.study.motion import KIND, REFERENCE, VARIANTS
from training.study.runs import read

BEGIN: Final = "<!-- tables: written by `pyanticip evaluate study-motion`, do not edit -->"
END: Final = "<!-- end of tables -->"
PAGE: Final = "geometry-motion.md"
FIGURE: Final = "geometry-motion.png"
SEEDS: Final = 5
"""Seeds of a whole study."""

DRAWS: Final = 4000
SIDES: Final[dict[str, tuple[str, ...]]] = {
    "validation": ("validation",),
    "test": ("test",),
    "held out": ("validation", "test"),
}

PAIRS: Final = (
    ("trajectory", "random"),
    ("trajectory-alive", "random-alive"),
    ("trajectory-alive", "trajectory"),
    ("trajectory-alive", "none"),
    ("trajectory", "none"),
    ("trajectory", "alibi"),
    ("trajectory", "rope"),
    ("trajectory", "input"),
    ("input", "none"),
    ("random", "none"),
    ("random-alive", "none"),
    ("alibi", "none"),
    ("rope", "none"),
    ("trajectory", "no-slow"),
    ("trajectory", "no-pathway-gate"),
    ("trajectory", "no-event-gate"),
    ("trajectory-rope", "random-rope"),
    ("trajectory-rope", "rope"),
)
"""What is compared with what: what geometry adds first, then where scalars enter, then the other parts."""

Scores = dict[str, Any]
"""A run's scores of some subjects, by subject."""


@dataclass(frozen=True)
class Measure:
    """A number that a run is judged by."""

    title: str
    value: Callable[[Sequence[Scores], Sequence[Scores]], float]
    """Of some subjects' scores, with repetitions, and of the same subjects' reference."""
    digits: int = 3


def error_ratio(horizon: int) -> Callable[[Sequence[Scores], Sequence[Scores]], float]:
    """Error of the parameters at a horizon (its number) as a ratio to the reference's, mean over the eight;
    not a number where a subject has none."""

    def value(rows: Sequence[Scores], held: Sequence[Scores]) -> float:
        if not all("error" in row for row in rows):
            return float("nan")
        mine, theirs = (np.mean([row["error"] for row in some], axis=0)[:, horizon] for some in (rows, held))
        return float(np.mean(mine / theirs))

    return value


def _mean(name: str) -> Callable[[Sequence[Scores], Sequence[Scores]], float]:
    return lambda rows, held: float(np.mean([row[name] for row in rows]))


def _f1(rows: Sequence[Scores], held: Sequence[Scores]) -> float:
    hits, reported, true = np.sum([row["onset"] for row in rows], axis=0)
    return float(2.0 * hits / max(reported + true, 1))


MEASURES: Final = (
    *(Measure(f"{ms} ms", error_ratio(i)) for i, ms in enumerate(HORIZONS_MS) if ms >= 100),
    Measure("event NLL", _mean("event_nll")),
    Measure("onset F1", _f1),
    Measure("scalars", _mean("scalar_error"), 4),
)
"""Errors of the parameters as a ratio to hold's, mean over the eight; nats a frame; F1 of onsets announced
at least 100 ms before; mean absolute error of the scalars. Less is better, but for F1."""


@dataclass(frozen=True)
class Study:
    """Runs by variant and seed, and what their scores are held against."""

    runs: dict[str, dict[int, dict[str, Any]]]
    reference: dict[str, Any]

    def rows(self, run: dict[str, Any] | None, side: str) -> dict[str, Scores]:
        """The scores of a side's subjects; the reference's without a run."""
        scores = self.reference if run is None else run["scores"]
        return {subject: row for split in SIDES[side] for subject, row in scores[split].items()}

    def value(
        self, run: dict[str, Any], side: str, measure: Measure, subjects: Sequence[str] | None = None
    ) -> float:
        """One number of a run, over all of a side's subjects or over some, with repetitions."""
        rows, held = self.rows(run, side), self.rows(None, side)
        names = list(rows) if subjects is None else subjects
        return measure.value([rows[name] for name in names], [held[name] for name in names])

    def apart(
        self, one: str, other: str, side: str, measure: Measure, subjects: Sequence[str] | None = None
    ) -> list[float]:
        """A number of one variant less that of the other, for every common seed."""
        return [
            self.value(self.runs[one][seed], side, measure, subjects)
            - self.value(self.runs[other][seed], side, measure, subjects)
            for seed in self.common(one, other)
        ]

    def values(self, variant: str, side: str, measure: Measure) -> dict[int, float]:
        """A number of every seed's run."""
        return {seed: self.value(run, side, measure) for seed, run in self.runs.get(variant, {}).items()}

    def common(self, one: str, other: str) -> list[int]:
        """The seeds that both variants have."""
        return sorted(set(self.runs.get(one, {})) & set(self.runs.get(other, {})))


def load(folder: Path) -> Study:
    """The runs in a folder.

    Raises:
        FormatError: a file that is no run, none at all, or runs that are not equal but for their variant.
    """
    runs: dict[str, dict[int, dict[str, Any]]] = {}
    first: dict[str, Any] | None = None
    for file in sorted(folder.glob("motion-*-seed*.json")):
        run = read(file)
        if run.get("kind") != KIND or run["variant"] not in VARIANTS:
            raise FormatError(f"{file}: not a run of the motion study")
        first = first or run
        if run["motion"] != first["motion"]:
            raise FormatError(f"{file}: learned from other motion than the others")
        for name, value in run["recipe"].items():
            if value != first["recipe"].get(name):
                raise FormatError(f"{file}: {name} {value!r}, others {first['recipe'].get(name)!r}")
        runs.setdefault(run["variant"], {})[run["seed"]] = run
    if first is None:
        raise FormatError(f"{folder}: no runs of the motion study")
    reference = read(folder / REFERENCE)
    if reference.get("motion") != first["motion"]:
        raise FormatError(f"{folder / REFERENCE}: of other motion than the runs beside it")
    return Study({name: runs[name] for name in VARIANTS if name in runs}, reference["scores"])


def difference(study: Study, one: str, other: str, side: str, measure: Measure) -> dict[str, Any] | None:
    """A measure of one variant less that of another, paired by seed, with Student's 95 % interval; and
    ``subjects_low`` and ``subjects_high``, the interval of a bootstrap over subjects and seeds.

    None without a common seed.
    """
    if not study.common(one, other):
        return None
    found = paired(study.apart(one, other, side, measure))
    low, high = _bootstrap(study, one, other, side, measure)
    return {**found, "subjects_low": low, "subjects_high": high}


def _bootstrap(study: Study, one: str, other: str, side: str, measure: Measure) -> tuple[float, float]:
    """2.5 and 97.5 % points, subjects and seeds drawn with replacement, both variants alike."""
    subjects = list(study.rows(None, side))
    rng = np.random.default_rng(0)
    # There are few ways to draw subjects: what a draw of them gives is looked up.
    known: dict[tuple[int, ...], NDArray[np.float64]] = {}
    found = []
    for _ in range(DRAWS):
        drawn = tuple(sorted(rng.integers(len(subjects), size=len(subjects)).tolist()))
        if drawn not in known:
            names = [subjects[i] for i in drawn]
            known[drawn] = np.array(study.apart(one, other, side, measure, names))
        apart = known[drawn]
        found.append(apart[rng.integers(len(apart), size=len(apart))].mean())
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def report(folder: Path, out: Path | None = None, seeds: int = SEEDS) -> dict[str, Any]:
    """Tables of a folder of runs; with ``out`` also written into its page.

    Args:
        folder: of the runs.
        out: folder of ``geometry-motion.md``, whose tables are replaced between two marks (a page that is
            missing is begun), and of ``geometry-motion.png``.
        seeds: of the whole study, to say how much of it is there.

    Returns:
        ``tables``, Markdown; ``differences`` by side, pair and measure; ``runs`` and ``planned``.
    """
    study = load(folder)
    differences = {
        side: {
            f"{one} - {other}": {m.title: difference(study, one, other, side, m) for m in MEASURES}
            for one, other in PAIRS
            if study.common(one, other)
        }
        for side in SIDES
    }
    done = sum(len(found) for found in study.runs.values())
    result: dict[str, Any] = {
        "runs": done,
        "planned": len(VARIANTS) * seeds,
        "differences": differences,
        "tables": _tables(study, differences, done, len(VARIANTS) * seeds),
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        place(out / PAGE, "Does geometry help on motion?", result["tables"], BEGIN, END)
        draw(study, differences["held out"], out / FIGURE)
    return result


def _tables(study: Study, differences: dict[str, Any], done: int, planned: int) -> str:
    some = next(iter(next(iter(study.runs.values())).values()))
    recipe = some["recipe"]
    parts = [
        f"{done} of {planned} runs are in. Each: {recipe['steps']} updates of {recipe['batch_frames']:,} "
        f"frames, peak learning rate {recipe['lr']:g}, {recipe['copies']} varied copies of every take.\n"
    ]
    for side in SIDES:
        subjects = study.rows(None, side)
        frames = sum(row["frames"] for row in subjects.values())
        parts.append(
            f"**{side.capitalize()}**: subjects {', '.join(sorted(subjects))}, {frames:,} frames. Mean ± "
            f"standard deviation over seeds:\n"
        )
        head = ["variant", "seeds", "parameters", *(m.title for m in MEASURES), "CPU s"]
        parts.append(table(head, [*_variants(study, side), _reference(study, side)]))
    parts.append(
        "Differences, held out, paired by seed, with the 95 % interval by Student's t over seeds "
        "(bold: without zero):\n"
    )
    head = ["", "seeds", *(m.title for m in MEASURES)]
    parts.append(table(head, _compared(differences["held out"], "low", "high")))
    parts.append(
        f"The same differences, held out, with the 95 % interval of a bootstrap ({DRAWS:,} draws) over the "
        f"{len(study.rows(None, 'held out'))} subjects and the seeds (bold: without zero):\n"
    )
    parts.append(table(head, _compared(differences["held out"], "subjects_low", "subjects_high")))
    parts.append(
        "Difference at 200 ms subject by subject, mean over seeds, with the number of seeds below zero:\n"
    )
    parts.append(_by_subject(study))
    return "\n".join(parts)


def _variants(study: Study, side: str) -> list[tuple[str, ...]]:
    rows = []
    for name, found in study.runs.items():
        each = list(found.values())
        cells = (spread(list(study.values(name, side, m).values()), m.digits) for m in MEASURES)
        seconds = f"{np.median([run['cpu_seconds'] for run in each]):.0f}"
        rows.append((name, str(len(each)), f"{each[0]['parameters']:,}", *cells, seconds))
    return rows


def _reference(study: Study, side: str) -> tuple[str, ...]:
    rows = list(study.rows(None, side).values())
    # It announces nothing, so it has no F1.
    cells = ["-" if m.value is _f1 else f"{m.value(rows, rows):.{m.digits}f}" for m in MEASURES]
    return ("hold, constant rate, mean", "", "", *cells, "")


def _compared(differences: dict[str, Any], low: str, high: str) -> list[tuple[str, ...]]:
    rows = []
    for pair, found in differences.items():
        cells = []
        for m in MEASURES:
            gap = found[m.title]
            shown = f"{gap['mean']:+.4f}"
            edges = gap[low], gap[high]
            if gap["seeds"] < 2:
                edges = None, None
            elif not round(edges[0], 4) <= 0.0 <= round(edges[1], 4):
                shown = f"**{shown}**"
            cells.append(f"{shown} ({interval(*edges)})")
        rows.append((pair.replace(" - ", " less "), str(found[MEASURES[0].title]["seeds"]), *cells))
    return rows


def _by_subject(study: Study) -> str:
    measure = next(m for m in MEASURES if m.title == "200 ms")
    subjects = sorted(study.rows(None, "held out"))
    rows = []
    for one, other in PAIRS:
        if not study.common(one, other):
            continue
        cells = []
        for subject in subjects:
            apart = study.apart(one, other, "held out", measure, [subject])
            cells.append(f"{np.mean(apart):+.4f} ({sum(a < 0 for a in apart)} of {len(apart)})")
        rows.append((f"{one} less {other}", *cells))
    return table(["", *subjects], rows)


def draw(study: Study, differences: dict[str, Any], path: Path) -> None:
    """Learning curves, errors by horizon with every seed, and the paired differences with their intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16.0, 5.0), width_ratios=(1.0, 1.2, 1.4))
    ratios = [m for m in MEASURES if m.title.endswith(" ms")]
    common = set.intersection(*(set(found) for found in study.runs.values()))
    for number, (name, found) in enumerate(study.runs.items()):
        color = plt.get_cmap("tab20")(number % 20)
        curves = [found[seed]["curve"] for seed in sorted(common or found)]
        curve = np.array([[[point["step"], point["params"]] for point in each] for each in curves]).mean(0)
        curve = curve[len(curve) // 5 :]  # the fall from the start would hide the rest
        left.plot(curve[:, 0], curve[:, 1], label=name, color=color, lw=1.2)
        for i, measure in enumerate(ratios):
            values = list(study.values(name, "held out", measure).values())
            place_x = i * (len(study.runs) + 2) + number
            middle.plot([place_x] * len(values), values, ".", color=color, ms=4, alpha=0.6)
            middle.plot([place_x - 0.4, place_x + 0.4], [np.mean(values)] * 2, color=color, lw=2)
    left.set_title(f"training loss of the parameters, mean of {len(common)} seed{'s' * (len(common) > 1)}")
    left.set_xlabel("update")
    left.set_yscale("log")
    middle.set_title("held-out error as a ratio to hold, every seed")
    half = (len(study.runs) - 1) / 2.0
    middle.set_xticks(
        [i * (len(study.runs) + 2) + half for i in range(len(ratios))],
        [f"{m.title} ahead" for m in ratios],
    )
    # With two seeds an interval is so wide that nothing else could be seen beside it.
    least = min(3, max((found[ratios[0].title]["seeds"] for found in differences.values()), default=0))
    names = [pair for pair, found in differences.items() if found[ratios[0].title]["seeds"] >= max(least, 2)]
    for i, measure in enumerate(ratios):
        for row, pair in enumerate(names):
            gap = differences[pair][measure.title]
            y = len(names) - row + 0.22 * (1 - i)
            right.plot([gap["low"], gap["high"]], [y, y], color=f"C{i}", lw=1.4)
            label = f"{measure.title} ahead" if row == 0 else None
            right.plot(gap["mean"], y, "o", color=f"C{i}", ms=4, label=label)
    right.axvline(0.0, color="black", lw=0.8)
    right.set_yticks(range(len(names), 0, -1), [pair.replace(" - ", " less ") for pair in names], fontsize=8)
    right.set_title("held-out differences of the ratio, 95 % over seeds\n(left of zero: the first is better)")
    if names:
        right.legend(fontsize=8)
    figure.legend(*left.get_legend_handles_labels(), loc="lower center", fontsize=8, ncols=len(study.runs))
    figure.tight_layout(rect=(0.0, 0.06, 1.0, 1.0))
    figure.savefig(path, dpi=80)
    plt.close(figure)
