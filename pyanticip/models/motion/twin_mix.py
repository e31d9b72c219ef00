"""Parameters as a mix of the causal twin's columns, and what a network adds."""

import math

import torch
from torch import Tensor, nn

from pyanticip.vocabulary import FEATURES, FEATURES_V1, HORIZONS_MS, PARAMETERS

TWINS = (FEATURES - FEATURES_V1) // len(PARAMETERS)
"""Ways in which a feature row has the causal twin: at four delays, and means over 1 and 4 s of the second."""
MEAN = 4
"""The one of them that is the mean over 1 s."""
PULSE = PARAMETERS.index("pulse")
OWN, OTHERS, STILL, LEAST = 0.3, 0.03, 0.02, 1e-8
"""Where a scaled head starts: how much a parameter's own squared movement counts, and another's; the movement
at which 0.7 of what is added counts; the least that is squared."""
FASTER = 8.0
"""What the logarithms of both are divided by, so that they learn as fast as weights."""


class TwinMix(nn.Module):
    """Parameters as a linear mix of each one's own past in the causal twin, and what is added to that.

    Nearer to the truth for movement that nobody trained on than what is said without the twin. ``skip``
    (8, 5, :data:`TWINS`) holds the mix: it starts between hold and mean. Where it is ``scaled``, what is
    added counts by ``m / sqrt(m^2 + c^2)``, of which m is how far parameters moved of late (m^2: learned
    weights of the squares of what the twin's other columns differ from its mean over 1 s) and c is learned:
    nearly all of it in lively movement, little where a body hardly moves.

    Args:
        twin: whether there is a mix at all.
        scaled: whether what is added to it is scaled.
    """

    def __init__(self, *, twin: bool = True, scaled: bool = False) -> None:
        super().__init__()
        shape = len(PARAMETERS), len(HORIZONS_MS)
        # Of the twin 20 ms late and its mean over 4 s: the farther ahead, the more of the mean.
        self.skip = nn.Parameter(torch.zeros(*shape, TWINS)) if twin else None
        if self.skip is not None:
            mean = torch.tensor([min(ms / 400.0, 0.5) for ms in HORIZONS_MS])
            with torch.no_grad():
                self.skip[..., 1], self.skip[..., -1] = 1.0 - mean, mean
        self.moves = self.still = None
        if scaled:
            # A parameter's own movement counts most; that of pulse, which is seldom at rest, little.
            moves = torch.full((len(PARAMETERS), TWINS - 1, len(PARAMETERS)), OTHERS)
            moves[..., PULSE] *= 0.1
            for parameter in range(len(PARAMETERS)):
                moves[parameter, :, parameter] = OWN
            self.moves = nn.Parameter(moves.log() / FASTER)
            self.still = nn.Parameter(torch.full(shape, 2.0 * math.log(STILL) / FASTER))

    def mixed(self, added: Tensor, twin: Tensor) -> Tensor:
        """Parameters (..., 8, 5) of what is added (..., 8, 5) to the twin (..., 48)."""
        assert self.skip is not None
        past = twin.reshape(*twin.shape[:-1], TWINS, len(PARAMETERS))
        if self.moves is not None and self.still is not None:
            others = torch.cat((past[..., :MEAN, :], past[..., MEAN + 1 :, :]), -2)
            squares = (others - past[..., MEAN : MEAN + 1, :]).square()
            moved = (
                LEAST + torch.einsum("...kp,qkp->...q", squares, torch.exp(FASTER * self.moves))[..., None]
            )
            added = added * (moved / (moved + torch.exp(FASTER * self.still))).sqrt()
        params = added + torch.einsum("...kp,phk->...ph", past, self.skip)
        # Uncut while it learns: what is beyond the range must be pulled back.
        return params if self.training else params.clamp(0.0, 1.0)
