"""Does the commitment gate follow commitment, and does it buy something that it does?"""

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from pyanticip.models import AnticipatoryTransformer
from training.tasks.token.listen import HeldOut, ScalarsOf
from training.tasks.token.metrics import Array, Predictions, calibration, correlation, perplexity, selective

COVERAGE = 0.5
"""Share of the positions that selective measures keep."""
ROWS = 64
"""Sequences whose commitments change places."""


def gate_report(output: Predictions, *, seed: int = 0) -> dict[str, Any]:
    """The gate beside the given commitment, the predicted one and the loss.

    Correlations over all positions that count, with 95 % intervals over sequences. ``selective_gain``: how
    much lower the mean loss is on the half of the positions with the highest gate than on all of them, which
    is what a half chosen by chance (a gate that knows nothing) has; ``selective_gain_confidence`` the same
    for the half with the most probable first choice. ``calibration_error`` of the first choice's probability.
    """
    assert output.gate is not None
    assert output.given is not None
    assert output.scalars is not None
    assert output.confidence is not None
    gate, given, own, mask = output.gate, output.given[..., 0], output.scalars[..., 0], output.mask
    sure = output.confidence
    chosen = gate[mask]
    everywhere = float(output.loss[mask].mean())
    return {
        "mean": round(float(chosen.mean()), 5),
        "std": round(float(chosen.std()), 6),
        "min": round(float(chosen.min()), 5),
        "max": round(float(chosen.max()), 5),
        "given_std": round(float(given[mask].std()), 5),
        "with_given": correlation(given, gate, mask, seed=seed).to_dict(),
        "with_predicted": correlation(own, gate, mask, seed=seed).to_dict(),
        "with_loss": correlation(gate, output.loss, mask, seed=seed).to_dict(),
        "selective_gain": round(everywhere - selective(output.loss, gate, mask, COVERAGE), 5),
        "calibration_error": round(calibration(output.right, sure, mask), 5),
        "selective_gain_confidence": round(everywhere - selective(output.loss, sure, mask, COVERAGE), 5),
    }


def commitment_report(output: Predictions, *, seed: int = 0) -> dict[str, Any]:
    """Correlation of commitment, predicted and given, with the loss; below 0 is wanted."""
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
    """Loss and gate (N, L) of a model whose gate is fed the commitment of other positions.

    Only what enters the gate is shuffled, over all positions of up to :data:`ROWS` sequences; bias, pathways
    and logits before the gate stay as they are. The gate may know of its position's commitment by the hidden
    state too.
    """
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    losses, gates = [], []
    for start in range(0, len(held.ids), ROWS):
        ids = held.ids[start : start + ROWS]
        seen, next_ids = ids[:, :-1], ids[:, 1:]
        out = model(seen, scalars_of(seen), mode="external")
        commitment = out.scalars[..., 0].flatten()
        other = commitment[torch.randperm(len(commitment), generator=generator).to(ids.device)]
        gate = model.trunk.commitment(out.hidden, other.view(seen.shape)[..., None])
        logits = (out.raw_logits * gate).float()
        loss = F.cross_entropy(logits.flatten(0, 1), next_ids.flatten(), reduction="none")
        losses.append(loss.view(seen.shape).double().cpu().numpy())
        gates.append(gate[..., 0].double().cpu().numpy())
    return np.concatenate(losses), np.concatenate(gates)


def shuffling_report(output: Predictions, loss: Array, gate: Array, *, seed: int = 0) -> dict[str, Any]:
    """What feeding the gate another position's commitment costs, in nats per token."""
    mask = output.mask
    return {
        "loss": round(float(output.loss[mask].mean()), 6),
        "loss_shuffled": round(float(loss[mask].mean()), 6),
        "gain": round(float((loss - output.loss)[mask].mean()), 6),
        "perplexity_shuffled": perplexity(loss, mask, seed=seed).to_dict(),
        "selective_gain_shuffled": round(float(loss[mask].mean()) - selective(loss, gate, mask, COVERAGE), 5),
    }
