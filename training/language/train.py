"""``pyanticip train language``: from options to a trained token model in the folder of a run."""

import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy, Strategy
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from pyanticip.errors import OptionError
from training.language.data import Batches
from training.language.folder import (
    LAST,
    REPORT,
    Run,
    create,
    export,
    open_run,
    read_options,
    read_state,
    write_text,
)
from training.language.launch import Interrupt, Processes, processes, quiet_lightning, resolve_device
from training.language.module import LanguageModule, new_model
from training.language.options import LanguageOptions
from training.language.record import LOSS, Record, read_metrics

PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def train(
    options: LanguageOptions | None, out: Path | str, *, resume: bool = False, quiet: bool = True
) -> dict[str, Any]:
    """Train a token model, or go on training it.

    Started by ``torchrun`` it computes with all of its processes: each takes its share of every batch.

    Args:
        options: of the run; with ``resume`` None takes those it was begun with.
        out: folder of the run: ``config.json``, ``tokenizer.json``, ``metrics.csv``, TensorBoard events,
            ``checkpoints/`` with the best weights and the state to go on from; at the end ``report.json`` and
            ``model/``, the best weights as a checkpoint.
        resume: go on with the run in ``out``, which ends with the weights and the metrics it would have had.
        quiet: no progress bar.

    Returns:
        What the run did, as in ``report.json``. After Ctrl-C or SIGTERM ``finished`` is False: the state was
        saved and the run can be resumed.

    Raises:
        OptionError: options that do not fit, a folder that holds something, other options than the run's.
        FormatError: a text that cannot be read.
        CheckpointError: nothing to resume.
        DeviceError: a device that is not there.
    """
    folder = Path(out)
    options = _resumed(options, folder) if resume else options or LanguageOptions()
    device = resolve_device(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    with processes(device) as here:
        if resume and (folder / REPORT).is_file():
            report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
            return report
        Batches.check(options, here.world)
        if here.first and not resume:
            create(folder, options)
        here.wait()
        run = open_run(folder, options)
        return _fit(run, device, here, resume=resume and (folder / LAST).is_file(), quiet=quiet)


def _resumed(options: LanguageOptions | None, folder: Path) -> LanguageOptions:
    begun = read_options(folder)
    if options is None:
        return begun
    for name, (given, had) in options.differences(begun).items():
        raise OptionError(f"option {name}: the run in {folder} was begun with {had!r}, given {given!r}")
    return options


def _fit(run: Run, device: str, here: Processes, *, resume: bool, quiet: bool) -> dict[str, Any]:
    options, folder = run.options, run.folder
    start = int(read_state(folder)["global_step"]) if resume else 0
    batches = Batches(run.data.train, options, start=start, rank=here.rank, world=here.world)
    (folder / LAST).parent.mkdir(exist_ok=True)
    module = LanguageModule(new_model(options, run.vocab), options)
    begun = time.monotonic()
    with (
        quiet_lightning(),
        Interrupt(insist=here.world == 1).armed() as interrupt,
        _bar(options.steps, start, quiet or not here.first) as on_update,
    ):
        record = Record(run, start, interrupt, on_update)
        trainer = pl.Trainer(
            accelerator="gpu" if device == "cuda" else "cpu",
            devices=here.local,
            num_nodes=here.world // here.local,
            strategy=_strategy(options, here),
            plugins=[TorchElasticEnvironment() if here.world > 1 else LightningEnvironment()],
            precision=PRECISIONS[options.precision],  # type: ignore[arg-type]
            max_epochs=1,
            max_steps=options.steps,
            accumulate_grad_batches=options.accumulate,
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
    report = _report(run, module, record, here, device, time.monotonic() - begun, start)
    if here.first and report["finished"]:
        export(folder, report)
        write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
    here.wait()
    return report


class _Rearm(pl.Callback):
    """Takes the signals back from lightning, whose handlers stop in the middle of an update."""

    def __init__(self, interrupt: Interrupt) -> None:
        self.interrupt = interrupt

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """After lightning has put up its own."""
        self.interrupt.arm()


def _strategy(options: LanguageOptions, here: Processes) -> Strategy | str:
    if here.world == 1:
        return "auto"
    # Parts of the model that the options leave without gradient: DDP must be told to expect it.
    idle = options.supervise == "refined" or options.model.get("bias") == "none"
    return DDPStrategy(find_unused_parameters=idle and options.kind == "anticipatory")


@contextmanager
def _bar(steps: int, start: int, quiet: bool) -> Iterator[Callable[[int, Tensor], None]]:
    """A progress bar on stderr; yields what is to be called after every update."""
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, quiet=quiet)
    with Progress(*columns, TextColumn("loss {task.fields[loss]}"), console=console, disable=quiet) as bar:
        task = bar.add_task("training", total=steps, completed=start, loss="")
        shown = 0.0

        def update(done: int, loss: Tensor) -> None:
            nonlocal shown
            # Looking at the loss waits for a GPU: not more often than an eye can follow.
            if not quiet and (time.monotonic() - shown > 0.2 or done == steps):
                shown = time.monotonic()
                bar.update(task, completed=done, loss=f"{float(loss):.4f}")

        yield update


def _report(
    run: Run, module: LanguageModule, record: Record, here: Processes, device: str, wall: float, start: int
) -> dict[str, Any]:
    options = run.options
    rows = [row for row in read_metrics(run.folder) if LOSS in row] if here.first else []
    late = [row[LOSS] for row in rows if row["step"] > options.steps - 10]
    valid = {name: value for name, value in record.valid.items() if math.isfinite(value)}
    return {
        "finished": not record.stopped,
        "step": module.trainer.global_step,
        "parameters": sum(p.numel() for p in module.model.parameters()),
        "vocab": run.vocab,
        "first_loss": rows[0][LOSS] if rows else None,
        "last_loss": sum(late) / len(late) if late else None,
        "last_ortho_excess": rows[-1]["ortho_excess"] if rows else None,
        "valid": valid,
        "best_step": record.best_step,
        "best_perplexity": math.exp(min(record.best, 700.0)) if record.best_step else None,
        "resumed_at": start or None,
        "seconds": round(record.seconds, 3),
        "tokens_per_second": round(
            (module.trainer.global_step - start) * options.batch * options.seq_len / max(wall, 1e-9)
        ),
        "processes": here.world,
        "device": torch.cuda.get_device_name()
        if device == "cuda"
        else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "options": options.to_dict(),
    }
