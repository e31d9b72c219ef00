"""One run as it was judged, and runs that differ in their seed alone in one row."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import SCALARS
from training.tasks.token.listen import Drift, Mode
from training.tasks.token.metrics import Array, Predictions, spread

MODES: Final[dict[str, Mode]] = {
    "external": "external",
    "initial": "initial",
    "refined_prev": "refined_prev",
}
"""Which scalars steer: the given ones, those of the initial head, the refined head's of the step before."""


@dataclass(frozen=True)
class Sheet:
    """One run, judged: ``report`` of plain values, and the arrays that pictures are drawn from."""

    report: dict[str, Any]
    curves: dict[str, NDArray[np.float64]]
    said: dict[str, Predictions] = field(default_factory=dict)
    before: Predictions | None = None
    drift: Drift | None = None
    amplitude: Array | None = None
    kernel: Array | None = None
    past: int = 0


def summarise(reports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and spread over runs that differ in nothing but their seed: one row per such group."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        groups.setdefault(_group(report), []).append(report)
    return [_summary(name, members) for name, members in groups.items()]


def _group(report: dict[str, Any]) -> str:
    model = report["model"]
    words = [report["kind"], report["data"], f"{report['steps']} steps", model["positions"]["kind"]]
    if report["kind"] == "anticipatory":
        words += [f"bias {model['bias']}", f"gate start {model['gate_start']}"]
    return ", ".join(words)


def _summary(name: str, members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "group": name,
        "runs": [report["run"] for report in members],
        "seeds": [report["seed"] for report in members],
    }
    for label, path in headline(members[0]):
        found[label] = spread([value_at(report, path) for report in members])
    return found


def headline(report: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """What is shown of every run: a label, and where its value stands in a report."""
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
    """The number at a path of keys; None where there is none."""
    found: Any = report
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return None if found is None else float(found)
