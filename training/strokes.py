"""What there is to hear of a stroke: the curve of speed itself, and how it stands.

:mod:`training.beat_probe` asks what a model's hidden layer knows about arrivals. The layer is too blurred to
tell when a fall of 0.3 octaves is reached, so here hazards also read the causal curve of the ends' speed and
whether a stroke is under way, through one hidden layer, so that a threshold can be learned. The rule that
waits for it is :class:`pyanticip.last_moment.LastMoment`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy.signal import lfilter
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models import MotionTransformer
from pyanticip.models.config import EVENT_BINS
from pyanticip.models.motion.kinematics import MEASURES
from pyanticip.models.motion.smoothed import ENDS
from training.beat_probe import said_of
from training.data.examples import Example
from training.tasks.motion.losses import event_nll
from training.tasks.motion.scores import Said
from training.teacher.handmade import ONSET_FALL, ONSET_FLOOR, ONSET_SPEED
from training.teacher.kinematics import Array

LAGS: Final = (*range(1, 13), *range(14, 50, 2))
"""Frames before now at which the curve is told, relative to now."""
LONGEST: Final = 50
"""Frames up to which the age of a rise or fall is counted."""
STROKES: Final = 1 + len(LAGS) + 6
"""Numbers a frame: the curve now, before now, and how the stroke stands."""
TOLD_DELAY, FOLLOWED_DELAY = 1.0, 2.0
"""Frames by which the curve that is told and the one that is followed are late."""

NARROW: Final = 16
UNITS: Final = 64
DROPPED: Final = 0.2
STEPS: Final = 1200
FRAMES: Final = 1024
RATE_OF_LEARNING: Final = 2e-3
WEIGHT_DECAY: Final = 1e-2
WARM: Final = 100
START: Final = 0.03
"""Hazard per bin before training."""


def _calm(power: Array, delay: float) -> Array:
    """Two one-pole low-passes that delay by so many frames together; the first frame sets them."""
    gain = 1.0 / (1.0 + delay / 2.0)
    for _ in range(2):
        power = lfilter([gain], [1.0, gain - 1.0], power, zi=[(1.0 - gain) * power[0]])[0]
    return np.asarray(np.log2(np.sqrt(np.maximum(power, 0.0)) + ONSET_FLOOR), dtype=np.float64)


def stands(curve: Array) -> Array:
    """How the stroke stands in every frame of a curve of speed, (T, 6).

    1 while it rises; how far it is below its highest, if it rises, and above its lowest, if not; its highest,
    and 1 if that makes a stroke, while it rises; the age of the rise or fall, in :data:`LONGEST`.
    """
    enough = math.log2(ONSET_SPEED + ONSET_FLOOR)
    out = np.zeros((len(curve), 6))
    rising, turn, since = True, float(curve[0]), 0
    for t, value in enumerate(curve.tolist()):
        turn = max(turn, value) if rising else min(turn, value)
        if abs(turn - value) > ONSET_FALL:
            rising, turn, since = not rising, value, t
        apart = abs(turn - value)
        age = min(t - since, LONGEST) / LONGEST
        out[t] = (1.0, apart, 0.0, turn, turn >= enough, age) if rising else (0.0, 0.0, apart, 0.0, 0.0, age)
    return out


def strokes(velocity: Array) -> Array:
    """What there is to hear of strokes in every frame, (T, :data:`STROKES`), from the frames up to it.

    Args:
        velocity: (T, 15) of hands, toes and head, all x, then y, then z, m/s.
    """
    power = (velocity.astype(np.float64) ** 2).sum(axis=1) / len(ENDS)
    curve, now = _calm(power, TOLD_DELAY), np.arange(len(power))
    back = [curve[np.maximum(now - lag, 0)] - curve for lag in LAGS]
    return np.column_stack([curve, *back, stands(_calm(power, FOLLOWED_DELAY))])


def strokes_of(model: MotionTransformer, examples: Sequence[Example]) -> Tensor:
    """:func:`strokes` of all frames of some clips, (N, :data:`STROKES`), half precision."""
    rows = []
    for example in examples:
        with torch.no_grad():
            carried = model.observe(torch.from_numpy(np.array(example.features)))[:, -model.direct :]
        rows.append(torch.from_numpy(strokes(carried[:, :-MEASURES].numpy())).half())
    return torch.cat(rows)


class BeatHead(nn.Module):
    """Hazard logits (N, 25) of what is close at hand (N, C) and of hidden units (N, H), standardised.

    A hidden layer, which reads the units through a narrow one, and a linear part beside it.
    """

    def __init__(self, close: int, units: int) -> None:
        super().__init__()
        self.close = close
        self.narrow = nn.Linear(units, NARROW, bias=False)
        self.first = nn.Linear(close + NARROW, UNITS)
        self.last = nn.Linear(UNITS, EVENT_BINS)
        self.skip = nn.Linear(close + units, EVENT_BINS, bias=False)
        nn.init.zeros_(self.skip.weight)
        nn.init.constant_(self.last.bias, math.log(START / (1.0 - START)))

    def forward(self, seen: Tensor) -> Tensor:
        """Of both side by side, (N, C + H)."""
        close, units = seen[:, : self.close], F.dropout(seen[:, self.close :], DROPPED, self.training)
        inner = F.gelu(self.first(torch.cat((close, self.narrow(units)), 1)))
        logits: Tensor = self.last(F.dropout(inner, DROPPED, self.training))
        linear: Tensor = self.skip(torch.cat((close, units), 1))
        return logits + linear


@dataclass(frozen=True)
class Heard:
    """What a beat head learns from in the N frames of some clips."""

    seen: Tensor
    """(N, C + H) half precision: what is close at hand, then hidden units."""
    close: int
    gate: Tensor
    """(N,) the commitment gate, which the rules look at."""
    weight: Tensor
    """(N,) how much a frame counts."""


@dataclass(frozen=True)
class Beats:
    """A beat head that has learned."""

    head: BeatHead
    mean: Tensor
    std: Tensor

    def said(self, heard: Heard, examples: Sequence[Example]) -> dict[str, Said]:
        """What a model with these hazards would say about clips, by name; of parameters nothing."""
        with torch.no_grad():
            return said_of(
                examples,
                heard.gate,
                lambda span: self.head((heard.seen[span].float() - self.mean) / self.std),
            )


def teach_beats(
    heard: Heard,
    bins: Tensor,
    seen: Tensor,
    *,
    steps: int = STEPS,
    seed: int = 0,
    on_step: Callable[[int], None] | None = None,
) -> Beats:
    """Learn hazards of onsets by their negative log-likelihood.

    Args:
        heard: of training subjects.
        bins: (N,) of the next event.
        seen: (N,) how many bins ahead lie inside the clip.
        steps: of AdamW, each on 1,024 frames.
        seed: weights, and which frames.
        on_step: called with the number of steps done.
    """
    sample = heard.seen[:: max(len(heard.seen) // 100_000, 1)].float()
    mean, std = sample.mean(0), sample.std(0) + 1e-3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = BeatHead(heard.close, heard.seen.shape[1] - heard.close)
        optimizer = torch.optim.AdamW(head.parameters(), lr=RATE_OF_LEARNING, weight_decay=WEIGHT_DECAY)
        chances = torch.cumsum(heard.weight.double(), 0)
        for step in range(steps):
            pace = min((step + 1) / WARM, 1.0) * 0.5 * (1.0 + math.cos(math.pi * step / steps))
            for group in optimizer.param_groups:
                group["lr"] = RATE_OF_LEARNING * pace + 1e-6
            where = torch.rand(FRAMES, dtype=torch.float64) * chances[-1]
            rows = torch.searchsorted(chances, where).clamp(max=len(chances) - 1)
            logits = head((heard.seen[rows].float() - mean) / std)
            loss = event_nll(logits[:, None], bins[rows, None], seen[rows, None]).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if on_step is not None:
                on_step(step + 1)
    return Beats(head.eval(), mean, std)
