"""``pyanticip train motion``: from a folder of takes to a checkpoint that can play."""

import platform
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer, load_motion_model, save_checkpoint
from training.batches import HORIZONS, Windows
from training.data import TEST, VALIDATION, Example, load_split, plain, statistics, training_examples
from training.scores import measure, run_model
from training.shrink import shrink
from training.teacher import TEACHER_VERSION
from training.trainer import Trainer, TrainOptions

REFINE: Final = TrainOptions(peak_lr=8e-4, warm_up_steps=100, huber=(0.01, 0.004))
"""How a run goes on from a finished checkpoint."""

STATE_FILE: Final = "training.state"
LOG_FILE: Final = "metrics.csv"
CHECKPOINT: Final = "checkpoint"
DROPOUT: Final = 0.1
PREDICTED_FROM: Final = 2
"""Index of the first horizon that the choice of weights looks at: 100 ms."""


def change_scale(examples: Sequence[Example]) -> NDArray[np.float64]:
    """How far each parameter moves within each horizon, (8, 5): mean |y(t + h) - y(t)|, h at least 100 ms.

    Errors are weighed by its inverse, so that a parameter that moves little is learned as precisely.
    """
    rows = []
    for steps in HORIZONS:
        h = max(steps, HORIZONS[PREDICTED_FROM])
        rows.append(np.concatenate([np.abs(e.params[h:] - e.params[:-h]) for e in examples]).mean(axis=0))
    return np.stack(rows, axis=1).astype(np.float64)


def error_weights(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights (8, 5) with mean 1 for the errors of parameters that move as far as ``scale``."""
    weights = 1.0 / (scale + 0.01)
    return np.asarray(weights / weights.mean(), dtype=np.float64)


def train(
    data_dir: Path | str,
    out: Path | str,
    *,
    steps: int = 2400,
    copies: int = 16,
    seed: int = 0,
    threads: int = 2,
    options: TrainOptions | None = None,
    config: ModelConfig | None = None,
    init: Path | str | None = None,
    cache: Path | str | None = None,
    resume: bool = False,
    interval: int = 200,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train the motion model on the training subjects and write the best checkpoint on the validation ones.

    Args:
        data_dir: folder of CMU takes, or its parent.
        out: folder of the run; the checkpoint is written into ``out/checkpoint``, beside ``metrics.csv``.
        steps: updates.
        copies: varied copies of every piece.
        seed: of weights, windows and variations.
        threads: torch threads.
        options: everything else about the run; its steps, seed and threads are replaced by the above.
        config: sizes of the model; the shipped model's by default.
        init: checkpoint to start from, with its sizes and its normalisation.
        cache: folder for the retargeted motion; read and written where given.
        resume: go on with the interrupted run in ``out``.
        interval: steps between validations, which are also when the state is saved.
        quiet: no progress bar.

    Returns:
        What the run did, as it stands in the checkpoint's ``model.json``.

    Raises:
        FormatError: no usable motion in ``data_dir``.
        OptionError: options that make no sense, or a run in ``out`` that would be overwritten.
        CheckpointError: nothing to resume.
    """
    folder = Path(out)
    state_file = folder / STATE_FILE
    if state_file.exists() and not resume:
        raise OptionError(f"{folder}: an interrupted training is in it; resume it, or give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    given = options or (TrainOptions() if init is None else REFINE)
    settings = TrainOptions(**(asdict(given) | {"steps": steps, "seed": seed, "threads": threads}))
    torch.set_num_threads(threads)
    console = Console(stderr=True, quiet=quiet)
    begun = time.monotonic()

    cache_dir = None if cache is None else Path(cache)
    console.print("reading the takes ...")
    pieces = load_split(Path(data_dir), "train", cache_dir)
    bare = [plain(piece) for piece in pieces]
    held_out = [plain(piece) for piece in load_split(Path(data_dir), "validation", cache_dir)]
    mean, std = statistics(bare)
    scale = change_scale(bare)
    console.print(f"{len(pieces)} pieces, {sum(map(len, bare))} frames; making {copies} copies ...")
    windows = Windows(training_examples(pieces, copies, seed))

    torch.manual_seed(seed)
    if init is None:
        cfg = config or ModelConfig(dropout=DROPOUT)
        model = MotionTransformer(cfg)
        model.set_normalisation(torch.from_numpy(mean), torch.from_numpy(std))
    else:
        model = load_motion_model(init)
        cfg = model.cfg
    weights = torch.from_numpy(error_weights(scale)).float()
    trainer = Trainer(model, windows, weights, settings)
    if resume:
        trainer.restore(state_file)

    best_file = folder / "best.state"
    best = {"score": np.inf, "step": 0.0}
    if resume and best_file.is_file():
        saved = torch.load(best_file, weights_only=True)
        best = {"score": float(saved["score"]), "step": float(saved["step"])}
    judge = MotionTransformer(cfg)

    def validate(step: int, _: dict[str, float]) -> dict[str, float]:
        judge.load_state_dict(trainer.averaged())
        error = measure(held_out, lambda example: run_model(judge, example).params).mean()
        score = float((error / scale)[:, PREDICTED_FROM:].mean())
        if score < best["score"]:
            best.update(score=score, step=float(step))
            torch.save({"score": score, "step": step, "weights": judge.state_dict()}, best_file)
        trainer.save(state_file)
        by_horizon = " ".join(f"{value:.4f}" for value in error.mean(axis=0))
        console.print(f"step {step}: validation {by_horizon}, score {score:.4f}")
        return {"validation": float(error[:, PREDICTED_FROM:].mean()), "score": score}

    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("loss {task.fields[loss]:.4f}"), console=console) as bar:
        task = bar.add_task("training", total=steps, completed=trainer.step, loss=0.0)
        trainer.run(
            log=folder / LOG_FILE,
            on_interval=validate,
            interval=interval,
            on_step=lambda step, parts: bar.update(task, completed=step, loss=parts["total"]),
        )

    judge.load_state_dict(torch.load(best_file, weights_only=True)["weights"])
    slow_hold = shrink(judge, held_out)
    report: dict[str, Any] = {
        "teacher_version": TEACHER_VERSION,
        "options": asdict(settings),
        "copies": copies,
        "best_step": int(best["step"]),
        "slow_hold": slow_hold,
        "frames": int(sum(map(len, bare))),
        "frames_with_copies": windows.frames,
        "held_out": {"validation": list(VALIDATION), "test": list(TEST)},
        "seconds": round(time.monotonic() - begun),
        "cpu": platform.processor() or platform.machine(),
        "torch": torch.__version__,
    }
    save_checkpoint(folder / CHECKPOINT, judge, training=report)
    state_file.unlink(missing_ok=True)
    best_file.unlink(missing_ok=True)
    return report


def ship(run: Path, target: Path) -> None:
    """Copy the files of a finished run's checkpoint, and nothing else, to where the package keeps it."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("model.safetensors", "model.json", "step.onnx", "slow.onnx"):
        shutil.copyfile(run / CHECKPOINT / name, target / name)
