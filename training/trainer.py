"""The training loop: schedule, averaging of weights, logs, and going on after an interruption."""

import csv
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import MotionTransformer
from training.batches import Batch, Windows
from training.losses import losses


@dataclass(frozen=True)
class TrainOptions:
    """Everything that decides a training run but the data and the model's sizes."""

    steps: int = 2400
    seed: int = 0
    batch_frames: int = 3072
    """Frames of a batch; the number of its windows follows from their length."""
    peak_lr: float = 2e-3
    final_lr: float = 2e-5
    warm_up_steps: int = 200
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    ema: float = 0.998
    """Decay of the averaged weights, which are the ones that are judged and shipped."""
    huber: tuple[float, float] = (0.02, 0.004)
    """Where the parameters' loss turns from quadratic to linear, at the first and at the last step: the large
    errors first, the exactness of a still pose in the end."""
    own_scalars: float = 0.3
    """Share of windows that, at the end of training, are steered by the model's own scalars."""
    threads: int = 2

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch_frames < 1:
            raise OptionError("training needs steps >= 1 and batch_frames >= 1")
        if not min(self.huber) > 0.0:
            raise OptionError("training needs huber > 0")
        if not (0.0 <= self.ema < 1.0 and 0.0 <= self.own_scalars <= 1.0):
            raise OptionError("training needs 0 <= ema < 1 and 0 <= own_scalars <= 1")

    def huber_at(self, step: int) -> float:
        """Geometric from the first to the last."""
        first, last = self.huber
        return float(first * (last / first) ** min(step / self.steps, 1.0))

    def learning_rate(self, step: int) -> float:
        """Linear warm-up, then a cosine from ``peak_lr`` to ``final_lr`` at the last step."""
        if step < self.warm_up_steps:
            return self.peak_lr * (step + 1) / self.warm_up_steps
        done = (step - self.warm_up_steps) / max(self.steps - self.warm_up_steps, 1)
        return self.final_lr + 0.5 * (self.peak_lr - self.final_lr) * (
            1.0 + math.cos(math.pi * min(done, 1.0))
        )


class Trainer:
    """One training run, step by step.

    Args:
        model: trained in place.
        windows: where the batches come from.
        param_weights: (8, 5) weights of the parameters' errors.
        options: see :class:`TrainOptions`.

    Two runs with the same arguments make the same weights; one that was saved and restored half-way as well.
    """

    def __init__(
        self, model: MotionTransformer, windows: Windows, param_weights: Tensor, options: TrainOptions
    ) -> None:
        self.model, self.windows, self.options = model, windows, options
        self.param_weights = param_weights
        self.step = 0
        self.rng = np.random.default_rng(options.seed)
        torch.manual_seed(options.seed)
        decay = [p for p in model.parameters() if p.ndim > 1]
        rest = [p for p in model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": options.weight_decay}, {"params": rest, "weight_decay": 0.0}],
            lr=options.peak_lr,
            betas=(0.9, 0.95),
        )
        self.average = {name: value.detach().clone() for name, value in model.named_parameters()}

    def draw(self) -> Batch:
        """The next batch."""
        return self.windows.draw(self.rng, self.options.batch_frames)

    def train_step(self) -> dict[str, float]:
        """One update; returns the parts of the loss, the gradient's norm and the learning rate."""
        options, model = self.options, self.model
        model.train()
        batch = self.draw()
        shape = batch.features.shape[:2]
        share = options.own_scalars * min(self.step / max(options.steps, 1), 1.0)
        # A whole window is steered by the model's own scalars or by the given ones: as it will be live.
        own = torch.from_numpy(self.rng.random(shape[0]) < share)[:, None].expand(shape)
        out = model(batch.features, predicted=own)
        parts = losses(model, out, batch, self.param_weights, options.huber_at(self.step))
        rate = options.learning_rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(parts.total)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
        self.optimizer.step()
        self.step += 1
        # A young average forgets its start quickly: the usual (1 + t)/(10 + t) ramp.
        keep = min(options.ema, (1.0 + self.step) / (10.0 + self.step))
        with torch.no_grad():
            for name, value in model.named_parameters():
                self.average[name].lerp_(value, 1.0 - keep)
        return parts.values() | {"grad_norm": float(norm), "lr": rate}

    def averaged(self) -> dict[str, Tensor]:
        """The model's state with the averaged weights in place of the last ones."""
        return self.model.state_dict() | {name: value.clone() for name, value in self.average.items()}

    def save(self, path: Path) -> None:
        """Write everything needed to go on; the old file stays until the new one is complete."""
        state: dict[str, Any] = {
            "step": self.step,
            "options": json.dumps(asdict(self.options)),
            "rng": json.dumps(self.rng.bit_generator.state),
            "torch_rng": torch.get_rng_state(),
            "model": self.model.state_dict(),
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
        }
        part = path.with_suffix(".part")
        torch.save(state, part)
        part.replace(path)

    def restore(self, path: Path) -> None:
        """Go on from :meth:`save`.

        Raises:
            CheckpointError: not such a file, or one of a run with other options.
        """
        try:
            state = torch.load(path, weights_only=True)
            options, rng = str(state["options"]), json.loads(state["rng"])
        except (OSError, KeyError, ValueError, RuntimeError, EOFError, UnpicklingError) as error:
            raise CheckpointError(f"{path}: not the state of an interrupted training ({error})") from error
        if json.loads(options) != json.loads(json.dumps(asdict(self.options))):
            raise CheckpointError(f"{path}: was written with other options: {options}")
        self.step = int(state["step"])
        self.rng.bit_generator.state = rng
        torch.set_rng_state(state["torch_rng"])
        self.model.load_state_dict(state["model"])
        self.average = {name: value.clone() for name, value in state["average"].items()}
        self.optimizer.load_state_dict(state["optimizer"])

    def run(
        self,
        *,
        log: Path | None = None,
        every: int = 100,
        on_interval: Callable[[int, dict[str, float]], dict[str, float]] | None = None,
        interval: int = 250,
        on_step: Callable[[int, dict[str, float]], None] | None = None,
    ) -> None:
        """Train to the last step.

        Args:
            log: CSV file that gets the mean of every ``every`` steps, and what ``on_interval`` returns.
            every: steps per line.
            on_interval: called with (step, means) every ``interval`` steps and at the end.
            interval: steps between its calls.
            on_step: called after every step (progress bars).
        """
        sums: dict[str, list[float]] = {}
        begun = time.monotonic()
        while self.step < self.options.steps:
            parts = self.train_step()
            for name, value in parts.items():
                sums.setdefault(name, []).append(value)
            if on_step is not None:
                on_step(self.step, parts)
            last = self.step == self.options.steps
            due = self.step % interval == 0 or last
            if self.step % every == 0 or due:
                row = {name: float(np.mean(values)) for name, values in sums.items()}
                sums.clear()
                row["seconds"] = time.monotonic() - begun
                if due and on_interval is not None:
                    row |= on_interval(self.step, row)
                if log is not None:
                    append_row(log, {"step": self.step, **row})


def append_row(path: Path, row: dict[str, float]) -> None:
    """Append a line to a CSV file; columns that the file does not have yet are left out."""
    columns: list[str]
    if path.is_file():
        with path.open(newline="") as existing:
            columns = next(csv.reader(existing), [])
    else:
        columns = [*row, *(["validation"] if "validation" not in row else [])]
        with path.open("w", newline="") as fresh:
            csv.writer(fresh).writerow(columns)
    with path.open("a", newline="") as file:
        csv.writer(file).writerow([f"{row[name]:.6g}" if name in row else "" for name in columns])
