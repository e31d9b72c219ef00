"""The report of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from training.report.pages import Part, png, pyplot
from training.tasks.forecast.cmu import HORIZONS, STRIDE
from training.tasks.forecast.evaluate import CONSTANT, LEFT_OUT, ZERO
from training.tasks.forecast.folds import MODEL

FRAME_MS = 1000.0 * STRIDE / 120.0


def _folds(what: str, numbers: Sequence[int]) -> str:
    return f"{what} {', '.join(map(str, numbers))}" if numbers else ""


def fold_parts(report: Mapping[str, Any], *, pictures: bool = True) -> list[Part]:
    """Parts of the report of a cross-validation."""
    head = labels(report)
    all_folds = range(1, len(report["left_out"]) + 1)
    folds = _folds("folds", report["judged"]) + f" of {len(all_folds)}"
    folds += _folds("; left aside:", sorted({*report["complete"]} - {*report["judged"]}))
    folds += _folds("; not complete:", sorted({*all_folds} - {*report["complete"]}))
    ratio, published = report["ratio"], report["published_ratio"]
    table = [
        ["ratio to zero velocity", *head],
        ["model, clips left out", *_numbers(ratio["average"], 3)],
        ["95 % over clips", *_ranges(report["interval_clips"])],
        ["95 % over actions and clips", *_ranges(report["interval_actions"])],
        *(
            [f"{name}: published, test files, not these clips", *_numbers(values, 3)]
            for name, values in published.items()
        ),
    ]
    errors = [['MPJPE, "mm"', *head]]
    for name in (MODEL, ZERO, CONSTANT):
        errors.append([name, *_numbers(report["mpjpe"][name]["average"], 2)])
    actions = [["ratio to zero velocity", *head]]
    actions += [[name, *_numbers(values, 3)] for name, values in ratio.items()]
    by_action = [['MPJPE, "mm" (model / zero velocity)', *head]]
    for name, values in report["mpjpe"][MODEL].items():
        pairs = zip(values, report["mpjpe"][ZERO][name], strict=True)
        by_action.append([name, *(f"{own:.2f} / {zero:.2f}" for own, zero in pairs)])
    split = [["fold", *head]] + [[name, *_numbers(v, 3)] for name, v in report["folds"].items()]
    clips = [["clip", *head]] + [[name, *_numbers(v, 3)] for name, v in report["ratio_by_clip"].items()]
    parts: list[Part] = [
        ("title", "CMU benchmark, training files, clips left out"),
        (
            "text",
            f"{report['clips']} clips, each judged by a model that never saw it ({folds});"
            f" all windows; average of the actions without {LEFT_OUT}. Horizons:"
            " nominal ms (true ms). The published ratios are those of the test files: other clips.",
        ),
        ("table", table),
        ("table", errors),
        ("title", "By action"),
        ("table", actions),
        ("table", by_action),
        ("title", "By fold"),
        ("table", split),
        ("title", "By clip"),
        ("table", clips),
        ("text", missing(report)),
    ]
    if pictures:
        curves = {name: report["curves"][name] for name in (MODEL, ZERO, CONSTANT)}
        parts.insert(3, _pictures(curves, MODEL, published, report["interval_clips"]))
    return parts


def split_parts(report: Mapping[str, Any], *, pictures: bool = True) -> list[Part]:
    """Parts of the report of one split."""
    head, files = labels(report), report["files"]
    test = report["split"] == "test"
    errors = [['MPJPE, "mm"', *head]]
    errors += [[name, *_numbers(row["average"], 2)] for name, row in report["mpjpe"].items()]
    ratios = [["ratio to zero velocity", *head]]
    ratios += [[name, *_numbers(row, 3)] for name, row in report["ratio"].items()]
    angles = [["angle error, rad", *head]]
    angles += [[name, *_numbers(row["average"], 3)] for name, row in report["angle"].items()]
    if test:
        errors += [[f"{name}, published", *_numbers(row, 2)] for name, row in report["published"].items()]
    ratios += [
        [f"{name}, published, test files", *_numbers(row, 3)]
        for name, row in report["published_ratio"].items()
    ]
    parts: list[Part] = [
        ("title", f"CMU benchmark, {report['split']} files"),
        (
            "text",
            f"{files} files, all windows, average of the actions without {LEFT_OUT}. Horizons: nominal ms"
            " (true ms).",
        ),
        ("table", errors),
        ("table", ratios),
    ]
    if report["angle"]:
        parts.append(("table", angles))
    if report["too_short"]:
        parts.append(("text", f"Too short for a window, not counted: {', '.join(report['too_short'])}."))
    if report["trained_on"]:
        known = len(report["trained_on"])
        warning = f"The model was trained on {known} of these {files} files: no measure of what it can do."
        parts.append(("text", warning))
    if report["missing"]:
        parts.append(("text", missing(report)))
    names = [name for name in report["curves"] if name not in (ZERO, CONSTANT)]
    if names and pictures:
        parts.append(_pictures(report["curves"], names[0], report["published_ratio"], None))
    return parts


def labels(report: Mapping[str, Any]) -> list[str]:
    """Column heads of the horizons: nominal and true milliseconds."""
    return [f"{n} ({t})" for n, t in zip(report["nominal_ms"], report["true_ms"], strict=True)]


def missing(report: Mapping[str, Any]) -> str:
    """Line about missing files."""
    return "Missing: " + (", ".join(report["missing"]) or "none") + "."


def _numbers(values: Sequence[float], digits: int) -> list[str]:
    return [f"{value:.{digits}f}" for value in values]


def _ranges(interval: Sequence[Sequence[float]]) -> list[str]:
    low, high = (np.asarray(end)[list(HORIZONS)] for end in interval)
    return [f"{a:.3f} to {b:.3f}" for a, b in zip(low, high, strict=True)]


def _pictures(
    curves: Mapping[str, Sequence[float]],
    name: str,
    published: Mapping[str, Sequence[float]],
    interval: Sequence[Sequence[float]] | None,
) -> Part:
    plt = pyplot()
    frames = len(curves[name])
    ms = FRAME_MS * np.arange(1, frames + 1)
    zero = np.asarray(curves[ZERO])
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.2))
    for system, colour in ((ZERO, "0.55"), (CONSTANT, "tab:orange"), (name, "tab:blue")):
        left.plot(ms, curves[system], color=colour, lw=2.0 if system == name else 1.3, label=system)
    left.set_ylim(0.0, 1.15 * zero.max())
    left.set_ylabel('MPJPE, "mm" of the tables')
    left.legend(loc="upper left", fontsize=8)
    right.plot(ms, np.asarray(curves[name]) / zero, color="tab:blue", lw=2.0, label=name)
    right.plot(ms, np.asarray(curves[CONSTANT]) / zero, color="tab:orange", lw=1.3, label=CONSTANT)
    if interval is not None:
        right.fill_between(ms, interval[0], interval[1], color="tab:blue", alpha=0.18, lw=0)
    at = FRAME_MS * (np.array(HORIZONS) + 1)
    marks = zip(published.items(), "vs^Do", strict=False)
    for (row, values), mark in marks:
        right.plot(at, values, mark, ms=4.5, color="0.35", mfc="none", label=f"{row}, test files")
    right.axhline(1.0, color="0.55", lw=1.3)
    right.set_ylim(0.0, 1.55)
    right.set_ylabel("ratio to zero velocity")
    right.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=7, ncols=2
    )  # the data fill the panel
    for axis in (left, right):
        axis.set_xlabel("true ms ahead")
        axis.grid(alpha=0.25)
    figure.tight_layout()
    caption = (
        "Error over the horizon (left) and its ratio to zero velocity, beside what was published (right)"
    )
    return "image", ("horizon", caption, png(figure, dpi=90))
