"""What a run writes while it goes: metrics, validations, the best weights, the state to go on from."""

import csv
import io
import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.distributed import ReduceOp, all_reduce, is_initialized
from torch.utils.tensorboard import SummaryWriter

from pyanticip.errors import OptionError
from training.language.data import Batch, Windows
from training.language.folder import LAST, METRICS, TENSORBOARD, Run, save_best, write_text
from training.language.losses import PARTS
from training.language.module import LanguageModule, summed_losses

LOSS: Final = "loss"
"""Column of the paper's loss, the one figures are compared by."""

TRAINED: Final = tuple({"paper": LOSS}.get(name, name) for name in PARTS)
VALIDATED: Final = tuple(f"valid_{name}" for name in TRAINED)
COLUMNS: Final = ("step", "lr", *TRAINED, "grad_norm", "predicted", *VALIDATED, "seconds")
"""Columns of ``metrics.csv``. Rows are means over the steps since the row before; ``predicted`` is the share
of the model's own scalars, ``seconds`` the time spent in updates and validations so far."""


def read_metrics(folder: Path | str) -> list[dict[str, float]]:
    """The rows of a run's ``metrics.csv``; cells that are empty are left out."""
    path = Path(folder) / METRICS
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(v) for name, v in row.items() if v} for row in csv.DictReader(file)]


