"""What the left-out clips say together: errors, ratios to zero velocity and their intervals."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import OptionError
from training.tasks.forecast.cmu import HORIZONS, NOMINAL_MS, TRUE_MS, Array
from training.tasks.forecast.evaluate import published_ratios
from training.tasks.forecast.folds import CONSTANT, MODEL, ZERO, Scores, curves_of, intervals, read_study


def judge_folds(folder: Path, *, without: Collection[int] = ()) -> dict[str, Any]:
    """Tables of a study of left-out clips.

    Args:
        folder: the study's.
        without: numbers of folds to leave aside, for example those by which options were chosen.

    Returns:
        Per action and on average the errors ("mm") and the ratios to zero velocity at the reported
        horizons; the ratio at every target frame with its 95 % intervals, over clips within actions and over
        actions and clips; the ratio of every fold and of every clip; the published ratios.

    Raises:
        FormatError: there is no study, or none of its folds is complete.
        OptionError: nothing is left, or a number that is no fold's.
    """
    plan, folds = read_study(folder)
    if not set(without) <= set(folds):
        raise OptionError(f"without: expected some of the folds {sorted(folds)}, got {sorted(without)}")
    kept = {number: scores for number, scores in folds.items() if number not in without}
    if not kept:
        raise OptionError("without: expected at least one fold to be left")
    scores: Scores = {name: rows for fold in kept.values() for name, rows in fold.items()}
    actions, average = curves_of(scores)
    rivals = (MODEL, ZERO, CONSTANT)
    return {
        "benchmark": "cmu",
        "left_out": plan["folds"],
        "complete": sorted(folds),
        "judged": sorted(kept),
        "clips": len(scores),
        "missing": plan["missing"],
        "options": plan["options"],
        "nominal_ms": list(NOMINAL_MS),
        "true_ms": list(TRUE_MS),
        "mpjpe": {
            rival: {
                **{action: _picked(rows[rival], 4) for action, rows in actions.items()},
                "average": _picked(average[rival], 4),
            }
            for rival in rivals
        },
        "ratio": {
            **{action: _picked(rows[MODEL] / rows[ZERO]) for action, rows in actions.items()},
            "average": _picked(average[MODEL] / average[ZERO]),
        },
        "interval_clips": _interval(scores, over_actions=False),
        "interval_actions": _interval(scores, over_actions=True),
        "folds": {str(number): _fold_ratio(fold) for number, fold in kept.items()},
        "ratio_by_clip": {
            name: _picked(np.array(rows[MODEL]) / np.array(rows[ZERO])) for name, rows in scores.items()
        },
        "curves": {rival: average[rival].round(3).tolist() for rival in rivals},
        "published_ratio": published_ratios(),
    }


def _picked(curve: Array, digits: int = 4) -> list[float]:
    return [round(float(v), digits) for v in np.asarray(curve)[list(HORIZONS)]]


def _interval(scores: Scores, *, over_actions: bool) -> list[list[float]]:
    low, high = intervals(scores, over_actions=over_actions).round(4)
    return [[float(v) for v in low], [float(v) for v in high]]


def _fold_ratio(scores: Scores) -> list[float]:
    _, average = curves_of(scores)
    return _picked(average[MODEL] / average[ZERO])
