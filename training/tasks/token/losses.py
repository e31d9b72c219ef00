"""What a token model is trained to minimise."""

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
    """The parts, each a scalar tensor; those a model does not have are zero."""

    total: Tensor
    """What is minimised: ``ce + scalar_weight (scalar_refined [+ scalar_initial]) + ortho_weight ortho``."""
    paper: Tensor
    """The paper's loss, whatever is minimised: ``ce + scalar_refined + 0.1 ortho``."""
    ce: Tensor
    """Cross-entropy of the next token under the gated logits, nats."""
    scalar_refined: Tensor
    """Mean squared error of the refined head over the seven scalars, native units."""
    scalar_initial: Tensor
    ortho: Tensor
    """Orthogonality penalty of the bias network's heads."""
    ortho_excess: Tensor
    """What of it lies above the least that is possible for so many heads."""
    gate_mean: Tensor
    gate_std: Tensor
    """Of the commitment gate over the batch."""
    gate_error: Tensor
    """Mean squared difference of the gate and the given commitment."""
    pieces: Mapping[str, Tensor] = field(default_factory=dict)
    """What the model's own parts are trained to do besides, in ``total`` as well."""

    def stacked(self, pieces: Sequence[str] = ()) -> Tensor:
        """All parts without gradient, in the order of :data:`PARTS`, and those of the ``pieces`` named."""
        told = [*(getattr(self, name) for name in PARTS), *(self.pieces[name] for name in pieces)]
        return torch.stack([each.detach().float() for each in told])


PARTS = tuple(each.name for each in fields(LanguageLosses) if each.name != "pieces")
"""Names of the parts."""


def losses(
    model: AnticipatoryTransformer | BaselineTransformer,
    out: LanguageOutput | BaselineOutput,
    targets: Tensor,
    computed: Tensor | None,
    options: LanguageOptions,
) -> LanguageLosses:
    """The losses of one batch.

    Args:
        model: what made ``out``; its orthogonality penalty is taken along.
        out: of inputs (B, L).
        targets: (B, L) the tokens that come next.
        computed: (B, L, 7) scalars computed from the embeddings; None where the model has no heads.
        options: the weights and what is supervised.
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
    found = model.orthogonality()
    ortho, excess = (zero, zero) if found is None else (found.penalty, found.excess)
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
