"""What ``pyanticip train poses`` does: a perceptron beside the trunk learns to read parameters off poses.

It learns alone, on single frames drawn from all clips and copies, so that it errs apart from the trunk, which
stays as it is; the model then says the mean of both (:mod:`pyanticip.models.motion.pose_window`).
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
from training.data.batches import HORIZONS, TARGET_EDGE, shares
from training.data.examples import Example
from training.data.sets import MotionSet
from training.evaluate.takes import KINDS
from training.finish import common
from training.report.tables import Say, bars
from training.run.averaged import train_averaged
from training.tasks.motion.data import TrainingData, base_set, change_scale, error_weights, training_data
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import measure, run_model

COPIES: Final = 24
STEPS: Final = 12_000
BATCH: Final = 256
LEAST: Final = 1e-3
"""Least deviation of an input: what hardly moves must not be blown up."""
RECIPE: Final = "poor_suits"
"""How copies are made."""
BEGUN: Final = 0.1
"""How often a stream is taken to have begun within the window."""
ROOTLESS: Final = 0.1
"""How often nothing is said of where the hips go, as by many suits."""
JUDGED: Final = (100, 200, 400)


class Frames:
    """Clips to draw frames from; people count by the root of their frames.

    Args:
        model: whose front-end sees the poses.
        examples: the clips.
        seed: of every draw.
    """

    def __init__(self, model: MotionTransformer, examples: Sequence[Example], seed: int) -> None:
        last = TARGET_EDGE + max(HORIZONS)
        self._model = model
        self._clips = [example for example in examples if len(example) > last + TARGET_EDGE]
        self._room = np.array([len(example) - last - TARGET_EDGE for example in self._clips])
        self._share = shares(self._room.tolist(), [example.subject for example in self._clips])
        self._draw = np.random.default_rng(seed)

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Frames with those before them (size, FRAMES, 67), scalars (size, 1, 7), their feature rows
        (size, 1, 279), and what the teacher says (size, 8, 5)."""
        clips = self._draw.choice(len(self._clips), size, p=self._share)
        now = TARGET_EDGE + (self._draw.random(size) * self._room[clips]).astype(np.int64)
        rows = np.zeros((size, FRAMES, self._model.cfg.columns), np.float32)
        wanted = np.empty((size, len(HORIZONS), 8), np.float32)
        for row, target, clip, at in zip(rows, wanted, clips.tolist(), now.tolist(), strict=True):
            seen = self._clips[clip].features[max(at + 1 - FRAMES, 0) : at + 1]
            row[-len(seen) :] = seen
            target[:] = self._clips[clip].params[at + np.array(HORIZONS)]
        features = torch.from_numpy(rows)
        first = self._model.cfg.columns
        with torch.no_grad():
            places = self._model.normalised(features)[..., first : first + PLACES]
        cut = self._draw.random(size) < BEGUN
        before = np.where(cut, np.minimum(now, self._draw.integers(0, FRAMES, size)), now)
        # Frames before a stream began are as its state has them.
        there = torch.from_numpy(np.arange(FRAMES) >= FRAMES - 1 - before[:, None])[..., None].float()
        joined = torch.cat((places * there, there), -1)
        last = features[:, -1:].clone()
        targets = torch.from_numpy(wanted).transpose(1, 2)
        last[self._draw.random(size) < ROOTLESS, :, FEATURES_V1 - ROOT : FEATURES_V1] = 0.0
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
    """Teach a perceptron beside a checkpoint's trunk, and write the checkpoint anew with it.

    Args:
        data: a set, or a folder of takes, which is built into one first as ``train motion`` does.
        out: folder of the new checkpoint; it is there whole or, after an error or Ctrl-C, not at all.
        base: that set, where it is open already and its warnings were told.
        checkpoint: the packaged one where it is None. A perceptron that it has is learned anew.
        without: training subjects to judge on instead of the validation side; nothing is learned from them.
        copies: varied copies of each training clip.
        steps: updates, each on 256 frames.
        seed: of weights, copies and draws.
        cache: folder of what is built on the way; the user's cache folder by default.
        quiet: no progress.

    Returns:
        What is noted in the checkpoint, and what there is to warn of.

    Raises:
        OptionError: a folder that holds something, data that nothing can be learned from, a model that cannot
            have such a perceptron or that learned from who is judged.
        FormatError: no motion there, or a set of another version or teacher.
        CheckpointError: no motion model, or one of another teacher.
    """
    common.check_new(out)
    torch.set_num_threads(1)  # the same figures everywhere
    manifest, model = common.teachable(checkpoint, "no poses can be read beside it", pose_window=FRAMES)
    console = Console(stderr=True, quiet=quiet)
    given = {"path": data, "copies": copies, "copies_seed": seed, "recipe": RECIPE}
    options = MotionTrainOptions().but(data={**given, "cache": "" if cache is None else cache})
    told = base.warnings if base else ()
    base = base or base_set(options, console)
    unsure = common.check_strangers(manifest, base, without)
    training = training_data(options, console, base=base, without=without)
    kinds = common.kinds_of(base, training.validation)
    warnings = [*training.warnings, *unsure]
    common.warn(console, [line for line in warnings if line not in told])
    with bars(console) as progress:
        changed = with_poses(model, learn(model, training, steps, seed, progress))
        figures = common.before_and_after(
            model, changed, lambda one: judged(one, training.validation, kinds), progress
        )
        report = {**common.noted(training, copies, without), "steps": steps, "seed": seed, **figures}
        save_checkpoint(out, changed, training=common.training_of(manifest, "poses", report))
    return {"checkpoint": str(out), **report, "warnings": warnings}


