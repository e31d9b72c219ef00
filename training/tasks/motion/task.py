"""The task ``motion``: trains the motion model, from takes to a checkpoint for ``live``."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_manifest
from pyanticip.models.motion.pose_window import FRAMES
from training.data.batches import LENGTHS, Windows
from training.run.files import BEST, CONFIG
from training.run.launch import Processes
from training.run.module import TrainModule
from training.run.recorder import AveragingRecorder, Recorder
from training.run.task import (
    Run,
    Task,
    check_path_exists,
    check_slow_pathway,
    load_weights,
    read_config,
    read_options,
    without_folders,
)
from training.run.train import train
from training.tasks.motion.data import TrainingData, change_scale, error_weights, statistics, training_data
from training.tasks.motion.module import PIECES, MotionModule, ensemble_of, initial_model, new_model
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.people import training_subjects
from training.tasks.motion.planning import fit_codebook
from training.tasks.motion.validation import COLUMNS, in_memory, row, validate
from training.tasks.motion.windows import Feed, check_pieces
from training.teacher.kinematic_targets import TEACHER_VERSION

SPEED: Final = ("frames_per_second", "loader_wait")
"""Columns of the throughput: frames per second over all processes, and the share of the time spent waiting
for them; of the time outside validations, since training started or resumed."""


class MotionRecorder(AveragingRecorder):
    """See :class:`training.run.recorder.AveragingRecorder`.

    Args:
        folder: folder of the run.
        options: options of the run.
        data: data to validate on.
        scale: (8, 5) changes of the parameters; see :func:`training.tasks.motion.data.change_scale`.
        module: the trained module, whose weights are averaged here.
        feed: source of the batches.
        start: update that the run starts or resumes from.
    """

    columns = ("step", "lr", *PIECES, "grad_norm", *COLUMNS, "seconds", *SPEED)
    loss_names = PIECES
    displayed_loss: ClassVar = "total"
    selection_metric: ClassVar = "valid_score"
    options: MotionTrainOptions

    def __init__(
        self,
        folder: Path,
        options: MotionTrainOptions,
        data: TrainingData,
        scale: NDArray[np.float64],
        module: MotionModule,
        feed: Feed,
        start: int,
    ) -> None:
        super().__init__(folder, options, start, module)
        self.data, self.scale, self.feed = data, scale, feed
        self.judge = MotionTransformer(module.model.cfg).eval()
        self.frames = 0
        """Frames trained on since training started or resumed, over all processes."""

    def after_update(self, module: Any, done: int, batch: Any) -> None:
        """Also count the frames."""
        super().after_update(module, done, batch)
        self.frames += batch.frames

    def extra_columns(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """Learning rate and throughput."""
        return {**super().extra_columns(done, means), **self.speed()}

    def speed(self) -> dict[str, float]:
        """See :data:`SPEED`."""
        busy = max(self.busy, 1e-9)
        return {"frames_per_second": self.frames / busy, "loader_wait": min(self.feed.waited / busy, 1.0)}

    def note(self) -> str:
        """Throughput for the progress bar."""
        speed = self.speed()
        return f"{speed['frames_per_second']:.0f} frames/s, waiting {100 * speed['loader_wait']:.1f} %"

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Validate the averaged weights, each process on its share of the clips."""
        self.judge.load_state_dict(self.averaged(module))
        with torch.random.fork_rng():
            return row(
                validate(self.judge, self.data.validation, self.scale, rank=self.rank, world=self.world)
            )

    def should_stop(self) -> bool:
        """Whether the last ``schedule.patience`` validations were no better than the best."""
        patience = self.options.schedule.patience
        return patience > 0 and self.step - self.best_step >= patience * self.options.run.validate_every


CHECKPOINT: Final = "checkpoint"
"""Folder that a finished run exports the best weights to."""

MotionRun = Run[MotionTrainOptions, TrainingData]


