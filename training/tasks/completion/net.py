"""The network that completes a body, as ``completion.rs`` of anticip-motion runs it a frame at a time."""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pyanticip.errors import OptionError
from pyanticip.motion.atomic import check_out
from training.teacher.kinematics import OFFSETS, PARENTS

JOINTS: Final = len(PARENTS)
IN: Final = 10
"""Numbers of a joint that go in: two columns of its rotation, its turn since the last frame, one."""
OUT: Final = 7
"""Numbers of a joint that come out: what its two columns differ from the nearest measured joint's, and the
logarithm of the error that is expected of it."""
UNITS: Final = 256
DROPPED: Final = 0.1
"""Share of the units that are silent in a whole window of training."""


def bones_between() -> NDArray[np.int64]:
    """(22, 22): how many bones two joints are apart."""
    apart = np.full((JOINTS, JOINTS), JOINTS)
    np.fill_diagonal(apart, 0)
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            apart[joint, parent] = apart[parent, joint] = 1
    for via in range(JOINTS):
        apart = np.minimum(apart, apart[:, via : via + 1] + apart[via : via + 1])
    return apart


APART: Final = bones_between()


def nearest(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(22,) for each joint the nearest of those that are measured, the first of several."""
    there = np.flatnonzero(mask)
    return np.asarray(there[np.argmin(APART[:, there], axis=1)])


def matrices(quats: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3) of unit quaternions (..., 4)."""
    w, x, y, z = quats.unbind(-1)
    rows = [
        *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    return torch.stack(rows, -1).reshape(*quats.shape[:-1], 3, 3)


def heading(quats: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3) of the twist of rotations (..., 4) about the vertical."""
    twist = torch.stack([quats[..., 0], 0 * quats[..., 0], quats[..., 2], 0 * quats[..., 0]], -1)
    return matrices(nn.functional.normalize(twist, dim=-1, eps=1e-6))


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The Hamilton product of quaternions (..., 4)."""
    (aw, ax, ay, az), (bw, bx, by, bz) = a.unbind(-1), b.unbind(-1)
    return torch.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        -1,
    )


def _chains() -> torch.Tensor:
    """(22, 22): 1 where the second is the first joint or one between it and the hips, without the hips."""
    found = np.zeros((JOINTS, JOINTS), np.float32)
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            found[joint] = found[parent]
            found[joint, joint] = 1.0
    return torch.from_numpy(found)


ABOVE: Final = [max(parent, 0) for parent in PARENTS]
CHAINS: Final = _chains()
BONES: Final = torch.as_tensor(OFFSETS, dtype=torch.float32)[:, None]


def joint_positions(turns: torch.Tensor) -> torch.Tensor:
    """Where joints (..., 22, 3) of the canonical body are from the hips, of rotations in the world."""
    # All bones at once, then each joint the sum of its chain: few operations, few gradients.
    return CHAINS @ (turns[..., ABOVE, :, :] * BONES).sum(-1)


class CompletionNet(nn.Module):
    """A GRU over the measured joints' rotations, and a linear way past it; see :meth:`forward`."""

    def __init__(self, units: int = UNITS) -> None:
        super().__init__()
        self.gru = nn.GRU(JOINTS * IN, units, batch_first=True)
        self.head = nn.Linear(units, JOINTS * OUT)
        self.skip = nn.Linear(JOINTS * IN, JOINTS * OUT, bias=False)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)
        nn.init.zeros_(self.skip.weight)

    def forward(
        self, quats: torch.Tensor, mask: torch.Tensor, near: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Complete bodies.

        Args:
            quats: (B, L, 22, 4) rotations in the world; of joints that are not measured nothing is read.
            mask: (B, 22) 1 where a joint is measured.
            near: (B, 22) the nearest measured joint of each.

        Returns:
            Rotations (B, L, 22, 3, 3) in the world with the heading removed, the logarithms of the errors
            that are expected (B, L, 22), and the headings (B, L, 3, 3).
        """
        batch, length = quats.shape[:2]
        facing = heading(quats[torch.arange(batch), :, mask.argmax(1)])
        seen = facing.transpose(-1, -2)[:, :, None] @ matrices(quats)
        six = seen[..., :2].transpose(-1, -2).flatten(-2)
        before = torch.cat([quats[:, :1], quats[:, :-1]], 1)
        turn = product(quats, before * torch.tensor([1.0, -1.0, -1.0, -1.0]))
        # The axis times twice the sine of the angle, as the heading sees it.
        sines = (4.0 * turn[..., :1] * turn[..., 1:]) @ facing
        there = mask[:, None, :, None].expand(batch, length, JOINTS, 1)
        columns = torch.cat([six * there, 5.0 * sines * there, there], -1).flatten(-2)
        hidden, _ = self.gru(columns)
        if self.training:
            hidden = hidden * (torch.rand(batch, 1, hidden.shape[2]) > DROPPED) / (1.0 - DROPPED)
        out = (self.head(hidden) + self.skip(columns)).unflatten(-1, (JOINTS, OUT))
        base = torch.gather(six, 2, near[:, None, :, None].expand(batch, length, JOINTS, 6))
        a, b = (base + out[..., :6]).split(3, -1)
        a = nn.functional.normalize(a, dim=-1, eps=1e-6)
        b = nn.functional.normalize(b - (a * b).sum(-1, keepdim=True) * a, dim=-1, eps=1e-6)
        turned = torch.stack([a, b, torch.linalg.cross(a, b)], -1)
        return torch.where(there[..., None] > 0, seen, turned), out[..., 6], facing


def check_new(path: Path) -> None:
    """Check before a training that its weights can be written, and over nothing.

    Raises:
        OptionError: no name of a file of weights, or something is there already.
        DeviceError: no such folder.
    """
    check_out(path, (".safetensors",))
    if path.exists():
        raise OptionError(f"{path}: is there already; give a new file for the weights")
