"""Tables of the benchmark: the predictors that need no training beside what was published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyanticip.errors import OptionError
from training.forecast.cmu import HORIZONS, NOMINAL_MS, TRUE_MS, Array, Take, load_split, per_action
from training.forecast.metrics import (
    PositionPredictor,
    angle_error,
    extrapolate,
    extrapolate_maps,
    hold,
    hold_maps,
    mpjpe,
)

LEFT_OUT: Final = "basketball_signal"
"""Not in the averages: its test file is not to be had."""

PUBLISHED: Final[Mapping[str, tuple[float, ...]]] = {
    "Res-sup (Martinez 2017)": (24.79, 45.30, 80.96, 95.26, 115.86, 150.20),
    "DMGNN (Li 2020)": (15.36, 26.61, 49.58, 60.77, 78.29, 111.80),
    "LTD (Mao 2019)": (10.89, 19.70, 36.40, 44.23, 58.03, 85.84),
    "MSR-GCN (Dang 2021)": (9.54, 17.28, 33.17, 41.22, 55.72, 83.02),
    "PGBIG (Ma 2022)": (8.99, 16.91, 32.89, 40.51, 53.97, 80.48),
}
"""MPJPE on the test files, all windows, mean of the seven actions (published per-action rows averaged)."""

PUBLISHED_ZERO: Final = (21.83, 41.77, 77.63, 93.31, 119.84, 161.63)
"""Zero velocity on the same test files: to read a published row as a ratio."""


def evaluate_forecast(
    folder: Path, *, split: str = "test", predictors: Mapping[str, PositionPredictor] | None = None
) -> dict[str, Any]:
    """Both metrics on one split of a folder in the benchmark's layout.

    Args:
        folder: has ``train/`` and ``test/``.
        split: ``"train"`` or ``"test"``.
        predictors: further predictors of positions, by name.

    Returns:
        The report: per predictor the MPJPE per action and on average, and its ratio to zero velocity; angle
        errors of the two predictors that need no training; the files that are missing.

    Raises:
        FormatError: no such files, or one that cannot be read.
        OptionError: another split.
    """
    if split not in ("train", "test"):
        raise OptionError(f"split must be 'train' or 'test', got {split!r}")
    takes, missing = load_split(folder, split)
    rivals: dict[str, PositionPredictor] = {"zero velocity": hold, "constant velocity": extrapolate}
    rivals.update(predictors or {})
    rows = {
        name: by_action(takes, lambda take, p=predict: mpjpe(take, p)) for name, predict in rivals.items()
    }
    zero = np.array(rows["zero velocity"]["average"])
    return {
        "benchmark": "cmu",
        "split": split,
        "files": len(takes),
        "missing": missing,
        "horizons": list(HORIZONS),
        "nominal_ms": list(NOMINAL_MS),
        "true_ms": list(TRUE_MS),
        "mpjpe": rows,
        "ratio": {name: (np.array(row["average"]) / zero).round(4).tolist() for name, row in rows.items()},
        "angle": {
            "zero velocity": by_action(takes, lambda take: angle_error(take, hold_maps)),
            "constant velocity": by_action(takes, lambda take: angle_error(take, extrapolate_maps)),
        },
    }


def by_action(takes: list[Take], measure: Any) -> dict[str, list[float]]:
    """Mean over the takes of each action, then the plain mean over actions without :data:`LEFT_OUT`."""
    rows: dict[str, Array] = {}
    for action, chosen in per_action(takes):
        rows[action] = np.mean([measure(take) for take in chosen], axis=0)
    counted = [row for action, row in rows.items() if action != LEFT_OUT]
    if counted:
        rows["average"] = np.mean(counted, axis=0)
    return {name: [round(float(v), 4) for v in row] for name, row in rows.items()}


def markdown(report: Mapping[str, Any]) -> str:
    """The report as tables."""
    head = " | ".join(f"{n} ({t})" for n, t in zip(report["nominal_ms"], report["true_ms"], strict=True))
    rule = "---|" * (len(report["nominal_ms"]) + 1)
    lines = [
        f"CMU benchmark, {report['split']} files ({report['files']}), all windows, average of the actions"
        f" without {LEFT_OUT}. Horizons: nominal ms (true ms).",
        "",
        f'| MPJPE, "mm" | {head} |',
        f"|{rule}",
    ]
    for name, row in report["mpjpe"].items():
        lines.append(f"| {name} | " + " | ".join(f"{v:.2f}" for v in row["average"]) + " |")
    if report["split"] == "test":
        for name, values in PUBLISHED.items():
            lines.append(f"| {name}, published | " + " | ".join(f"{v:.2f}" for v in values) + " |")
    lines += ["", f"| ratio to zero velocity | {head} |", f"|{rule}"]
    for name, ratios in report["ratio"].items():
        lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" for v in ratios) + " |")
    for name, values in PUBLISHED.items():
        ratios = (np.array(values) / np.array(PUBLISHED_ZERO)).tolist()
        lines.append(f"| {name}, published, test files | " + " | ".join(f"{v:.3f}" for v in ratios) + " |")
    lines += ["", f"| angle error, rad | {head} |", f"|{rule}"]
    for name, row in report["angle"].items():
        lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" for v in row["average"]) + " |")
    if report["missing"]:
        lines += ["", "Missing: " + ", ".join(report["missing"]) + "."]
    return "\n".join(lines) + "\n"
