"""Cross-validation on the benchmark's training files.

The benchmark's test files are not generally available. Instead every clip of the training files is left out
once, evaluated with a model trained on the others, and compared with zero velocity on the same clip. The
results are errors, ratios to zero velocity, and their intervals.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyanticip import untrusted
from pyanticip.errors import FormatError, OptionError
from training.run.files import CONFIG, check_new, write_text
from training.run.train import train
from training.tasks.forecast.cmu import (
    ACTIONS,
    NOMINAL_MS,
    TARGET,
    TRUE_MS,
    Array,
    Take,
    check_windows,
    load_split,
)
from training.tasks.forecast.evaluate import (
    CONSTANT,
    ZERO,
    at_horizons,
    average,
    counted,
    load_predictor,
    published_ratios,
    with_average,
)
from training.tasks.forecast.metrics import error_curve, extrapolate, hold
from training.tasks.forecast.module import SCORED_FRAMES
from training.tasks.forecast.options import ForecastOptions
from training.tasks.forecast.task import ForecastTask

NUMBERS: Final = 5
"""Clips per action, if none is missing."""
DRAWS: Final = 2000
"""Bootstrap draws."""

MODEL: Final = "model"
PREDICTORS: Final = (MODEL, ZERO, CONSTANT)

Say = Callable[[str], None]


def split_folds(takes: Sequence[Take], count: int) -> list[list[str]]:
    """Names of the takes that each fold leaves out.

    With as many folds as takes, each leaves out one take. With 2 to 5, takes of the same number in every
    action are left out together (number n in fold ``(n - 1) % count + 1``), which leaves less training data.

    Raises:
        OptionError: unsupported number of folds.
    """
    if count == len(takes):
        return [[take.name] for take in takes]
    if not 2 <= count <= NUMBERS:
        raise OptionError(f"folds must be 2 to {NUMBERS}, or {len(takes)} (one clip each), got {count}")
    groups = [[t.name for t in takes if (t.number - 1) % count == k] for k in range(count)]
    return [group for group in groups if group]


def study(
    options: ForecastOptions, out: Path, count: int, *, say: Say = lambda line: None, quiet: bool = True
) -> dict[str, Any]:
    """Train one model per fold and evaluate it on the clips left out; finished folds in OUT are kept.

    Every fold runs its whole schedule: the clips left out do not influence the training.

    Writes ``OUT/study.json``, and a run of ``train forecast`` with ``scores.json`` to each ``OUT/fold-K``.

    Args:
        options: options of every run, except for the clips left out.
        out: folder of the study.
        count: number of folds.
        say: called with lines about the progress.
        quiet: no progress bars.

    Returns:
        ``folds``, ``done`` (trained now) and ``kept`` (trained before); ``finished`` is False after Ctrl-C
        or SIGTERM.

    Raises:
        FormatError: there are no such files, or one cannot be read.
        OptionError: unsupported number of folds, a clip that is left out already or too short for a window,
            or OUT holds folds of other options or files.
    """
    if options.data.leave_out:
        raise OptionError("option data.leave_out: the folds say which clips are left out; leave it out")
    takes, missing = load_split(Path(options.data.path), "train")
    check_windows(takes, "option folds")
    hashes = {take.name: take.digest for take in takes}
    plan = {"benchmark": "cmu", "folds": split_folds(takes, count), "missing": missing, "sha256": hashes}
    file = out / "study.json"
    if not file.is_file():
        check_new(out)
        out.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({**plan, "options": options.to_dict()}, indent=1) + "\n")
    stored = {"sha256": hashes, **read_json(file)}  # older studies have no hashes
    if {**stored, **plan} != stored or options.differences(ForecastOptions(**stored["options"])):
        raise OptionError(f"{out}: holds folds of other options or files; choose another folder")
    done = kept = 0
    for number, left_out in enumerate(plan["folds"], 1):
        folder = out / f"fold-{number}"
        if (folder / "scores.json").is_file():
            kept += 1
            continue
        say(
            f"fold {number}/{count}: {len(takes) - len(left_out)} takes to learn from, "
            f"{len(left_out)} left out"
        )
        fold = options.replace(validation=0, leave_out=left_out)
        report = train(ForecastTask(), fold, folder, resume=(folder / CONFIG).is_file(), quiet=quiet)
        if not report["finished"]:
            break
        predict = load_predictor(folder)
        scores = {
            take.name: {
                MODEL: error_curve(take, predict).tolist(),
                ZERO: error_curve(take, hold).tolist(),
                CONSTANT: error_curve(take, extrapolate).tolist(),
            }
            for take in takes
            if take.name in left_out
        }
        content = {"seconds": report["seconds"], "torch": report["torch"], "scores": scores}
        write_text(folder / "scores.json", json.dumps(content, indent=1) + "\n")
        done += 1
        ratio = average_ratio(curves_of(scores))
        say(f"fold {number}: " + " ".join(f"{v:.3f}" for v in ratio[list(SCORED_FRAMES)]))
    return {
        "folds": len(plan["folds"]),
        "done": done,
        "kept": kept,
        "out": str(out),
        "finished": done + kept == len(plan["folds"]),
    }


Scores = Mapping[str, Mapping[str, Sequence[float]]]
"""Error (25,) at every target frame, by take and predictor."""


def read_study(folder: Path) -> tuple[dict[str, Any], dict[int, Scores]]:
    """Read the plan of a study and the scores of its complete folds, by number from 1.

    Raises:
        FormatError: there is no study, or none of its folds is complete.
    """
    plan = read_json(folder / "study.json")
    folds: dict[int, Scores] = {}
    for number in range(1, len(plan.get("folds", ())) + 1):
        file = folder / f"fold-{number}" / "scores.json"
        if file.is_file():
            folds[number] = _scores(file, plan["folds"][number - 1])
    if not folds:
        raise FormatError(f"{folder}: expected fold-1/scores.json, ...: no fold is complete")
    return plan, folds


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FormatError: the file cannot be read or is not an object.
    """
    data = untrusted.read_json(file)
    if not isinstance(data, dict):
        raise FormatError(f"{file}: expected a JSON object")
    return data


