"""Measures of the commitment gate: how well it follows commitment, and whether that reduces the loss."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from pyanticip.models import AnticipatoryTransformer
from training.tasks.token.listen import HeldOut, ScalarsOf
from training.tasks.token.metrics import Array, Predictions, calibration, correlation, perplexity, selective

COVERAGE = 0.5
"""Share of the positions that selective measures keep."""
SHUFFLED_SEQUENCES = 64
"""Sequences whose commitments are shuffled among each other."""


def gate_report(output: Predictions, *, seed: int = 0) -> dict[str, Any]:
    """Correlations of the gate with the given commitment, the predicted one and the loss.

    Over all positions that count, with 95 % intervals over sequences. ``selective_gain``: how much lower the
    mean loss is on the half of the positions with the highest gate than on all of them, the expected loss of
    a random half; ``selective_gain_confidence``: the same for the half with the most probable first choice;
    ``calibration_error``: that of the first choice's probability.
    """
    assert output.gate is not None
    assert output.given is not None
    assert output.scalars is not None
    assert output.confidence is not None
    gate, given, own, mask = output.gate, output.given[..., 0], output.scalars[..., 0], output.mask
    confidence = output.confidence
    counted = gate[mask]
    mean_loss = float(output.loss[mask].mean())
    return {
        "mean": round(float(counted.mean()), 5),
        "std": round(float(counted.std()), 6),
        "min": round(float(counted.min()), 5),
        "max": round(float(counted.max()), 5),
        "given_std": round(float(given[mask].std()), 5),
        "with_given": correlation(given, gate, mask, seed=seed).to_dict(),
        "with_predicted": correlation(own, gate, mask, seed=seed).to_dict(),
        "with_loss": correlation(gate, output.loss, mask, seed=seed).to_dict(),
        "selective_gain": round(mean_loss - selective(output.loss, gate, mask, COVERAGE), 5),
        "calibration_error": round(calibration(output.right, confidence, mask), 5),
        "selective_gain_confidence": round(mean_loss - selective(output.loss, confidence, mask, COVERAGE), 5),
    }


def commitment_report(output: Predictions, *, seed: int = 0) -> dict[str, Any]:
    """Correlation of the loss with predicted and given commitment; negative is good."""
    assert output.given is not None
    assert output.scalars is not None
    given, own = output.given[..., 0], output.scalars[..., 0]
    return {
        "predicted": correlation(own, output.loss, output.mask, seed=seed).to_dict(),
        "given": correlation(given, output.loss, output.mask, seed=seed).to_dict(),
        "predicted_with_given": correlation(own, given, output.mask, seed=seed).to_dict(),
    }


@torch.no_grad()
def shuffled_loss(
    model: AnticipatoryTransformer,
    held: HeldOut,
    scalars_of: ScalarsOf,
    *,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Loss and gate (N, L) of a model whose gate gets the commitment of other positions.

    Only the gate's input is shuffled, over all positions of up to :data:`SHUFFLED_SEQUENCES` sequences; bias,
    pathways and logits before the gate stay the same. The gate may also infer its position's commitment from
    the hidden state.
    """
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    losses, gates = [], []
    for start in range(0, len(held.ids), SHUFFLED_SEQUENCES):
        ids = held.ids[start : start + SHUFFLED_SEQUENCES]
        inputs, next_ids = ids[:, :-1], ids[:, 1:]
        out = model(inputs, scalars_of(inputs), mode="external")
        commitment = out.scalars[..., 0].flatten()
        other = commitment[torch.randperm(len(commitment), generator=generator).to(ids.device)]
        gate = model.trunk.commitment(out.hidden, other.view(inputs.shape)[..., None])
        logits = (out.raw_logits * gate).float()
        loss = F.cross_entropy(logits.flatten(0, 1), next_ids.flatten(), reduction="none")
        losses.append(loss.view(inputs.shape).double().cpu().numpy())
        gates.append(gate[..., 0].double().cpu().numpy())
    return np.concatenate(losses), np.concatenate(gates)


def shuffling_report(output: Predictions, loss: Array, gate: Array, *, seed: int = 0) -> dict[str, Any]:
    """Cost of shuffling the gate's commitment, nats per token."""
    mask = output.mask
    return {
        "loss": round(float(output.loss[mask].mean()), 6),
        "loss_shuffled": round(float(loss[mask].mean()), 6),
        "gain": round(float((loss - output.loss)[mask].mean()), 6),
        "perplexity_shuffled": perplexity(loss, mask, seed=seed).to_dict(),
        "selective_gain_shuffled": round(float(loss[mask].mean()) - selective(loss, gate, mask, COVERAGE), 5),
    }
