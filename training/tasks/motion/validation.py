"""Validation of a model during training."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, SCALAR_COLUMNS
from training.data.batches import event_targets
from training.data.examples import Example
from training.tasks.motion.data import MIN_CHANGE, PREDICTED_FROM
from training.tasks.motion.scores import Errors, Predictions, measure, run_model

Array = NDArray[np.float64]

COLUMNS: Final = ("valid_error", "valid_score", "valid_events", "valid_scalars")
"""Mean absolute error of the parameters from 100 ms on; the same relative to the parameters' change, at least
0.01 (selects the best weights); negative log-likelihood of the next events, nats per frame; squared error of
the refined scalars."""


def in_memory(example: Example) -> Example:
    """Copy a clip's memory-mapped arrays: tensors can only share writable memory."""
    return replace(example, features=np.array(example.features), params=np.array(example.params))


def clip_figures(output: Predictions, example: Example) -> Array:
    """Sums over the frames of one clip: event NLL, scalar error, and number of frames."""
    nll = np.zeros(len(output.gate))
    for kind, events in enumerate((example.onsets, example.phrases)):
        bins, seen = event_targets(events, len(example))
        bin_index = np.arange(output.hazards.shape[2])
        hit, at_risk = bin_index == bins[:, None], (bin_index <= bins[:, None]) & (bin_index < seen[:, None])
        hazard = np.clip(output.hazards[:, kind].astype(np.float64), 1e-7, 1.0 - 1e-7)
        nll -= (np.log(np.where(hit, hazard, 1.0 - hazard)) * at_risk).sum(axis=1)
    true_scalars = np.asarray(example.features[:, slice(*SCALAR_COLUMNS)], dtype=np.float64)
    scalar_error = ((output.scalars - true_scalars) ** 2).mean(axis=1)
    return np.array([nll.sum(), scalar_error.sum(), len(nll)])


def validate(
    model: MotionTransformer, examples: Sequence[Example], scale: Array, *, rank: int = 0, world: int = 1
) -> dict[str, Any]:
    """Validate a model on held-out clips.

    Args:
        model: in evaluation mode, on the CPU.
        examples: the clips.
        scale: (8, 5) changes of the parameters; see :func:`training.tasks.motion.data.change_scale`.
        rank: index of this process.
        world: number of processes that share the clips; all get the same result.

    Returns:
        ``error``, ``score``, ``events``, ``scalars`` as in :data:`COLUMNS`; ``params``, the errors by
        parameter and horizon; ``subjects``, ``error`` by subject.
    """
    mine = [in_memory(examples[i]) for i in range(rank, len(examples), world)]
    sums = np.zeros(3)

    def predict(example: Example) -> NDArray[np.float32]:
        nonlocal sums
        output = run_model(model, example)
        sums = sums + clip_figures(output, example)
        return output.params

    errors = measure(mine, predict)
    if world > 1:
        gathered: list[Any] = [None] * world
        torch.distributed.all_gather_object(gathered, (errors, sums))
        filled = [found for found, _ in gathered if len(found.subjects)]
        errors = Errors(*(np.concatenate([getattr(e, f.name) for e in filled]) for f in fields(Errors)))
        sums = sum((g[1] for g in gathered), np.zeros(3))
    table = errors.mean()
    return {
        "error": float(table[:, PREDICTED_FROM:].mean()),
        "score": float((table / np.maximum(scale, MIN_CHANGE))[:, PREDICTED_FROM:].mean()),
        "events": float(sums[0] / max(sums[2], 1.0)),
        "scalars": float(sums[1] / max(sums[2], 1.0)),
        "params": {
            name: {str(ms): float(v) for ms, v in zip(HORIZONS_MS, row, strict=True)}
            for name, row in zip(PARAMETERS, table, strict=True)
        },
        "subjects": {
            str(name): float(errors.mean(np.flatnonzero(errors.subjects == name))[:, PREDICTED_FROM:].mean())
            for name in np.unique(errors.subjects)
        },
    }


def row(result: dict[str, Any]) -> dict[str, float]:
    """The columns of the metrics from a result of :func:`validate`."""
    return {column: result[column.removeprefix("valid_")] for column in COLUMNS}
