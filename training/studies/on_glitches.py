"""Held-out movement with bad stretches: forecasts under them, and whether the control field finds them."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from pyanticip._core import motion_features
from pyanticip.models import MotionTransformer
from training.data.batches import HORIZONS
from training.data.examples import Example, Split
from training.data.glitches import KINDS, Glitches, glitch
from training.studies.on_motion import MotionGround
from training.tasks.motion import MotionTrainOptions
from training.tasks.motion.baselines import RIVALS_FILE, Rivals, judged, predict
from training.tasks.motion.losses import JOINT_MASK
from training.tasks.motion.scores import CHUNK

Array = NDArray[np.float64]

CONDITIONS: Final = ("clean", *KINDS)

SEED: Final = 24
"""Of the held-out bad stretches, which are the same for all models."""

STRETCHES: Final = Glitches(share=1.0, per_minute=(24.0, 24.0))

AFTERMATH: Final = 25
"""Frames after a bad one that still count as near it: half a second."""

VELOCITIES: Final = slice(132, 198)
"""Columns of a feature row with the joints' angular velocities."""


@dataclass(frozen=True)
class Clip:
    """A held-out clip under one condition."""

    example: Example
    """What is seen; the targets are those of the clean movement."""
    clean: Example
    bad: NDArray[np.bool_]
    near: NDArray[np.bool_]
    """Bad frames and those up to :data:`AFTERMATH` after one."""


def corrupted(example: Example, root: NDArray[np.float32], kind: str) -> Clip:
    """A clip with bad stretches of one kind, always the same."""
    frames = len(example)
    if kind == "clean":
        return Clip(example, example, np.zeros(frames, np.bool_), np.zeros(frames, np.bool_))
    rng = np.random.default_rng([SEED, zlib.crc32(f"{example.name}/{kind}".encode())])
    mask = np.asarray(example.features[0, JOINT_MASK] > 0.5)
    found = glitch(example.quats, root, mask, rng, replace(STRETCHES, kinds=(kind,)))
    features = np.asarray(motion_features(found.quats, found.root, mask), dtype=np.float32)
    since = np.convolve(found.bad, np.ones(AFTERMATH + 1))[:frames] > 0.5
    seen = replace(example, quats=found.quats, features=features, bad=found.bad)
    return Clip(seen, example, found.bad, since)


