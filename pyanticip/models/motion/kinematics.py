"""Forward kinematics as part of the model: positions and velocities from joint rotations.

Feature rows hold local rotations and angular velocities. Positions and velocities of the hands are products
of up to eight rotations, which a network would have to learn from a few minutes of movement. Here they are
computed. Everything is relative to the hips, plus the direction of gravity, so that nothing depends on the
performer's heading.
"""

import math

import torch
from torch import Tensor, nn

from pyanticip import _core
from pyanticip.motion.canonical import SEGMENT_MASSES
from pyanticip.vocabulary import CANONICAL_JOINTS

JOINTS = len(CANONICAL_JOINTS)
ROTATIONS = (0, JOINTS * 6)
"""Columns of a feature row with the first two columns of each joint's local rotation matrix."""
SPINS = (JOINTS * 6, JOINTS * 9)
"""Columns with each joint's local angular velocity, rad/s, in its own frame."""

_ROUNDS = 3  # pointers jump 1, 2 and 4 ancestors: enough for chains of eight joints
_POSITION_SCALE = 0.3  # metres
_SPEED_FLOOR = 0.1  # m/s
_MAX_ROTATION = 1.5  # of an entry of a rotation matrix; larger values are glitches
_MAX_SPIN = 1e6  # rad/s

MEASURES = 6
"""Number of the last columns, from which sound parameters are made. In order: height of the higher hand,
speed of the body (by mass), speed of the faster hand, how many ends of the body share the movement,
extension, side."""

KINEMATICS = 3 + (JOINTS - 1) * 8 + MEASURES
"""Number of output columns: up (3); per joint except the hips position (3), height, velocity (3) and the
logarithm of its speed; then the measures."""

_HANDS, _ENDS, _REACH, _CHEST = [9, 13], [9, 13, 17, 21, 5], [9, 13, 16, 20], 3
_HAND_BLEND = 0.15


