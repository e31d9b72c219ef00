"""A second estimate of the parameters from the last poses, by an MLP beside the trunk.

The trunk sees a frame through about a hundred channels, and time through a filter per channel. This residual
MLP sees where every joint is and how it moved over the last frames, each joint's path as the coefficients of
a few orthogonal polynomials (after siMLPe, Guo et al. 2023, "Back to MLP", which forecasts poses that way).
The errors of the two differ, and the model returns their mean.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.config import POSE_ORDER
from pyanticip.models.core.block import MLPBlock
from pyanticip.models.core.encodings import polynomials
from pyanticip.models.motion.kinematics import JOINTS
from pyanticip.models.motion.twin_mix import TWINS, TwinMix
from pyanticip.vocabulary import FEATURES_V1, HORIZONS_MS, PARAMETERS, SCALAR_COLUMNS

PLACES = 3 + 3 * (JOINTS - 1)
"""Values of a frame that are read, the first of the kinematics: up, and the joints' positions."""

FRAMES = 20
"""Default number of frames, 400 ms."""

WIDTH = 256
BLOCKS = 3

STORED = PLACES + 1
"""Values per frame in the state: its places, and 1 (0 before the stream began)."""

ROOT = 4
"""Values that follow the scalars in a row: height and velocity of the hips."""

_OTHER_INPUTS = SCALAR_COLUMNS[1] - SCALAR_COLUMNS[0] + ROOT + TWINS * len(PARAMETERS)
"""Inputs besides the poses: scalars, root and twin."""

CLIP = 10.0
"""Standardised inputs are clipped to this."""


class PoseWindow(TwinMix):
    """Places of the last frames, scalars, root and causal twin to the parameters at every horizon.

    The MLP's output is the scaled correction of a mix of the twin.

    Args:
        frames: number of frames, the newest included.
    """

    basis: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, frames: int) -> None:
        super().__init__(scaled=True)
        self.frames = frames
        inputs = PLACES * (1 + POSE_ORDER) + _OTHER_INPUTS
        self.register_buffer("basis", polynomials(frames, POSE_ORDER))
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("std", torch.ones(inputs))
        self.inlet = nn.Linear(inputs, WIDTH)
        self.blocks = nn.ModuleList(MLPBlock(WIDTH, 2 * WIDTH) for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        self.outlet = nn.Linear(WIDTH, math.prod((len(PARAMETERS), len(HORIZONS_MS))))
        nn.init.zeros_(self.outlet.weight)
        nn.init.zeros_(self.outlet.bias)

    def initial_state(self, batch: int, like: Tensor) -> Tensor:
        """The frames before the first one, (B, frames - 1, :data:`STORED`)."""
        return like.new_zeros(batch, self.frames - 1, STORED)

    def joined(self, places: Tensor, before: Tensor | None) -> Tensor:
        """Frames (B, frames - 1 + L, :data:`STORED`): those before, and places (B, L, :data:`PLACES`)."""
        rows = F.pad(places, (0, 1), value=1.0)
        if before is None:
            before = self.initial_state(rows.shape[0], rows)
        return torch.cat((before, rows), 1)

    def inputs(self, joined: Tensor, scalars: Tensor, rows: Tensor) -> Tensor:
        """Inputs of the MLP at every step (B, L, n), not standardised, from frames
        (B, frames - 1 + L, :data:`STORED`), scalars (B, L, 7) and feature rows (B, L, 279).

        Paths are relative to the joints' current places; frames before the stream began count as no motion.
        """
        paths = joined.unfold(1, self.frames, 1) @ self.basis
        current = joined[:, self.frames - 1 :, :PLACES]
        paths = paths[:, :, :PLACES] - current[..., None] * paths[:, :, PLACES:]
        root, twin = rows[..., FEATURES_V1 - ROOT : FEATURES_V1], rows[..., FEATURES_V1:]
        twin_now = twin[..., : len(PARAMETERS)]
        others = twin[..., len(PARAMETERS) :] - twin_now.repeat(1, 1, TWINS - 1)
        return torch.cat((current, paths.flatten(2), scalars, root, twin_now, others), -1)

    def forward(self, joined: Tensor, scalars: Tensor, rows: Tensor) -> Tensor:
        """Parameters (B, L, 8, 5), see :meth:`inputs`; clamped to 0..1 except in training."""
        x = self.inputs(joined, scalars, rows)
        z = self.inlet(((x - self.mean) / self.std).clamp(-CLIP, CLIP))
        for block in self.blocks:
            z = block(z)
        added = self.outlet(self.norm(z)).view(*z.shape[:-1], len(PARAMETERS), len(HORIZONS_MS))
        return self.mixed(added, rows[..., FEATURES_V1:])
