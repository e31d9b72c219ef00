"""What the motion model is trained to minimise."""

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.models import MotionTransformer
from pyanticip.models.motion.transformer import MotionOutput
from pyanticip.vocabulary import EVENT_BINS
from training.data.batches import Batch


def _mean(x: Tensor, weight: Tensor, divisor: float | None) -> Tensor:
    return (x * weight).sum() / (weight.sum().clamp(min=1.0) if divisor is None else max(divisor, 1e-6))


def event_nll(logits: Tensor, event_bin: Tensor, seen: Tensor) -> Tensor:
    """Negative log-likelihood (B, L, E) of the next event under hazard logits (B, L, E, 25).

    The chance of an event in bin b is h_b prod_{i<b} (1 - h_i). Where the clip ends, or nothing comes within
    the bins, the likelihood is that of nothing having come so far (right censoring).
    """
    bins = torch.arange(EVENT_BINS, device=logits.device)
    hit = (bins == event_bin[..., None]).to(logits.dtype)
    at_risk = (bins <= event_bin[..., None]) & (bins < seen[..., None])
    each = F.binary_cross_entropy_with_logits(logits, hit, reduction="none")
    return (each * at_risk.to(logits.dtype)).sum(dim=-1)


def reliability(model: MotionTransformer, out: MotionOutput, batch: Batch) -> Tensor:
    """What the commitment gate should have been, (B, L) in 0..1, without gradient.

    sigmoid(2 (what the base rate pays - what the model pays)), in nats over both kinds of event: 1/2 where
    the hazards knew no more than the base rate, near 1 where they foresaw, near 0 where they were wrong.
    """
    with torch.no_grad():
        base = model.control.base.view(1, 1, *out.events.shape[2:]).expand_as(out.events)
        plain = event_nll(base, batch.event_bin, batch.event_seen).sum(dim=-1)
        paid = event_nll(out.events, batch.event_bin, batch.event_seen).sum(dim=-1)
        return torch.sigmoid(2.0 * (plain - paid))


def losses(
    model: MotionTransformer, out: MotionOutput, batch: Batch, param_weights: Tensor, huber: float = 0.02
) -> dict[str, Tensor]:
    """The pieces of the training loss of one batch, scalars by name; their weights are options.

    Args:
        model: for its orthogonality and its base rates.
        out: what it said about ``batch.features``.
        batch: the windows.
        param_weights: (8, 5) weight of every parameter at every horizon.
        huber: below this error the loss of a parameter is quadratic, beyond it linear.
    """
    known, frames = batch.divisors or (None, None)
    wrong = F.huber_loss(out.params, batch.params, reduction="none", delta=huber) / huber
    params = _mean((wrong * param_weights).mean(dim=2), batch.params_weight, known)
    judged = batch.weight
    events = _mean(event_nll(out.events, batch.event_bin, batch.event_seen).sum(dim=-1), judged, frames)
    given = batch.scalars
    both = ((out.scalars - given) ** 2).mean(dim=-1) + ((out.initial - given) ** 2).mean(dim=-1)
    scalars = _mean(both, judged, frames)
    committed = F.binary_cross_entropy(out.gate, reliability(model, out, batch), reduction="none")
    gate = _mean(committed, judged, frames)
    overlap = model.orthogonality()
    orthogonality = params.new_zeros(()) if overlap is None else overlap.excess
    return {
        "params": params,
        "events": events,
        "scalars": scalars,
        "gate": gate,
        "orthogonality": orthogonality,
    }
