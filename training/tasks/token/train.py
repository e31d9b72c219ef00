"""``pyanticip train language``: from options to a trained token model in the folder of a run."""

import json
import math
import platform
import time
from pathlib import Path
from typing import Any

import torch

from pyanticip.errors import OptionError
from training.run.books import Books, read_metrics
from training.run.files import LAST, REPORT, alone, read_state, write_text
from training.run.launch import Processes, processes, resolve_device
from training.run.loop import drive
from training.tasks.token.data import Batches
from training.tasks.token.folder import Run, create, export, open_run, read_options
from training.tasks.token.module import LanguageModule, new_model
from training.tasks.token.options import LanguageOptions
from training.tasks.token.record import LOSS, Record, pace


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
    device = resolve_device(options.run.device, options.run.precision)
    if options.run.threads:
        torch.set_num_threads(options.run.threads)
    with processes(device) as here:
        if resume and (folder / REPORT).is_file():
            report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
            return report
        Batches.check(options, here.world)
        if here.first and not resume:
            create(folder, options)
        here.wait()
        run = open_run(folder, options)
        with alone(folder, first=here.first):
            return _fit(run, device, here, resume=resume and (folder / LAST).is_file(), quiet=quiet)


def _resumed(options: LanguageOptions | None, folder: Path) -> LanguageOptions:
    begun = read_options(folder)
    if options is None:
        return begun
    check_same(options, folder)
    return options


def check_same(options: LanguageOptions, folder: Path) -> None:
    """Refuse options that a run was not begun with.

    Raises:
        OptionError: one that differs.
    """
    begun = read_options(folder)
    for name, (given, had) in options.differences(begun).items():
        raise OptionError(f"option {name}: the run in {folder} was begun with {had!r}, given {given!r}")


def _fit(run: Run, device: str, here: Processes, *, resume: bool, quiet: bool) -> dict[str, Any]:
    options, folder = run.options, run.folder
    start = int(read_state(folder)["global_step"]) if resume else 0
    batches = Batches(run.data.train, options, start=start, rank=here.rank, world=here.world)
    model = new_model(options, run.vocab)
    if model.planning is not None and not resume:
        tokens = torch.as_tensor(run.data.train.rows.reshape(-1).astype("int64"))
        model.planning.set_frequencies(torch.bincount(tokens, minlength=run.vocab))
    module = LanguageModule(model, options)
    begun = time.monotonic()
    # Parts of the model that the options leave without gradient.
    idle = options.loss.supervise == "refined" or options.model.get("bias") == "none"
    record = drive(
        module,
        batches,
        lambda stop, on_update: Record(run, start, stop, on_update),
        pace(options),
        here,
        device=device,
        precision=options.run.precision,
        folder=folder,
        start=start,
        resume=resume,
        quiet=quiet,
        idle_weights=idle and options.kind == "anticipatory",
    )
    report = _report(run, module, record, here, device, time.monotonic() - begun, start)
    if here.first and report["finished"]:
        export(folder, report)
        write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
    here.wait()
    return report


def _report(
    run: Run, module: LanguageModule, record: Books, here: Processes, device: str, wall: float, start: int
) -> dict[str, Any]:
    options = run.options
    rows = [row for row in read_metrics(run.folder) if LOSS in row] if here.first else []
    late = [row[LOSS] for row in rows if row["step"] > options.schedule.steps - 10]
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
            (module.trainer.global_step - start)
            * options.schedule.batch
            * options.data.seq_len
            / max(wall, 1e-9)
        ),
        "processes": here.world,
        "device": torch.cuda.get_device_name()
        if device == "cuda"
        else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "options": options.to_dict(),
    }
