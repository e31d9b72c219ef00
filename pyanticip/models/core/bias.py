"""The trajectory bias: the scalars set how strongly each head prefers the near past (Diomande 2026)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HIDDEN = 56


class TrajectoryBias(nn.Module):
    """``bias[b,h,i,j] = amplitude[b,i,h] * exp(-alpha_h |i-j| dist_scale + beta_h)``.

    The amplitude is a small MLP of the query's seven scalars; ``alpha = softplus(raw)`` starts at 1 (per unit
    of ``dist_scale``), ``beta`` at 0. All layers of both pathways share one instance. Only what varies along
    j survives the softmax, so the kernel matters, not the amplitude alone.

    Args:
        heads: number of heads H; must divide 56.
        dist_scale: distance of neighbouring steps (seconds for motion).
        positive: whether ``alpha = softplus(raw)``; False uses ``raw`` itself, as the paper does, which lets
            a head prefer the far past.
    """

    def __init__(self, heads: int, dist_scale: float, positive: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.dist_scale = dist_scale
        self.positive = positive
        self.first = nn.Linear(7, HIDDEN)
        self.second = nn.Linear(HIDDEN, HIDDEN)
        self.last = nn.Linear(HIDDEN, heads)
        start = float(torch.tensor(1.0, device="cpu").expm1().log()) if positive else 1.0
        self.raw_alpha = nn.Parameter(torch.full((heads,), start))
        self.beta = nn.Parameter(torch.zeros(heads))

    def forward(self, scalars: Tensor) -> Tensor:
        """Amplitudes (..., H) of scalars (..., 7)."""
        hidden: Tensor = F.gelu(self.first(scalars))
        hidden = F.gelu(self.second(hidden))
        amplitude: Tensor = self.last(hidden)
        return amplitude

    def rate(self, stride: int = 1) -> Tensor:
        """Decay (H,) of the kernel over ``stride`` steps."""
        alpha = F.softplus(self.raw_alpha) if self.positive else self.raw_alpha
        return alpha * (stride * self.dist_scale)

    def kernel(self, past: int, stride: int = 1) -> Tensor:
        """The kernel (H, past + 1) at distances 0..past, in units of ``stride`` steps."""
        distance = torch.arange(past + 1, device=self.beta.device, dtype=self.beta.dtype)
        return torch.exp(-self.rate(stride)[:, None] * distance + self.beta[:, None])

    def orthogonality(self) -> "Orthogonality":
        """Overlap of the heads' first-layer directions."""
        rows = self.first.weight.view(self.heads, HIDDEN // self.heads, 7).mean(1)
        return orthogonality(rows)


class RandomScalars(nn.Module):
    """Fixed pseudo-random scalars per step, for the ablation of the geometry.

    Uniform over each scalar's range, the same for every row and every model; they repeat after ``PERIOD``
    steps. With them in place of real scalars, :class:`TrajectoryBias` keeps all parameters and operations
    but loses the information.
    """

    PERIOD = 8192
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        draw = torch.rand(self.PERIOD, 7, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
        draw[:, 2] = 4.0 * draw[:, 2] - 2.0
        self.register_buffer("table", draw.float(), persistent=False)

    def forward(self, length: int, frames: Tensor | None) -> Tensor:
        """Scalars (B or 1, length, 7) of the steps that follow ``frames`` (B,) earlier ones."""
        steps = torch.arange(length, device=self.table.device)[None]
        if frames is not None:
            steps = steps + frames[:, None]
        return self.table[steps % self.PERIOD]


@dataclass(frozen=True)
class Orthogonality:
    """Overlap of H head directions in 7 dimensions.

    ``penalty`` is ``sum_{i != j} (w_i . w_j)^2`` over unit vectors; ``floor`` is its minimum for H directions
    in seven dimensions, ``H^2/7 - H`` where H > 7 and 0 otherwise.
    """

    penalty: Tensor
    floor: float

    @property
    def excess(self) -> Tensor:
        """The penalty above its minimum."""
        return self.penalty - self.floor


def orthogonality(rows: Tensor) -> Orthogonality:
    """Overlap of directions ``rows`` (H, D); zero rows count as orthogonal to everything."""
    heads, width = rows.shape
    unit = F.normalize(rows, dim=1, eps=1e-12)
    gram = unit @ unit.T
    penalty = gram.square().sum() - gram.diagonal().square().sum()
    return Orthogonality(penalty, max(0.0, heads * heads / width - heads))