def learn(
    model: MotionTransformer, training: TrainingData, steps: int, seed: int, progress: Say
) -> PoseWindow:
    """A perceptron that has learned from the training side."""
    frames = Frames(model, training.train, seed)
    weights = torch.from_numpy(error_weights(change_scale(training.bare))).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        window = PoseWindow(FRAMES)
        seen = torch.cat([window.inputs(*frames.batch(512)[:3])[:, 0] for _ in range(8)])
        window.mean.copy_(seen.mean(0))
        window.std.copy_(seen.std(0).clamp_min(LEAST))

        def loss() -> Tensor:
            *inputs, wanted = frames.batch(BATCH)
            wrong: Tensor = (window(*inputs)[:, 0] - wanted).abs()
            return (wrong * weights).mean()

        train_averaged(window.train(), loss, steps, lambda done: progress("learning", done, steps))
    return window


def with_poses(model: MotionTransformer, window: PoseWindow) -> MotionTransformer:
    """A copy of a model that has such a perceptron beside its trunk, and all else as it was."""
    copy = MotionTransformer(model.cfg.replace(pose_window=window.frames))
    kept = {name: value for name, value in model.state_dict().items() if not name.startswith("poses.")}
    copy.load_state_dict(kept, strict=False)
    assert copy.poses is not None
    copy.poses.load_state_dict(window.state_dict())
    return copy.eval()


def judged(
    model: MotionTransformer, examples: Sequence[Example], kinds: Sequence[str]
) -> dict[str, list[float]]:
    """Mean absolute error of the parameters, added up, by kind of movement, :data:`JUDGED` ms ahead."""
    columns = [HORIZONS_MS.index(ms) for ms in JUDGED]
    found: dict[str, list[float]] = {}
    for kind in KINDS:
        clips = [example for example, one in zip(examples, kinds, strict=True) if one == kind]
        errors = measure(clips, lambda example: run_model(model, example).params)
        if len(errors.sums):
            wrong: NDArray[np.float64] = errors.mean().sum(axis=0)[columns]
            found[kind] = [round(float(value), 4) for value in wrong]
    return found


def table(report: Mapping[str, Any]) -> Table:
    """Errors by kind of movement, before and after, at each horizon."""
    title = "Error of the eight parameters (0..1), added up"
    found = common.table_of(title, ("people judged",), JUDGED)
    for kind, after in report["judged"].items():
        cells = [*report["before"][kind], *after]
        found.add_row("all" if len(report["judged"]) == 1 else kind, *(f"{value:.3f}" for value in cells))
    return found