class GlitchedGround(MotionGround):
    """Scores by split and subject: for every condition ``NAME``, ``NAME.near`` (frames near a bad one) the
    mean absolute errors (8, 5), and for models with a control field ``auc.NAME``, ``auc_held.NAME``, the area
    under the curve of the risk of a frame, and of the held risk, over bad and good frames."""

    @cached_property
    def clips(self) -> dict[Split, dict[str, list[Clip]]]:
        """The held-out clips under every condition."""
        return {
            split: {kind: [corrupted(e, self.roots[e.name], kind) for e in examples] for kind in CONDITIONS}
            for split, examples in self.held_out.items()
        }

    @cached_property
    def rivals(self) -> dict[str, dict[str, Any]]:
        """Hold of the clean movement, in the frames of every condition; and hold of what is seen, with the
        risk that a jump stands for."""
        hold = Rivals.load(RIVALS_FILE).hold
        return {
            "hold, clean": self._scores(lambda clip: (predict(clip.clean, hold), None)),
            "hold": self._scores(lambda clip: (predict(clip.example, hold), {"": jump(clip.example)})),
        }

    def judge(self, model: MotionTransformer, options: MotionTrainOptions) -> dict[str, Any]:
        """The scores of a model."""
        model.eval()
        return self._scores(lambda clip: listen(model, clip.example))

    def _scores(self, answer: Callable[[Clip], "Answer"]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for split, conditions in self.clips.items():
            rows: dict[str, Any] = {}
            for kind, clips in conditions.items():
                said = [answer(clip) for clip in clips]
                for subject in sorted({clip.example.subject for clip in clips}):
                    mine = [i for i, clip in enumerate(clips) if clip.example.subject == subject]
                    row = rows.setdefault(subject, {})
                    row.update(_row(kind, [clips[i] for i in mine], [said[i] for i in mine]))
            found[split] = {subject: row for subject, row in rows.items() if "clean" in row}
        return found


Answer = tuple[NDArray[np.float32], dict[str, Array] | None]
"""Parameters (T, 8, 5) of a clip; and what should be high for bad frames, (T,) each, by suffix of ``auc``."""


def _row(kind: str, clips: Sequence[Clip], said: Sequence[Answer]) -> dict[str, Any]:
    """The scores of one subject under one condition."""
    row: dict[str, Any] = {}
    whole = mean_error(clips, said, [np.ones(len(clip.example), np.bool_) for clip in clips])
    if whole is not None:
        row[kind] = whole
        row[f"frames.{kind}"] = [sum(len(c.example) for c in clips), sum(int(c.bad.sum()) for c in clips)]
    if kind == "clean":
        return row
    near = mean_error(clips, said, [clip.near for clip in clips])
    if near is not None:
        row[f"{kind}.near"] = near
    bad = np.concatenate([clip.bad for clip in clips])
    for suffix in said[0][1] or {}:
        values = np.concatenate([risks[suffix] for _, risks in said if risks is not None])
        if bad.any() and not bad.all():
            row[f"auc{suffix}.{kind}"] = round(auc(values, bad), 4)
    return row


def mean_error(
    clips: Sequence[Clip], said: Sequence[Answer], chosen: Sequence[NDArray[np.bool_]]
) -> list[list[float]] | None:
    """Mean absolute error (8, 5) of what is said at the chosen frames; None where there is none of them."""
    sums, counts = np.zeros((8, len(HORIZONS))), np.zeros(len(HORIZONS))
    for clip, (params, _), mask in zip(clips, said, chosen, strict=True):
        frames = len(clip.example)
        if not all(judged(frames, horizon).stop > judged(frames, horizon).start for horizon in HORIZONS):
            continue
        for i, horizon in enumerate(HORIZONS):
            span = judged(frames, horizon)
            truth = clip.clean.params[span.start + horizon : span.stop + horizon]
            wrong = np.abs(params[span, :, i].astype(np.float64) - truth)[mask[span]]
            sums[:, i] += wrong.sum(axis=0)
            counts[i] += len(wrong)
    if counts.min() == 0:
        return None
    return [[round(float(value), 6) for value in row] for row in sums / counts]


def listen(model: MotionTransformer, example: Example) -> Answer:
    """What a model says of a clip, as a stream; the risks are means over the blocks of the fast pathway."""
    parts, risks, held, inputs = [], [], [], []
    with torch.no_grad():
        state = model.initial_state(1)
        for start in range(0, len(example), CHUNK):
            out, state = model(torch.from_numpy(example.features[start : start + CHUNK])[None], state)
            parts.append(out.params[0])
            if out.field is not None:
                risks.append(torch.stack([block.risk[0] for block in out.field.fast]).mean(0))
                held.append(torch.stack([block.held[0] for block in out.field.fast]).mean(0))
            if out.distrust is not None:
                inputs.append(out.distrust[0])
    params = torch.cat(parts).numpy()
    if not risks:
        return params, None
    found = {"": risks, "_held": held, "_input": inputs}
    return params, {name: torch.cat(each).double().numpy() for name, each in found.items() if each}


def jump(example: Example) -> Array:
    """How much the fastest change of any joint's angular velocity is, (T,) rad/s a frame: what a detector of
    glitches that learns nothing would look at."""
    turns = np.asarray(example.features[:, VELOCITIES], dtype=np.float64).reshape(len(example), -1, 3)
    change = np.linalg.norm(np.diff(turns, axis=0, prepend=turns[:1]), axis=-1)
    return np.asarray(change.max(axis=1))


def auc(values: Array, positive: NDArray[np.bool_]) -> float:
    """Chance that a positive has a larger value than a negative, ties by half."""
    ranks, n = rankdata(values), int(positive.sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2.0) / (n * (len(values) - n)))
