"""Fitting classes: which label a frame shows, with what probability, and whether it is like any take at all.

Candidates are cross-validated as those of values are (:mod:`pyanticip.teach.fit`): whole takes are left out
where another take shows the same label. The novelty from which a frame shows none of the labels is learned by
leaving out whole labels, whose frames then are unlike all the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError
from pyanticip.teach import heads
from pyanticip.teach.classifiers import compile_classifier, fit_classifier, sharpened, sharpness
from pyanticip.teach.folds import Fold
from pyanticip.teach.frames import (
    MAX_TRAIN_FRAMES,
    NOVELTY_POINTS,
    Candidate,
    Frames,
    Part,
    TakeData,
    best_elsewhere,
    fit_candidate,
    fold_predictions,
    input_choices,
    nearest,
    novelty_arrays,
)
from pyanticip.teach.labels import NONE
from pyanticip.teach.options import FitOptions

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_PENALTIES = (0.01, 0.1, 1.0)
_MIN_SLOPE = 2.0
"""Least slope of the log odds of being unlike everything, over the log of the novelty."""
_NONE_TAKES_FACTOR = 1.5
"""Factor on the novelty limit where takes of the label ``none`` show what the labels are not."""
_DEFAULT_UNLIKE = (3.0, -2.0)
"""Slope and offset where nothing could be left out, or too few labels were shown."""


def fit_class(takes: Sequence[TakeData], name: str, options: FitOptions) -> Part:
    """Fit the head of a class to the takes that show one of its labels.

    Raises:
        OptionError: the takes show a single label, which cannot be told from anything.
    """
    mine = [take for take in takes if name in take.labels]
    labels = sorted({take.labels[name] for take in mine}, key=lambda label: (label == NONE, label))
    if len(labels) < 2:
        raise OptionError(
            f"class {name}: all takes show {labels[0]}; show another label, or takes of {name}={NONE}"
        )
    one_hot_takes = []
    for take in mine:
        length = len(take.blocks["body"]) - take.begin
        one_hot = {label: np.full(length, float(take.labels[name] == label)) for label in labels}
        one_hot_takes.append(replace(take, targets=one_hot))
    frames = Frames.of(one_hot_takes, labels, options.lead_ms // 20)
    choices = input_choices(mine, options)
    x = {inputs: frames.inputs(inputs) for inputs in choices}
    kinds = [("logit", penalty) for penalty in _PENALTIES]
    kinds += [("vote", float(k)) for k in heads.knn_settings(len(frames.y))]
    candidates = [Candidate(inputs, kind, setting) for inputs in choices for kind, setting in kinds]
    validation = frames.make_folds()
    predictions = [
        fold_predictions(fold, candidates, x, frames, fit_classifier, compile_classifier)
        for fold in validation
    ]
    truth = [frames.y[fold.test_sample] for fold in validation]
    # Brier's score: unlike the log loss, it is not decided by a single confident mistake.
    scores = np.array(
        [[((p - y) ** 2).sum(1).mean() for p in row] for row, y in zip(predictions, truth, strict=True)]
    ).reshape(len(validation), len(candidates))
    best = int(scores.mean(0).argmin()) if validation else 0
    inputs, kind, setting = chosen = candidates[best]
    every_frame = np.arange(len(frames.y))
    projection, arrays = fit_candidate(
        chosen, x[inputs], frames, every_frame, 2 * MAX_TRAIN_FRAMES, fit_classifier
    )
    sharp = 0.5
    if validation:
        sharp = sharpness(np.concatenate([row[best] for row in predictions]), np.concatenate(truth))
    near = novelty_arrays(validation, projection, x[inputs], frames.weight)
    arrays |= {
        "mean": projection.mean,
        "basis": projection.basis,
        "sharpness": np.array([sharp], np.float32),
        **near,
        "unlike": _fit_unlike(near, projection(x[inputs]), frames, validation, labels),
    }
    elsewhere = [row[best_elsewhere(scores, i)] for i, row in enumerate(predictions)]
    report = _report(mine, name, labels, validation, elsewhere, truth, chosen, frames)
    left_out = frames.left_out(validation, [sharpened(predicted, sharp) for predicted in elsewhere])
    return Part(tuple(labels), inputs, kind, setting, arrays, report, label_of=name, left_out=left_out)


def familiarity(unlike: F32, novelty: F64 | float) -> F64 | float:
    """The probability that a frame of this novelty is like a take; ``unlike`` (2,) is slope and offset."""
    slope, offset = float(unlike[0]), float(unlike[1])
    probability: F64 = 1.0 / (1.0 + np.exp(slope * np.log(np.maximum(novelty, 1e-3)) + offset))
    return probability


def _fit_unlike(
    near: heads.Arrays, u: F32, frames: Frames, validation: Sequence[Fold], labels: Sequence[str]
) -> F32:
    """Slope and offset of the log odds of being none of the labels, over the log of the novelty."""
    scale, level = near["near_scale"], float(near["near_level"][0])
    v = u[:, : len(scale)] * scale
    known, unknown = [], []
    for fold in validation:
        points = fold.train[heads.subsample(frames.weight[fold.train], NOVELTY_POINTS)[0]]
        known.append(nearest(v[fold.test_sample], v[points]))
    for i, label in enumerate(labels):
        has_label = frames.y[:, i] > 0.5
        rest = np.flatnonzero(~has_label)
        if label != NONE:
            points = rest[heads.subsample(frames.weight[rest], NOVELTY_POINTS)[0]]
            unknown.append(nearest(v[has_label], v[points]))
    if not known or len(unknown) < 2:
        return np.array(_DEFAULT_UNLIKE, np.float32)
    log_novelty = np.log(np.maximum(np.concatenate([*known, *unknown]) / level, 1e-3))
    is_new = np.concatenate([np.zeros(sum(map(len, known))), np.ones(sum(map(len, unknown)))])
    weight = np.where(is_new > 0.5, 0.5 / is_new.sum(), 0.5 / (1.0 - is_new).sum())
    design = np.stack([log_novelty, np.ones_like(log_novelty)], 1)
    theta = np.zeros(2)
    for _ in range(25):
        p = 1.0 / (1.0 + np.exp(-design @ theta))
        # The penalty acts like a few frames on either side: no separation is certain.
        gradient = design.T @ (weight * (p - is_new)) + 0.002 * theta
        curvature = (design * (weight * p * (1.0 - p))[:, None]).T @ design + 0.002 * np.eye(2)
        theta -= np.linalg.solve(curvature, gradient)
    # Other people and other days are farther away than the takes are from each other: below a novelty of 1,
    # which a twentieth of the held-out frames exceed, a frame is never rather none than one of the labels.
    slope, offset = max(theta[0], _MIN_SLOPE), min(theta[1], 0.0)
    return np.array(
        [slope, offset - slope * np.log(_NONE_TAKES_FACTOR if NONE in labels else 1.0)], np.float32
    )


def _report(
    takes: Sequence[TakeData],
    name: str,
    labels: Sequence[str],
    validation: Sequence[Fold],
    predictions: Sequence[F32],
    truth: Sequence[F64],
    chosen: Candidate,
    frames: Frames,
) -> dict[str, Any]:
    """The report on a class; ``predictions`` of each fold are by the candidate that the others would have
    chosen."""
    report: dict[str, Any] = {
        "class": name,
        "labels": list(labels),
        "kind": chosen.kind,
        "setting": chosen.setting,
        "inputs": list(chosen.inputs),
        **frames.summary(validation),
        "accuracy": None,
        "confusion": [],
        "folds": [],
    }
    if not validation:
        return report
    confusion = np.zeros((len(labels), len(labels)))
    rows = []
    for fold, probabilities, y in zip(validation, predictions, truth, strict=True):
        predicted = probabilities.argmax(1)
        # Folds have equal weight, whatever their length.
        np.add.at(confusion, (y.argmax(1), predicted), 1.0 / len(y))
        rows.append(
            {
                "takes": [takes[j].name for j in fold.left_out],
                "whole": fold.whole,
                "accuracy": round(float((predicted == y.argmax(1)).mean()), 4),
                "said": {label: round(float((predicted == j).mean()), 4) for j, label in enumerate(labels)},
            }
        )
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1e-12)
    return report | {
        "accuracy": round(float(np.diag(share)[confusion.sum(1) > 0].mean()), 4),
        "confusion": share.round(4).tolist(),
        "folds": rows,
    }
