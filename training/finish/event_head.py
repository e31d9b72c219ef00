"""An event head that uses strokes: trained on a fixed trunk, then put into the model.

The trunk's hidden layer is too coarse to tell when a fall of 0.3 octaves is reached, so the hazards of onsets
also depend on the causal speed curve of the ends and on whether a stroke is under way
(:class:`pyanticip.models.motion.strokes.Strokes`), through one hidden layer, so that a threshold can be
learned. :class:`pyanticip.controls.LastMoment` is the rule that announces such onsets.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer
from pyanticip.models.motion.kinematics import MEASURES
from pyanticip.models.motion.strokes import GAINS, STROKES, Strokes
from pyanticip.vocabulary import EVENT_BINS, HORIZONS_MS, PARAMETERS
from training.data.examples import Example
from training.tasks.motion.losses import event_nll
from training.tasks.motion.scores import CHUNK

NARROW: Final = 16
UNITS: Final = 64
DROPOUT: Final = 0.2
STEPS: Final = 1200
BATCH_FRAMES: Final = 1024
LEARNING_RATE: Final = 2e-3
WEIGHT_DECAY: Final = 1e-2
WARM_UP_STEPS: Final = 100
INITIAL_HAZARD: Final = 0.03
"""Hazard per bin before training."""


def inputs_of(model: MotionTransformer, example: Example) -> Tensor:
    """Inputs of the head for every frame of a clip, (T, C + H) in half precision: strokes and the measures of
    the last frames, then the control head's hidden units.

    Args:
        model: in evaluation mode, with kinematics; it runs over the clip as a stream.
        example: the clip.
    """
    state, units = model.initial_state(1), []
    with torch.no_grad():
        for start in range(0, len(example), CHUNK):
            rows = torch.from_numpy(np.array(example.features[start : start + CHUNK]))[None]
            out, state = model(rows, state)
            units.append(F.gelu(model.control.first(out.hidden))[0])
        carried = model.observe(torch.from_numpy(np.array(example.features)))[:, -model.direct :]
        strokes = Strokes().double()
        strokes.gains.copy_(torch.tensor(GAINS, dtype=torch.float64))  # exact in double precision
        stroke_rows, _ = strokes(carried[None, :, :-MEASURES].double())
    return torch.cat((stroke_rows[0].half(), recent_of(model, example).half(), torch.cat(units).half()), 1)


def recent_of(model: MotionTransformer, example: Example) -> Tensor:
    """The control head's features of the last frames, (T, features), for every frame of a clip.

    Raises:
        OptionError: a model without kinematics, which has no such features.
    """
    with torch.no_grad():
        recent = model.embed(torch.from_numpy(np.array(example.features))[None]).recent
    if recent is None:
        raise OptionError("an event head needs a model with kinematics: it reads their measures")
    return recent[0]


class Head(nn.Module):
    """Hazard logits (N, 25) from features (N, C) and hidden units (N, H), both standardised.

    A :class:`pyanticip.models.motion.strokes.BeatHead` with dropout in training, initialised to a base rate.
    """

    def __init__(self, close: int, units: int) -> None:
        super().__init__()
        self.close = close
        self.narrow = nn.Linear(units, NARROW, bias=False)
        self.first = nn.Linear(close + NARROW, UNITS)
        self.last = nn.Linear(UNITS, EVENT_BINS)
        self.skip = nn.Linear(close + units, EVENT_BINS, bias=False)
        nn.init.zeros_(self.skip.weight)
        nn.init.constant_(self.last.bias, math.log(INITIAL_HAZARD / (1.0 - INITIAL_HAZARD)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Hazard logits from both, concatenated to (N, C + H)."""
        close, units = inputs[:, : self.close], F.dropout(inputs[:, self.close :], DROPOUT, self.training)
        inner = F.gelu(self.first(torch.cat((close, self.narrow(units)), 1)))
        logits: Tensor = self.last(F.dropout(inner, DROPOUT, self.training))
        linear: Tensor = self.skip(torch.cat((close, units), 1))
        return logits + linear


