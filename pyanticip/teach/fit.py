"""Fitting heads to takes, with a cross-validated error.

Candidates (a kind of head, its setting, its inputs) are compared on folds that leave out whole takes, or
blocks of time (:mod:`pyanticip.teach.folds`); the best one is fitted to everything. The reported error
accounts for the choice too: each fold is evaluated with the candidate that the *other* folds would have
chosen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError
from pyanticip.teach import heads
from pyanticip.teach.classes import fit_class
from pyanticip.teach.folds import Fold
from pyanticip.teach.frames import (
    MAX_TRAIN_FRAMES,
    Candidate,
    Frames,
    Part,
    TakeData,
    best_elsewhere,
    fit_candidate,
    fold_predictions,
    input_choices,
    novelty_arrays,
)
from pyanticip.teach.labels import GESTURE
from pyanticip.teach.options import FitOptions, collect_refusals
from pyanticip.teach.outputs import Output

F64 = npt.NDArray[np.float64]

_PENALTIES = (0.001, 0.01, 0.1, 1.0)
_WEIGHT_DECAY = 0.003


def fit_parts(
    takes: Sequence[TakeData],
    outputs: Sequence[Output],
    options: FitOptions,
    on_progress: Callable[[str], None] = lambda line: None,
    refused: list[str] | None = None,
) -> list[Part]:
    """Fit a head for every group of outputs that the same takes demonstrate, and one for every class.

    With ``refused``, a head that cannot be fitted is left out and its error appended there.

    Raises:
        OptionError: nothing to learn from, or inputs that the takes lack; without ``refused``, also a head
            that cannot be fitted.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for output in outputs:
        teaching = tuple(i for i, take in enumerate(takes) if output.name in take.targets)
        if teaching:
            groups.setdefault(teaching, []).append(output.name)
    classes = sorted({name for take in takes for name in take.labels} - {GESTURE})
    if not (groups or classes):
        raise OptionError("nothing to learn from: no take teaches any output; add one: pyanticip teach add")
    input_choices(takes, options)  # raises here, once: no head could be fitted without these inputs
    parts = []
    for members, names in groups.items():
        on_progress(f"fitting {', '.join(names)} on {len(members)} take{'s' * (len(members) != 1)}")
        with collect_refusals(refused):
            parts.append(_fit_group([takes[i] for i in members], tuple(names), options))
    for name in classes:
        on_progress(f"fitting class {name}")
        with collect_refusals(refused):
            parts.append(fit_class(takes, name, options))
    return parts


def _fit_group(takes: Sequence[TakeData], names: tuple[str, ...], options: FitOptions) -> Part:
    lead = options.lead_ms // 20
    now = Frames.of(takes, names, 0)
    ahead = now if lead == 0 else Frames.of(takes, names, lead)
    choices = input_choices(takes, options)
    x = {inputs: ahead.inputs(inputs) for inputs in choices}
    validation = ahead.make_folds()
    candidates = _candidates(choices, options.kind, len(ahead.y))
    started = time.perf_counter()
    predictions = [
        fold_predictions(fold, candidates, x, ahead, heads.fit_head, heads.compile_head)
        for fold in validation
    ]
    errors = np.array(
        [
            [np.abs(predicted - ahead.y[fold.test_sample]).mean(0) for predicted in row]
            for fold, row in zip(validation, predictions, strict=True)
        ]
    ).reshape(len(validation), len(candidates), len(names))
    if validation:
        best = int(errors.mean((0, 2)).argmin())
    else:
        # Nothing can be left out: take the most predictable kind.
        best = next((i for i, c in enumerate(candidates) if c.kind != "mlp"), 0)
    chosen = candidates[best]
    inputs, every_frame = x[chosen.inputs], np.arange(len(ahead.y))
    projection, arrays = fit_candidate(
        chosen, inputs, ahead, every_frame, 2 * MAX_TRAIN_FRAMES, heads.fit_head
    )
    near = novelty_arrays(validation, projection, inputs, ahead.weight)
    report = _report(takes, names, validation, candidates, errors, best, ahead)
    report["cross_validation_seconds"] = round(time.perf_counter() - started, 3)
    if lead and validation:
        without_lead = _errors_without_lead(validation, chosen, now, ahead)
        report["error_without_lead"] = dict(zip(names, without_lead, strict=True))
    elsewhere = [row[best_elsewhere(errors.mean(2), i)] for i, row in enumerate(predictions)]
    return Part(
        names,
        chosen.inputs,
        chosen.kind,
        chosen.setting,
        {"mean": projection.mean, "basis": projection.basis, **arrays, **near},
        report,
        left_out=ahead.left_out(validation, elsewhere),
    )


