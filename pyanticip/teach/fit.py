"""Fitting: from what takes show to a mapping, with an error that was measured on what was left out.

Candidates (a kind, its setting, the inputs it sees) are judged on folds that leave out whole takes, or blocks
of time (:mod:`pyanticip.teach.folds`); the best one is fitted on everything. The error that is shown is
honest about the choice as well: each fold is judged by the candidate that the *other* folds would have
chosen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError
from pyanticip.teach import heads
from pyanticip.teach.classes import fit_class
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
    novelty_arrays,
    picked,
)
from pyanticip.teach.heads import Projection
from pyanticip.teach.labels import GESTURE
from pyanticip.teach.options import FitOptions, telling
from pyanticip.teach.outputs import Output

__all__ = ["fit_parts"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_PENALTIES, _DECAY = (0.001, 0.01, 0.1, 1.0), 0.003


def _fitted(chosen: Candidate, data: F32, y: F64, weight: F64) -> tuple[Projection, heads.Arrays]:
    """Projection and head of frames (N, F)."""
    projection = Projection.fit(data, weight, floor(chosen.inputs, data.shape[1]))
    return projection, heads.fit_head(chosen.kind, chosen.setting, projection(data), y, weight)


def fit_parts(
    takes: Sequence[TakeData],
    outputs: Sequence[Output],
    options: FitOptions,
    on_progress: Callable[[str], None] = lambda line: None,
    refused: list[str] | None = None,
) -> list[Part]:
    """A head for every group of outputs that the same takes demonstrate, and one for every class.

    What cannot be fitted is left out and told in ``refused``, where that is given.

    Raises:
        OptionError: nothing to learn from, inputs that the takes lack; without ``refused``, anything that
            cannot be fitted.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for output in outputs:
        teaching = tuple(i for i, take in enumerate(takes) if output.name in take.wanted)
        if teaching:
            groups.setdefault(teaching, []).append(output.name)
    classes = sorted({name for take in takes for name in take.labels} - {GESTURE})
    if not (groups or classes):
        raise OptionError("nothing to learn from: no take teaches any output; add one: pyanticip teach add")
    # Told once: no part could be fitted, and the mapping would lose them all.
    input_choices(takes, options)
    parts = []
    for members, names in groups.items():
        on_progress(f"fitting {', '.join(names)} on {len(members)} takes")
        with telling(refused):
            parts.append(_fit_group([takes[i] for i in members], tuple(names), options))
    for name in classes:
        on_progress(f"fitting class {name}")
        with telling(refused):
            parts.append(fit_class(takes, name, options))
    return parts


def _fit_group(takes: Sequence[TakeData], names: tuple[str, ...], options: FitOptions) -> Part:
    lead = options.lead_ms // 20
    now = Frames.of(takes, names, 0)
    ahead = now if lead == 0 else Frames.of(takes, names, lead)
    choices = input_choices(takes, options)
    x = {inputs: ahead.inputs(inputs) for inputs in choices}
    made = folds(ahead.wanted, ahead.seen)
    candidates = _candidates(choices, options.kind, len(ahead.y))
    begun = time.perf_counter()
    predictions = [judged(fold, candidates, x, ahead, heads.fit_head, heads.compile_head) for fold in made]
    errors = np.array(
        [
            [np.abs(given - ahead.y[fold.judged]).mean(0) for given in row]
            for fold, row in zip(made, predictions, strict=True)
        ]
    ).reshape(len(made), len(candidates), len(names))
    if made:
        best = int(errors.mean((0, 2)).argmin())
    else:
        # Nothing can be left out: the kind that surprises least.
        best = next((i for i, c in enumerate(candidates) if c.kind != "mlp"), 0)
    chosen = candidates[best]
    projection, arrays = _final(chosen, x, ahead)
    near = novelty_arrays(made, projection, x[chosen.inputs], ahead.weight)
    report = _report(takes, names, made, candidates, errors, best, ahead)
    report["cross_validation_seconds"] = round(time.perf_counter() - begun, 3)
    if lead and made:
        report["error_without_lead"] = dict(zip(names, _held(made, chosen, now, ahead), strict=True))
    picks = [picked(errors.mean(2), i) for i in range(len(made))]
    return Part(
        names,
        chosen.inputs,
        chosen.kind,
        chosen.setting,
        {"mean": projection.mean, "basis": projection.basis, **arrays, **near},
        report,
        left_out=[
            one
            for fold, row, pick in zip(made, predictions, picks, strict=True)
            for one in ahead.left_out(fold.judged, row[pick])
        ],
    )


