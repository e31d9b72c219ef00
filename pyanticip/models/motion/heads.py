"""The head of the motion model: the sound parameters ahead of time, and event hazards."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.motion.strokes import BeatHead
from pyanticip.models.motion.twin_mix import TwinMix
from pyanticip.vocabulary import EVENT_BINS, EVENTS, HORIZONS_MS, PARAMETERS


class ControlHead(TwinMix):
    """Sound parameters at every horizon, and the hazard of each event in every bin ahead.

    Both share a hidden layer. Hazard logits are a learned base rate plus evidence from the hidden state,
    scaled by the commitment gate: an uncommitted movement falls back to the base rate, and the gate gets a
    training signal.

    Parameters are ``sigmoid(output + linear filter of the recent features)``, in 0..1; with the causal
    ``twin`` the output is instead a correction of a mix of the twin's columns, see
    :class:`~pyanticip.models.motion.twin_mix.TwinMix`.

    Args:
        recent: number of features of the last frames; 0 for none.
        base_hazard: initial base rate, hazard per bin.
        gated: whether the gate scales the evidence.
        strokes: whether a separate head adds to the evidence of onsets, independent of the gate.
        twin: whether parameters are a mix of the twin's.
        scaled: with the twin, whether the correction is scaled by how far the twin moved.
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
        """Parameters (..., 8, 5) and hazard logits (..., 2, 25) from hidden (..., D), gate (..., 1), features
        of the last frames (..., recent), the strokes (..., 37) and the twin (..., 48)."""
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