class MotionTask(Task[MotionTrainOptions, TrainingData]):
    """See :class:`~training.run.task.Task`.

    Args:
        data: training data that are already loaded (for many runs on the same data); by default those of
            ``data.path``.
    """

    command: ClassVar = "train motion"
    format_name: ClassVar = "pyanticip-motion-run"
    version: ClassVar = 1
    options = MotionTrainOptions

    def __init__(self, data: TrainingData | None = None) -> None:
        self._data = data
        self._model: MotionTransformer | None = None
        self._checkpoint_people: frozenset[str] = frozenset()

    def check(self, options: MotionTrainOptions, world: int) -> None:
        """Check that there are enough windows for all processes, and the model's sizes and checkpoints."""
        check_pieces(options, world)
        if options.run.init:
            options.check_losses(initial_model(options).cfg)
        else:
            check_slow_pathway(options.config(), LENGTHS[-1])
            with torch.random.fork_rng(devices=[]):
                MotionTransformer(options.config())
        ensemble_of(options)

    def check_resume(self, options: MotionTrainOptions, folder: Path) -> None:
        """Check that the checkpoints of ``run.init`` and ``run.ensemble`` still exist."""
        for name, paths in given_checkpoints(options).items():
            for path in paths:
                check_path_exists(folder, path, name, "--init" if name == "run.init" else f"--set {name}")

    def prepare(self, options: MotionTrainOptions, draft: Path, console: Console) -> dict[str, Any]:
        """Build sets and copies, and create the model's configuration."""
        data = self._read(options, console)
        config = self._new_model(options, data).cfg.to_dict()
        return {"model": config, "data": data.digest, "weights": given_weights(options)}

    def open(
        self,
        options: MotionTrainOptions,
        folder: Path,
        config: Mapping[str, Any],
        processes: Processes,
        console: Console,
    ) -> TrainingData:
        """Open the data; the first process builds the set if necessary, the others wait for it."""
        if self._data is None:
            check_path_exists(folder, options.data.path)
        if processes.first:
            self._read(options, console)
        processes.barrier()
        data = self._read(options, console)
        if config.get("data") != data.digest:
            raise OptionError(f"option data.path: the run in {folder} was begun with other data")
        check_weights(options, folder)
        return data

    def _read(self, options: MotionTrainOptions, console: Console) -> TrainingData:
        if self._data is None:
            self._data = training_data(options, console)
            for line in self._data.warnings:
                console.print(f"warning: {line}", markup=False, highlight=False, soft_wrap=True)
        check_labels(options, self._data)
        self._checkpoint_people = check_held_out(options, self._data)
        return self._data

    def _new_model(self, options: MotionTrainOptions, data: TrainingData) -> MotionTransformer:
        if self._model is None:
            mean, std = statistics(data.originals)
            self._model = new_model(options, torch.from_numpy(mean), torch.from_numpy(std))
        return self._model

    def module(self, run: MotionRun, *, fresh: bool) -> MotionModule:
        """Create the model, or load it from ``run.init``."""
        model = self._new_model(run.options, run.data)
        if fresh and not run.options.run.init:
            fit_codebook(model, run.data.originals)
        weights = torch.from_numpy(error_weights(change_scale(run.data.originals))).float()
        return MotionModule(model, weights, run.options)

    def batches(self, run: MotionRun, start: int) -> Feed:
        """Windows of all training clips and copies."""
        config, processes = self._new_model(run.options, run.data).cfg, run.processes
        return Feed(
            Windows(run.data.train),
            run.options,
            config,
            start=start,
            rank=processes.rank,
            world=processes.world,
        )

    def recorder(self, run: MotionRun, module: TrainModule, batches: Feed, start: int) -> MotionRecorder:
        """Validates the averaged weights on the validation subjects."""
        assert isinstance(module, MotionModule)
        scale = change_scale(run.data.originals)
        return MotionRecorder(run.folder, run.options, run.data, scale, module, batches, start)

    def idle_weights(self, run: MotionRun, module: TrainModule) -> bool:
        """Whether short windows close no pool, which leaves the slow pathway without gradient."""
        cfg = module.model.cfg
        return bool(cfg.slow_layers) and cfg.slow_stride > LENGTHS[0]

    def report(self, run: MotionRun, record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """Data and throughput."""
        assert isinstance(record, MotionRecorder)
        data = run.data
        report: dict[str, Any] = {
            "teacher_version": TEACHER_VERSION,
            "copies": run.options.data.copies,
            "frames": data.frames,
            "frames_with_copies": record.feed.windows.frames,
            "data": data.digest,
            "people": sorted({example.subject for example in data.originals} | self._checkpoint_people),
            "held_out": {
                "validation": sorted({example.subject for example in data.validation}),
                "test": list(data.test_subjects),
            },
            "warnings": list(data.warnings),
        }
        if record.frames:
            frames = record.frames / run.processes.world / max(record.busy_cpu, 1e-9)
            report |= {name: round(value, 4) for name, value in record.speed().items()}
            report |= {"wall_seconds": round(wall, 3), "frames_per_cpu_second": round(frames, 1)}
        return report

    def finish(self, run: MotionRun, report: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the best weights and export them as a checkpoint."""
        options = run.options
        model = load_run(run.folder)
        scale = change_scale(run.data.originals)
        held_out = [in_memory(example) for example in run.data.validation]
        result: dict[str, Any] = {"validation": validate(model, held_out, scale)}
        result["export"] = None
        if options.run.export:
            result["export"] = CHECKPOINT
            try:
                save_checkpoint(run.folder / CHECKPOINT, model, training={**_published(report), **result})
            except CheckpointError as error:
                weights = run.folder / BEST
                raise CheckpointError(f"trained, but not exported: {error}; its weights: {weights}") from None
        return result

    def summary_lines(self, out: Path, report: Mapping[str, Any]) -> list[str]:
        """Validation result, and suggested next commands."""
        early = ", early: no better score came" if report["stopped_early"] else ""
        validation, options = report["validation"], report["options"]["data"]
        data = quote(options["path"]) + (
            f" --cache {quote(options['cache'])}" if options.get("cache") else ""
        )
        lines = [
            f"{report['step']} steps in {report['seconds']:.0f} s{early}; best at step "
            f"{report['best_step']}: error {validation['error']:.4f} from 100 ms on, "
            f"score {validation['score']:.4f}"
        ]
        if "frames_per_second" in report:
            lines.append(
                f"{report['frames_per_second']:.0f} frames a second; the model waited for them "
                f"{100 * report['loader_wait']:.1f} % of the time"
            )
        if report["export"] == CHECKPOINT:
            checkpoint = quote(str(out / CHECKPOINT))
            lines += [
                f"wrote {out / CHECKPOINT}; evaluate it with:",
                f"  pyanticip evaluate motion --data {data} --checkpoint {checkpoint}",
            ]
            if _can_gain(out / CHECKPOINT, pose_window=FRAMES):
                lines += [
                    "a perceptron that reads the last poses reduces its error; training takes ten minutes:",
                    f"  pyanticip train poses --data {data} --checkpoint {checkpoint} "
                    f"--out {quote(str(out / 'poses'))}",
                ]
            if _can_gain(out / CHECKPOINT, strokes=True):
                lines += [
                    "its onsets may improve once its event head reads strokes; training that takes a minute:",
                    f"  pyanticip train beats --data {data} --checkpoint {checkpoint} "
                    f"--out {quote(str(out / 'beats'))}",
                ]
        return lines


def _short(path: str) -> str:
    return "/".join(Path(path).parts[-2:])


def _published(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report as it is published with the checkpoint; of other checkpoints the run's name is kept too."""
    published = without_folders(report, "data.path", "data.recipe")
    options = published["options"]
    options["data"]["cache"] = ""
    options["run"]["init"] = _short(options["run"]["init"])
    options["run"]["ensemble"] = [_short(each) for each in options["run"]["ensemble"]]
    # With what follows a path: alone it may be a part of any text, as "." is.
    path, name = report["options"]["data"]["path"], options["data"]["path"]
    warnings = [line.replace(f"{path}:", f"{name}:") for line in report["warnings"]]
    return {**published, "warnings": warnings}


def fit(
    options: MotionTrainOptions | None,
    out: Path | str,
    *,
    data: TrainingData | None = None,
    resume: bool = False,
    quiet: bool = True,
) -> dict[str, Any]:
    """Train a motion model, or resume training; see :func:`training.run.train.train`.

    Args:
        options: options of the run; with ``resume`` None means those it was started with.
        out: folder of the run, which finally has the best weights in ``checkpoint/``.
        data: as in :class:`MotionTask`.
        resume: resume the run in ``out``.
        quiet: print neither a progress bar nor lines.
    """
    return train(MotionTask(data), options, out, resume=resume, quiet=quiet)


def check_labels(options: MotionTrainOptions, data: TrainingData) -> None:
    """Refuse to train the risk without clips that have labels of bad frames.

    Raises:
        OptionError: no clip has labels, and ``loss.risk`` or ``loss.distrust`` is not 0.
    """
    if (options.loss.risk > 0.0 or options.loss.distrust > 0.0) and all(
        example.bad is None for example in data.train
    ):
        raise OptionError(
            f"option loss.risk and loss.distrust: none of the {len(data.train)} clips and copies of "
            f'{data.source} says which of its frames are bad; make copies with data.recipe = "glitched"'
        )


def check_held_out(options: MotionTrainOptions, data: TrainingData) -> frozenset[str]:
    """Refuse initial and ensemble checkpoints that were trained on subjects held out in this run.

    Returns:
        All people that these checkpoints were trained on.

    Raises:
        OptionError: a checkpoint was; one that does not list its people is accepted.
        CheckpointError: a checkpoint is damaged.
    """
    held_out = {example.subject for example in data.validation} | {*data.test_subjects}
    people = frozenset[str]()
    for name, paths in given_checkpoints(options).items():
        for path in paths:
            learned_from = training_subjects(read_manifest(Path(path)).training)
            if common := sorted(learned_from & held_out):
                raise OptionError(
                    f"option {name}: {path} learned from {', '.join(common)}, whom this run holds out"
                )
            people |= learned_from
    return people


def given_checkpoints(options: MotionTrainOptions) -> dict[str, list[str]]:
    """Paths of the initial and the ensemble checkpoints of a run, by option."""
    run = options.run
    return {"run.init": [run.init] if run.init else [], "run.ensemble": [*run.ensemble]}


def given_weights(options: MotionTrainOptions) -> dict[str, str]:
    """Hash of the weights of each of :func:`given_checkpoints`, by path.

    Raises:
        CheckpointError: a checkpoint is damaged.
    """
    return {
        path: read_manifest(path).sha256[WEIGHTS]
        for paths in given_checkpoints(options).values()
        for path in paths
    }


def check_weights(options: MotionTrainOptions, folder: Path) -> None:
    """Refuse to resume a run with other initial or ensemble checkpoints than it was started with.

    Args:
        options: options of the run; the checkpoints may have moved.
        folder: folder of the run; if it has no hashes of weights, the paths must be the same.

    Raises:
        OptionError: a checkpoint has other weights.
        CheckpointError: a checkpoint or the run is damaged.
    """
    started, hashes = read_options(MotionTask, folder), read_config(MotionTask, folder).get("weights")
    current = given_weights(options)
    for name, paths in given_checkpoints(options).items():
        original = given_checkpoints(started)[name]
        if isinstance(hashes, Mapping):
            same = [hashes.get(path) for path in original] == [current[path] for path in paths]
        else:
            same = original == paths
        if not same:
            what = "other weights"
            if original and not isinstance(hashes, Mapping):
                what = f"{', '.join(original)}, and kept no hash to know it by elsewhere"
            raise OptionError(
                f"option {name}: the run in {folder} was begun with {what}; "
                "delete it to make it again, or give another folder with --out"
            )


def load_run(folder: Path | str, which: Literal["best", "last"] = "best") -> MotionTransformer:
    """Load the model of a run in evaluation mode, on the CPU.

    Args:
        folder: folder of the run, finished or not.
        which: the averaged weights that were best on the validation subjects, or those saved last.

    Raises:
        CheckpointError: there is no run, or no such weights yet.
    """
    try:
        model = MotionTransformer(ModelConfig.from_dict(read_config(MotionTask, folder)["model"]))
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{Path(folder) / CONFIG}: {error}") from None
    load_weights(model, Path(folder), which)
    return model


def _can_gain(checkpoint: Path, **change: Any) -> bool:
    """Whether a checkpoint's model lacks these fields and its configuration allows them."""
    config = read_manifest(checkpoint).config
    try:
        config.replace(**change)
    except OptionError:
        return False
    return not any(getattr(config, name) for name in change)
