"""``pyanticip train motion``: from options to a checkpoint that can play, in the folder of a run."""

import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import MotionTransformer, save_checkpoint
from training.data.batches import Windows
from training.run.files import BEST, LAST, REPORT, alone, check_new, read_state, write_text
from training.run.launch import Processes, processes, resolve_device
from training.run.loop import drive
from training.tasks.motion.data import TrainingData, change_scale, error_weights, statistics, training_data
from training.tasks.motion.folder import (
    CHECKPOINT,
    check_same_data,
    check_same_options,
    create,
    load_run,
    read_options,
)
from training.tasks.motion.module import MotionModule, begun_from, new_model
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.planning import fit_codebook
from training.tasks.motion.record import Record, exhausted, pace
from training.tasks.motion.shrink import shrink
from training.tasks.motion.validation import in_memory, validate
from training.tasks.motion.windows import Feed, check_pieces
from training.teacher.handmade import TEACHER_VERSION


def fit(
    options: MotionTrainOptions | None,
    out: Path | str,
    *,
    data: TrainingData | None = None,
    resume: bool = False,
    quiet: bool = True,
) -> dict[str, Any]:
    """Train a motion model, or go on training it.

    Started by ``torchrun`` it computes with all of its processes: each takes its share of every update.

    Args:
        options: of the run; with ``resume`` None takes those it was begun with.
        out: folder of the run: ``config.json``, ``metrics.csv``, TensorBoard events, ``checkpoints/`` with
            the best weights and the state to go on from; at the end ``report.json`` and ``checkpoint/``, the
            best weights with the graphs of the live path.
        data: what to learn from, where it is at hand already (many runs on the same data); that of
            ``data.path`` by default.
        resume: go on with the run in ``out``, which ends with the weights and the metrics it would have had.
        quiet: no progress bar and no lines.

    Returns:
        What the run did, as in ``report.json``. After Ctrl-C or SIGTERM ``finished`` is False: the state was
        saved and the run can be resumed.

    Raises:
        OptionError: options or data that do not fit, a folder that holds something, other options than the
            run's.
        FormatError: motion that cannot be read, or is not finite.
        CheckpointError: nothing to resume, or a checkpoint that cannot be started from.
        DeviceError: a device that is not there.
    """
    folder = Path(out)
    if resume:
        options = options or read_options(folder)
        check_same_options(folder, options)
    options = options or MotionTrainOptions()
    device = resolve_device(options.run.device, options.run.precision)
    if options.run.threads:
        torch.set_num_threads(options.run.threads)
    with processes(device) as here:
        console = Console(stderr=True, quiet=quiet or not here.first)
        check_pieces(options, here.world)
        if resume and (folder / REPORT).is_file():
            report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
            return report
        # Before sets are built and copies made, which takes a while.
        if not resume and here.first:
            check_new(folder)
        if options.run.init:
            begun_from(options)
        if data is None:
            # The first process may have to build the set that the others then open.
            data = training_data(options, console) if here.first else None
            here.wait()
            data = data or training_data(options)
        for line in data.warnings:
            console.print(f"warning: {line}", markup=False, highlight=False, soft_wrap=True)
        check_labels(options, data)
        mean, std = statistics(data.bare)
        model = new_model(options, torch.from_numpy(mean), torch.from_numpy(std))
        going_on = resume and (folder / LAST).is_file()
        if not going_on and not options.run.init:
            fit_codebook(model, data.bare)
        if resume:
            check_same_data(folder, data.digest)
        elif here.first:
            create(folder, options, model.cfg, data.digest)
        here.wait()
        with alone(folder, first=here.first):
            return _Run(options, folder, data, model, here, device, console).train(going_on, quiet)


def check_labels(options: MotionTrainOptions, data: TrainingData) -> None:
    """Refuse to teach a risk where no clip says which of its frames are bad.

    Raises:
        OptionError: no clip does, and ``loss.risk`` is not 0.
    """
    if (options.loss.risk > 0.0 or options.loss.distrust > 0.0) and all(
        example.bad is None for example in data.train
    ):
        raise OptionError(
            f"option loss.risk and loss.distrust: none of the {len(data.train)} clips and copies of "
            f'{data.source} says which of its frames are bad; make copies with data.recipe = "glitched"'
        )