def _candidates(choices: Sequence[tuple[str, ...]], kind: str, frames: int) -> list[Candidate]:
    found = []
    for number, inputs in enumerate(choices):
        if kind in ("auto", "ridge"):
            found += [Candidate(inputs, "ridge", penalty) for penalty in _PENALTIES]
        if kind in ("auto", "knn"):
            found += [Candidate(inputs, "knn", k) for k in heads.knn_settings(frames)]
        # Dear to judge: with a choice of heads, tried on all inputs alone.
        if kind == "mlp" or (kind == "auto" and number == 0):
            found.append(Candidate(inputs, "mlp", _DECAY))
    return found


def _final(
    chosen: Candidate, x: Mapping[tuple[str, ...], F32], frames: Frames
) -> tuple[Projection, heads.Arrays]:
    kept = heads.thinned(frames.weight, 2 * LEARN)
    weight = heads.normal(frames.weight, 2 * LEARN)
    return _fitted(chosen, x[chosen.inputs][kept], frames.y[kept], weight)


def _report(
    takes: Sequence[TakeData],
    names: tuple[str, ...],
    made: Sequence[Fold],
    candidates: Sequence[Candidate],
    errors: F64,
    best: int,
    frames: Frames,
) -> dict[str, Any]:
    """What is told about a part: errors as shares of an output's range."""
    chosen = candidates[best]
    report: dict[str, Any] = {
        "outputs": list(names),
        "kind": chosen.kind,
        "setting": chosen.setting,
        "inputs": list(chosen.inputs),
        **frames.summary(made),
    }
    if not made:
        return report | {"error": None, "error_of_the_mean": None, "folds": [], "candidates": []}
    shown, mean = [], []
    for i, fold in enumerate(made):
        shown.append(errors[i, picked(errors.mean(2), i)])
        level = np.average(frames.y[fold.learn], axis=0, weights=frames.weight[fold.learn])
        mean.append(np.abs(frames.y[fold.judge] - level).mean(0))
    return report | {
        "error": dict(zip(names, np.mean(shown, 0).round(5).tolist(), strict=True)),
        "error_of_the_mean": dict(zip(names, np.mean(mean, 0).round(5).tolist(), strict=True)),
        "folds": [
            {
                "takes": [takes[i].name for i in fold.left_out],
                "whole": fold.whole,
                "error": round(float(error.mean()), 5),
            }
            for fold, error in zip(made, shown, strict=True)
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


def _held(made: Sequence[Fold], chosen: Candidate, now: Frames, ahead: Frames) -> list[float]:
    """The error, ``lead`` later, of the same head taught without lead: what the lead is worth."""
    errors = []
    lengths = [high - low for low, high in ahead.spans]
    starts_now = np.cumsum([0, *(high - low for low, high in now.spans)])
    # The frames of ``ahead`` are those of ``now`` but for the last ones of each take.
    place = np.concatenate([starts_now[i] + np.arange(n) for i, n in enumerate(lengths)])
    x = now.inputs(chosen.inputs)
    for fold in made:
        learn, judge = place[fold.learn], fold.judged
        kept = learn[heads.thinned(now.weight[learn], LEARN)]
        weight = heads.normal(now.weight[learn], LEARN)
        projection, arrays = _fitted(chosen, x[kept], now.y[kept], weight)
        given = heads.compile_head(chosen.kind, arrays)(projection(x[place[judge]]))
        errors.append(np.abs(given - ahead.y[judge]).mean(0))
    return [round(float(error), 5) for error in np.mean(errors, 0)]
