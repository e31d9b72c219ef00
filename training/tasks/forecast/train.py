"""Train a forecaster on the benchmark's training files."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError
from pyanticip.models.forecast.checkpoint import save_forecaster
from pyanticip.models.forecast.forecaster import PoseForecaster
from training.run.files import new_folder
from training.tasks.forecast.bank import WindowBank, joint_weights
from training.tasks.forecast.cmu import OBSERVED, Take, load_split
from training.tasks.forecast.evaluate import counted_curves
from training.tasks.forecast.metrics import hold
from training.tasks.forecast.options import ForecastOptions, ForecastScheduleOptions
from training.tasks.forecast.predict import predictor

UNIT: Final = 100.0
"""The network's unit of length in the tables' "mm"."""

JUDGED: Final = (7, 9, 13, 24)
"""Target frames by which runs are compared: nominal 320 ms and later."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Fit:
    """A trained forecaster: ``model``, the ``step`` its weights are of, and the curve of validation."""

    model: PoseForecaster
    step: int
    curve: list[dict[str, float]]
    seconds: float


def fit(
    takes: Sequence[Take],
    options: ForecastOptions,
    *,
    validation: Sequence[Take] = (),
    stop: int | None = None,
    say: Say | None = None,
) -> Fit:
    """Train on all windows of ``takes``.

    Args:
        takes: the training files.
        options: see there.
        validation: takes to judge by every so often; the best weights are then kept, else the last.
        stop: end after this step of the schedule; all its steps by default.
        say: is told how it goes.

    Raises:
        OptionError: no take is long enough, or the loss is no longer finite.
    """
    schedule, every = options.schedule, options.run.validate_every
    torch.set_num_threads(options.run.threads)
    torch.manual_seed(schedule.seed)
    began = time.monotonic()
    bank = WindowBank(takes, options.data, schedule.seed)
    model = PoseForecaster(options.config())
    model.mixed = options.run.precision == "bf16"
    model.fit_normalisation(torch.cat([bank.batch(512) for _ in range(8)]), UNIT)
    weigh, levels = joint_weights(), _levels(bank)
    optimiser = _optimiser(model, schedule)
    mean = copy.deepcopy(model).eval()
    last = schedule.steps if stop is None else min(stop, schedule.steps)
    curve: list[dict[str, float]] = []
    best, best_step, best_weights = math.inf, last, None
    for step in range(1, last + 1):
        for group in optimiser.param_groups:
            group["lr"] = schedule.learning_rate(step - 1)
        model.train()
        loss = position_loss(model, bank.batch(schedule.batch), weigh, levels)
        if not bool(torch.isfinite(loss)):
            raise OptionError(f"the loss is not finite at step {step}: lower peak_lr ({schedule.peak_lr})")
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), schedule.clip_norm or math.inf)
        optimiser.step()
        _follow(mean, model, min(schedule.ema, step / (step + 10)))
        if validation and (step % every == 0 or step == last):
            score = validation_score(mean, validation)
            curve.append({"step": step, "loss": float(loss.detach()), "ratio": round(score, 5)})
            if score < best:
                best, best_step, best_weights = score, step, copy.deepcopy(mean.state_dict())
            if say:
                say(f"step {step}/{schedule.steps}: loss {float(loss.detach()):.4f}, ratio {score:.4f}")
        elif say and step % every == 0:
            say(f"step {step}/{schedule.steps}: loss {float(loss.detach()):.4f}")
    if best_weights is not None:
        mean.load_state_dict(best_weights)
    return Fit(mean, best_step, curve, round(time.monotonic() - began, 1))


def position_loss(model: PoseForecaster, windows: Tensor, weigh: Tensor, levels: Tensor) -> Tensor:
    """The metric itself at every target frame, each frame relative to how far joints go by then."""
    guess = model.one_view(windows[:, :OBSERVED])
    # The root is rounded off below half a "mm", where its slope would jump.
    apart = ((guess - windows[:, OBSERVED:]).square().sum(-1) + 0.25).sqrt()
    loss: Tensor = torch.mean((apart @ weigh) / levels)
    return loss


def _levels(bank: WindowBank) -> Tensor:
    """Zero velocity's error (25,) at each target frame on drawn windows, "mm"."""
    windows = torch.cat([bank.batch(512) for _ in range(4)])
    moved = (windows[:, OBSERVED:] - windows[:, OBSERVED - 1 : OBSERVED]).norm(dim=-1)
    return torch.mean(moved @ joint_weights(), 0)


def _optimiser(model: PoseForecaster, schedule: ForecastScheduleOptions) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": schedule.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=schedule.peak_lr, betas=schedule.betas)


@torch.no_grad()
def _follow(mean: PoseForecaster, model: PoseForecaster, keep: float) -> None:
    for slow, fast in zip(mean.parameters(), model.parameters(), strict=True):
        slow.lerp_(fast, 1.0 - keep)


def validation_score(model: PoseForecaster, takes: Sequence[Take]) -> float:
    """Mean over :data:`JUDGED` of the ratio to zero velocity, both averaged over takes and actions."""
    own = np.mean(list(counted_curves(takes, predictor(model)).values()), axis=0)
    zero = np.mean(list(counted_curves(takes, hold).values()), axis=0)
    return float((own / zero)[list(JUDGED)].mean())


def train(
    data: Path,
    out: Path,
    options: ForecastOptions,
    *,
    validation: int = 4,
    refit: bool = True,
    graph: bool = True,
    say: Say | None = None,
) -> dict[str, Any]:
    """Train on the benchmark's training files and write ``OUT/checkpoint`` and ``OUT/report.json``.

    Clip ``validation`` of every action is left out to find the step to stop at; then, with ``refit``, a
    second model is trained on all files up to that step. With ``validation=0`` nothing is left out and the
    schedule runs to its end. With ``graph`` the checkpoint has the ONNX graph of the live stream too.

    Raises:
        FormatError: no such files, or one that cannot be read.
        OptionError: an option out of range, no clip of that number, or something in OUT already.
    """
    takes, missing = load_split(data, "train")
    with new_folder(out) as draft:
        return _train(takes, missing, draft, options, validation, refit, graph, say)


def _train(
    takes: Sequence[Take],
    missing: Sequence[str],
    out: Path,
    options: ForecastOptions,
    validation: int,
    refit: bool,
    graph: bool,
    say: Say | None,
) -> dict[str, Any]:
    held = [take for take in takes if take.number == validation]
    kept = [take for take in takes if take.number != validation]
    if validation and not (held and kept):
        raise OptionError(f"validation: expected the number of some of the clips, got {validation}")
    report: dict[str, Any] = {
        "options": options.to_dict(),
        "files": [take.name for take in takes],
        "missing": missing,
        "validation": [take.name for take in held],
        "torch": torch.__version__,
    }
    first = fit(kept, options, validation=held, say=say)
    report |= {"curve": first.curve, "best_step": first.step, "seconds": first.seconds, "refit": False}
    model = first.model
    if validation and refit:
        if say:
            say(f"best at step {first.step}; once more on all {len(takes)} files")
        again = fit(takes, options, stop=first.step, say=say)
        model = again.model
        report |= {"refit": True, "seconds": round(first.seconds + again.seconds, 1)}
    names = report["files"] if report["refit"] or not validation else [take.name for take in kept]
    report["trained_on"] = names
    training = {k: v for k, v in report.items() if k != "curve"}
    save_forecaster(out / "checkpoint", model, training={"benchmark": "cmu", **training}, graph=graph)
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report
