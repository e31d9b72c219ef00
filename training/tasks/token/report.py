"""The report of ``pyanticip evaluate language``: JSON, Markdown, and HTML with embedded pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import SCALARS
from training.report import pages
from training.report.pages import Part, Row, as_markdown, number
from training.tasks.token import plots
from training.tasks.token.listen import Drift, Mode
from training.tasks.token.metrics import Array, Predictions, spread

MODES: Final[tuple[Mode, ...]] = ("external", "initial", "refined_prev")
"""Scalars that steer: given, from the initial head, or from the refined head at the previous step."""

CHOSE: Final = " Validations on windows among these chose the weights."


@dataclass(frozen=True)
class Sheet:
    """Evaluation of one run: ``report`` of JSON values, and the arrays for the pictures."""

    report: dict[str, Any]
    curves: dict[str, NDArray[np.float64]]
    outputs: dict[str, Predictions] = field(default_factory=dict)
    before: Predictions | None = None
    drift: Drift | None = None
    amplitude: Array | None = None
    kernel: Array | None = None
    past: int = 0


def summarise(reports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and spread over runs that differ only in their seed: one row per such group."""
    groups: list[list[dict[str, Any]]] = []
    for report in reports:
        same = (members for members in groups if _settings(members[0]) == _settings(report))
        if (found := next(same, None)) is None:
            groups.append([report])
        else:
            found.append(report)
    return [_summary(_name(members[0], [each[0] for each in groups]), members) for members in groups]


def _settings(report: dict[str, Any]) -> dict[str, Any]:
    """Everything but the seed that decides what a run learns."""
    model = {f"model.{name}": value for name, value in report["model"].items()}
    return {"kind": report["kind"], **report["options"], **model}


def _words(report: dict[str, Any]) -> str:
    model = report["model"]
    words = [report["kind"], report["data"], f"{report['steps']} steps", model["positions"]["kind"]]
    if report["kind"] == "anticipatory":
        words += [f"bias {model['bias']}", f"gate start {model['gate_start']}"]
    return ", ".join(words)


def _name(report: dict[str, Any], groups: Sequence[dict[str, Any]]) -> str:
    """Name of a group by one of its runs, with the settings that tell it from groups of the same words."""
    own, words = _settings(report), _words(report)
    alike = [_settings(each) for each in groups if _words(each) == words]
    differing = [name for name, value in own.items() if any(each.get(name) != value for each in alike)]
    return ", ".join([words, *(f"{name} {own[name]}" for name in differing)])


def _summary(name: str, members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "group": name,
        "runs": [report["run"] for report in members],
        "seeds": [report["seed"] for report in members],
    }
    for label, path in headline(members[0]):
        summary[label] = spread([value_at(report, path) for report in members])
    return summary


