"""What a token model is trained to minimise."""

from dataclasses import dataclass, fields

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

    def stacked(self) -> Tensor:
        """All parts without gradient, (10,), in the order of :data:`PARTS`."""
        return torch.stack([getattr(self, name).detach().float() for name in PARTS])


PARTS = tuple(each.name for each in fields(LanguageLosses))
"""Names of the parts."""


def losses(
    model: AnticipatoryTransformer | BaselineTransformer,
    out: LanguageOutput | BaselineOutput,
    targets: Tensor,
    given: Tensor | None,
    options: LanguageOptions,
) -> LanguageLosses:
    """The losses of one batch.

    Args:
        model: what made ``out``; its orthogonality penalty is taken along.
        out: of inputs (B, L).
        targets: (B, L) the tokens that come next.
        given: (B, L, 7) scalars computed from the embeddings; None where the model has no heads.
        options: the weights and what is supervised.
    """
    if not isinstance(model, AnticipatoryTransformer) or not isinstance(out, LanguageOutput):
        ce = F.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten())
        zero = torch.zeros((), dtype=ce.dtype, device=ce.device)
        return LanguageLosses(ce, ce, ce, zero, zero, zero, zero, zero, zero, zero)
    assert given is not None
    gate, wanted = out.gate, given[..., 0]
    if options.loss.gate_feed == "shuffled":
        gate, wanted = shuffled_gate(model, out), shuffled(wanted)
    logits = (out.raw_logits * gate[..., None]).float()
    ce = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    zero = torch.zeros((), dtype=ce.dtype, device=ce.device)
    gate_error = F.mse_loss(gate.float(), wanted)
    refined = F.mse_loss(out.scalars.float(), given)
    initial = F.mse_loss(out.initial.float(), given)
    both = options.loss.supervise == "both"
    found = model.orthogonality()
    ortho, excess = (zero, zero) if found is None else (found.penalty, found.excess)
    if options.loss.scalar_balance:
        shares = [balanced(said, given) for said in (out.scalars, out.initial)]
        supervised = shares[0] + shares[1] if both else shares[0]
    else:
        supervised = refined + initial if both else refined
    total = ce + options.loss.scalar_weight * supervised + options.loss.ortho_weight * ortho
    if options.loss.gate_weight:
        total = total + options.loss.gate_weight * gate_error
    gate = gate.detach().float()
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


def balanced(said: Tensor, given: Tensor) -> Tensor:
    """Mean over the scalars of their squared error as a share of their variance about their position's mean
    in this batch: 1 for predicting that mean."""
    variance = (given - given.mean(0)).square().mean((0, 1)).clamp(min=1e-4)
    return ((said.float() - given).square().mean((0, 1)) / variance).mean()


def shuffled(value: Tensor) -> Tensor:
    """The values (B, L) of a batch in a fixed random order: each position gets another's."""
    generator = torch.Generator().manual_seed(value.numel())
    order = torch.randperm(value.numel(), generator=generator).to(value.device)
    return value.flatten()[order].view(value.shape)


def shuffled_gate(model: AnticipatoryTransformer, out: LanguageOutput) -> Tensor:
    """The gate (B, L) as it is when it is fed the predicted commitment of other positions."""
    gate: Tensor = model.trunk.commitment(out.hidden, shuffled(out.scalars[..., 0])[..., None])
    return gate[..., 0]
