"""The losses of the motion model."""

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

    The probability of an event in bin b is h_b prod_{i<b} (1 - h_i). Where the clip ends, or there is no
    event within the bins, the likelihood is that of no event so far (right censoring).
    """
    bins = torch.arange(EVENT_BINS, device=logits.device)
    hit = (bins == event_bin[..., None]).to(logits.dtype)
    at_risk = (bins <= event_bin[..., None]) & (bins < seen[..., None])
    each = F.binary_cross_entropy_with_logits(logits, hit, reduction="none")
    return (each * at_risk.to(logits.dtype)).sum(dim=-1)


def reliability(model: MotionTransformer, out: MotionOutput, batch: Batch) -> Tensor:
    """Target of the commitment gate, (B, L) in 0..1, without gradient.

    sigmoid(2 (NLL of the base rate - NLL of the model)), in nats over both kinds of event: 1/2 where the
    hazards are as good as the base rate, near 1 where they are better, near 0 where they are worse.
    """
    with torch.no_grad():
        base = model.control.base.view(1, 1, *out.events.shape[2:]).expand_as(out.events)
        base_nll = event_nll(base, batch.event_bin, batch.event_seen).sum(dim=-1)
        model_nll = event_nll(out.events, batch.event_bin, batch.event_seen).sum(dim=-1)
        return torch.sigmoid(2.0 * (base_nll - model_nll))


def losses(
    model: MotionTransformer, out: MotionOutput, batch: Batch, param_weights: Tensor, huber: float = 0.02
) -> dict[str, Tensor]:
    """The terms of the training loss of one batch, scalars by name, without their weights.

    Args:
        model: the model, for its orthogonality and base rates.
        out: its output for ``batch.features``.
        batch: the windows.
        param_weights: (8, 5) weight of every parameter at every horizon.
        huber: error up to which the loss of a parameter is quadratic; beyond it is linear.
    """
    params_divisor, frames_divisor = batch.divisors or (None, None)
    error = F.huber_loss(out.params, batch.params, reduction="none", delta=huber) / huber
    params = _mean((error * param_weights).mean(dim=2), batch.params_weight, params_divisor)
    weight = batch.weight
    events = _mean(
        event_nll(out.events, batch.event_bin, batch.event_seen).sum(dim=-1), weight, frames_divisor
    )
    true_scalars = batch.scalars
    scalar_error = ((out.scalars - true_scalars) ** 2).mean(dim=-1) + (
        (out.initial - true_scalars) ** 2
    ).mean(dim=-1)
    scalars = _mean(scalar_error, weight, frames_divisor)
    gate_error = F.binary_cross_entropy(out.gate, reliability(model, out, batch), reduction="none")
    gate = _mean(gate_error, weight, frames_divisor)
    overlap = model.orthogonality()
    orthogonality = params.new_zeros(()) if overlap is None else overlap.excess
    return {
        "params": params,
        "events": events,
        "scalars": scalars,
        "gate": gate,
        "orthogonality": orthogonality,
    }