def headline(report: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Rows of the table of a run: labels, and the paths of their values in a report."""
    if report["kind"] != "anticipatory":
        known = report.get("contexts", {}).get("plain", {})
        return [
            ("perplexity", ("perplexity", "plain", "value")),
            *((f"perplexity, context {c}", ("contexts", "plain", c, "value")) for c in known),
        ]
    rows: list[tuple[str, tuple[str, ...]]] = [
        (f"perplexity, {_steered(mode)}", ("perplexity", mode, "value")) for mode in MODES
    ]
    rows += [
        (f"perplexity, context {c}", ("contexts", "external", c, "value"))
        for c in report["contexts"].get("external", {})
    ]
    rows += [
        ("corr(predicted commitment, loss)", ("commitment_loss", "external", "predicted", "value")),
        ("corr(given commitment, loss)", ("commitment_loss", "external", "given", "value")),
        ("corr(given commitment, gate)", ("gate", "external", "with_given", "value")),
        ("the same at step 0", ("gate", "step0", "with_given", "value")),
        ("corr(predicted commitment, gate)", ("gate", "external", "with_predicted", "value")),
        ("standard deviation of the gate", ("gate", "external", "std")),
        ("the same at step 0 ", ("gate", "step0", "std")),
        ("loss added by shuffling the gate's commitment, nats", ("gate", "shuffled", "gain")),
    ]
    rows += [
        (f"error of {name}, share of the position mean's", ("scalars", "external", name, "ratio", "value"))
        for name in SCALARS
    ]
    if "heads" in report:
        rows += [
            ("head overlap above its floor", ("heads", "excess")),
            ("different dominant scalars", ("heads", "different")),
        ]
    return rows


def _steered(mode: str) -> str:
    return {
        "external": "given scalars steer",
        "initial": "initial head steers",
        "refined_prev": "refined head of the step before steers",
    }[mode]


def value_at(report: dict[str, Any], path: Sequence[str]) -> float | None:
    """The number at a path of keys; None if there is none."""
    value: Any = report
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else float(value)


def write(result: dict[str, Any], sheets: Sequence[Sheet], folder: Path) -> list[Path]:
    """See :func:`training.report.pages.write`."""
    return pages.write(list(_parts(result, sheets)), result, folder, "Token models")


def tables(result: dict[str, Any]) -> str:
    """The tables as Markdown."""
    return as_markdown(list(_tables(result)))


def _tables(result: dict[str, Any]) -> Iterator[Part]:
    yield "title", "Token models on held-out data"
    runs = result["runs"]
    for group in result["summary"]:
        members = [report for report in runs if report["run"] in group["runs"]]
        several = len(members) > 1
        yield "title", group["group"]
        held = members[0]["held_out"]
        kind = "Mean and standard deviation over seeds." if several else "95 % intervals over sequences."
        yield (
            "text",
            f"{held['sequences']} held-out sequences, {held['tokens']} predictions; "
            f"{members[0]['parameters']} parameters. {kind}"
            + (CHOSE if any(report["held_out"]["chose_weights"] for report in members) else ""),
        )
        if len({*group["seeds"]}) < len(members):
            yield "text", "Warning: runs of the same seed are among these; the spread is not one of seeds."
        names = [report["run"] for report in members]
        rows: list[Row] = [["", *names, *(["mean", "std"] if several else [])]]
        for label, path in headline(members[0]):
            cells = [number(value_at(report, path)) for report in members]
            if not several and path[-1] == "value":
                low, high = (value_at(members[0], (*path[:-1], end)) for end in ("low", "high"))
                cells[0] += f" [{number(low)}, {number(high)}]"
            if several:
                cells += [number(group[label]["mean"]), number(group[label]["std"])]
            rows.append([label.strip(), *cells])
        if "heads" in members[0]:
            dominant = [" ".join(report["heads"]["dominant"]) for report in members]
            rows.append(["dominant scalar of each head", *dominant])
        yield "table", rows
        yield from _scalar_table(members)
        yield from _drift_table(members)


def _scalar_table(members: Sequence[dict[str, Any]]) -> Iterator[Part]:
    if members[0]["kind"] != "anticipatory":
        return
    yield (
        "text",
        (
            "Mean squared error of each scalar over that of predicting the mean of its position in the "
            "training data, mean over the runs:"
        ),
    )
    rows: list[Row] = [["", "position mean", "refined, given steer", "refined, initial steer",
                        "refined, step before steers", "initial head"]]  # fmt: skip
    for name in SCALARS:
        base = sum(r["scalars"]["external"][name]["position_mean_mse"] for r in members) / len(members)
        cells = [
            number(sum(r["scalars"][source][name]["ratio"]["value"] for r in members) / len(members), 3)
            for source in ("external", "initial", "refined_prev", "initial_head")
        ]
        rows.append([name, number(base), *cells])
    yield "table", rows


def _drift_table(members: Sequence[dict[str, Any]]) -> Iterator[Part]:
    drifts = [report["drift"] for report in members if "drift" in report]
    if not drifts:
        return
    yield (
        "text",
        (
            f"Steering itself by the refined scalars of the step before for {drifts[0]['steps']} steps over "
            "held-out tokens (first run: range, mean of the first and the last tenth; all runs: largest "
            "change of the mean, in standard deviations inside a tenth):"
        ),
    )
    rows: list[Row] = [["", "min", "max", "first mean", "last mean", "last std", "largest drift"]]
    for name in SCALARS:
        one = drifts[0][name]
        worst = max((w[name]["drift"] for w in drifts), key=abs)
        cells = [number(one[k]) for k in ("min", "max", "first_mean", "last_mean", "last_std")]
        rows.append([name, *cells, number(worst, 3)])
    yield "table", rows


def _parts(result: dict[str, Any], sheets: Sequence[Sheet]) -> Iterator[Part]:
    yield from _tables(result)
    names = [sheet.report["run"] for sheet in sheets]
    yield "title", "Pictures"
    curves = {name: sheet.curves for name, sheet in zip(names, sheets, strict=True) if "step" in sheet.curves}
    if curves:
        yield "image", ("losses", "Loss curves.", plots.losses(curves))
    with_heads = [sheet.report for sheet in sheets if "heads" in sheet.report]
    if with_heads:
        picture = plots.profiles([r["heads"] for r in with_heads], [r["run"] for r in with_heads])
        caption = (
            "What the heads of the trajectory bias look at: mean first-layer row of each head, normalised; "
            "a dot marks its dominant scalar."
        )
        yield "image", ("heads", caption, picture)
    for name, sheet in zip(names, sheets, strict=True):
        yield from _run_pictures(name, sheet)


def _run_pictures(name: str, sheet: Sheet) -> Iterator[Part]:
    if "external" not in sheet.outputs:
        return
    plain = name.replace("/", "-")
    external, own = sheet.outputs["external"], sheet.outputs["initial"]
    yield (
        "image",
        (
            f"gate-{plain}",
            f"{name}: the gate against commitment, and the loss by commitment (points: tenths of tokens).",
            plots.gate(external, sheet.before),
        ),
    )
    if sheet.amplitude is not None and sheet.kernel is not None:
        picture = plots.bias_maps(sheet.amplitude, sheet.kernel, sheet.past)
        caption = f"{name}: the bias of each head over one held-out sequence, less each row's largest; "
        caption += "down: the token that attends; right: the one attended to."
        yield "image", (f"bias-{plain}", caption, picture)
    assert external.given is not None
    assert external.scalars is not None
    assert own.scalars is not None
    picture = plots.scalars(external.given[0], external.scalars[0], own.scalars[0])
    yield "image", (f"scalars-{plain}", f"{name}: scalars of one held-out sequence.", picture)
    if sheet.drift is not None:
        caption = f"{name}: the scalars while the model steers itself."
        yield "image", (f"drift-{plain}", caption, plots.drift(sheet.drift.trace))