class _Run:
    """What the parts of one run share."""

    def __init__(
        self,
        options: MotionTrainOptions,
        folder: Path,
        data: TrainingData,
        model: MotionTransformer,
        here: Processes,
        device: str,
        console: Console,
    ) -> None:
        self.options, self.folder, self.data, self.here = options, folder, data, here
        self.device, self.console = device, console
        self.scale: NDArray[np.float64] = change_scale(data.bare)
        weights = torch.from_numpy(error_weights(self.scale)).float()
        self.module = MotionModule(model, weights, options)
        self.windows = Windows(data.train)

    def train(self, resume: bool, quiet: bool) -> dict[str, Any]:
        """Train, then validate the best weights, export them and report."""
        options, folder, here = self.options, self.folder, self.here
        start, ended = 0, False
        if resume:
            state = read_state(folder)
            start = int(state["global_step"])
            (kept,) = (value for value in state["callbacks"].values() if "average" in value)
            # A run that was killed when all was learned and only the export was missing.
            ended = start == options.schedule.steps or exhausted(options, kept["best_step"], start)
        feed = Feed(self.windows, options, start=start, rank=here.rank, world=here.world)
        report = self._facts()
        if not ended:
            begun = time.monotonic()
            record = drive(
                self.module,
                feed,
                lambda stop, on_update: Record(
                    folder, options, self.data, self.scale, self.module, feed, start, stop, on_update
                ),
                pace(options),
                here,
                device=self.device,
                precision=options.run.precision,
                folder=folder,
                start=start,
                resume=resume,
                quiet=quiet,
                idle_weights=self._idle(),
            )
            assert isinstance(record, Record)
            report |= {
                "finished": not record.stopped,
                "step": record.step,
                "best_step": record.best_step,
                "resumed_at": start or None,
                "seconds": round(record.seconds, 3),
                "wall_seconds": round(time.monotonic() - begun, 3),
                **{name: round(value, 4) for name, value in record.speed().items()},
                "frames_per_cpu_second": round(record.frames / here.world / max(record.busy_cpu, 1e-9), 1),
            }
        else:
            report |= {
                "finished": True,
                "step": start,
                "best_step": kept["best_step"],
                "resumed_at": start,
                "seconds": round(kept["seconds"], 3),
            }
        report["stopped_early"] = report["finished"] and report["step"] < options.schedule.steps
        if here.first and report["finished"]:
            report |= self._export(report)
            write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")
        here.wait()
        return report

    def _idle(self) -> bool:
        """Whether parts of the model get no gradient from these options: DDP must be told to expect it."""
        loss, cfg = self.options.loss, self.module.model.cfg
        unused = cfg.bias == "none" or not cfg.gated_events
        return unused or (loss.pose == 0.0 and bool(cfg.pose_horizons))

    def _facts(self) -> dict[str, Any]:
        data, model = self.data, self.module.model
        return {
            "teacher_version": TEACHER_VERSION,
            "options": self.options.to_dict(),
            "copies": self.options.data.copies,
            "parameters": sum(p.numel() for p in model.parameters()),
            "frames": data.frames,
            "frames_with_copies": self.windows.frames,
            "data": data.digest,
            "held_out": {
                "validation": sorted({example.subject for example in data.validation}),
                "test": list(data.test_subjects),
            },
            "warnings": list(data.warnings),
            "processes": self.here.world,
            "device": torch.cuda.get_device_name()
            if self.device == "cuda"
            else platform.processor() or platform.machine(),
            "cpu": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }

    def _export(self, report: dict[str, Any]) -> dict[str, Any]:
        """Judge the best weights, shrink them and write them as a checkpoint."""
        options = self.options
        model = load_run(self.folder)
        held_out = [in_memory(example) for example in self.data.validation]
        found: dict[str, Any] = {"validation": validate(model, held_out, self.scale)}
        if options.run.shrink:
            found["slow_hold"] = shrink(model, held_out)
            found["validation_shrunk"] = validate(model, held_out, self.scale)
        found["export"] = None
        if options.run.export:
            found["export"] = CHECKPOINT
            try:
                save_checkpoint(self.folder / CHECKPOINT, model, training={**report, **found})
            except CheckpointError as error:
                weights = self.folder / BEST
                raise CheckpointError(f"trained, but not exported: {error}; its weights: {weights}") from None
        return found
