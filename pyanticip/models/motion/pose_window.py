"""A second opinion of the parameters, read off the last poses: a perceptron beside the trunk.

The trunk sees a frame through some hundred channels, and time through a filter per channel. This sees where
every joint is and how it got there over the last frames, each joint's path as the coefficients of a few
orthogonal polynomials, in one residual perceptron (after siMLPe, Guo et al. 2023, "Back to MLP", which
forecasts poses so). Both err apart from each other: the model says their mean.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.config import POSE_ORDER
from pyanticip.models.core.encodings import polynomials
from pyanticip.models.motion.kinematics import JOINTS
from pyanticip.models.motion.twin_mix import TWINS, TwinMix
from pyanticip.vocabulary import FEATURES_V1, HORIZONS_MS, PARAMETERS, SCALAR_COLUMNS

PLACES = 3 + 3 * (JOINTS - 1)
"""Numbers of a frame that are read, the first of the kinematics: up, and where the joints are."""

FRAMES = 20
"""That it looks at, unless another number is asked for: 400 ms."""

WIDTH = 256
BLOCKS = 3

KEPT = PLACES + 1
"""Numbers of a frame that the state holds: its places, and 1; 0 before a stream began."""

ROOT = 4
"""Numbers that follow the scalars in a row: height of the hips, and how fast they go."""

_TOLD = SCALAR_COLUMNS[1] - SCALAR_COLUMNS[0] + ROOT + TWINS * len(PARAMETERS)

CLIP = 10.0
"""Standardised inputs are clipped to this."""


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.down(F.gelu(self.up(self.norm(x))))
        return result


class PoseWindow(TwinMix):
    """Places of the last frames, scalars, root and causal twin to the parameters at every horizon.

    What the perceptron says is added to a mix of the twin, scaled by how far parameters moved of late.

    Args:
        frames: how many frames it looks at, the newest included.
    """

    basis: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, frames: int) -> None:
        super().__init__(scaled=True)
        self.frames = frames
        inputs = PLACES * (1 + POSE_ORDER) + _TOLD
        self.register_buffer("basis", polynomials(frames, POSE_ORDER))
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("std", torch.ones(inputs))
        self.inlet = nn.Linear(inputs, WIDTH)
        self.blocks = nn.ModuleList(_Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        self.outlet = nn.Linear(WIDTH, math.prod((len(PARAMETERS), len(HORIZONS_MS))))
        nn.init.zeros_(self.outlet.weight)
        nn.init.zeros_(self.outlet.bias)

    def initial_state(self, batch: int, like: Tensor) -> Tensor:
        """The frames before the first one, (B, frames - 1, :data:`KEPT`)."""
        return like.new_zeros(batch, self.frames - 1, KEPT)

    def joined(self, places: Tensor, before: Tensor | None) -> Tensor:
        """Frames (B, frames - 1 + L, :data:`KEPT`) of places (B, L, :data:`PLACES`) and those before them."""
        rows = F.pad(places, (0, 1), value=1.0)
        if before is None:
            before = self.initial_state(rows.shape[0], rows)
        return torch.cat((before, rows), 1)

    def inputs(self, joined: Tensor, scalars: Tensor, rows: Tensor) -> Tensor:
        """What the perceptron reads at every step (B, L, n), before it is standardised, of frames
        (B, frames - 1 + L, :data:`KEPT`), scalars (B, L, 7) and feature rows (B, L, 279).

        How joints came here is told relative to where they are; before the stream began they were here.
        """
        paths = joined.unfold(1, self.frames, 1) @ self.basis
        here = joined[:, self.frames - 1 :, :PLACES]
        paths = paths[:, :, :PLACES] - here[..., None] * paths[:, :, PLACES:]
        root, twin = rows[..., FEATURES_V1 - ROOT : FEATURES_V1], rows[..., FEATURES_V1:]
        now = twin[..., : len(PARAMETERS)]
        others = twin[..., len(PARAMETERS) :] - now.repeat(1, 1, TWINS - 1)
        return torch.cat((here, paths.flatten(2), scalars, root, now, others), -1)

    def forward(self, joined: Tensor, scalars: Tensor, rows: Tensor) -> Tensor:
        """Parameters (B, L, 8, 5), see :meth:`inputs`; cut to 0..1 but while it learns."""
        x = self.inputs(joined, scalars, rows)
        z = self.inlet(((x - self.mean) / self.std).clamp(-CLIP, CLIP))
        for block in self.blocks:
            z = block(z)
        said = self.outlet(self.norm(z)).view(*z.shape[:-1], len(PARAMETERS), len(HORIZONS_MS))
        return self.mixed(said, rows[..., FEATURES_V1:])
