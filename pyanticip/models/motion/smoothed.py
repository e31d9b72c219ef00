"""The body's measures averaged over the last frames, in the form that sound parameters are made of.

A parameter is a nonlinear function of ratios of *means*: of energies, squared jerks, squared speeds. A linear
filter of each frame's measures cannot take the mean before the nonlinearity, and no single frame has the
jerk. Both are computed here, over a few windows, so that the control head can hold or extrapolate them
without having to learn them from a few performers.
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
"""Columns of the ends' velocities among the kinematics: all x, then all y, then all z."""

CARRIED = len(VELOCITY_COLUMNS) + MEASURES
"""Values of a frame that must be kept: the ends' velocities and the measures."""

STRETCHES = (3, 6, 12, 25)
"""Lengths in frames of the windows that are averaged."""

QUANTITIES = 6
JERK, HANDS, BODY, SHARING, SPEED, SIDE = range(QUANTITIES)
"""Order of the quantities: mean squared jerk of the ends, squared speed of the faster hand, energy of the
body, how many ends share the movement, speed of the ends, all logarithmic; and the side."""

SMOOTHED = QUANTITIES * len(STRETCHES)
"""Width of the output: every quantity over the first window, over the second, and so on."""

# Second derivative of the velocities, oldest frame first. Five averages of neighbours keep marker noise out,
# with the variance of the teacher's smoother and velocity difference; then two differences over two frames.
_JERK_FILTER = (1.0, 5.0, 8.0, 0.0, -14.0, -14.0, 0.0, 8.0, 5.0, 1.0)
_JERK_GAIN = RATE**2 / (32.0 * 4.0)  # 1/frame^2 to 1/s^2


class SmoothedMeasures(nn.Module):
    """Kept values of the last frames (..., taps, :data:`CARRIED`) to (..., :data:`SMOOTHED`).

    Args:
        taps: number of frames, oldest first. Windows are cut to them, those of the jerk to the frames that
            have one; with fewer than ten frames there is no jerk.
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
        jerk = max(taps - len(_JERK_FILTER) + 1, 0)
        bend = torch.zeros(max(jerk, 1), taps)
        for row in range(jerk):
            bend[row, row : row + len(_JERK_FILTER)] = torch.tensor(_JERK_FILTER) * _JERK_GAIN
        # Sums the three components of each end.
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
        """See the class. Uses matrices instead of sliding sums, which are few operations per step. Computed
        in at least single precision, like the kinematics."""
        dtype, carried = carried.dtype, carried.to(torch.promote_types(carried.dtype, torch.float32))
        scale, floor, power = (t.to(carried) for t in (self.scale, self.floor, self.power))
        velocity, measures = carried[..., :-MEASURES], carried[..., -MEASURES:]
        jerk = self.bend.to(carried) @ velocity
        jerk2 = (self.jerk_stretches.to(carried) @ (jerk * jerk)).sum(-1, keepdim=True) / len(ENDS)
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
        return torch.cat((logs, moment / (total + 0.1)), -1).flatten(-2).to(dtype)


def _means(frames: int) -> Tensor:
    """A matrix whose rows average the last of ``frames`` frames, one row per window."""
    rows = torch.zeros(len(STRETCHES), frames)
    for row, length in enumerate(min(stretch, frames) for stretch in STRETCHES):
        rows[row, frames - length :] = 1.0 / length
    return rows
