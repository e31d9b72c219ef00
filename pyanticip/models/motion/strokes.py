"""Strokes: rises and falls of the speed of the body's ends, and the beats that they make.

A beat is the arrival of a stroke (``docs/teacher.md``): a fall of the speed from its maximum. The trunk's
hidden states are too coarse to tell when a fall of 0.3 octaves is reached, so this part tracks the speed
curve itself and whether a stroke is under way, and a small separate network predicts when the next one
arrives. The curve is computed from the feature rows alone, without learned weights or gradients.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.streaming import State
from pyanticip.models.motion.smoothed import ENDS

FLOOR = 0.1
"""m/s added to the speed before its logarithm, as in the teacher."""
FALL = 0.3
"""Octaves by which the speed must fall for a stroke to arrive, and rise for the next one to begin."""
MIN_STROKE_SPEED = math.log2(0.6 + FLOOR)
"""Minimum speed of a stroke, in octaves: 0.6 m/s."""
MAX_AGE = 50
"""Maximum age of a rise or fall, in frames; it is counted up to here."""

LAGS = (*range(1, 13), *range(14, 50, 2))
"""Past frames at which the curve is reported, relative to its current value."""
_PAST = LAGS[-1]
GAINS = (2.0 / 3.0, 0.5)
"""Gains of two filters, each of two one-pole low-passes: a delay of one frame for the reported curve, of two
for the tracked one."""

STROKES = 1 + len(LAGS) + 6
"""Width of the output of :class:`Strokes`: the current curve, its past, and the state of the stroke."""

_NARROW, _UNITS = 16, 64
"""Widths of the layer that reduces the control head's hidden units, and of the hidden layer."""


@dataclass
class StrokeState(State):
    """Streaming state: ``started`` (B,) 1 after the first frame; ``smooth`` (B, 2, 2) squared speed in the
    filters' poles; ``past`` (B, 48) the curve, oldest first; ``falling`` (B,) 1 while the speed falls;
    ``turn`` (B,) its maximum since it rose or minimum since it fell; ``age`` (B,) frames since then."""

    started: Tensor
    smooth: Tensor
    past: Tensor
    falling: Tensor
    turn: Tensor
    age: Tensor


