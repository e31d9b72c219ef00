"""Fitting classes: which label a frame shows, how sure that is, and whether it is like anything shown.

Candidates are judged on folds as values are (:mod:`pyanticip.teach.fit`): whole takes are left out where
another take shows the same label. How far from everything shown a frame must be to be none of them is learned
by leaving out whole labels: what they show is then unlike all the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError
from pyanticip.teach import heads
from pyanticip.teach.classifiers import compile_classifier, fit_classifier, sharpened, sharpness
from pyanticip.teach.folds import Fold, folds
from pyanticip.teach.frames import (
    LEARN,
    Candidate,
    Frames,
    Part,
    TakeData,
    floor,
    input_choices,
    judged,
    nearest,
    novelty_arrays,
    picked,
)
from pyanticip.teach.heads import Projection
from pyanticip.teach.labels import NONE
from pyanticip.teach.options import FitOptions

__all__ = ["fit_class", "likeness"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_PENALTIES = (0.01, 0.1, 1.0)
_PLACES = 256
_STEEP = 2.0
# Where takes show what none of the labels is, what is new by itself is so only from so many times as far on.
_SHOWN = 1.5
# Where nothing could be left out, or too few labels were shown.
_UNTOLD = (3.0, -2.0)


def fit_class(takes: Sequence[TakeData], name: str, options: FitOptions) -> Part:
    """The head of a class, of the takes that show a label of it.

    Raises:
        OptionError: a single label, which is to be told from nothing.
    """
    mine = [take for take in takes if name in take.labels]
    labels = sorted({take.labels[name] for take in mine}, key=lambda label: (label == NONE, label))
    if len(labels) < 2:
        raise OptionError(
            f"class {name}: all takes show {labels[0]}; show another label, or takes of {name}={NONE}"
        )
    shown = [
        TakeData(
            take.name,
            take.blocks,
            take.begin,
            {
                label: np.full(len(take.blocks["body"]) - take.begin, float(take.labels[name] == label))
                for label in labels
            },
            seen=take.seen,
        )
        for take in mine
    ]
    frames = Frames.of(shown, labels, options.lead_ms // 20)
    choices = input_choices(mine, options)
    x = {inputs: frames.inputs(inputs) for inputs in choices}
    kinds = [("logit", penalty) for penalty in _PENALTIES]
    kinds += [("vote", float(k)) for k in heads.knn_settings(len(frames.y))]
    candidates = [Candidate(inputs, kind, setting) for inputs in choices for kind, setting in kinds]
    made = folds(frames.wanted, frames.seen)
    predictions = [judged(fold, candidates, x, frames, fit_classifier, compile_classifier) for fold in made]
    truth = [frames.y[fold.judged] for fold in made]
    # Brier's score: squared, so that a single sure mistake does not decide.
    scores = np.array(
        [[((p - y) ** 2).sum(1).mean() for p in row] for row, y in zip(predictions, truth, strict=True)]
    ).reshape(len(made), len(candidates))
    best = int(scores.mean(0).argmin()) if made else 0
    inputs, kind, setting = candidates[best]
    kept = heads.thinned(frames.weight, 2 * LEARN)
    weight = heads.normal(frames.weight, 2 * LEARN)
    projection = Projection.fit(x[inputs][kept], weight, floor(inputs, x[inputs].shape[1]))
    u = projection(x[inputs][kept])
    arrays = fit_classifier(kind, setting, u, frames.y[kept], weight)
    sharp = (
        sharpness(np.concatenate([row[best] for row in predictions]), np.concatenate(truth)) if made else 0.5
    )
    near = novelty_arrays(made, projection, x[inputs], frames.weight)
    arrays |= {
        "mean": projection.mean,
        "basis": projection.basis,
        "sharpness": np.array([sharp], np.float32),
        **near,
        "unlike": _unlike(near, projection(x[inputs]), frames, made, labels),
    }
    report = _report(mine, name, labels, made, scores, predictions, truth, candidates[best], frames)
    left_out = [
        one
        for i, fold in enumerate(made)
        for one in frames.left_out(fold.judged, sharpened(predictions[i][picked(scores, i)], sharp))
    ]
    return Part(tuple(labels), inputs, kind, setting, arrays, report, label_of=name, left_out=left_out)


def likeness(unlike: F32, novelty: F64 | float) -> F64 | float:
    """The probability that a frame of this novelty is like something shown."""
    slope, offset = float(unlike[0]), float(unlike[1])
    found: F64 = 1.0 / (1.0 + np.exp(slope * np.log(np.maximum(novelty, 1e-3)) + offset))
    return found


def _unlike(near: heads.Arrays, u: F32, frames: Frames, made: Sequence[Fold], labels: Sequence[str]) -> F32:
    """Slope and offset of the log odds of being none of the labels, over the log of the novelty."""
    scale, level = near["near_scale"], float(near["near_level"][0])
    v = u[:, : len(scale)] * scale
    known, unknown = [], []
    for fold in made:
        places = fold.learn[heads.thinned(frames.weight[fold.learn], _PLACES)]
        known.append(nearest(v[fold.judged], v[places]))
    for i, label in enumerate(labels):
        here = frames.y[:, i] > 0.5
        rest = np.flatnonzero(~here)
        if label != NONE and len(labels) > 1:
            places = rest[heads.thinned(frames.weight[rest], _PLACES)]
            unknown.append(nearest(v[here], v[places]))
    if not known or len(unknown) < 2:
        return np.array(_UNTOLD, np.float32)
    away = np.log(np.maximum(np.concatenate([*known, *unknown]) / level, 1e-3))
    is_new = np.concatenate([np.zeros(sum(map(len, known))), np.ones(sum(map(len, unknown)))])
    weight = np.where(is_new > 0.5, 0.5 / is_new.sum(), 0.5 / (1.0 - is_new).sum())
    design = np.stack([away, np.ones_like(away)], 1)
    theta = np.zeros(2)
    for _ in range(25):
        p = 1.0 / (1.0 + np.exp(-design @ theta))
        # As if a few frames had been seen on either side: nothing is told apart for certain.
        slope = design.T @ (weight * (p - is_new)) + 0.002 * theta
        curvature = (design * (weight * p * (1.0 - p))[:, None]).T @ design + 0.002 * np.eye(2)
        theta -= np.linalg.solve(curvature, slope)
    # Other people and other days are farther off than the takes among each other: nothing nearer than what a
    # twentieth of the frames left out exceed is rather none of them.
    steep, offset = max(theta[0], _STEEP), min(theta[1], 0.0)
    return np.array([steep, offset - steep * np.log(_SHOWN if NONE in labels else 1.0)], np.float32)


def _report(
    takes: Sequence[TakeData],
    name: str,
    labels: Sequence[str],
    made: Sequence[Fold],
    scores: F64,
    predictions: Sequence[Sequence[F32]],
    truth: Sequence[F64],
    chosen: Candidate,
    frames: Frames,
) -> dict[str, Any]:
    """What is told about a class; every fold is judged by what the others would have chosen."""
    report: dict[str, Any] = {
        "class": name,
        "labels": list(labels),
        "kind": chosen.kind,
        "setting": chosen.setting,
        "inputs": list(chosen.inputs),
        **frames.summary(made),
        "accuracy": None,
        "confusion": [],
        "folds": [],
    }
    if not made:
        return report
    confusion = np.zeros((len(labels), len(labels)))
    rows = []
    for i, (fold, y) in enumerate(zip(made, truth, strict=True)):
        predicted = predictions[i][picked(scores, i)].argmax(1)
        # Each take counts alike.
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
