"""Writes a run's metrics, validations, best weights and the state to resume from."""

import csv
import io
import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributed import ReduceOp, all_gather, all_reduce, is_initialized

from pyanticip.errors import CheckpointError, OptionError, one_line
from pyanticip.motion.atomic import writing
from pyanticip.untrusted import read_text
from training.run.files import BEST, METRICS, TENSORBOARD, save_weights, write_text
from training.run.module import TrainModule
from training.run.options import AveragedScheduleOptions, TrainOptions


def read_metrics(folder: Path | str) -> list[dict[str, float]]:
    """Read the rows of a run's ``metrics.csv``, without empty cells and without an incomplete last row, which
    a full disk or a power cut can leave.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = Path(folder) / METRICS
    if not path.is_file():
        return []
    text = read_text(path, CheckpointError)
    table = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))
    try:
        rows = [{name: float(v) for name, v in row.items() if v} for row in table]
    except (ValueError, TypeError, csv.Error) as error:
        raise CheckpointError(f"{path}: is not a table of numbers: {one_line(error)}") from None
    if not all("step" in row for row in rows):
        raise CheckpointError(f"{path}: is not a table of numbers: a row has no step")
    return rows


OnUpdate = Callable[[int, Tensor, Callable[[], str]], None]
"""Called after every update with the number of updates done, the loss, and a function that returns a note to
show next to it."""


class Recorder(ABC):
    """Records a run. After each update it writes what is due, in this order: metrics row with validation,
    best weights, state.

    Every process calls it, the first one writes. Its own state is saved with the run's, so that a resumed run
    writes the rows of an uninterrupted one. A batch has ``step`` and ``part``; the module's step returns
    ``parts``, the components of the loss named by ``loss_names``; its ``grad_norm`` is the last update's.

    Args:
        folder: the run's folder.
        options: the run's options, which determine its length and what is due when.
        start: update at which the run starts or resumes; rows of later updates, written before the run was
            killed, are dropped.
    """

    columns: tuple[str, ...]
    """Columns of ``metrics.csv``. Rows are means over the steps since the previous row."""
    loss_names: tuple[str, ...]
    """Names of the loss's components."""
    displayed_loss: ClassVar[str]
    """The component shown by the progress bar."""
    selection_metric: ClassVar[str]
    """The validation figure that is minimal for the best weights; if a validation has no figures at all, the
    last weights count as best."""

    state_key = "Record"
    """Key of its state in the saved state."""

    def __init__(self, folder: Path, options: TrainOptions, start: int) -> None:
        self.folder, self.options, self.start = folder, options, start
        self.stop: Callable[[], bool] = lambda: False
        """Called after every update; returns whether to save and stop."""
        self.on_update: OnUpdate = lambda done, loss, note: None
        """See :data:`OnUpdate`."""
        self.save: Callable[[], None] = lambda: None
        """Saves the state to resume from; every process calls it."""
        self.world = int(torch.distributed.get_world_size()) if is_initialized() else 1
        self.rank = int(torch.distributed.get_rank()) if is_initialized() else 0
        self.first = self.rank == 0
        self.step = start
        """Updates done."""
        self.sums: Tensor | None = None
        self.saved_sums: Tensor | None = None
        """The sums that a save writes: with several processes, a row of each one's."""
        self.count = 0
        self.seconds = 0.0
        self.busy = 0.0
        """Wall time in seconds spent on updates, including waiting for batches, since training started or
        resumed."""
        self.busy_cpu = 0.0
        """The same in CPU seconds of this process, over all its threads."""
        self.best, self.best_step = math.inf, 0
        self.valid: dict[str, float] = {}
        self.ended = False
        """Whether training should end after this update."""
        self.stopped = False
        """Whether it ends because a stop was requested."""
        self._counted_until = self._last_end = time.monotonic()
        self._last_end_cpu = time.process_time()
        self._writer: Any = None

    def after_update(self, module: Any, done: int, batch: Any) -> None:
        """Called after every update with its last part, before anything is written."""
        return None

    def extra_columns(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """Further columns of a row of means: the learning rate of the last update."""
        return {"lr": self.options.schedule.learning_rate(done - 1)}

    def note(self) -> str:
        """Text that the progress bar shows next to the loss."""
        return ""

    @abstractmethod
    def validate(self, module: Any, done: int) -> dict[str, float]:
        """The figures of a validation; every process calls it."""

    def save_best(self, module: Any) -> None:
        """Replace the run's best weights; called in the first process."""
        save_weights(self.folder / BEST, module.model.state_dict())

    def should_stop(self) -> bool:
        """Whether to end the run early, as finished; called after every validation."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Everything that later rows and validations depend on."""
        return {
            "sums": None if self.saved_sums is None else self.saved_sums.cpu(),
            "count": self.count,
            "seconds": self._elapsed(),
            "best": self.best,
            "best_step": self.best_step,
            "valid": dict(self.valid),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`state_dict`."""
        self.sums, self.count = state_dict["sums"], state_dict["count"]
        if self.sums is not None and self.sums.ndim > 1:
            rows = self.sums
            self.sums = rows[self.rank] if len(rows) == self.world else rows.mean(0)
        if self.sums is not None and len(self.sums) != len(self.loss_names) + 1:
            self.sums, self.count = None, 0  # an older version with other components: the row starts here
        self.seconds = state_dict["seconds"]
        self.best, self.best_step = state_dict["best"], state_dict["best_step"]
        self.valid = dict(state_dict["valid"])

    def begin(self) -> None:
        """Called before the first update: drops rows that a killed run wrote after its last state. The events
        are rewritten from the rows, as TensorBoard orders two files of the same second arbitrarily."""
        if self.first:
            kept_rows = [row for row in read_metrics(self.folder) if row["step"] <= self.start]
            self._rewrite(kept_rows)
            shutil.rmtree(self.folder / TENSORBOARD, ignore_errors=True)
            if self.options.run.tensorboard:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(str(self.folder / TENSORBOARD))
            for row in kept_rows:
                self._write_events(row)
        self._counted_until = self._last_end = time.monotonic()
        self._last_end_cpu = time.process_time()

    def part_done(self, module: Any, parts: Tensor, batch: Any) -> None:
        """Record one part with its loss components ``parts``; after an update's last part, write what is
        due."""
        self.busy += time.monotonic() - self._last_end
        self.busy_cpu += time.process_time() - self._last_end_cpu
        self._finish_part(module, parts, batch)
        self._last_end, self._last_end_cpu = time.monotonic(), time.process_time()

    def _finish_part(self, module: Any, parts: Tensor, batch: Any) -> None:
        zero = torch.zeros(len(self.loss_names) + 1, device=parts.device)
        self.sums = zero if self.sums is None else self.sums.to(parts.device)
        self.sums[:-1] += parts / self.options.run.accumulate
        if batch.part + 1 < self.options.run.accumulate:
            return
        self.sums[-1] += module.grad_norm.to(parts.device)
        self.count += 1
        done = batch.step + 1
        self.step = done
        self.after_update(module, done, batch)
        self.on_update(done, parts[self.loss_names.index(self.displayed_loss)], self.note)
        last = done == self.options.schedule.steps
        stop = self._any_process(self.stop())
        validate = last or done % self.options.run.validate_every == 0
        save = validate or stop or done % self.options.run.save_every == 0
        row: dict[str, float] = {}
        if last or done % self.options.run.log_every == 0:
            row |= self._means(done)
        if validate:
            self.valid = self.validate(module, done)
            if self.valid and self.selection_metric not in self.valid:
                raise OptionError(
                    f"a validation gives {', '.join(self.valid)}, expected {self.selection_metric}"
                )
            _check_finite(self.selection_metric, self.valid.get(self.selection_metric, 0.0), done)
            row |= self.valid
        if row:
            self._write({"step": done, **row, "seconds": self._elapsed()})
        figure = self.valid.get(self.selection_metric)
        if validate and (figure is None or figure < self.best):
            self.best, self.best_step = self.best if figure is None else figure, done
            if self.first:
                self.save_best(module)
        if save:
            self.saved_sums = self._all_sums()
            self.save()
        enough = validate and self.should_stop()
        self.stopped = stop and not last and not enough
        self.ended = last or enough or self.stopped

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _elapsed(self) -> float:
        now = time.monotonic()
        self.seconds, self._counted_until = self.seconds + now - self._counted_until, now
        return self.seconds

    def _any_process(self, stop_requested: bool) -> bool:
        """Whether any process has a stop request; all stop at the same update."""
        if self.world == 1:
            return stop_requested
        assert self.sums is not None
        request = torch.tensor(float(stop_requested), device=self.sums.device)
        all_reduce(request, ReduceOp.MAX)
        return bool(request)

    def _all_sums(self) -> Tensor | None:
        """The sums of every process, which stay as they are: an extra save, as at an interrupt, must not
        change the digits of a later row."""
        if self.world == 1 or self.sums is None:
            return self.sums
        rows = [torch.empty_like(self.sums) for _ in range(self.world)]
        all_gather(rows, self.sums)
        return torch.stack(rows)

    def _means(self, done: int) -> dict[str, float]:
        assert self.sums is not None
        if self.world > 1:
            all_reduce(self.sums, ReduceOp.SUM)
            self.sums /= self.world
        means = (self.sums / self.count).tolist()
        self.sums, self.count = None, 0
        row = dict(zip((*self.loss_names, "grad_norm"), means, strict=True))
        _check_finite("the loss", row["total"], done)
        return {**row, **self.extra_columns(done, row)}

    def _write(self, row: dict[str, float]) -> None:
        if not self.first:
            return
        path = self.folder / METRICS
        with writing(path), path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(_cells(row, self.columns))
        self._write_events(row)

    def _write_events(self, row: dict[str, float]) -> None:
        if self._writer is None:
            return
        for name, value in row.items():
            if name in self.columns and name != "step":
                group = "valid" if name.startswith("valid_") else "train"
                self._writer.add_scalar(f"{group}/{name.removeprefix('valid_')}", value, int(row["step"]))
        self._writer.flush()

    def _rewrite(self, rows: list[dict[str, float]]) -> None:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(self.columns)
        writer.writerows(_cells(row, self.columns) for row in rows)
        write_text(self.folder / METRICS, text.getvalue())


class AveragingRecorder(Recorder):
    """A :class:`Recorder` that validates and saves the exponential average of the weights.

    Args:
        folder: the run's folder.
        options: the run's options.
        start: update at which the run starts or resumes.
        module: the module in training.
    """

    def __init__(self, folder: Path, options: TrainOptions, start: int, module: TrainModule) -> None:
        super().__init__(folder, options, start)
        self.average = {name: value.detach().clone() for name, value in module.model.named_parameters()}

    def state_dict(self) -> dict[str, Any]:
        """The recorder's state and the averaged weights."""
        return {**super().state_dict(), "average": {name: v.cpu() for name, v in self.average.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`state_dict`."""
        super().load_state_dict(state_dict)
        self.average = {name: value.clone() for name, value in state_dict["average"].items()}

    @torch.no_grad()
    def after_update(self, module: Any, done: int, batch: Any) -> None:
        """Update the average."""
        schedule = self.options.schedule
        assert isinstance(schedule, AveragedScheduleOptions)
        last = {name: value.detach() for name, value in module.model.named_parameters()}
        self.average = {name: value.to(last[name].device) for name, value in self.average.items()}
        torch._foreach_lerp_(
            list(self.average.values()), list(last.values()), 1.0 - schedule.average_decay(done)
        )

    def averaged(self, module: Any) -> dict[str, Tensor]:
        """The model's state with the averaged weights in place of the last ones, on the CPU."""
        state = module.model.state_dict()
        return {name: self.average.get(name, value).detach().cpu() for name, value in state.items()}

    def save_best(self, module: Any) -> None:
        """Replace the run's best weights by the current average."""
        save_weights(self.folder / BEST, self.averaged(module))


def _check_finite(what: str, figure: float, done: int) -> None:
    """Raise an OptionError if a figure is not finite."""
    if not math.isfinite(figure):
        raise OptionError(
            f"{what} became {figure} at step {done} or shortly before; try a lower learning rate or "
            "precision 32"
        )


def _cells(row: dict[str, float], columns: Sequence[str]) -> list[str]:
    """The cells of a row, with all digits of single precision."""
    return [f"{row[name]:.9g}" if name in row else "" for name in columns]
