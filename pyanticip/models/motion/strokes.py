"""Strokes: how the speed of the body's ends has come and gone, and beats made of it.

A beat is the arrival of a stroke (``docs/teacher.md``): a fall of the speed from its highest. What the trunk
says of a movement is too blurred to tell when a fall of 0.3 octaves is reached, so this part keeps the curve
of speed itself, and whether a stroke is under way, and a small network of its own says when the next one
arrives. The curve follows from the feature rows alone: nothing is learned in it, and no gradient passes.
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
"""m/s added to the speed before octaves are counted, as the teacher does."""
FALL = 0.3
"""Octaves that a stroke has lost when it has arrived, and that the next one must gain."""
ENOUGH = math.log2(0.6 + FLOOR)
"""Speed, in octaves, that makes a stroke of a movement: 0.6 m/s."""
LONGEST = 50
"""Frames up to which the age of a rise or fall is counted."""

LAGS = (*range(1, 13), *range(14, 50, 2))
"""Frames before now at which the curve is told, relative to now."""
_PAST = LAGS[-1]
GAINS = (2.0 / 3.0, 0.5)
"""Of two one-pole low-passes each: a frame of delay for the curve that is told, two for the one followed."""

STROKES = 1 + len(LAGS) + 6
"""Numbers that :class:`Strokes` gives: the curve now, before now, and how the stroke stands."""

_NARROW, _UNITS = 16, 64


@dataclass
class StrokeState(State):
    """``begun`` (B,) 1 after the first frame; ``smooth`` (B, 2, 2) squared speed in the filters' poles;
    ``past`` (B, 48) the curve, oldest first; ``falling`` (B,) 1 where the speed has fallen, and ``turn`` (B,)
    its highest since it rose or lowest since it fell, ``age`` (B,) frames since then."""

    begun: Tensor
    smooth: Tensor
    past: Tensor
    falling: Tensor
    turn: Tensor
    age: Tensor


class Strokes(nn.Module):
    """Velocities of the body's ends (B, L, 15), all x, then y, then z, m/s, to (B, L, :data:`STROKES`).

    In order: the curve of speed in octaves; its past at :data:`LAGS` relative to that; 1 while it rises; how
    far it is below its highest, if it rises, and above its lowest, if not; its highest, and 1 if that makes a
    stroke, while it rises; the age of the rise or fall, in seconds.
    """

    gains: Tensor
    lags: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gains", torch.tensor(GAINS), persistent=False)
        self.register_buffer("lags", _PAST - torch.tensor(LAGS), persistent=False)

    def initial_state(self, batch: int) -> StrokeState:
        """The state before the first frame."""
        # Each a tensor of its own: a recorded graph writes them in place.
        sizes = ((), (2, 2), (_PAST,), (), (), ())
        return StrokeState(*(self.gains.new_zeros(batch, *size) for size in sizes))

    @torch.no_grad()
    def forward(self, velocity: Tensor, state: StrokeState | None = None) -> tuple[Tensor, StrokeState]:
        """See the class; a state follows where one was given or not."""
        now = self.initial_state(velocity.shape[0]) if state is None else state
        power = (velocity**2).sum(-1) / len(ENDS)
        if power.shape[1] > 1 and self.gains.dtype in (torch.float32, torch.float64):
            return self._steps(power, now)
        told = []
        for t in range(velocity.shape[1]):
            now, row = self._step(power[:, t], now)
            told.append(row)
        return torch.stack(told, 1), now

    def _steps(self, power: Tensor, state: StrokeState) -> tuple[Tensor, StrokeState]:
        """:meth:`_step` frame after frame (B, L), the same numbers in a tenth of the time: what hangs on the
        frame before is a handful of sums in numpy, all else is done for every frame at once."""
        like = self.gains
        begun = (state.begun > 0).cpu().numpy()
        smooth = self._smoothed(power.to(like).T.cpu().numpy(), state.smooth.cpu().numpy(), begun)
        low = torch.log2(torch.from_numpy(smooth[:, 1]).to(like).clamp(min=0.0).sqrt() + FLOOR)
        curve, followed = low.transpose(0, 1).unbind(2)

        first = curve[:, :1].expand(-1, _PAST)
        past = torch.cat((torch.where(state.begun[:, None] > 0, state.past, first), curve), 1)
        back = past.unfold(1, _PAST, 1)[:, :-1, self.lags] - curve[..., None]

        at = followed.T.cpu().numpy()
        rising, age = (state.falling < 0.5).cpu().numpy(), state.age.cpu().numpy()
        turn = np.where(begun, state.turn.cpu().numpy(), at[0])
        stood = np.empty((3, *at.shape), dtype=at.dtype)
        for t, value in enumerate(at):
            turn = np.where(rising, np.maximum(turn, value), np.minimum(turn, value))
            turns = np.where(rising, value < turn - FALL, value > turn + FALL)
            rising = rising ^ turns
            turn = np.where(turns, value, turn)
            age = np.where(turns | ~begun if t == 0 else turns, 0.0, np.minimum(age + 1.0, LONGEST))
            stood[:, t] = rising, turn, age
        up, highest, old = torch.from_numpy(stood).to(like).transpose(1, 2)
        rows = self._rows(curve, back, followed, up, highest, old)
        poles = torch.from_numpy(smooth[-1]).to(like).transpose(0, 1)
        after = (torch.ones_like(state.begun), poles, past[:, -_PAST:], 1.0 - up[:, -1], highest[:, -1])
        return rows, StrokeState(*(each.contiguous() for each in (*after, old[:, -1])))

    def _smoothed(self, power: np.ndarray, before: np.ndarray, begun: np.ndarray) -> np.ndarray:
        """Squared speed (L, B) in the filters' poles (L, pole, B, 2), after ``before`` (B, pole, 2)."""
        gains = self.gains.cpu().numpy()
        out = np.empty((len(power), 2, power.shape[1], 2), dtype=power.dtype)
        came = power[..., None]
        first, second = np.where(begun[:, None, None], before, came[0][:, None]).transpose(1, 0, 2)
        for value, row in zip(came, out, strict=True):
            first = row[0] = first + gains * (value - first)
            second = row[1] = second + gains * (first - second)
        return out

    @staticmethod
    def _rows(curve: Tensor, back: Tensor, followed: Tensor, up: Tensor, turn: Tensor, age: Tensor) -> Tensor:
        """What is told of frames (...): see the class."""
        stands = (
            up,
            up * (turn - followed),
            (1.0 - up) * (followed - turn),
            up * turn,
            up * (turn >= ENOUGH),
            age / LONGEST,
        )
        return torch.cat((curve[..., None], back, torch.stack(stands, -1)), -1)

    def _step(self, power: Tensor, state: StrokeState) -> tuple[StrokeState, Tensor]:
        begun = state.begun > 0
        poles, came = [], power[:, None].expand(-1, 2)
        for pole in range(2):
            before = torch.where(begun[:, None], state.smooth[:, pole], came)
            came = before + self.gains * (came - before)
            poles.append(came)
        curve, followed = torch.log2(came.clamp(min=0.0).sqrt() + FLOOR).unbind(1)
        past = torch.where(begun[:, None], state.past, curve[:, None])
        back = past[:, self.lags] - curve[:, None]

        rising = state.falling < 0.5
        turn = torch.where(begun, state.turn, followed)
        turn = torch.where(rising, torch.maximum(turn, followed), torch.minimum(turn, followed))
        turns = torch.where(rising, followed < turn - FALL, followed > turn + FALL)
        rising = rising ^ turns
        turn = torch.where(turns, followed, turn)
        age = torch.where(turns | ~begun, 0.0, (state.age + 1.0).clamp(max=LONGEST))
        up = rising.to(curve.dtype)
        row = self._rows(curve, back, followed, up, turn, age)
        past = torch.cat((past[:, 1:], curve[:, None]), 1)
        return StrokeState(
            torch.ones_like(state.begun), torch.stack(poles, 1), past, 1.0 - up, turn, age
        ), row


class BeatHead(nn.Module):
    """What the strokes say of the next beat: evidence (..., bins) to add to its hazard logits.

    Read are the strokes, the numbers of the last frames and, through a narrow layer, the control head's
    hidden units: one hidden layer, so that a threshold can be learned, and a linear part beside it. It starts
    as nothing.
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
        """Evidence of strokes (..., 37), numbers of the last frames and hidden units."""
        seen = torch.cat((strokes, recent, self.narrow(units)), -1)
        evidence: Tensor = self.last(F.gelu(self.first(seen)))
        linear: Tensor = self.skip(torch.cat((strokes, recent, units), -1))
        return evidence + linear
