"""The body's measures smoothed over the last frames, in the form the sound parameters are made of.

What a parameter says is a bent ratio of *means*: of energies, squared jerks, squared speeds. A linear filter
of each frame's measures cannot take the mean first and bend afterwards, and the jerk is in no single frame.
Here both are computed, over a few stretches before now, so that the control head can hold or extrapolate
them without having learnt them from a few performers.
"""

import math

import torch
from torch import Tensor, nn

from pyanticip.models.motion.kinematics import JOINTS, KINEMATICS, MEASURES
from pyanticip.vocabulary import RATE

ENDS = (9, 13, 17, 21, 5)
"""Hands, toes, head."""

_FIRST = KINEMATICS - MEASURES - (JOINTS - 1) * 4
VELOCITY_COLUMNS = tuple(_FIRST + 3 * (joint - 1) + axis for axis in range(3) for joint in ENDS)
"""Where the ends' velocities stand among the kinematics: all x, then all y, then all z."""

CARRIED = len(VELOCITY_COLUMNS) + MEASURES
"""Numbers of a frame that must be remembered: the ends' velocities and the measures."""

STRETCHES = (3, 6, 12, 25)
"""Frames that are averaged."""

QUANTITIES = 6
JERK, HANDS, BODY, SHARING, SPEED, SIDE = range(QUANTITIES)
"""Order of the quantities: mean squared jerk of the ends, squared speed of the faster hand, energy of the
body, how many ends share the movement, speed of the ends, all logarithmic; and the side."""

SMOOTHED = QUANTITIES * len(STRETCHES)
"""Numbers this module gives: every quantity over the first stretch, over the second, and so on."""

# Marker noise stays out of the jerk: five means of neighbours have the variance of the teacher's smoother and
# of its difference for the velocity; then two differences over two frames. Oldest first; 1/s^2 of 1/frame^2.
_BEND = (1.0, 5.0, 8.0, 0.0, -14.0, -14.0, 0.0, 8.0, 5.0, 1.0)
_BEND_GAIN = RATE**2 / (32.0 * 4.0)


class SmoothedMeasures(nn.Module):
    """Carried numbers of the last frames (..., taps, :data:`CARRIED`) to (..., :data:`SMOOTHED`).

    Args:
        taps: frames that are looked at, oldest first. Stretches are cut to them, those of the jerk to the
            frames that have one; with fewer than ten there is none.
    """

    bend: Tensor
    jerk_stretches: Tensor
    stretches: Tensor
    ends: Tensor
    scale: Tensor
    floor: Tensor
    power: Tensor

    def __init__(self, taps: int) -> None:
        super().__init__()
        bent = max(taps - len(_BEND) + 1, 0)
        bend = torch.zeros(max(bent, 1), taps)
        for row in range(bent):
            bend[row, row : row + len(_BEND)] = torch.tensor(_BEND) * _BEND_GAIN
        # Three components of an end, side by side in one column of three blocks.
        ends = torch.eye(len(ENDS)).repeat(3, 1)
        #        jerk2, hands2, body, sharing, speed
        scale = torch.tensor([(4.0 * math.pi**2 * 1.8**2) ** -2, 1 / 0.64, 1.0, 1 / 3.6, 1.0])
        floor = torch.tensor([1.0, 4e-4, 1e-6, 0.3, 0.1])
        power = torch.tensor([1.0, 0.65, 0.75, 4.0, 2.0])
        for name, values in (
            ("bend", bend),
            ("jerk_stretches", _means(bend.shape[0])),
            ("stretches", _means(taps)),
            ("ends", ends),
            ("scale", scale),
            ("floor", floor),
            ("power", power),
        ):
            self.register_buffer(name, values, persistent=False)

    def forward(self, carried: Tensor) -> Tensor:
        """See the class. Matrices instead of sliding sums: few operations for a step. In single precision at
        the least, as the kinematics."""
        given, carried = carried.dtype, carried.to(torch.promote_types(carried.dtype, torch.float32))
        scale, floor, power = (t.to(carried) for t in (self.scale, self.floor, self.power))
        velocity, measures = carried[..., :-MEASURES], carried[..., -MEASURES:]
        bent = self.bend.to(carried) @ velocity
        jerk2 = (self.jerk_stretches.to(carried) @ (bent * bent)).sum(-1, keepdim=True) / len(ENDS)
        speed2 = (velocity * velocity) @ self.ends.to(carried)
        body = torch.exp(measures[..., 1:2] / 0.75)
        moment = measures[..., 5:6] * (speed2.sum(-1, keepdim=True) + 0.1)
        hands2 = torch.maximum(speed2[..., :1], speed2[..., 1:2])
        mean = self.stretches.to(carried) @ torch.cat((speed2, hands2, body, moment), -1)
        ends2, hands2, body, moment = torch.split(mean, [len(ENDS), 1, 1, 1], -1)
        total = ends2.sum(-1, keepdim=True)
        sharing = (ends2 + 1e-6).sqrt().sum(-1, keepdim=True) ** 2 / (total + 0.0225)
        speed = (total / len(ENDS) + 1e-6).sqrt()
        positive = torch.cat((jerk2, hands2, body, sharing, speed), -1)
        logs = torch.log((positive + floor) * scale) * power
        return torch.cat((logs, moment / (total + 0.1)), -1).flatten(-2).to(given)


def _means(frames: int) -> Tensor:
    """Rows that average the last frames of ``frames``, one for each stretch."""
    rows = torch.zeros(len(STRETCHES), frames)
    for row, length in enumerate(min(stretch, frames) for stretch in STRETCHES):
        rows[row, frames - length :] = 1.0 / length
    return rows
