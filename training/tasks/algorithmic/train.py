"""``pyanticip tasks train``: runs of a study, each in a folder of its own, done once."""

import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pyanticip.errors import OptionError
from training.run.files import CONFIG, LAST, REPORT, alone, read_state, write_text
from training.run.launch import Processes, resolve_device
from training.run.loop import drive
from training.tasks.algorithmic.batches import Batches
from training.tasks.algorithmic.folder import Run, create, name_of, open_run
from training.tasks.algorithmic.module import TaskModule, new_model
from training.tasks.algorithmic.options import TaskOptions
from training.tasks.algorithmic.record import Record, pace
from training.tasks.algorithmic.starts import choose


def train(options: TaskOptions, folder: Path, *, quiet: bool = True) -> dict[str, Any]:
    """Train a model on a task, go on where an earlier call was stopped, or do nothing where all is done.

    Args:
        options: of the run; those of a run that is there already must be the same.
        folder: of the run: ``config.json``, ``metrics.csv``, ``checkpoints/``, at the end ``report.json``.
        quiet: no progress bar.

    Returns:
        What the run did. After Ctrl-C or SIGTERM ``finished`` is False: the state was saved, and the same
        call goes on with it and ends with the weights and metrics the run would have had.

    Raises:
        OptionError: options that do not fit, a folder that holds something else or another run.
        DeviceError: a device that is not there.
    """
    device = resolve_device(options.run.device, "32")
    run = _begun(options, folder) if (folder / CONFIG).is_file() else create(folder, options)
    with alone(folder):
        return run.report() if run.finished else _go_on(options, folder, device, quiet=quiet)


def _go_on(options: TaskOptions, folder: Path, device: str, *, quiet: bool) -> dict[str, Any]:
    """Train from the last state, or from the start, to the end."""
    if options.run.threads:
        torch.set_num_threads(options.run.threads)
    resume = (folder / LAST).is_file()
    start = int(read_state(folder)["global_step"]) if resume else 0
    begun, cpu = time.monotonic(), time.process_time()
    tried = choose(options, folder, device, quiet=quiet)
    module = TaskModule(new_model(options, start=tried["start"]), options)
    record = drive(
        module,
        Batches(options, start=start),
        lambda stop, on_update: Record(folder, options, start, stop, on_update),
        pace(options),
        Processes(),
        device=device,
        precision="32",
        folder=folder,
        start=start,
        resume=resume,
        quiet=quiet,
    )
    done = module.trainer.global_step
    report = {
        "finished": not record.stopped,
        "step": done,
        "valid": record.valid,
        "best_step": record.best_step,
        "parameters": sum(p.numel() for p in module.model.parameters()),
        "seconds": round(record.seconds, 2),
        "ms_per_update": round(1000 * record.busy / max(done - start, 1), 2),
        "cpu_ms_per_update": round(1000 * record.busy_cpu / max(done - start, 1), 2),
        "wall": round(time.monotonic() - begun, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "trials": tried,
        "resumed_at": start or None,
        "device": torch.cuda.get_device_name()
        if device == "cuda"
        else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "options": options.to_dict(),
    }
    if report["finished"]:
        write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
    return report


def _begun(options: TaskOptions, folder: Path) -> Run:
    run = open_run(folder)
    for name, (given, had) in options.differences(run.options).items():
        raise OptionError(f"option {name}: the run in {folder} was begun with {had!r}, given {given!r}")
    return Run(folder, options)


def study(
    out: Path,
    options: TaskOptions,
    positions: Sequence[str],
    seeds: Sequence[int],
    *,
    quiet: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train the models of all positions and seeds one after the other; runs that are done are kept.

    Args:
        out: folder of the runs.
        options: of all runs, but for these two.
        positions: see :data:`~training.tasks.algorithmic.options.POSITIONS`.
        seeds: of the runs.
        quiet: no progress bars.
        say: told about every run that is finished.

    Returns:
        ``finished``: whether all came to their ends; ``runs``: the report of each by its name.
    """
    plan = [options.but(positions=each, seed=seed) for seed in seeds for each in positions]
    reports: dict[str, Any] = {}
    for number, one in enumerate(plan, 1):
        name = name_of(one)
        before = (out / name / REPORT).is_file()
        try:
            report = train(one, out / name, quiet=quiet)
        except KeyboardInterrupt:  # before its updates, which end in order by themselves
            say(f"interrupted before the updates of {name}; the same command goes on")
            return {"finished": False, "runs": reports}
        reports[name] = report
        if not report["finished"]:
            say(f"interrupted at update {report['step']} of {name}; the same command goes on")
            return {"finished": False, "runs": reports}
        valid = report["valid"]
        took = "kept" if before else f"{report['seconds']:.0f} s"
        say(
            f"{number}/{len(plan)} {name}: {took}, exact "
            f"{valid['valid_exact']:.3f} at the longest training length, "
            f"{valid['valid_exact_twice']:.3f} at twice that"
        )
    return {"finished": True, "runs": reports}
