"""``pyanticip train poses``: trains a pose head, an MLP beside the trunk that reads parameters off poses.

It is trained separately, on single frames drawn from all clips and copies, so that its errors differ from
those of the trunk, which does not change; the model then returns the mean of both
(:mod:`pyanticip.models.motion.pose_window`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor

from pyanticip.models import MotionTransformer, save_checkpoint
from pyanticip.models.motion.pose_window import FRAMES, PLACES, ROOT, PoseWindow
from pyanticip.vocabulary import FEATURES_V1, HORIZONS_MS, SCALAR_COLUMNS
from training.data.batches import HORIZONS, TARGET_EDGE, sampling_weights
from training.data.examples import Example
from training.data.sets import MotionSet
from training.evaluate.takes import KINDS
from training.finish import common
from training.report.tables import ProgressCallback, progress_bars
from training.run.averaged import train_averaged
from training.tasks.motion.data import TrainingData, base_set, change_scale, error_weights, training_data
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import measure, run_model

COPIES: Final = 24
STEPS: Final = 12_000
BATCH: Final = 256
MIN_STD: Final = 1e-3
"""Minimum standard deviation of an input, so that one that hardly varies is not amplified."""
RECIPE: Final = "poor_suits"
"""Recipe of the varied copies."""
STREAM_START_SHARE: Final = 0.1
"""Share of windows in which the stream starts within the window."""
NO_ROOT_SHARE: Final = 0.1
"""Share of windows without the motion of the hips, which many suits do not send."""
EVALUATED_MS: Final = (100, 200, 400)
"""Horizons of the evaluation, in ms."""


class Frames:
    """Draws frames from clips; a subject's total weight is the root of its number of frames.

    Args:
        model: whose front-end computes the poses.
        examples: the clips.
        seed: random seed of the draws.
    """

    def __init__(self, model: MotionTransformer, examples: Sequence[Example], seed: int) -> None:
        last = TARGET_EDGE + max(HORIZONS)
        self._model = model
        self._clips = [example for example in examples if len(example) > last + TARGET_EDGE]
        self._room = np.array([len(example) - last - TARGET_EDGE for example in self._clips])
        self._share = sampling_weights(self._room.tolist(), [example.subject for example in self._clips])
        self._draw = np.random.default_rng(seed)

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draw windows of frames (size, FRAMES, 67), and of their last frames scalars (size, 1, 7), feature
        rows (size, 1, 279) and the teacher's parameters (size, 8, 5)."""
        clips = self._draw.choice(len(self._clips), size, p=self._share)
        now = TARGET_EDGE + (self._draw.random(size) * self._room[clips]).astype(np.int64)
        rows = np.zeros((size, FRAMES, self._model.cfg.columns), np.float32)
        targets_array = np.empty((size, len(HORIZONS), 8), np.float32)
        for row, target, clip, at in zip(rows, targets_array, clips.tolist(), now.tolist(), strict=True):
            sample = self._clips[clip].features[max(at + 1 - FRAMES, 0) : at + 1]
            row[-len(sample) :] = sample
            target[:] = self._clips[clip].params[at + np.array(HORIZONS)]
        features = torch.from_numpy(rows)
        first = self._model.cfg.columns
        with torch.no_grad():
            places = self._model.normalised(features)[..., first : first + PLACES]
        starts_inside = self._draw.random(size) < STREAM_START_SHARE
        before = np.where(starts_inside, np.minimum(now, self._draw.integers(0, FRAMES, size)), now)
        # Frames before the stream began are 0, as in an initial state.
        is_real = torch.from_numpy(np.arange(FRAMES) >= FRAMES - 1 - before[:, None])[..., None].float()
        joined = torch.cat((places * is_real, is_real), -1)
        last = features[:, -1:].clone()
        targets = torch.from_numpy(targets_array).transpose(1, 2)
        last[self._draw.random(size) < NO_ROOT_SHARE, :, FEATURES_V1 - ROOT : FEATURES_V1] = 0.0
        return joined, last[..., slice(*SCALAR_COLUMNS)], last, targets


