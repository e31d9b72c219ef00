"""The head of the motion model: the sound parameters ahead of time, and event hazards."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.config import ModelConfig
from pyanticip.models.motion.strokes import BeatHead
from pyanticip.models.motion.twin_mix import TwinMix
from pyanticip.vocabulary import EVENT_BINS, EVENTS, HORIZONS_MS, PARAMETERS

BASE_HAZARD = 0.01
"""Initial base rate of an event, hazard per bin."""


class ControlHead(TwinMix):
    """Sound parameters at every horizon, and the hazard of each event in every bin ahead.

    Both share a hidden layer. Hazard logits are a learned base rate plus evidence from the hidden state,
    scaled by the commitment gate: an uncommitted movement falls back to the base rate, and the gate gets a
    training signal.

    Parameters are ``sigmoid(output + linear filter of the recent features)``, in 0..1; with the causal
    ``twin`` the output is instead a correction of a mix of the twin's columns, see
    :class:`~pyanticip.models.motion.twin_mix.TwinMix`.

    With ``strokes`` a separate head adds to the evidence of onsets, independent of the gate.

    Args:
        recent: number of features of the last frames; 0 for none.
    """

    def __init__(self, cfg: ModelConfig, recent: int) -> None:
        super().__init__(twin=cfg.twin, scaled=cfg.scaled)
        self.gated = cfg.gated_events
        self.params = (len(PARAMETERS), len(HORIZONS_MS))
        self.events = (len(EVENTS), EVENT_BINS)
        self.first = nn.Linear(cfg.d_model, cfg.control_hidden)
        self.last = nn.Linear(cfg.control_hidden, math.prod(self.params) + math.prod(self.events))
        direct = recent and not cfg.twin
        self.recent = nn.Linear(recent, math.prod(self.params), bias=False) if direct else None
        start = math.log(BASE_HAZARD / (1.0 - BASE_HAZARD))
        self.base = nn.Parameter(torch.full((math.prod(self.events),), start))
        self.beats = BeatHead(recent, cfg.control_hidden, EVENT_BINS) if cfg.strokes else None

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