class BodyKinematics(nn.Module):
    """Feature rows (B, L, n) to (B, L, :data:`KINEMATICS`), roughly of unit scale.

    Up, positions (m) and velocities (m/s) are relative to the hips and in the frame of the hips; velocities
    include the hips' rotation. Heights are along gravity. The body's bones are a buffer (22, 3), in metres,
    that is saved with the model.
    """

    offsets: Tensor
    sums: Tensor
    parents: Tensor
    jumps: Tensor
    rest: Tensor
    one: Tensor
    masses: Tensor
    hands: Tensor
    ends: Tensor
    reach: Tensor

    def __init__(self) -> None:
        super().__init__()
        parents = [int(p) for p in _core.CANONICAL_PARENTS]
        offsets = torch.tensor(_core.CANONICAL_OFFSETS, dtype=torch.get_default_dtype())
        offsets[0] = 0.0
        self.register_buffer("offsets", offsets)
        # Row j of ``sums`` marks j and its ancestors; the hips' parent is the extra joint 22, an identity.
        sums = torch.zeros(JOINTS, JOINTS)
        for joint in range(JOINTS):
            at = joint
            while at >= 0:
                sums[joint, at] = 1.0
                at = parents[at]
        up = torch.tensor([p if p >= 0 else JOINTS for p in parents] + [JOINTS])
        jumps = [up]
        for _ in range(_ROUNDS - 1):
            jumps.append(jumps[-1][jumps[-1]])
        self.register_buffer("sums", sums, persistent=False)
        self.register_buffer("parents", up[:JOINTS].clamp(max=JOINTS - 1), persistent=False)
        self.register_buffer("jumps", torch.stack(jumps), persistent=False)
        self.register_buffer("one", torch.eye(3)[None], persistent=False)
        self.register_buffer("rest", sums @ offsets, persistent=False)
        masses = torch.tensor(SEGMENT_MASSES, dtype=torch.get_default_dtype())
        self.register_buffer("masses", masses / masses.sum(), persistent=False)
        # Buffers: an index list would be copied to the device in every step, which a CUDA graph refuses.
        for name, joints in (("hands", _HANDS), ("ends", _ENDS), ("reach", _REACH)):
            self.register_buffer(name, torch.tensor(joints), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Kinematics of raw feature rows (..., n), computed in at least single precision: in half precision
        squared speeds would overflow.

        Entries of rotation matrices are clamped to 1.5 and angular velocities to a million rad/s: larger
        values are glitches, whose powers along a chain of joints would overflow.
        """
        wide = torch.promote_types(x.dtype, torch.float32)
        dtype, x, rows = x.dtype, x.to(wide), x.shape[:-1]
        offsets, sums, rest = (t.to(wide) for t in (self.offsets, self.sums, self.rest))
        pairs = x[..., slice(*ROTATIONS)].clamp(-_MAX_ROTATION, _MAX_ROTATION)
        pairs = pairs.reshape(-1, JOINTS, 2, 3)
        spin = x[..., slice(*SPINS)].clamp(-_MAX_SPIN, _MAX_SPIN).reshape(-1, JOINTS, 3)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        local = torch.stack((first, second, _cross(first, second)), -1)  # (N, 22, 3, 3), columns
        count = local.shape[0]
        up = local[:, 0, 1]  # gravity's opposite, seen from the hips: the matrix's second row
        # The hips are the frame: their own rotation is left out of the chain.
        one = self.one.expand(count, 1, 3, 3).to(wide)
        turn = torch.cat((one, local[:, 1:], one), 1)
        for jump in self.jumps:
            turn = _product(turn[:, jump], turn)
        turn = turn[:, :JOINTS]
        bones = _rotate(turn[:, self.parents], offsets)
        place, spins = torch.split(sums @ torch.cat((bones, _rotate(turn, spin)), -1), 3, -1)
        velocity = sums @ _cross(spins[:, self.parents], bones)
        heights = place @ up[..., None]
        height = heights[:, 1:, 0]
        speed = ((velocity**2).sum(-1) + _SPEED_FLOOR**2).sqrt().log()[:, 1:] + 1.0
        parts = (
            up / _POSITION_SCALE,
            ((place - rest)[:, 1:] / _POSITION_SCALE).flatten(1),
            (height - rest[1:, 1]) / _POSITION_SCALE,
            velocity[:, 1:].flatten(1),
            speed,
            self.measures(place, heights, (velocity**2).sum(-1)),
        )
        return torch.cat(parts, 1).view(*rows, KINEMATICS).to(dtype)

    def measures(self, place: Tensor, height: Tensor, speed2: Tensor) -> Tensor:
        """Measures (N, 6) of positions (N, 22, 3), heights (N, 22, 1) and squared speeds (N, 22).

        Each is of unit scale and in a form that extrapolates: heights and distances as they are, speeds as
        logarithms.
        """
        hands = height[:, self.hands, 0] / _HAND_BLEND
        top = _HAND_BLEND * (torch.logsumexp(hands, 1) - math.log(2.0))
        body = speed2 @ self.masses.to(speed2)
        ends2 = speed2[:, self.ends]
        # Clamped, as the gradient of a root is infinite at 0; the amount is negligible next to the 0.3 below.
        ends = ends2.clamp(min=torch.finfo(ends2.dtype).tiny).sqrt()
        sharing = ends.sum(1) ** 2 / (ends2.sum(1) + 0.0225)
        reach = (place[:, self.reach] - place[:, _CHEST : _CHEST + 1]).norm(dim=-1).mean(1)
        side = (ends2 * place[:, self.ends, 0]).sum(1) / (ends2.sum(1) + 0.1)
        return torch.stack(
            (
                (top - 0.12) / 0.18,
                0.75 * torch.log((body + 4e-4) / 0.1225),
                0.65 * torch.log((speed2[:, self.hands].amax(1) + 4e-4) / 0.64),
                4.0 * torch.log((sharing + 0.3) / 3.6),
                (reach - 0.8) / 0.05,
                side / 0.075,
            ),
            1,
        )


def _product(a: Tensor, b: Tensor) -> Tensor:
    """The product of matrices (..., 3, 3)."""
    if torch.compiler.is_compiling():
        return (a[..., None] * b[..., None, :, :]).sum(-2)
    return a @ b


def _rotate(turn: Tensor, vector: Tensor) -> Tensor:
    """Vectors (..., 3) rotated by matrices (..., 3, 3), in elementwise operations: a compiler fuses them, and
    a batch of tiny matrix products is slower."""
    return (turn * vector[..., None, :]).sum(-1)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """Cross product along the last axis, in elementwise operations."""
    a1, a2 = a.roll(-1, -1), a.roll(-2, -1)
    b1, b2 = b.roll(-1, -1), b.roll(-2, -1)
    return a1 * b2 - a2 * b1
