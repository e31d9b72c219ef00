"""Codes of motion frames, which the motion model plans with in place of tokens."""

import math

import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import FEATURE_WIDTHS

ROTATIONS = slice(6, 132)
"""Columns of a feature row with the rotations of all joints except the hips, whose heading is irrelevant."""

VELOCITIES = slice(132, 198)
"""Columns with the joints' angular velocities."""

ROOT = slice(227, 231)
"""Columns with height and velocity of the root."""

_PARTS = (ROTATIONS, VELOCITIES, ROOT)
_WIDTHS = [part.stop - part.start for part in _PARTS]

MAX_ROUNDS = 30
"""Maximum number of rounds of Lloyd's algorithm."""

CHUNK_ROWS = 16_384
"""Rows whose distances to the centres are computed together."""


class PlanCodebook(nn.Module):
    """Assigns each frame the nearest of a few hundred typical frames: feature rows (B, L, n) -> codes (B, L).

    Frames are compared by rotations, angular velocities and the root's height and velocity, standardised and
    each of the three with the same weight. Before :meth:`fit` all frames have code 0.

    Args:
        codes: number of codes.
    """

    centres: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, codes: int) -> None:
        super().__init__()
        width = sum(_WIDTHS)
        self.register_buffer("centres", torch.zeros(codes, width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros(width))

    def points(self, x: Tensor) -> Tensor:
        """Standardised points (..., 196) of feature rows (..., n), between which distances are measured."""
        return (_columns(x) - self.mean) * self.scale

    def forward(self, x: Tensor) -> Tensor:
        """Codes (...,) int64 of feature rows (..., n)."""
        points = self.points(x)
        # |p - c|^2 without |p|^2, which is the same for all centres
        return (self.centres.square().sum(-1) - 2.0 * (points @ self.centres.T)).argmin(-1)

    def error(self, x: Tensor) -> float:
        """Mean squared distance of feature rows (N, n) from their centres, relative to that from the mean
        frame of the rows the codebook was fitted to."""
        points = self.points(x)
        distance = (points - self.centres[self(x)]).square().sum(-1)
        return float(distance.mean() / points.square().sum(-1).mean())

    @torch.no_grad()
    def fit(self, x: Tensor, *, seed: int = 0, rounds: int = MAX_ROUNDS) -> float:
        """Learn the codes by k-means (Lloyd), initialised by k-means++.

        Args:
            x: (N, n) feature rows, at least as many as there are codes.
            seed: of the initialisation.
            rounds: maximum rounds of Lloyd's algorithm; it stops earlier when nothing changes.

        Returns:
            :meth:`error` on these rows.

        Raises:
            ShapeError: rows of another width, or not finite.
            OptionError: fewer rows than codes.
        """
        if x.ndim != 2 or x.shape[1] not in FEATURE_WIDTHS or not bool(torch.isfinite(x).all()):
            widths = " or ".join(map(str, FEATURE_WIDTHS))
            raise ShapeError(f"frames must be finite (N, {widths}), got {tuple(x.shape)}")
        count = len(self.centres)
        if len(x) < count:
            raise OptionError(f"a codebook of {count} codes needs as many frames, got {len(x)}")
        columns = _columns(x)
        deviation, mean = torch.std_mean(columns, 0, correction=0)
        self.mean.copy_(mean)
        scales = [
            torch.where(sigma > 1e-6, 1.0 / (sigma.clamp(min=1e-6) * math.sqrt(len(sigma))), 0.0)
            for sigma in torch.split(deviation, _WIDTHS)
        ]
        self.scale.copy_(torch.cat(scales))
        points = self.points(x)
        generator = torch.Generator(device=x.device).manual_seed(seed)
        centres = _initial_centres(points, count, generator)
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
                # A code without frames moves to one of the frames furthest from their centres.
                centres[empty] = points[distance.topk(len(empty)).indices]
        self.centres.copy_(centres)
        return self.error(x)

    @torch.no_grad()
    def counts(self, x: Tensor) -> Tensor:
        """How often each code occurs in feature rows (N, n): (C,)."""
        codes, _ = _nearest(self.points(x), self.centres)
        return torch.bincount(codes, minlength=len(self.centres))


def _columns(x: Tensor) -> Tensor:
    return torch.cat([x[..., part] for part in _PARTS], -1)


def _nearest(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The index of the centre nearest to each point, and its squared distance."""
    nearest = [
        (part.square().sum(-1, keepdim=True) + centres.square().sum(-1) - 2.0 * (part @ centres.T)).min(-1)
        for part in torch.split(points, CHUNK_ROWS)
    ]
    return torch.cat([f.indices for f in nearest]), torch.cat([f.values for f in nearest]).clamp(min=0.0)


def _initial_centres(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Initial centres (k-means++, Arthur and Vassilvitskii 2007): each drawn with a probability proportional
    to the squared distance from those before it. A large set of points is subsampled."""
    if len(points) > 4 * CHUNK_ROWS:
        sample = torch.randperm(len(points), generator=generator, device=points.device)[: 4 * CHUNK_ROWS]
        points = points[sample]
    first = torch.randint(len(points), (1,), generator=generator, device=points.device)
    centres = [points[first]]
    distance = (points - centres[0]).square().sum(-1)
    for _ in range(count - 1):
        total = float(distance.sum())
        weights = distance if total > 0.0 else torch.ones_like(distance)
        index = torch.multinomial(weights, 1, generator=generator)
        centres.append(points[index])
        distance = torch.minimum(distance, (points - centres[-1]).square().sum(-1))
    return torch.cat(centres)
