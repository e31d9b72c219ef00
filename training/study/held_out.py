"""What a run of the study is judged by: cross-entropy of held-out tokens, in full and with little context."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from pyanticip.bridge import bridge_scalars
from pyanticip.errors import ShapeError
from pyanticip.models import AnticipatoryTransformer
from pyanticip.models.token.transformer import LanguageModel
from training.tasks.token.metrics import CONTEXTS

TARGETS: Final = 8
"""Predicted places per sequence where context is cut."""
SEQUENCES: Final = 256
"""Sequences used where context is cut, at most."""
ROWS: Final = 4096
"""Tokens per call."""


@dataclass(frozen=True)
class Test:
    """Held-out sequences ``ids`` (N, L + 1), and which of the L predictions count: ``mask`` (N, L).

    ``first``: how many tokens a prediction must have before it, where context is cut; a context longer than
    that is cut to what there is.
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]
    first: int = max(CONTEXTS)

    def __post_init__(self) -> None:
        rows, width = self.ids.shape
        if self.mask.shape != (rows, width - 1):
            raise ShapeError(f"mask must be {(rows, width - 1)}, got {self.mask.shape}")

    def places(self) -> NDArray[np.int64]:
        """(n, 2) row and column of the tokens predicted where context is cut: of the rows used, every place
        that counts or, where there are many, some of them evenly spaced."""
        found: list[tuple[int, int]] = []
        for row in range(min(len(self.ids), SEQUENCES)):
            columns = np.flatnonzero(self.mask[row]) + 1
            columns = columns[columns >= self.first]
            if len(columns):
                which = np.unique(np.linspace(0, len(columns) - 1, TARGETS).round().astype(np.int64))
                found.extend((row, int(column)) for column in columns[which])
        return np.array(found, dtype=np.int64).reshape(-1, 2)


@torch.no_grad()
def next_losses(model: LanguageModel, ids: Tensor, scalars: str) -> Tensor:
    """Cross-entropy (B, L) of the tokens that follow each of (B, L + 1), steered as in training."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    if not isinstance(model, AnticipatoryTransformer):
        logits = model(inputs).logits
    elif scalars == "self":
        logits = model(inputs, mode="initial").logits
    else:
        logits = model(inputs, bridge_scalars(model.embed(inputs)).float()).logits
    found = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    return found.view(targets.shape)


def score(
    model: LanguageModel,
    test: Test,
    scalars: str,
    device: torch.device,
    contexts: Sequence[int] = CONTEXTS,
) -> dict[str, Any]:
    """Losses in nats and perplexities.

    Args:
        model: set to evaluation.
        test: held-out sequences.
        scalars: ``external`` or ``self``, as in training.
        device: where the model is.
        contexts: numbers of tokens that a prediction sees, where context is cut: every window starts anew,
            its positions from 0 and its scalars from its own tokens.

    Returns:
        ``loss`` and ``perplexity``, each with ``full`` (all predictions that count), one entry per context
        and ``places`` (the same predictions as those, with all there is before them), and ``everything``,
        predictions that do not count included.
    """
    model.eval()
    whole = _many(model, test.ids, scalars, device)
    places = test.places()
    losses = {"full": float(whole[test.mask].mean()), "everything": float(whole.mean())}
    if len(places):
        for context in contexts:
            losses[str(context)] = _cut(model, test, places, context, scalars, device)
        losses["places"] = float(whole[places[:, 0], places[:, 1] - 1].mean())
    return {
        "loss": {name: round(value, 6) for name, value in losses.items()},
        "perplexity": {name: round(float(np.exp(value)), 6) for name, value in losses.items()},
        "predictions": int(test.mask.sum()),
        "places": len(places),
    }


def _many(
    model: LanguageModel, ids: NDArray[np.int64], scalars: str, device: torch.device
) -> NDArray[np.float64]:
    """(N, L) losses of sequences (N, L + 1), some at a time."""
    rows = max(1, ROWS // ids.shape[1])
    parts = [
        next_losses(model, torch.from_numpy(ids[at : at + rows]).to(device), scalars)
        for at in range(0, len(ids), rows)
    ]
    return torch.cat(parts).double().cpu().numpy()


def _cut(
    model: LanguageModel,
    test: Test,
    places: NDArray[np.int64],
    context: int,
    scalars: str,
    device: torch.device,
) -> float:
    """Mean loss of the tokens at ``places`` after at most ``context`` tokens."""
    seen = np.minimum(places[:, 1], context)
    total = 0.0
    for length in np.unique(seen):
        chosen = places[seen == length]
        columns = chosen[:, 1:] + np.arange(-length, 1)
        windows = test.ids[chosen[:, :1], columns]
        total += float(_many(model, windows, scalars, device)[:, -1].sum())
    return total / len(places)
