"""Codes of motion frames: what the motion model plans with in place of tokens."""

import math

import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import FEATURE_WIDTHS

ROTATIONS = slice(6, 132)
"""Columns of a feature row with the rotations of all joints but the hips, whose direction says nothing."""

VELOCITIES = slice(132, 198)
ROOT = slice(227, 231)
"""Height and velocity of the root."""

ROUNDS = 30
ROWS = 16_384


class PlanCodebook(nn.Module):
    """The nearest of a few hundred typical frames: feature rows (B, L, n) -> codes (B, L).

    A frame counts by its rotations, its angular velocities and its root's height and velocity, standardised
    and each of the three with the same weight. Until :meth:`fit` all frames have code 0.

    Args:
        codes: number of codes.
    """

    centres: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, codes: int) -> None:
        super().__init__()
        width = sum(part.stop - part.start for part in (ROTATIONS, VELOCITIES, ROOT))
        self.register_buffer("centres", torch.zeros(codes, width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros(width))

    def points(self, x: Tensor) -> Tensor:
        """What distances are measured between, (..., 196) of feature rows (..., n)."""
        return (_columns(x) - self.mean) * self.scale

    def forward(self, x: Tensor) -> Tensor:
        """Codes (...,) int64 of feature rows (..., n)."""
        found = self.points(x)
        # |p - c|^2 without |p|^2, which is the same for all centres
        return (self.centres.square().sum(-1) - 2.0 * (found @ self.centres.T)).argmin(-1)

    def error(self, x: Tensor) -> float:
        """Mean squared distance of feature rows (N, n) from their centres, over that from the mean frame
        of the rows the codebook was fitted to."""
        found = self.points(x)
        return float((found - self.centres[self(x)]).square().sum(-1).mean() / found.square().sum(-1).mean())

    @torch.no_grad()
    def fit(self, x: Tensor, *, seed: int = 0, rounds: int = ROUNDS) -> float:
        """Learn the codes: k-means (Lloyd) from a start by k-means++.

        Args:
            x: (N, n) feature rows, at least as many as there are codes.
            seed: of the start.
            rounds: of Lloyd's algorithm, at most; it stops where nothing changes.

        Returns:
            :meth:`error` on these rows.

        Raises:
            ShapeError: rows of another width, or not finite.
            OptionError: fewer rows than codes.
        """
        if x.ndim != 2 or x.shape[1] not in FEATURE_WIDTHS or not bool(torch.isfinite(x).all()):
            wide = " or ".join(map(str, FEATURE_WIDTHS))
            raise ShapeError(f"frames must be finite (N, {wide}), got {tuple(x.shape)}")
        count = len(self.centres)
        if len(x) < count:
            raise OptionError(f"a codebook of {count} codes needs as many frames, got {len(x)}")
        columns = _columns(x)
        deviation, mean = torch.std_mean(columns, 0, correction=0)
        self.mean.copy_(mean)
        parts = []
        start = 0
        for part in (ROTATIONS, VELOCITIES, ROOT):
            width = part.stop - part.start
            mine = deviation[start : start + width]
            parts.append(torch.where(mine > 1e-6, 1.0 / (mine.clamp(min=1e-6) * math.sqrt(width)), 0.0))
            start += width
        self.scale.copy_(torch.cat(parts))
        points = self.points(x)
        generator = torch.Generator(device=x.device).manual_seed(seed)
        centres = _spread(points, count, generator)
        before = torch.full((len(points),), -1, device=x.device)
        for _ in range(rounds):
            codes, distance = _nearest(points, centres)
            if torch.equal(codes, before):
                break
            before = codes
            sums = torch.zeros_like(centres).index_add_(0, codes, points)
            members = torch.bincount(codes, minlength=count)
            centres = torch.where(members[:, None] > 0, sums / members.clamp(min=1)[:, None], centres)
            empty = torch.nonzero(members == 0)[:, 0]
            if len(empty):
                # A code without frames takes over one of those that are described worst.
                centres[empty] = points[distance.topk(len(empty)).indices]
        self.centres.copy_(centres)
        return self.error(x)

    @torch.no_grad()
    def counts(self, x: Tensor) -> Tensor:
        """How often each code occurs in feature rows (N, n): (C,)."""
        codes, _ = _nearest(self.points(x), self.centres)
        return torch.bincount(codes, minlength=len(self.centres))


def _columns(x: Tensor) -> Tensor:
    return torch.cat((x[..., ROTATIONS], x[..., VELOCITIES], x[..., ROOT]), -1)


def _nearest(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Which centre is nearest to each point, and its squared distance."""
    found = [
        (part.square().sum(-1, keepdim=True) + centres.square().sum(-1) - 2.0 * (part @ centres.T)).min(-1)
        for part in torch.split(points, ROWS)
    ]
    return torch.cat([f.indices for f in found]), torch.cat([f.values for f in found]).clamp(min=0.0)


def _spread(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Centres to start from (k-means++, Arthur and Vassilvitskii 2007): each drawn with a probability that
    grows with the squared distance from those before it. Of many points, some."""
    if len(points) > 4 * ROWS:
        some = torch.randperm(len(points), generator=generator, device=points.device)[: 4 * ROWS]
        points = points[some]
    first = torch.randint(len(points), (1,), generator=generator, device=points.device)
    chosen = [points[first]]
    distance = (points - chosen[0]).square().sum(-1)
    for _ in range(count - 1):
        total = float(distance.sum())
        weights = distance if total > 0.0 else torch.ones_like(distance)
        at = torch.multinomial(weights, 1, generator=generator)
        chosen.append(points[at])
        distance = torch.minimum(distance, (points - chosen[-1]).square().sum(-1))
    return torch.cat(chosen)
