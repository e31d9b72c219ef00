"""Train a forecaster on the benchmark's training files."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError
from pyanticip.models.forecast.checkpoint import save_forecaster
from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import ForecastConfig
from training.run.files import new_folder
from training.tasks.forecast.bank import MIRROR, Variation, WindowBank, joint_weights
from training.tasks.forecast.cmu import OBSERVED, PREDICTED, TARGET, Take, load_split
from training.tasks.forecast.evaluate import counted_curves
from training.tasks.forecast.metrics import hold
from training.tasks.forecast.predict import predictor

UNIT: Final = 100.0
"""The network's unit of length in the tables' "mm"."""

JUDGED: Final = (7, 9, 13, 24)
"""Target frames by which runs are compared: nominal 320 ms and later."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class ForecastOptions:
    """Everything that decides a training run but the files.

    ``steps`` of the cosine schedule, ``batch`` windows each; AdamW with ``lr`` and ``decay``; ``average``
    the decay of the running mean of the weights, which is what is judged and kept; ``every`` steps the
    validation clips are judged; ``precision`` 32, or bf16 for the perceptron's training (fast where the
    processor has it); ``threads`` of torch.
    """

    model: ForecastConfig = field(default_factory=lambda: ForecastConfig(mirror=MIRROR))
    variation: Variation = field(default_factory=Variation)
    steps: int = 1000
    batch: int = 256
    lr: float = 1e-3
    decay: float = 0.02
    average: float = 0.998
    every: int = 250
    precision: str = "32"
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "every", "threads"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if not self.lr > 0.0 or not self.decay >= 0.0 or not 0.0 <= self.average < 1.0:
            raise OptionError("lr must be above 0, decay from 0 and average in [0, 1)")
        if self.precision not in ("32", "bf16"):
            raise OptionError(f"precision must be '32' or 'bf16', got {self.precision!r}")
        cfg = self.model
        if (cfg.joints, cfg.observed, cfg.target) != (len(PREDICTED), OBSERVED, TARGET):
            raise OptionError(
                f"the benchmark needs a model of {len(PREDICTED)} joints, {OBSERVED} observed and {TARGET} "
                f"target frames, got {cfg.joints}, {cfg.observed} and {cfg.target}"
            )

    def to_dict(self) -> dict[str, Any]:
        """All options as JSON values."""
        return {**dataclasses.asdict(self), "model": self.model.to_dict()}


def options_from(given: Mapping[str, Any]) -> ForecastOptions:
    """The default options with what is given, by name, of the model, the variation or the run; None: default.

    Raises:
        OptionError: a value out of range.
    """
    given = {name: value for name, value in given.items() if value is not None}
    base = ForecastOptions()
    sizes = {name: given.pop(name) for name in ForecastConfig.model_fields if name in given}
    varied = {f.name for f in dataclasses.fields(base.variation)} & set(given)
    variation = dataclasses.replace(base.variation, **{name: given.pop(name) for name in varied})
    return dataclasses.replace(base, model=base.model.replace(**sizes), variation=variation, **given)


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
        stop: end after this step of the schedule; ``options.steps`` by default.
        say: is told how it goes.

    Raises:
        OptionError: no take is long enough, or the loss is no longer finite.
    """
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    began = time.monotonic()
    bank = WindowBank(takes, options.variation, options.seed)
    model = PoseForecaster(options.model)
    model.mixed = options.precision == "bf16"
    model.fit_normalisation(torch.cat([bank.batch(512) for _ in range(8)]), UNIT)
    weigh, levels = joint_weights(), _levels(bank)
    optimiser = _optimiser(model, options)
    mean = copy.deepcopy(model).eval()
    last = options.steps if stop is None else min(stop, options.steps)
    curve: list[dict[str, float]] = []
    best, best_step, best_weights = math.inf, last, None
    for step in range(1, last + 1):
        rate = options.lr * min(1.0, step / 100) * _cosine(step / options.steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        model.train()
        loss = position_loss(model, bank.batch(options.batch), weigh, levels)
        if not bool(torch.isfinite(loss)):
            raise OptionError(f"the loss is not finite at step {step}: lower lr ({options.lr})")
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        _follow(mean, model, min(options.average, step / (step + 10)))
        if validation and (step % options.every == 0 or step == last):
            score = validation_score(mean, validation)
            curve.append({"step": step, "loss": float(loss.detach()), "ratio": round(score, 5)})
            if score < best:
                best, best_step, best_weights = score, step, copy.deepcopy(mean.state_dict())
            if say:
                say(f"step {step}/{options.steps}: loss {float(loss.detach()):.4f}, ratio {score:.4f}")
        elif say and step % options.every == 0:
            say(f"step {step}/{options.steps}: loss {float(loss.detach()):.4f}")
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


def _cosine(part: float) -> float:
    return 0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * part))


def _optimiser(model: PoseForecaster, options: ForecastOptions) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": options.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.98))


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
