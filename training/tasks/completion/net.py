"""The completion network, as ``completion.rs`` of anticip-motion runs it frame by frame."""

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
"""Inputs per joint: two columns of its rotation, its rotation since the last frame, and 1 if measured."""
OUT: Final = 7
"""Outputs per joint: differences of its two columns from the nearest measured joint's, and the logarithm of
its expected error."""
UNITS: Final = 256
"""Width of the recurrent layer."""
DROPOUT: Final = 0.1
"""Share of units that are dropped for a whole training window."""


def bone_distances() -> NDArray[np.int64]:
    """(22, 22): number of bones between two joints."""
    distances = np.full((JOINTS, JOINTS), JOINTS)
    np.fill_diagonal(distances, 0)
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            distances[joint, parent] = distances[parent, joint] = 1
    for via in range(JOINTS):
        distances = np.minimum(distances, distances[:, via : via + 1] + distances[via : via + 1])
    return distances


DISTANCES: Final = bone_distances()


def nearest(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(22,) nearest measured joint of each joint, the first of several."""
    measured = np.flatnonzero(mask)
    return np.asarray(measured[np.argmin(DISTANCES[:, measured], axis=1)])


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
    """Hamilton product of quaternions (..., 4)."""
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
    """(22, 22): 1 if the second joint is the first or between it and the hips, hips excluded."""
    chains = np.zeros((JOINTS, JOINTS), np.float32)
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            chains[joint] = chains[parent]
            chains[joint, joint] = 1.0
    return torch.from_numpy(chains)


ABOVE: Final = [max(parent, 0) for parent in PARENTS]
CHAINS: Final = _chains()
BONES: Final = torch.as_tensor(OFFSETS, dtype=torch.float32)[:, None]


def joint_positions(turns: torch.Tensor) -> torch.Tensor:
    """Joint positions (..., 22, 3) of the canonical body relative to the hips, from global rotations."""
    # Each joint is the sum of the bones of its chain: few operations in the graph.
    return CHAINS @ (turns[..., ABOVE, :, :] * BONES).sum(-1)


class CompletionNet(nn.Module):
    """A GRU over the rotations of the measured joints with a linear skip connection; see :meth:`forward`."""

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
            quats: (B, L, 22, 4) global rotations; those of joints that are not measured are ignored.
            mask: (B, 22) 1 for measured joints.
            near: (B, 22) nearest measured joint of each.

        Returns:
            Global rotations (B, L, 22, 3, 3) with the heading removed, logarithms of the expected errors
            (B, L, 22), and headings (B, L, 3, 3).
        """
        batch, length = quats.shape[:2]
        facing = heading(quats[torch.arange(batch), :, mask.argmax(1)])
        rotations = facing.transpose(-1, -2)[:, :, None] @ matrices(quats)
        columns6 = rotations[..., :2].transpose(-1, -2).flatten(-2)
        previous = torch.cat([quats[:, :1], quats[:, :-1]], 1)
        turn = product(quats, previous * torch.tensor([1.0, -1.0, -1.0, -1.0]))
        # Axis times twice the sine of the angle, in the frame of the heading.
        sines = (4.0 * turn[..., :1] * turn[..., 1:]) @ facing
        measured = mask[:, None, :, None].expand(batch, length, JOINTS, 1)
        columns = torch.cat([columns6 * measured, 5.0 * sines * measured, measured], -1).flatten(-2)
        hidden, _ = self.gru(columns)
        if self.training:
            hidden = hidden * (torch.rand(batch, 1, hidden.shape[2]) > DROPOUT) / (1.0 - DROPOUT)
        out = (self.head(hidden) + self.skip(columns)).unflatten(-1, (JOINTS, OUT))
        base = torch.gather(columns6, 2, near[:, None, :, None].expand(batch, length, JOINTS, 6))
        a, b = (base + out[..., :6]).split(3, -1)
        a = nn.functional.normalize(a, dim=-1, eps=1e-6)
        b = nn.functional.normalize(b - (a * b).sum(-1, keepdim=True) * a, dim=-1, eps=1e-6)
        turned = torch.stack([a, b, torch.linalg.cross(a, b)], -1)
        return torch.where(measured[..., None] > 0, rotations, turned), out[..., 6], facing


def check_new(path: Path) -> None:
    """Check before training that the weights can be written to a new file.

    Raises:
        OptionError: not a name of a weights file, or the file exists.
        DeviceError: the folder does not exist.
    """
    check_out(path, (".safetensors",))
    if path.exists():
        raise OptionError(f"{path}: already exists; give a new file for the weights")
