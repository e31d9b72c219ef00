"""The losses of token models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.models import AnticipatoryTransformer, BaselineTransformer
from pyanticip.models.token.baseline import BaselineOutput
from pyanticip.models.token.transformer import LanguageOutput
from training.tasks.token.options import LanguageOptions


@dataclass(frozen=True)
class LanguageLosses:
    """Terms of the loss as scalar tensors; terms that a model does not have are zero."""

    total: Tensor
    """Total: ``ce + scalar_weight (scalar_refined [+ scalar_initial]) + ortho_weight ortho`` + pieces."""
    paper: Tensor
    """The paper's loss, whatever the options: ``ce + scalar_refined + 0.1 ortho``."""
    ce: Tensor
    """Cross-entropy of the next token under the gated logits, nats."""
    scalar_refined: Tensor
    """Mean squared error of the refined head over the seven scalars, in their own units."""
    scalar_initial: Tensor
    ortho: Tensor
    """Orthogonality penalty of the bias network's heads."""
    ortho_excess: Tensor
    """The penalty above its minimum for this number of heads."""
    gate_mean: Tensor
    """Mean of the commitment gate over the batch."""
    gate_std: Tensor
    """Its standard deviation."""
    gate_error: Tensor
    """Mean squared difference of the gate and the computed commitment."""
    pieces: Mapping[str, Tensor] = field(default_factory=dict)
    """Losses of the model's own parts, included in ``total``."""

    def stacked(self, pieces: Sequence[str] = ()) -> Tensor:
        """All terms without gradient, in the order of :data:`PARTS`, followed by the named ``pieces``."""
        terms = [*(getattr(self, name) for name in PARTS), *(self.pieces[name] for name in pieces)]
        return torch.stack([each.detach().float() for each in terms])


PARTS = tuple(each.name for each in fields(LanguageLosses) if each.name != "pieces")
"""Names of the terms, without ``pieces``."""


def losses(
    model: AnticipatoryTransformer | BaselineTransformer,
    out: LanguageOutput | BaselineOutput,
    targets: Tensor,
    computed: Tensor | None,
    options: LanguageOptions,
) -> LanguageLosses:
    """Compute the losses of one batch.

    Args:
        model: the model, for its orthogonality penalty.
        out: its output for inputs (B, L).
        targets: (B, L) next tokens.
        computed: (B, L, 7) scalars computed from the embeddings; None for a baseline.
        options: the weights, and which heads are supervised.
    """
    if not isinstance(model, AnticipatoryTransformer) or not isinstance(out, LanguageOutput):
        ce = F.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten())
        zero = torch.zeros((), dtype=ce.dtype, device=ce.device)
        return LanguageLosses(ce, ce, ce, zero, zero, zero, zero, zero, zero, zero)
    assert computed is not None
    ce = F.cross_entropy((out.raw_logits * out.gate[..., None]).float().flatten(0, 1), targets.flatten())
    zero = torch.zeros((), dtype=ce.dtype, device=ce.device)
    gate_error = F.mse_loss(out.gate.float(), computed[..., 0])
    refined = F.mse_loss(out.scalars.float(), computed)
    initial = F.mse_loss(out.initial.float(), computed)
    supervised = refined + initial if options.loss.supervise == "both" else refined
    overlap = model.orthogonality()
    ortho, excess = (zero, zero) if overlap is None else (overlap.penalty, overlap.excess)
    total = ce + options.loss.scalar_weight * supervised + options.loss.ortho_weight * ortho
    gate = out.gate.detach().float()
    return LanguageLosses(
        total=total,
        paper=ce + refined + 0.1 * ortho,
        ce=ce,
        scalar_refined=refined,
        scalar_initial=initial,
        ortho=ortho,
        ortho_excess=excess,
        gate_mean=gate.mean(),
        gate_std=gate.std(),
        gate_error=gate_error,
    )
