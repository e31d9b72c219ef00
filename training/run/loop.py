"""Lightning's loop around a module and its recorder, alone or among the processes of ``torchrun``."""

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.strategies import DDPStrategy, Strategy
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from pyanticip.motion.atomic import write_atomic
from training.run.files import LAST
from training.run.launch import Interrupt, Processes, quiet_lightning
from training.run.recorder import OnUpdate, Recorder

PRECISIONS: Final = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def drive(
    module: pl.LightningModule,
    batches: Any,
    record: Recorder,
    here: Processes,
    *,
    device: str,
    resume: bool,
    quiet: bool,
    idle_weights: bool = False,
) -> None:
    """Train a module to its last step, or until it is told to stop.

    Args:
        module: what is trained.
        batches: what it is trained on, from update ``start`` on.
        record: writes down what the run does, in its folder; has its options.
        here: this process among all.
        device: ``"cpu"`` or ``"cuda"``.
        resume: whether to go on from the state in ``folder``.
        quiet: no progress bar.
        idle_weights: whether some weights never get a gradient, which DDP must be told.
    """
    folder, options = record.folder, record.options
    (folder / LAST).parent.mkdir(exist_ok=True)
    with (
        quiet_lightning(),
        Interrupt(insist=here.world == 1).armed() as interrupt,
        _bar(options.schedule.steps, record.start, quiet or not here.first) as on_update,
    ):
        record.stop, record.on_update = interrupt, on_update
        trainer = pl.Trainer(
            accelerator="gpu" if device == "cuda" else "cpu",
            devices=here.local,
            num_nodes=here.world // here.local,
            strategy=_strategy(here, idle_weights),
            plugins=[TorchElasticEnvironment() if here.world > 1 else LightningEnvironment(), _StateFile()],
            precision=PRECISIONS[options.run.precision],  # type: ignore[arg-type]
            max_epochs=1,
            max_steps=options.schedule.steps,
            accumulate_grad_batches=options.run.accumulate,
            limit_val_batches=0,
            callbacks=[record, _Rearm(interrupt)],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            default_root_dir=folder,
        )
        trainer.fit(module, batches, ckpt_path=folder / LAST if resume else None, weights_only=True)


class _StateFile(TorchCheckpointIO):
    """Writes states where they belong. Lightning's own way goes through the folder of temporary files, which
    may be small, and leaves a copy there when it is killed."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Replace a state, at once."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        write_atomic(Path(path), buffer.getbuffer(), durable=True)


class _Rearm(pl.Callback):
    """Takes the signals back from lightning, whose handlers stop in the middle of an update."""

    def __init__(self, interrupt: Interrupt) -> None:
        self.interrupt = interrupt

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """After lightning has put up its own."""
        self.interrupt.arm()


def _strategy(here: Processes, idle_weights: bool) -> Strategy | str:
    return "auto" if here.world == 1 else DDPStrategy(find_unused_parameters=idle_weights)


@contextmanager
def _bar(steps: int, start: int, quiet: bool) -> Iterator[OnUpdate]:
    """A progress bar on stderr; yields what is to be called after every update."""
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, quiet=quiet)
    with Progress(*columns, TextColumn("loss {task.fields[loss]}"), console=console, disable=quiet) as bar:
        task = bar.add_task("training", total=steps, completed=start, loss="")
        shown = 0.0

        def update(done: int, loss: Tensor, note: Callable[[], str]) -> None:
            nonlocal shown
            # Looking at the loss waits for a GPU: not more often than an eye can follow.
            if not quiet and (time.monotonic() - shown > 0.2 or done == steps):
                shown = time.monotonic()
                bar.update(task, completed=done, loss=f"{float(loss):.4f} {note()}")

        yield update
