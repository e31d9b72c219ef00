"""Blending only where the body is seen well: poor suits keep what the model said about them.

The linear forecast that :mod:`training.finish.blend` mixes in believes every joint. The trunk knows which are
missing, or tremble, and has learned to make up for it; a share of its correction is lost in the mixture. So
the last layer of the control head learns, from what the trunk's hidden state says, to give that share back:
on clips of the training subjects as six sensors, ten, one or trembling ones show them, the blended model is
to say what it said before; on the same clips whole, what it says now.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch.nn import functional as F

from pyanticip._core import motion_features
from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import CANONICAL_JOINTS
from training.data.corrupt import SUITS, dropped_joints, sensor_noise
from training.data.examples import Example
from training.data.sets import MotionSet

KINDS: Final = (*SUITS, "noise")
EACH: Final = 2
"""Poor versions of every clip."""
POOR_WEIGHT: Final = 0.5
"""What a frame of theirs counts beside one of the whole clip."""
JITTER_DEGREES: Final = (0.1, 1.5)
DRIFT_DEGREES: Final = (0.5, 6.0)

STEPS: Final = 1500
FRAMES: Final = 4096
RATE_OF_LEARNING: Final = 3e-3


def in_poor_suit(
    example: Example, root: np.ndarray, mask: np.ndarray, kind: str, rng: np.random.Generator
) -> Example:
    """A clip as a poor suit shows it, with the whole body's lesson.

    Args:
        example: the clip.
        root: (T, 3) metres.
        mask: (22,) joints its source has.
        kind: one of :data:`KINDS`.
        rng: of the noise.
    """
    quats: np.ndarray = np.asarray(example.quats)
    if kind in SUITS:
        quats, mask = dropped_joints(quats, mask, set(range(len(CANONICAL_JOINTS))) - set(SUITS[kind]))
    else:
        jitter, drift = rng.uniform(*JITTER_DEGREES), rng.uniform(*DRIFT_DEGREES)
        quats, root = sensor_noise(
            quats, root, mask, rng, jitter=float(np.radians(jitter)), drift=float(np.radians(drift))
        )
    rows = motion_features(
        np.ascontiguousarray(quats, np.float32), np.ascontiguousarray(root, np.float32), mask
    )
    return replace(example, features=np.asarray(rows, np.float32))


def _views(takes: MotionSet, clips: Sequence[int], seed: int) -> Iterator[tuple[Example, bool]]:
    """Every clip whole and :data:`EACH` times poor; and whether it is poor."""
    rng = np.random.default_rng(seed)
    for number in clips:
        example = takes.example(number)
        yield example, False
        root, mask = np.asarray(takes.piece(number).root), np.asarray(takes.mask(number))
        for kind in rng.choice(KINDS, EACH, replace=False):
            yield in_poor_suit(example, root, mask, str(kind), rng), True


def distil(
    blended: MotionTransformer,
    before: MotionTransformer,
    takes: MotionSet,
    clips: Sequence[int],
    *,
    steps: int = STEPS,
    seed: int = 0,
) -> float:
    """Teach the last layer of ``blended``, in place, to say what ``before`` said where the suit is poor.

    Args:
        blended: whose parameters at whole bodies stay nearly what they are; trunk, events and the weights
            over the measures are not touched.
        before: what it was made from: the same trunk.
        takes: a set.
        clips: which of its clips, of training subjects.
        steps: of Adam, each on 4,096 frames.
        seed: which poor versions, which frames.

    Returns:
        Mean absolute distance of the parameters from what they should be, over the last tenth of the steps.
    """
    control = blended.control
    count = control.params[0] * control.params[1]
    seen, said, wanted, weight = [], [], [], []
    for example, poor in _views(takes, clips, seed):
        rows = torch.from_numpy(np.array(example.features))[None]
        with torch.no_grad():
            out = blended(rows)
            goal = before(rows) if poor else out
            seen.append(F.gelu(control.first(out.hidden))[0])
        said.append(torch.logit(out.params[0].clamp(1e-6, 1.0 - 1e-6)).flatten(1))
        wanted.append(goal.params[0].flatten(1))
        weight.append(torch.full((len(example), 1), POOR_WEIGHT if poor else 1.0))
    x, base, goals, counts = torch.cat(seen), torch.cat(said), torch.cat(wanted), torch.cat(weight)
    mean, std = x.mean(0), x.std(0) + 1e-3
    x = torch.cat(((x - mean) / std, torch.ones(len(x), 1)), 1)
    found = torch.nn.Parameter(torch.zeros(x.shape[1], count))
    optimizer = torch.optim.Adam([found])
    draw = torch.Generator().manual_seed(seed)
    distances = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE_OF_LEARNING * (1.0 - step / steps) + 1e-5
        rows = torch.randint(0, len(x), (FRAMES,), generator=draw)
        wrong = (torch.sigmoid(base[rows] + x[rows] @ found) - goals[rows]).abs() * counts[rows]
        loss = wrong.mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        distances.append(float(loss.detach()) / float(counts[rows].mean()))
    learned = found.detach()
    change = (learned[:-1] / std[:, None]).T
    with torch.no_grad():
        control.last.weight[:count] += change
        control.last.bias[:count] += learned[-1] - change @ mean
    return float(np.mean(distances[-max(steps // 10, 1) :]))
