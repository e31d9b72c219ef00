"""The head of the motion model: the sound parameters ahead of time, and event hazards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.motion.strokes import BeatHead
from pyanticip.models.motion.twin_mix import TwinMix
from pyanticip.vocabulary import (
    CANONICAL_JOINTS,
    EVENT_BINS,
    EVENTS,
    HORIZONS_MS,
    PARAMETERS,
)


class ControlHead(TwinMix):
    """Sound parameters at every horizon, and the hazard of each event in every bin ahead.

    A shared hidden layer; parameters through a sigmoid, linear in 0..1. Hazard logits are a learned base rate
    plus what the hidden state says, the latter scaled by the commitment gate: an uncommitted movement falls
    back to the base rate, and the gate has something to learn from.

    With ``recent`` numbers of the last frames the parameters are ``sigmoid(what the hidden state says + a
    linear filter of those numbers)``.

    With the causal ``twin`` they are what the hidden state says, added to a mix of the twin's columns, see
    :class:`~pyanticip.models.motion.twin_mix.TwinMix`.

    :param recent: how many numbers of the last frames come along; 0 for none.
    :param base_hazard: hazard per bin that the base rate starts at.
    :param gated: False leaves the evidence as it is, whatever the gate.
    :param strokes: whether a head of its own adds to the evidence of onsets, whatever the gate.
    :param twin: whether parameters are a mix of the twin's.
    :param scaled: with the twin, whether what is added to it is scaled by how far it moved.
    """

    def __init__(
        self,
        d_model: int,
        hidden: int,
        recent: int = 0,
        base_hazard: float = 0.01,
        gated: bool = True,
        strokes: bool = False,
        twin: bool = False,
        scaled: bool = False,
    ) -> None:
        super().__init__(twin=twin, scaled=scaled)
        self.gated = gated
        self.params = (len(PARAMETERS), len(HORIZONS_MS))
        self.events = (len(EVENTS), EVENT_BINS)
        self.first = nn.Linear(d_model, hidden)
        self.last = nn.Linear(hidden, math.prod(self.params) + math.prod(self.events))
        direct = recent and not twin
        self.recent = nn.Linear(recent, math.prod(self.params), bias=False) if direct else None
        start = math.log(base_hazard / (1.0 - base_hazard))
        self.base = nn.Parameter(torch.full((math.prod(self.events),), start))
        self.beats = BeatHead(recent, hidden, EVENT_BINS) if strokes else None

    def forward(
        self,
        hidden: Tensor,
        gate: Tensor,
        recent: Tensor | None = None,
        strokes: Tensor | None = None,
        twin: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Parameters (..., 8, 5) and hazard logits (..., 2, 25) of hidden (..., D), gate (..., 1), the
        numbers of the last frames (..., recent), the strokes (..., 37) and the twin (..., 48)."""
        units = F.gelu(self.first(hidden))
        params, evidence = self.last(units).split((math.prod(self.params), math.prod(self.events)), -1)
        if self.recent is not None and recent is not None:
            params = params + self.recent(recent)
        logits = self.base + (gate * evidence if self.gated else evidence)
        if self.beats is not None and recent is not None and strokes is not None:
            onsets = logits[..., :EVENT_BINS] + self.beats(strokes, recent, units)
            logits = torch.cat((onsets, logits[..., EVENT_BINS:]), -1)
        rows = hidden.shape[:-1]
        params, logits = params.view(*rows, *self.params), logits.view(*rows, *self.events)
        if self.skip is None or twin is None:
            return torch.sigmoid(params), logits
        return self.mixed(params, twin), logits


JOINTS = len(CANONICAL_JOINTS)


class PoseHead(nn.Module):
    """The pose ahead, a side task of training: each joint's turn from now to each horizon, as six numbers.

    Nothing live reads it, and no graph contains it: it is asked for by name, never by ``forward``.

    The turn is R(now)^T R(later), in the joint's own frame of now: the hips' one does not depend on where the
    performer faces. Six numbers are the first two columns of its matrix (Zhou et al., CVPR 2019); the head
    adds to those of no turn at all, and starts as holding the pose.

    :param hidden: width of the hidden layer.
    :param horizons: how many.
    """

    still: Tensor

    def __init__(self, d_model: int, hidden: int, horizons: int) -> None:
        super().__init__()
        self.horizons = horizons
        self.first = nn.Linear(d_model, hidden)
        self.last = nn.Linear(hidden, horizons * JOINTS * 6)
        nn.init.normal_(self.first.weight, 0.0, d_model**-0.5)
        for zero in (self.first.bias, self.last.weight, self.last.bias):
            nn.init.zeros_(zero)
        self.register_buffer("still", torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]), persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Turns (..., horizons, 22, 6) of hidden states (..., D); not yet orthonormal."""
        change = self.last(F.gelu(self.first(hidden)))
        turns: Tensor = change.view(*hidden.shape[:-1], self.horizons, JOINTS, 6) + self.still
        return turns

    def loss(self, hidden: Tensor, quats: Tensor, ahead: Sequence[int], has: Tensor, known: Tensor) -> Tensor:
        """Absolute error of the six numbers, mean over horizons and joints, summed over frames.

        :param hidden: (B, L, D).
        :param quats: (B, L and what the last horizon needs, 22, 4) unit quaternions.
        :param ahead: frames to each horizon.
        :param has: (B, L, 1, 22) 1 for the joints that the body has.
        :param known: (B, L, horizons) 1 for frames that know what comes.
        """
        length = hidden.shape[1]
        later = torch.stack([quats[:, h : h + length] for h in ahead], 2)
        with torch.no_grad():
            wanted = six_of(turns_of(quats[:, :length, None].expand_as(later), later))
        wrong = (self(hidden) - wanted).abs().mean(-1)
        total: Tensor = ((wrong * has).mean(-1) * known).sum()
        return total


def to_matrix(six: Tensor) -> Tensor:
    """Rotation matrices (..., 3, 3) of six numbers (..., 6), the first two columns, made orthonormal."""
    a, b = six[..., :3], six[..., 3:]
    x = F.normalize(a, dim=-1)
    y = F.normalize(b - (x * b).sum(-1, keepdim=True) * x, dim=-1)
    return torch.stack((x, y, torch.linalg.cross(x, y)), -1)


def turns_of(now: Tensor, later: Tensor) -> Tensor:
    """Quaternions (..., 4) w,x,y,z of the turns from unit quaternions ``now`` to ``later``: now* later."""
    w, v = now[..., :1], -now[..., 1:]
    s, u = later[..., :1], later[..., 1:]
    vector = w * u + s * v + torch.linalg.cross(v, u)
    return torch.cat((w * s - (v * u).sum(-1, keepdim=True), vector), -1)


def six_of(quats: Tensor) -> Tensor:
    """The first two columns (..., 6) of the rotation matrices of unit quaternions (..., 4)."""
    w, x, y, z = quats.unbind(-1)
    first = (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y))
    second = (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x))
    return torch.stack((*first, *second), -1)