def _scores(file: Path, left_out: Sequence[str]) -> Scores:
    """Read the scores of a fold with these left-out takes."""
    scores = read_json(file).get("scores", {})
    try:
        curves = {
            name: {predictor: [float(v) for v in scores[name][predictor]] for predictor in PREDICTORS}
            for name in left_out
        }
    except (KeyError, TypeError, ValueError):
        curves = {}
    incomplete = [rows for take in curves.values() for rows in take.values() if len(rows) != TARGET]
    if incomplete or not curves or not np.isfinite([list(take.values()) for take in curves.values()]).all():
        raise FormatError(
            f"{file}: lacks the error of a take at a target frame; remove it and go on with train forecast"
            " --folds"
        )
    return curves


def action_of(name: str) -> str:
    """Action of a take, from its name."""
    return name.rpartition("_")[0]


def by_action(scores: Scores) -> dict[str, Array]:
    """Errors (N, 3, 25) of the clips of each action, by :data:`PREDICTORS`."""
    groups: dict[str, Array] = {}
    for action in ACTIONS:
        clips = [rows for name, rows in scores.items() if action_of(name) == action]
        if clips:
            groups[action] = np.array([[rows[predictor] for predictor in PREDICTORS] for rows in clips])
    return groups


def curves_of(scores: Scores) -> dict[str, dict[str, Array]]:
    """Error curves by predictor and action."""
    means = {action: clips.mean(0) for action, clips in by_action(scores).items()}
    return {
        predictor: {action: mean[row] for action, mean in means.items()}
        for row, predictor in enumerate(PREDICTORS)
    }


def average_ratio(curves: Mapping[str, Mapping[str, Array]]) -> Array:
    """Ratio (25,) of the averages, model to zero velocity, of :func:`curves_of`."""
    return average(curves[MODEL]) / average(curves[ZERO])


def intervals(scores: Scores, *, over_actions: bool) -> list[list[float]]:
    """95 % bootstrap interval, 2 rows of 25, of the ratio of averages, model to zero velocity.

    Takes are resampled within each action; with ``over_actions`` the actions are resampled first.
    """
    groups = by_action(scores)
    draw = np.random.default_rng(0)
    names = counted(groups)
    ratios = []
    for _ in range(DRAWS):
        drawn_actions = draw.choice(names, len(names)) if over_actions else names
        means = [groups[a][draw.integers(0, len(groups[a]), len(groups[a]))].mean(0) for a in drawn_actions]
        own, zero, _ = np.mean(means, axis=0)
        ratios.append(own / zero)
    return [end.round(4).tolist() for end in np.percentile(ratios, (2.5, 97.5), axis=0)]


def judge_folds(folder: Path, *, without: Collection[int] = ()) -> dict[str, Any]:
    """Compute the tables of a cross-validation.

    Args:
        folder: folder of the study.
        without: numbers of folds to ignore, e.g. those that options were tuned on.

    Returns:
        By action and on average, errors ("mm") and ratios to zero velocity at the reported horizons; 95 %
        intervals of the ratio at every target frame, over clips within actions and over actions and clips;
        the ratios of every fold and clip; the published ratios.

    Raises:
        FormatError: there is no study, or none of its folds is complete.
        OptionError: no fold is left, or a number is not that of a complete fold.
    """
    plan, folds = read_study(folder)
    if not set(without) <= set(folds):
        raise OptionError(f"without: expected some of the folds {sorted(folds)}, got {sorted(without)}")
    used = {number: scores for number, scores in folds.items() if number not in without}
    if not used:
        raise OptionError("without: expected at least one fold to be left")
    scores: Scores = {name: rows for fold in used.values() for name, rows in fold.items()}
    curves = curves_of(scores)
    ratios = {action: own / curves[ZERO][action] for action, own in curves[MODEL].items()}
    return {
        "benchmark": "cmu",
        "left_out": plan["folds"],
        "complete": sorted(folds),
        "judged": sorted(used),
        "clips": len(scores),
        "missing": plan["missing"],
        "options": plan["options"],
        "nominal_ms": list(NOMINAL_MS),
        "true_ms": list(TRUE_MS),
        "mpjpe": {
            predictor: with_average({action: at_horizons(curve) for action, curve in rows.items()})
            for predictor, rows in curves.items()
        },
        "ratio": {
            **{action: _rounded(ratio) for action, ratio in ratios.items()},
            "average": _rounded(average_ratio(curves)),
        },
        "interval_clips": intervals(scores, over_actions=False),
        "interval_actions": intervals(scores, over_actions=True),
        "folds": {str(number): _rounded(average_ratio(curves_of(fold))) for number, fold in used.items()},
        "ratio_by_clip": {
            name: _rounded(np.array(rows[MODEL]) / np.array(rows[ZERO])) for name, rows in scores.items()
        },
        "curves": {predictor: average(rows).round(3).tolist() for predictor, rows in curves.items()},
        "published_ratio": published_ratios(),
    }


def _rounded(curve: Array) -> list[float]:
    return [round(float(v), 4) for v in at_horizons(curve)]