def train_pose_head(
    data: Path,
    out: Path,
    *,
    base: MotionSet | None = None,
    checkpoint: Path | None = None,
    without: Sequence[str] = (),
    copies: int = COPIES,
    steps: int = STEPS,
    seed: int = 0,
    cache: Path | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Train a pose head beside a checkpoint's trunk, and write a new checkpoint with it.

    Args:
        data: a set, or a folder of takes, which is first built into one as ``train motion`` does.
        out: folder of the new checkpoint, written only on success.
        base: that set, if it is already open and its warnings were printed.
        checkpoint: the checkpoint to start from; None for the packaged one. Its pose head is replaced.
        without: training subjects to evaluate on instead of the validation side; not trained on.
        copies: varied copies of each training clip.
        steps: updates, each on 256 frames.
        seed: random seed of weights, copies and draws.
        cache: folder of intermediate files; the user's cache folder by default.
        quiet: whether to show no progress.

    Returns:
        The notes in the checkpoint, and warnings.

    Raises:
        OptionError: a folder that is not empty, unusable data, a model that cannot have a pose head, or one
            that was trained on evaluated subjects.
        FormatError: data without motion, or a set of another version or teacher.
        CheckpointError: not a motion model, or one of another version of the teacher.
    """
    common.check_new(out)
    torch.set_num_threads(1)  # the same result on every machine
    manifest, model = common.load_base_model(checkpoint, "no poses can be read beside it", pose_window=FRAMES)
    console = Console(stderr=True, quiet=quiet)
    data_options = {"path": data, "copies": copies, "copies_seed": seed, "recipe": RECIPE}
    options = MotionTrainOptions().replace(data={**data_options, "cache": "" if cache is None else cache})
    printed = base.warnings if base else ()
    base = base or base_set(options, console)
    stranger_warnings = common.check_strangers(manifest, base, without)
    training = training_data(options, console, base=base, without=without)
    kinds = common.kinds_of(base, training.validation)
    warnings = [*training.warnings, *stranger_warnings]
    common.warn(console, [line for line in warnings if line not in printed])
    with progress_bars(console) as progress:
        new_model = with_poses(model, learn(model, training, steps, seed, progress))
        figures = common.evaluate_both(
            model, new_model, lambda one: evaluate(one, training.validation, kinds), progress
        )
        report = {**common.data_notes(training, copies, without), "steps": steps, "seed": seed, **figures}
        save_checkpoint(out, new_model, training=common.training_notes(manifest, "poses", report))
    return {"checkpoint": str(out), **report, "warnings": warnings}


def learn(
    model: MotionTransformer, training: TrainingData, steps: int, seed: int, progress: ProgressCallback
) -> PoseWindow:
    """Train a pose head on the training side."""
    frames = Frames(model, training.train, seed)
    weights = torch.from_numpy(error_weights(change_scale(training.originals))).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        window = PoseWindow(FRAMES)
        sample = torch.cat([window.inputs(*frames.batch(512)[:3])[:, 0] for _ in range(8)])
        window.mean.copy_(sample.mean(0))
        window.std.copy_(sample.std(0).clamp_min(MIN_STD))

        def loss() -> Tensor:
            *inputs, targets = frames.batch(BATCH)
            errors: Tensor = (window(*inputs)[:, 0] - targets).abs()
            return (errors * weights).mean()

        train_averaged(window.train(), loss, steps, lambda done: progress("learning", done, steps))
    return window


def with_poses(model: MotionTransformer, window: PoseWindow) -> MotionTransformer:
    """A copy of a model with this pose head, otherwise unchanged."""
    copy = MotionTransformer(model.cfg.replace(pose_window=window.frames))
    other_weights = {
        name: value for name, value in model.state_dict().items() if not name.startswith("poses.")
    }
    copy.load_state_dict(other_weights, strict=False)
    assert copy.poses is not None
    copy.poses.load_state_dict(window.state_dict())
    return copy.eval()


def evaluate(
    model: MotionTransformer, examples: Sequence[Example], kinds: Sequence[str]
) -> dict[str, list[float]]:
    """Mean absolute error summed over the parameters, by kind of movement, at :data:`EVALUATED_MS`."""
    columns = [HORIZONS_MS.index(ms) for ms in EVALUATED_MS]
    results: dict[str, list[float]] = {}
    for kind in KINDS:
        clips = [example for example, one in zip(examples, kinds, strict=True) if one == kind]
        errors = measure(clips, lambda example: run_model(model, example).params)
        if len(errors.sums):
            means: NDArray[np.float64] = errors.mean().sum(axis=0)[columns]
            results[kind] = [round(float(value), 4) for value in means]
    return results


def table(report: Mapping[str, Any]) -> Table:
    """Errors by kind of movement, before and after, at each horizon."""
    title = "Error of the eight parameters (0..1), added up"
    rows = common.table_of(title, ("people judged",), EVALUATED_MS)
    for kind, after in report["judged"].items():
        cells = [*report["before"][kind], *after]
        rows.add_row("all" if len(report["judged"]) == 1 else kind, *(f"{value:.3f}" for value in cells))
    return rows
