"""The training loop, in one process or in those of ``torchrun``."""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pyanticip.motion.atomic import write_atomic
from training.run.files import LAST, fitting
from training.run.launch import Interrupt, Processes
from training.run.module import TrainModule, to_device
from training.run.recorder import OnUpdate, Recorder
from training.run.task import Run


def drive(
    module: TrainModule,
    batches: Iterable[Any],
    record: Recorder,
    run: Run[Any, Any],
    *,
    state: Mapping[str, Any] | None = None,
    idle_weights: bool = False,
) -> None:
    """Train a module to its last step, or until a stop is requested.

    Args:
        module: the module in training.
        batches: from update ``record.start`` on, the parts of every update in turn, each with ``step`` and
            ``part``.
        record: the recorder.
        run: the run.
        state: state to resume from, see :func:`~training.run.files.read_state`; the recorder's own state is
            loaded by the caller.
        idle_weights: whether some weights never get a gradient, which DDP needs to know.

    Raises:
        CheckpointError: the state does not fit this model.
    """
    processes, state_path = run.processes, run.folder / LAST
    state_path.parent.mkdir(exist_ok=True)
    updates = Updates(module, processes, run.device, idle_weights)
    if state is not None:
        with fitting(run.folder):
            updates.load(state)

    def save() -> None:
        if processes.first:
            buffer = io.BytesIO()
            torch.save({**updates.state(), "callbacks": {record.state_key: record.state_dict()}}, buffer)
            write_atomic(state_path, buffer.getbuffer(), durable=True)
        processes.barrier()

    with (
        Interrupt(insist=processes.world == 1).armed() as interrupt,
        _bar(run.options.schedule.steps, record.start, run.quiet or not processes.first) as on_update,
    ):
        record.stop, record.on_update, record.save = interrupt, on_update, save
        record.begin()
        try:
            for batch in batches:
                record.part_done(module, updates.part(batch), batch)
                if record.ended:
                    break
        finally:
            record.close()


class Updates:
    """Updates a module's weights with AdamW: with learning rates per group, gradient accumulation, mixed
    precision and several processes.

    Args:
        module: trained in place, and moved to the device.
        processes: this process's rank among all.
        device: ``"cpu"`` or ``"cuda"``.
        idle_weights: see :func:`drive`.
    """

    def __init__(
        self, module: TrainModule, processes: Processes, device: str, idle_weights: bool = False
    ) -> None:
        run, schedule = module.options.run, module.options.schedule
        module.rank = processes.rank
        self.module, self.accumulate = module.to(device), run.accumulate
        self.done = 0
        """Updates so far, including those before the run was resumed."""
        groups = module.groups()
        self.rates = [group.pop("rate", schedule.learning_rate) for group in groups]
        self.optimiser = torch.optim.AdamW(groups, betas=schedule.betas)
        self.scaler = torch.amp.GradScaler(device, enabled=run.precision == "16")
        self.distributed = processes.world > 1
        self.forward: Any = module
        if self.distributed:
            self.forward = DistributedDataParallel(module, find_unused_parameters=idle_weights)

    def part(self, batch: Any) -> Tensor:
        """Accumulate the gradient of one part, and after an update's last part, update the weights.

        Returns:
            The components of the loss, see :meth:`TrainModule.training_step`.
        """
        if batch.part == 0:
            self.optimiser.zero_grad()
        last = batch.part + 1 == self.accumulate
        # Gradients are synchronised once, with the last part.
        with nullcontext() if last or not self.distributed else self.forward.no_sync():
            with self.module.autocast():
                output = self.forward(to_device(batch, self.module.device))
            self.scaler.scale(output["loss"] / self.accumulate).backward()
        if last:
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate(batch.step)
            self.scaler.unscale_(self.optimiser)
            self.module.clip()
            self.scaler.step(self.optimiser)
            self.scaler.update()
            self.done = batch.step + 1
        parts: Tensor = output["parts"]
        return parts

    def state(self) -> dict[str, Any]:
        """Everything that later updates depend on."""
        return {
            "global_step": self.done,
            "state_dict": self.module.state_dict(),
            "optimizer_states": [self.optimiser.state_dict()],
            "scaler": self.scaler.state_dict(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """See :meth:`state`."""
        self.done = int(state["global_step"])
        self.module.load_state_dict(state["state_dict"])
        self.optimiser.load_state_dict(state["optimizer_states"][0])
        self.scaler.load_state_dict(state.get("scaler") or self.scaler.state_dict())


@contextmanager
def _bar(steps: int, start: int, quiet: bool) -> Iterator[OnUpdate]:
    """A progress bar on stderr; yields the callback to call after every update."""
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, quiet=quiet)
    with Progress(*columns, TextColumn("loss {task.fields[loss]}"), console=console, disable=quiet) as bar:
        task = bar.add_task("training", total=steps, completed=start, loss="")
        last_shown = 0.0

        def update(done: int, loss: Tensor, note: Callable[[], str]) -> None:
            nonlocal last_shown
            # Reading the loss waits for the GPU, so it is done at most every 0.2 s.
            if not quiet and (time.monotonic() - last_shown > 0.2 or done == steps):
                last_shown = time.monotonic()
                bar.update(task, completed=done, loss=f"{float(loss):.4f} {note()}")

        yield update