def _candidates(choices: Sequence[tuple[str, ...]], kind: str, frames: int) -> list[Candidate]:
    candidates = []
    for number, inputs in enumerate(choices):
        if kind in ("auto", "ridge"):
            candidates += [Candidate(inputs, "ridge", penalty) for penalty in _PENALTIES]
        if kind in ("auto", "knn"):
            candidates += [Candidate(inputs, "knn", k) for k in heads.knn_settings(frames)]
        # Slow to train: where the kind is open, tried only with the first choice of inputs, all blocks.
        if kind == "mlp" or (kind == "auto" and number == 0):
            candidates.append(Candidate(inputs, "mlp", _WEIGHT_DECAY))
    return candidates


def _report(
    takes: Sequence[TakeData],
    names: tuple[str, ...],
    validation: Sequence[Fold],
    candidates: Sequence[Candidate],
    errors: F64,
    best: int,
    frames: Frames,
) -> dict[str, Any]:
    """The report on a part; errors are shares of an output's range."""
    chosen = candidates[best]
    report: dict[str, Any] = {
        "outputs": list(names),
        "kind": chosen.kind,
        "setting": chosen.setting,
        "inputs": list(chosen.inputs),
        **frames.summary(validation),
    }
    if not validation:
        return report | {"error": None, "error_of_the_mean": None, "folds": [], "candidates": []}
    fold_errors, mean_errors = [], []
    for i, fold in enumerate(validation):
        fold_errors.append(errors[i, best_elsewhere(errors.mean(2), i)])
        mean = np.average(frames.y[fold.train], axis=0, weights=frames.weight[fold.train])
        mean_errors.append(np.abs(frames.y[fold.test] - mean).mean(0))
    return report | {
        "error": dict(zip(names, np.mean(fold_errors, 0).round(5).tolist(), strict=True)),
        "error_of_the_mean": dict(zip(names, np.mean(mean_errors, 0).round(5).tolist(), strict=True)),
        "folds": [
            {
                "takes": [takes[i].name for i in fold.left_out],
                "whole": fold.whole,
                "error": round(float(error.mean()), 5),
            }
            for fold, error in zip(validation, fold_errors, strict=True)
        ],
        "candidates": [
            {
                "kind": c.kind,
                "setting": c.setting,
                "inputs": list(c.inputs),
                "error": round(float(errors[:, i].mean()), 5),
            }
            for i, c in enumerate(candidates)
        ],
    }


def _errors_without_lead(
    validation: Sequence[Fold], chosen: Candidate, now: Frames, ahead: Frames
) -> list[float]:
    """The error against the targets ``lead`` later of the same head trained without lead, for comparison."""
    errors = []
    lengths = [high - low for low, high in ahead.spans]
    starts_now = np.cumsum([0, *(high - low for low, high in now.spans)])
    # The frames of ``ahead`` are those of ``now`` without the last ones of each take.
    index_now = np.concatenate([starts_now[i] + np.arange(n) for i, n in enumerate(lengths)])
    x = now.inputs(chosen.inputs)
    for fold in validation:
        train, test = index_now[fold.train], fold.test_sample
        projection, arrays = fit_candidate(chosen, x, now, train, MAX_TRAIN_FRAMES, heads.fit_head)
        predicted = heads.compile_head(chosen.kind, arrays)(projection(x[index_now[test]]))
        errors.append(np.abs(predicted - ahead.y[test]).mean(0))
    return [round(float(error), 5) for error in np.mean(errors, 0)]