class Strokes(nn.Module):
    """Velocities of the body's ends (B, L, 15), all x, then y, then z, m/s, to (B, L, :data:`STROKES`).

    In order: the speed curve in octaves; its past at :data:`LAGS` relative to that; 1 while it rises; how far
    it is below its maximum while it rises, and above its minimum while it falls; while it rises, its maximum,
    and 1 if that is enough for a stroke; the age of the rise or fall, in seconds.
    """

    gains: Tensor
    lags: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gains", torch.tensor(GAINS), persistent=False)
        self.register_buffer("lags", _PAST - torch.tensor(LAGS), persistent=False)

    def initial_state(self, batch: int) -> StrokeState:
        """The state before the first frame."""
        # Separate tensors: a captured graph writes them in place.
        sizes = ((), (2, 2), (_PAST,), (), (), ())
        return StrokeState(*(self.gains.new_zeros(batch, *size) for size in sizes))

    @torch.no_grad()
    def forward(self, velocity: Tensor, state: StrokeState | None = None) -> tuple[Tensor, StrokeState]:
        """See the class; returns the state after the frames even if none was passed."""
        current = self.initial_state(velocity.shape[0]) if state is None else state
        power = (velocity**2).sum(-1) / len(ENDS)
        if power.shape[1] > 1 and self.gains.dtype in (torch.float32, torch.float64):
            return self._steps(power, current)
        rows = []
        for t in range(velocity.shape[1]):
            current, row = self._step(power[:, t], current)
            rows.append(row)
        return torch.stack(rows, 1), current

    def _steps(self, power: Tensor, state: StrokeState) -> tuple[Tensor, StrokeState]:
        """:meth:`_step` for every frame (B, L), the same numbers in a tenth of the time: only what depends on
        the previous frame is computed frame by frame, in NumPy."""
        like = self.gains
        started = (state.started > 0).cpu().numpy()
        smooth = self._smoothed(power.to(like).T.cpu().numpy(), state.smooth.cpu().numpy(), started)
        octaves = torch.log2(torch.from_numpy(smooth[:, 1]).to(like).clamp(min=0.0).sqrt() + FLOOR)
        curve, tracked_speed = octaves.transpose(0, 1).unbind(2)

        first = curve[:, :1].expand(-1, _PAST)
        past = torch.cat((torch.where(state.started[:, None] > 0, state.past, first), curve), 1)
        past_curve = past.unfold(1, _PAST, 1)[:, :-1, self.lags] - curve[..., None]

        tracked = tracked_speed.T.cpu().numpy()
        rising, age = (state.falling < 0.5).cpu().numpy(), state.age.cpu().numpy()
        turn = np.where(started, state.turn.cpu().numpy(), tracked[0])
        stroke_states = np.empty((3, *tracked.shape), dtype=tracked.dtype)
        for t, value in enumerate(tracked):
            turn = np.where(rising, np.maximum(turn, value), np.minimum(turn, value))
            has_turned = np.where(rising, value < turn - FALL, value > turn + FALL)
            rising = rising ^ has_turned
            turn = np.where(has_turned, value, turn)
            age = np.where(
                has_turned | ~started if t == 0 else has_turned, 0.0, np.minimum(age + 1.0, MAX_AGE)
            )
            stroke_states[:, t] = rising, turn, age
        is_rising, extremes, ages = torch.from_numpy(stroke_states).to(like).transpose(1, 2)
        rows = self._rows(curve, past_curve, tracked_speed, is_rising, extremes, ages)
        poles = torch.from_numpy(smooth[-1]).to(like).transpose(0, 1)
        after = (
            torch.ones_like(state.started),
            poles,
            past[:, -_PAST:],
            1.0 - is_rising[:, -1],
            extremes[:, -1],
        )
        return rows, StrokeState(*(each.contiguous() for each in (*after, ages[:, -1])))

    def _smoothed(self, power: np.ndarray, before: np.ndarray, started: np.ndarray) -> np.ndarray:
        """Squared speed (L, B) in the filters' poles (L, pole, B, 2), after ``before`` (B, pole, 2)."""
        gains = self.gains.cpu().numpy()
        out = np.empty((len(power), 2, power.shape[1], 2), dtype=power.dtype)
        x = power[..., None]
        first, second = np.where(started[:, None, None], before, x[0][:, None]).transpose(1, 0, 2)
        for value, row in zip(x, out, strict=True):
            first = row[0] = first + gains * (value - first)
            second = row[1] = second + gains * (first - second)
        return out

    @staticmethod
    def _rows(
        curve: Tensor, past_curve: Tensor, tracked_speed: Tensor, is_rising: Tensor, turn: Tensor, age: Tensor
    ) -> Tensor:
        """Output rows of frames (...): see the class."""
        stroke = (
            is_rising,
            is_rising * (turn - tracked_speed),
            (1.0 - is_rising) * (tracked_speed - turn),
            is_rising * turn,
            is_rising * (turn >= MIN_STROKE_SPEED),
            age / MAX_AGE,
        )
        return torch.cat((curve[..., None], past_curve, torch.stack(stroke, -1)), -1)

    def _step(self, power: Tensor, state: StrokeState) -> tuple[StrokeState, Tensor]:
        started = state.started > 0
        poles, x = [], power[:, None].expand(-1, 2)
        for pole in range(2):
            before = torch.where(started[:, None], state.smooth[:, pole], x)
            x = before + self.gains * (x - before)
            poles.append(x)
        curve, tracked_speed = torch.log2(x.clamp(min=0.0).sqrt() + FLOOR).unbind(1)
        past = torch.where(started[:, None], state.past, curve[:, None])
        past_curve = past[:, self.lags] - curve[:, None]

        rising = state.falling < 0.5
        turn = torch.where(started, state.turn, tracked_speed)
        turn = torch.where(rising, torch.maximum(turn, tracked_speed), torch.minimum(turn, tracked_speed))
        has_turned = torch.where(rising, tracked_speed < turn - FALL, tracked_speed > turn + FALL)
        rising = rising ^ has_turned
        turn = torch.where(has_turned, tracked_speed, turn)
        age = torch.where(has_turned | ~started, 0.0, (state.age + 1.0).clamp(max=MAX_AGE))
        is_rising = rising.to(curve.dtype)
        row = self._rows(curve, past_curve, tracked_speed, is_rising, turn, age)
        past = torch.cat((past[:, 1:], curve[:, None]), 1)
        return StrokeState(
            torch.ones_like(state.started), torch.stack(poles, 1), past, 1.0 - is_rising, turn, age
        ), row


class BeatHead(nn.Module):
    """Evidence (..., bins) for the next beat from the strokes, to add to its hazard logits.

    Inputs are the strokes, features of the last frames and, through a narrow layer, the control head's hidden
    units: one hidden layer, so that a threshold can be learned, plus a linear part. The initial output is 0.
    """

    def __init__(self, recent: int, units: int, bins: int) -> None:
        super().__init__()
        self.narrow = nn.Linear(units, _NARROW, bias=False)
        self.first = nn.Linear(STROKES + recent + _NARROW, _UNITS)
        self.last = nn.Linear(_UNITS, bins)
        self.skip = nn.Linear(STROKES + recent + units, bins, bias=False)
        for weight in (self.last.weight, self.last.bias, self.skip.weight):
            nn.init.zeros_(weight)

    def forward(self, strokes: Tensor, recent: Tensor, units: Tensor) -> Tensor:
        """Evidence from strokes (..., 37), features of the last frames and hidden units."""
        inputs = torch.cat((strokes, recent, self.narrow(units)), -1)
        evidence: Tensor = self.last(F.gelu(self.first(inputs)))
        linear: Tensor = self.skip(torch.cat((strokes, recent, units), -1))
        return evidence + linear
