"""What a model is worth on people it does not learn from, while it is trained."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, SCALAR_COLUMNS
from training.data.batches import event_targets
from training.data.examples import Example
from training.tasks.motion.data import LITTLE, PREDICTED_FROM
from training.tasks.motion.scores import Errors, Predictions, measure, run_model

Array = NDArray[np.float64]

COLUMNS: Final = (
    "valid_error",
    "valid_score",
    "valid_events",
    "valid_scalars",
)
"""Mean absolute error of the parameters from 100 ms on; the same as a share of how far they move, at least
0.01 (what chooses the weights); negative log-likelihood of the next events in nats a frame; squared error of
the refined scalars."""


def in_memory(example: Example) -> Example:
    """The same clip with arrays of its own: tensors share memory only with what may be written."""
    return replace(
        example,
        features=np.array(example.features),
        params=np.array(example.params),
    )


def clip_figures(output: Predictions, example: Example) -> Array:
    """Sums over the frames of one clip: events, scalars, and how many frames there are."""
    nll = np.zeros(len(output.gate))
    for kind, events in enumerate((example.onsets, example.phrases)):
        bins, seen = event_targets(events, len(example))
        which = np.arange(output.hazards.shape[2])
        hit, alive = which == bins[:, None], (which <= bins[:, None]) & (which < seen[:, None])
        hazard = np.clip(output.hazards[:, kind].astype(np.float64), 1e-7, 1.0 - 1e-7)
        nll -= (np.log(np.where(hit, hazard, 1.0 - hazard)) * alive).sum(axis=1)
    given = np.asarray(example.features[:, slice(*SCALAR_COLUMNS)], dtype=np.float64)
    wrong = ((output.scalars - given) ** 2).mean(axis=1)
    return np.array([nll.sum(), wrong.sum(), len(nll)])


def validate(
    model: MotionTransformer, examples: Sequence[Example], scale: Array, *, rank: int = 0, world: int = 1
) -> dict[str, Any]:
    """The figures of a model on held-out clips.

    Args:
        model: in evaluation mode, on the CPU.
        examples: the clips.
        scale: (8, 5) how far the parameters move; see :func:`training.tasks.motion.data.change_scale`.
        rank: number of this process.
        world: how many share the clips; all of them get the figures.

    Returns:
        ``error``, ``score``, ``events``, ``scalars`` as in :data:`COLUMNS`; ``params`` those by parameter
        and horizon; ``subjects`` the same ``error`` by subject.
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
        errors = Errors(
            *(np.concatenate([getattr(g[0], n) for g in gathered if len(g[0].subjects)]) for n in _ERRORS)
        )
        sums = sum((g[1] for g in gathered), np.zeros(3))
    table = errors.mean()
    return {
        "error": float(table[:, PREDICTED_FROM:].mean()),
        "score": float((table / np.maximum(scale, LITTLE))[:, PREDICTED_FROM:].mean()),
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


_ERRORS: Final = ("sums", "counts", "subjects")


def row(found: dict[str, Any]) -> dict[str, float]:
    """The figures that stand in a row of the metrics."""
    return {f"valid_{name}": found[name] for name in ("error", "score", "events", "scalars")}
