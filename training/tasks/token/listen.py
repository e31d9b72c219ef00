"""Runs token models over held-out sequences: predictions, perplexity by context, and drift of the scalars."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import SCALARS
from training.report.statistics import Interval
from training.tasks.token.metrics import CONTEXTS, Array, Mask, Predictions, perplexity

Mode = Literal["external", "initial", "refined_prev"]
ScalarsOf = Callable[[Tensor], Tensor | None]
"""Scalars (B, L, 7) of tokens (B, L); None for a model without scalars."""

CHUNK: Final = 64
"""Sequences per call."""
WINDOWS: Final = 512
"""Windows per call of :func:`by_context`, where every prediction has its own window."""
BLOCKS: Final = 10
"""Blocks of the statistics of :class:`Drift`."""


@dataclass(frozen=True)
class HeldOut:
    """Sequences that were not trained on.

    ``ids`` (N, L + 1) tokens, the first L inputs and the last L targets; ``mask`` (N, L) predictions that
    count; ``mean`` (L, 7) mean scalars of *training* sequences at each position, or None for a model without
    scalars; ``fresh`` whether they were not used for validation either.
    """

    ids: Tensor
    mask: Mask
    mean: Array | None = None
    fresh: bool = True

    def __post_init__(self) -> None:
        rows, length = self.ids.shape
        if self.mask.shape != (rows, length - 1):
            raise ShapeError(f"mask: expected shape {(rows, length - 1)}, got {self.mask.shape}")
        if self.mean is not None and self.mean.shape != (length - 1, 7):
            raise ShapeError(f"mean: expected shape {(length - 1, 7)}, got {self.mean.shape}")


def _call(model: nn.Module, ids: Tensor, scalars: Tensor | None, mode: Mode | None) -> Any:
    if mode is None:
        return model(ids)
    return model(ids, scalars if mode == "external" else None, mode=mode)


def _numbers(value: Tensor) -> Array:
    return value.detach().cpu().double().numpy()


@torch.no_grad()
def predict(
    model: nn.Module,
    held: HeldOut,
    scalars_of: ScalarsOf,
    mode: Mode | None = "external",
) -> Predictions:
    """Predictions of a model for every position of held-out sequences.

    Args:
        model: a token model; set to evaluation mode.
        held: the sequences.
        scalars_of: computes the scalars of this model's embeddings.
        mode: which scalars steer it; None for a model without scalars.
    """
    model.eval()
    parts: dict[str, list[Array]] = {}
    for start in range(0, len(held.ids), CHUNK):
        ids = held.ids[start : start + CHUNK]
        inputs, next_ids = ids[:, :-1], ids[:, 1:]
        given = None if mode is None else scalars_of(inputs)
        out = _call(model, inputs, given, mode)
        logits = out.logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), next_ids.flatten(), reduction="none")
        values: dict[str, Any] = {"loss": loss.view(next_ids.shape), "right": logits.argmax(-1) == next_ids}
        values["confidence"] = logits.softmax(-1).amax(-1)
        if mode is not None:
            values |= {"given": given}
            values |= {name: getattr(out, name) for name in ("scalars", "initial", "gate", "share")}
        for name, value in values.items():
            if value is not None:
                parts.setdefault(name, []).append(_numbers(value))
    arrays = {name: np.concatenate(values) for name, values in parts.items()}
    right = arrays.pop("right").astype(bool)
    return Predictions(mask=held.mask, right=right, **arrays)


@torch.no_grad()
def by_context(
    model: nn.Module,
    held: HeldOut,
    scalars_of: ScalarsOf,
    mode: Mode | None = "external",
    *,
    contexts: Sequence[int] = CONTEXTS,
    positions: int = 8,
) -> dict[str, Interval]:
    """Perplexity with a limited number of previous tokens, on the same targets for all context lengths.

    Every window starts again: positions count from 0, and scalars are computed from its own tokens only.

    Args:
        model, held, scalars_of, mode: as for :func:`predict`.
        contexts: numbers of previous tokens, none larger than a sequence.
        positions: evenly spaced targets per sequence, from the largest context on.

    Returns:
        The perplexity per context, and under ``"full"`` that of the same targets with all previous tokens.

    Raises:
        OptionError: a context is longer than the sequences.
    """
    length = held.ids.shape[1] - 1
    widest = max(contexts)
    if min(contexts) < 1 or widest > length:
        raise OptionError(f"contexts must be from 1 to the sequences' {length} tokens, got {tuple(contexts)}")
    model.eval()
    # Column t is predicted from columns t - c .. t - 1.
    targets = np.unique(np.linspace(widest, length, positions).round().astype(np.int64))
    mask = held.mask[:, targets - 1]
    report = {}
    for context in contexts:
        windows = torch.stack([held.ids[:, t - context : t] for t in targets], 1).flatten(0, 1)
        truth = held.ids[:, targets].flatten()
        losses = []
        for start in range(0, len(windows), WINDOWS):
            part = windows[start : start + WINDOWS]
            out = _call(model, part, None if mode is None else scalars_of(part), mode)
            last = out.logits[:, -1].float()
            losses.append(F.cross_entropy(last, truth[start : start + WINDOWS], reduction="none"))
        report[str(context)] = perplexity(_numbers(torch.cat(losses)).reshape(mask.shape), mask)
    full = predict(model, held, scalars_of, mode)
    report["full"] = perplexity(full.loss[:, targets - 1], mask)
    return report


@dataclass(frozen=True)
class Drift:
    """Scalars of a model that is steered by its own refined scalars over many steps.

    ``steps``: number of steps; ``blocks`` (BLOCKS, 3, 7): minimum, mean and standard deviation of each scalar
    in consecutive blocks; ``trace`` (steps, 7): the scalars.
    """

    steps: int
    blocks: Array
    trace: NDArray[np.float32]

    def report(self) -> dict[str, Any]:
        """Per scalar: range over all steps, mean and deviation of the first and the last block, and drift,
        the change of the mean in units of the pooled deviation within blocks."""
        report: dict[str, Any] = {"steps": self.steps, "finite": bool(np.isfinite(self.trace).all())}
        for k, name in enumerate(SCALARS):
            means, stds = self.blocks[:, 1, k], self.blocks[:, 2, k]
            pooled_std = float(np.sqrt(np.mean(np.square(stds))))
            report[name] = {
                "min": round(float(self.trace[:, k].min()), 4),
                "max": round(float(self.trace[:, k].max()), 4),
                "first_mean": round(float(means[0]), 4),
                "last_mean": round(float(means[-1]), 4),
                "first_std": round(float(stds[0]), 4),
                "last_std": round(float(stds[-1]), 4),
                "drift": round(float(means[-1] - means[0]) / max(pooled_std, 1e-6), 3),
            }
        return report


@torch.no_grad()
def drift(model: Any, ids: Tensor, *, steps: int = 5000) -> Drift:
    """Run a model for ``steps`` steps, steered by its own refined scalars.

    The rows of tokens are read one after another without a break, and repeated as needed. A model with a
    shorter maximum sequence is replaced by a copy with the same weights and contexts and a maximum of
    ``steps``, since it is the feedback of the scalars that is measured.

    Args:
        model: an AnticipatoryTransformer.
        ids: (N, L) tokens.
        steps: number of steps.
    """
    model.eval()
    stream = ids.flatten()
    runner = endless(model, steps)
    state = runner.initial_state(1)
    scalars = []
    for t in range(steps):
        out, state = runner.step(stream[t % len(stream)].view(1), state, mode="refined_prev")
        scalars.append(out.scalars[0, -1])
    trace = torch.stack(scalars).float().cpu().numpy()
    parts = np.array_split(trace.astype(np.float64), BLOCKS)
    blocks = np.stack([np.stack([p.min(0), p.mean(0), p.std(0)]) for p in parts])
    return Drift(steps, blocks, trace)


def endless(model: Any, steps: int) -> Any:
    """The model, or a copy that can read ``steps`` tokens, with the same weights and contexts."""
    cfg = model.cfg
    if cfg.max_seq_len >= steps:
        return model
    longer = type(model)(cfg.replace(max_seq_len=steps, pools=cfg.pools)).to(next(model.parameters()).device)
    longer.load_state_dict(model.state_dict())
    return longer.eval()
