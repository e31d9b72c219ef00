"""The trainer: from a task and its options to a trained model in a run's folder."""

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import torch
from rich.console import Console

from pyanticip.errors import OptionError
from training.run.files import CONFIG, LAST, REPORT, fitting, new_folder, read_state, run_lock, write_text
from training.run.launch import process_group, resolve_device
from training.run.loop import drive
from training.run.options import TrainOptions
from training.run.settings import merge
from training.run.task import Run, Task, check_same, read_config, read_options, read_report

Opt = TypeVar("Opt", bound=TrainOptions)
D = TypeVar("D")


def train(
    task: Task[Opt, D], options: Opt | None, out: Path | str, *, resume: bool = False, quiet: bool = True
) -> dict[str, Any]:
    """Train a model, or resume its training.

    Under ``torchrun`` all processes take part: each computes its share of every update.

    Args:
        task: the task to train.
        options: the run's options; None for the defaults, or with ``resume`` for those the run began with.
        out: the run's folder: ``config.json``, ``metrics.csv``, TensorBoard events, ``checkpoints/`` with the
            best weights and the state to resume from, at the end ``report.json``, and the task's own files.
        resume: resume the run in ``out``; the final weights and metrics are those of an uninterrupted run.
        quiet: whether to show no progress bar and no messages.

    Returns:
        The content of ``report.json``. After Ctrl-C or SIGTERM ``finished`` is False: the state was saved and
        the run can be resumed.

    Raises:
        OptionError: options or data that do not fit, a folder that is not empty, or on resuming options other
            than the run's.
        FormatError: data that cannot be read.
        CheckpointError: nothing to resume, or an initial checkpoint that cannot be used.
        DeviceError: the device is not available.
    """
    folder, kind = Path(out), type(task)
    if resume:
        options = options or read_options(kind, folder)
        check_same(kind, folder, options)
        task.check_resume(options, folder)
    options = options or task.options()
    device = resolve_device(options.run.device, options.run.precision)
    if options.run.threads:
        torch.set_num_threads(options.run.threads)
    with process_group(device) as processes:
        if task.single_process and processes.world > 1:
            raise OptionError(f"{task.command} computes in one process, torchrun started {processes.world}")
        task.check(options, processes.world)
        if resume and (folder / REPORT).is_file():
            return read_report(folder)
        console = Console(stderr=True, quiet=quiet or not processes.first)
        if processes.first and not resume:
            with new_folder(folder) as draft:
                extra = task.prepare(options, draft, console)
                config = {
                    "format": task.format_name,
                    "version": task.version,
                    "options": options.to_dict(),
                    **extra,
                }
                write_text(draft / CONFIG, json.dumps(config, indent=1) + "\n")
        processes.barrier()
        config = read_config(kind, folder)
        data = task.open(options, folder, config, processes, console)
        run = Run(folder, options, data, config, processes, device, quiet)
        with run_lock(folder, first=processes.first):
            return _train(task, run, resume=resume and (folder / LAST).is_file())


def _train(task: Task[Opt, D], run: Run[Opt, D], *, resume: bool) -> dict[str, Any]:
    """Train from the last state or from the start, then finish and report."""
    folder, processes, steps = run.folder, run.processes, run.options.schedule.steps
    state = read_state(folder) if resume else {}
    start = int(state.get("global_step", 0))
    module = task.module(run, fresh=not resume)
    batches = task.batches(run, start)
    record = task.recorder(run, module, batches, start)
    if resume:
        with fitting(folder):
            if start > steps:
                raise ValueError(f"update {start} of {steps}")
            record.load_state_dict(state["callbacks"][record.state_key])
    started = time.monotonic()
    # The run may have been killed after its last update or after a validation that ended it.
    validated = start % run.options.run.validate_every == 0
    if not resume or not (start == steps or (validated and record.should_stop())):
        idle = task.idle_weights(run, module)
        drive(module, batches, record, run, state=state or None, idle_weights=idle)
    processor = platform.processor() or platform.machine()
    report = {
        "finished": not record.stopped,
        "step": record.step,
        "best_step": record.best_step,
        "resumed_at": start or None,
        "seconds": round(record.seconds, 3),
        "parameters": sum(p.numel() for p in module.model.parameters()),
        "processes": processes.world,
        "device": torch.cuda.get_device_name() if run.device == "cuda" else "cpu",
        "cpu": processor,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "options": run.options.to_dict(),
        **task.report(run, record, start, time.monotonic() - started),
    }
    report["stopped_early"] = report["finished"] and report["step"] < steps
    if processes.first and report["finished"]:
        report |= task.finish(run, report)
        if report["finished"]:
            write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
    processes.barrier()
    return report


def train_from_command_line(
    task: Task[Opt, D],
    out: Path,
    given: Mapping[str, Any],
    *,
    config: Path | None = None,
    settings: Sequence[str] = (),
    under: Mapping[str, Any] | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Train with the options of a command line.

    Args:
        task: the task to train.
        out: the run's folder.
        given: options by name, dotted or bare; None values are ignored.
        config: TOML file of options.
        settings: further options as ``name=value``; these and ``given`` override the file's.
        under: tables of options that the file overrides.
        resume: resume the run in ``out`` with its own options, with which given ones must agree.
        quiet: whether to show no progress bar.

    Returns:
        The run's report and the lines to print; no lines in processes other than the first.
    """
    over = task.options.assignments(settings, given)
    run_options = read_options(type(task), out).to_dict() if resume else {}
    options = task.options.gather(config, over, under=merge(run_options, under or {}))
    try:
        report = train(task, options, out, resume=resume, quiet=quiet)
    except KeyboardInterrupt:  # before the first update, after the last, or a second one
        if not (out / CONFIG).is_file():
            raise
        report = {"finished": False}
    if int(os.environ.get("RANK", "0")):
        return report, []
    if not report["finished"]:
        kept = f" after step {report['step']}; everything" if "step" in report else "; what was saved"
        return report, [
            f"interrupted{kept} is kept. Go on with:",
            f"  pyanticip {task.command} --out {quote(str(out))} --resume",
        ]
    return report, task.summary_lines(out, report)
