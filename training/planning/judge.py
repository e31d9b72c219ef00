"""What the paper's first two tables ask: how well plans foretell, and how well the next token is foretold."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from pyanticip.models.parts.planning.targets import PlanChoice, divergence, look_ahead
from training.planning.arms import Arm, Planner, no_plans, signal_of


@torch.no_grad()
def judge(
    model: Planner, arm: Arm | None, windows: NDArray[np.int64], length: int, rows: int = 8
) -> dict[str, Any]:
    """Perplexity and divergence on held-out windows.

    What a model reads at a step depends on the tokens up to that step alone: plans are its own, from two
    passes. Plans that were simulated know the future, by design, and are given beside them to show by how
    much a loss in training flatters.

    :param arm: how the model was trained; ``None`` for a backbone.
    :param windows: (N, length + 1 + K) tokens; the first ``length`` of each are read.
    :param length: tokens of a sequence.
    :param rows: windows at a time.
    :returns: ``perplexity`` and ``loss`` of the next token; with plans also ``perplexity_without`` and
        ``perplexity_simulated``; with an anticipator ``divergence``, nats, and ``divergence_unigram`` of the
        training text's frequencies in its place; ``hits``, the share of a plan's weight on codes that come;
        ``named``, how many codes a plan has.
    """
    model.eval()
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}

    def add(name: str, value: Tensor, count: float) -> None:
        sums[name] = sums.get(name, 0.0) + float(value.double().sum())
        counts[name] = counts.get(name, 0.0) + count

    torch.manual_seed(0)  # simulated plans are drawn
    for start in range(0, len(windows), rows):
        ids = torch.from_numpy(windows[start : start + rows])
        inputs, targets = ids[:, :length], ids[:, 1 : length + 1]
        plans: dict[str, PlanChoice | None] = {"own": no_plans(model, len(ids), length)}
        if arm is not None and arm.plans:
            plans = {
                "own": None,
                "without": no_plans(model, len(ids), length),
                "simulated": signal_of(model).simulate(ids, length),
            }
        for name, plan in plans.items():
            out = model(inputs) if plan is None else model(inputs, plan=plan)
            found = F.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten(), reduction="none")
            add(name, found, found.numel())
            if name != "own" or arm is None or not arm.anticipator:
                continue
            signal = signal_of(model)
            ahead = look_ahead(ids, signal.horizon, length)
            add("divergence", divergence(out.anticipation, ahead)[ahead.whole], int(ahead.whole.sum()))
            usual = signal.log_frequency.expand(*inputs.shape, -1).log_softmax(-1)
            add("unigram", divergence(usual, ahead)[ahead.whole], int(ahead.whole.sum()))
            if arm.plans:
                # The plan of step n was made at n - 1.
                comes = look_ahead(ids, signal.horizon, length - 1).dense(signal.vocab) > 0
                weights = out.plan.weights[:, 1:]
                hit = (weights * comes.gather(-1, out.plan.codes[:, 1:])).sum(-1)
                add("hits", hit, hit.numel())
                add("named", (weights > 0).double().sum(-1), hit.numel())
    mean = {name: sums[name] / counts[name] for name in sums}
    report: dict[str, Any] = {
        "loss": mean["own"],
        "perplexity": math.exp(mean["own"]),
        "predictions": int(counts["own"]),
    }
    for name in ("without", "simulated"):
        if name in mean:
            report[f"perplexity_{name}"] = math.exp(mean[name])
    for name, key in (
        ("divergence", "divergence"),
        ("unigram", "divergence_unigram"),
        ("hits", "hits"),
        ("named", "named"),
    ):
        if name in mean:
            report[key] = mean[name]
    return report