class Record(pl.Callback):
    """Keeps the books of a run, at the end of every update, in this order: row, validation, best, state.

    Every process calls it, the first one writes. Its own state is part of what is saved, so that a run which
    goes on writes the rows it would have written.

    Args:
        run: where to write, and the data to validate on.
        start: update the run goes on from; rows of later ones, written before it was killed, are dropped.
        stop: asked after every update whether to save and stop.
        on_update: called with (updates done, loss) after every update.
    """

    def __init__(
        self, run: Run, start: int, stop: Callable[[], bool], on_update: Callable[[int, Tensor], None]
    ) -> None:
        self.run, self.options = run, run.options
        self.start, self.stop, self.on_update = start, stop, on_update
        self.world = int(torch.distributed.get_world_size()) if is_initialized() else 1
        self.first = not is_initialized() or torch.distributed.get_rank() == 0
        self.sums: Tensor | None = None
        self.count = 0
        self.seconds = 0.0
        self.best, self.best_step = math.inf, 0
        self.valid: dict[str, float] = {}
        self.stopped = False
        self._since = time.monotonic()
        self._writer: SummaryWriter | None = None

    def state_dict(self) -> dict[str, Any]:
        """Everything that later rows and validations depend on."""
        return {
            "sums": None if self.sums is None else self.sums.cpu(),
            "count": self.count,
            "seconds": self._elapsed(),
            "best": self.best,
            "best_step": self.best_step,
            "valid": dict(self.valid),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`state_dict`."""
        self.sums, self.count = state_dict["sums"], state_dict["count"]
        self.seconds = state_dict["seconds"]
        self.best, self.best_step = state_dict["best"], state_dict["best_step"]
        self.valid = dict(state_dict["valid"])

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Drop what a killed run wrote after its last state. The events are written anew from the rows:
        TensorBoard would order two files of one second by chance."""
        if self.first:
            kept = [row for row in read_metrics(self.run.folder) if row["step"] <= self.start]
            self._rewrite(kept)
            shutil.rmtree(self.run.folder / TENSORBOARD, ignore_errors=True)
            self._writer = SummaryWriter(str(self.run.folder / TENSORBOARD))
            for row in kept:
                self._events(row)
        self._since = time.monotonic()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Count one part; after the last part of an update, do what is due."""
        assert isinstance(pl_module, LanguageModule)
        parts = outputs["parts"]
        zero = torch.zeros(len(PARTS) + 1, device=parts.device)
        self.sums = zero if self.sums is None else self.sums.to(parts.device)
        self.sums[:-1] += parts / self.options.accumulate
        if batch.part + 1 < self.options.accumulate:
            return
        self.sums[-1] += pl_module.grad_norm.to(parts.device)
        self.count += 1
        done = batch.step + 1
        self.on_update(done, parts[PARTS.index("paper")])
        last = done == self.options.steps
        stop = self._agree(self.stop())
        validate = last or done % self.options.eval_every == 0
        save = validate or stop or done % self.options.save_every == 0
        row: dict[str, float] = {}
        if last or done % self.options.log_every == 0:
            row |= self._means(done)
        if validate:
            self.valid = self._validate(pl_module, done)
            row |= self.valid
        if row:
            self._write({"step": done, **row, "seconds": self._elapsed()})
        if validate and self.valid["valid_ce"] < self.best:
            self.best, self.best_step = self.valid["valid_ce"], done
            if self.first:
                save_best(self.run.folder, pl_module.model)
        if save:
            self._save(trainer)
        if stop and not last:
            self.stopped = True
            trainer.should_stop = True

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _elapsed(self) -> float:
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now
        return self.seconds

    def _agree(self, asked: bool) -> bool:
        """Whether any process wants to stop: they all stop at the same update."""
        if self.world == 1:
            return asked
        assert self.sums is not None
        wish = torch.tensor(float(asked), device=self.sums.device)
        all_reduce(wish, ReduceOp.MAX)
        return bool(wish)

    def _share(self) -> None:
        """Replace this process's sums by the mean over all; adding to that and sharing again stays right."""
        if self.world > 1 and self.sums is not None:
            all_reduce(self.sums, ReduceOp.SUM)
            self.sums /= self.world

    def _means(self, done: int) -> dict[str, float]:
        assert self.sums is not None
        self._share()
        means = (self.sums / self.count).tolist()
        self.sums, self.count = None, 0
        row = dict(zip((*TRAINED, "grad_norm"), means, strict=True))
        if not math.isfinite(row["total"]):
            raise OptionError(
                f"the loss became {row['total']} at step {done} or shortly before; try a lower lr (it is "
                f"{self.options.lr:g}) or precision 32"
            )
        options = self.options
        own = 1.0 if options.scalars == "self" else options.sampled(done - 1)
        return {**row, "lr": options.lr * options.rate(done - 1), "predicted": own}

    def _validate(self, module: LanguageModule, done: int) -> dict[str, float]:
        windows: Windows = self.run.data.valid
        rank = torch.distributed.get_rank() if self.world > 1 else 0
        mine = windows.spread(self.options.valid_windows)[rank :: self.world]
        size = max(1, self.options.batch // (self.world * self.options.accumulate))
        pieces = [torch.from_numpy(windows.take(mine[at : at + size])) for at in range(0, len(mine), size)]
        sums = summed_losses(module, pieces)
        if self.world > 1:
            all_reduce(sums, ReduceOp.SUM)
        return dict(zip(VALIDATED, (sums[:-1] / sums[-1]).tolist(), strict=True))

    def _save(self, trainer: pl.Trainer) -> None:
        self._share()
        path = self.run.folder / LAST
        part = path.with_suffix(".part")
        trainer.save_checkpoint(part)
        if self.first:
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(path)

    def _write(self, row: dict[str, float]) -> None:
        if not self.first:
            return
        with (self.run.folder / METRICS).open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(_cells(row))
        self._events(row)

    def _events(self, row: dict[str, float]) -> None:
        assert self._writer is not None
        for name, value in row.items():
            if name != "step":
                group = "valid" if name in VALIDATED else "train"
                self._writer.add_scalar(f"{group}/{name.removeprefix('valid_')}", value, int(row["step"]))
        self._writer.flush()

    def _rewrite(self, rows: list[dict[str, float]]) -> None:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        writer.writerows(_cells(row) for row in rows)
        write_text(self.run.folder / METRICS, text.getvalue())


def _cells(row: dict[str, float]) -> list[str]:
    """The columns of a row, with all digits of single precision."""
    return [f"{row[name]:.9g}" if name in row else "" for name in COLUMNS]