@dataclass(frozen=True)
class Frames:
    """Training data of a head, N frames of some clips."""

    inputs: Tensor
    """(N, C + H) half precision, from :func:`inputs_of`."""
    bins: Tensor
    """(N,) bin of the next event."""
    known: Tensor
    """(N,) number of bins ahead that lie inside the clip."""
    weight: Tensor
    """(N,) weight of a frame in the draws."""


@dataclass(frozen=True)
class Learned:
    """A trained head, and mean and standard deviation (C + H,) of its inputs."""

    head: Head
    mean: Tensor
    std: Tensor

    def logits(self, inputs: Tensor) -> Tensor:
        """Hazard logits (N, 25) of inputs (N, C + H)."""
        with torch.no_grad():
            logits: Tensor = self.head((inputs.float() - self.mean) / self.std)
        return logits


def learning_rate_factor(step: int, steps: int) -> float:
    """Factor of the learning rate at a step: a linear warm-up times half a cosine down to 0."""
    return min((step + 1) / WARM_UP_STEPS, 1.0) * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def learn(
    frames: Frames,
    units: int,
    *,
    steps: int = STEPS,
    seed: int = 0,
    on_step: Callable[[int], None] | None = None,
) -> Learned:
    """Train hazards of onsets by their negative log-likelihood.

    Args:
        frames: of training subjects.
        units: how many of the inputs, the last ones, are hidden units.
        steps: of AdamW, each on 1,024 frames.
        seed: random seed of weights and of the frames drawn.
        on_step: called with the number of steps done.
    """
    sample = frames.inputs[:: max(len(frames.inputs) // 100_000, 1)].float()
    mean, std = sample.mean(0), sample.std(0) + 1e-3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = Head(frames.inputs.shape[1] - units, units)
        optimizer = torch.optim.AdamW(head.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        cumulative = torch.cumsum(frames.weight.double(), 0)
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = LEARNING_RATE * learning_rate_factor(step, steps) + 1e-6
            draws = torch.rand(BATCH_FRAMES, dtype=torch.float64) * cumulative[-1]
            rows = torch.searchsorted(cumulative, draws).clamp(max=len(cumulative) - 1)
            logits = head((frames.inputs[rows].float() - mean) / std)
            loss = event_nll(logits[:, None], frames.bins[rows, None], frames.known[rows, None]).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if on_step is not None:
                on_step(step + 1)
    return Learned(head.eval(), mean, std)


def with_strokes(model: MotionTransformer, learned: Learned) -> MotionTransformer:
    """A copy of a model whose hazards of onsets come from a trained head.

    The standardisation of the head's inputs is folded into its weights, and the model's own weights for the
    hazards of onsets are set to 0. Parameters, phrases, scalars and the gate stay the same, bit for bit.

    Raises:
        OptionError: a model that cannot have strokes, or a head of other sizes.
    """
    copy = MotionTransformer(model.cfg.replace(strokes=True))
    copy.load_state_dict(model.state_dict(), strict=False)
    control, head = copy.control, learned.head
    assert control.beats is not None
    close, start = head.close, len(PARAMETERS) * len(HORIZONS_MS)
    if learned.mean.shape != (close + control.first.out_features,) or close < STROKES:
        raise OptionError(f"a head of {len(learned.mean)} numbers does not fit the model's control head")
    # Layers of z = (x - mean) / std become layers of x.
    mean, scale = learned.mean.double(), 1.0 / learned.std.double()
    narrow, first, skip = (layer.weight.double() for layer in (head.narrow, head.first, head.skip))
    narrow = narrow * scale[close:]
    offset = first[:, :close] @ (scale * mean)[:close] + first[:, close:] @ (narrow @ mean[close:])
    skip = skip * scale
    with torch.no_grad():
        control.beats.narrow.weight.copy_(narrow)
        control.beats.first.weight.copy_(torch.cat((first[:, :close] * scale[:close], first[:, close:]), 1))
        control.beats.first.bias.copy_(head.first.bias.double() - offset)
        control.beats.last.weight.copy_(head.last.weight)
        control.beats.last.bias.copy_(head.last.bias.double() - skip @ mean)
        control.beats.skip.weight.copy_(skip)
        control.last.weight[start : start + EVENT_BINS] = 0.0
        control.last.bias[start : start + EVENT_BINS] = 0.0
        control.base[:EVENT_BINS] = 0.0
    return copy.eval()
