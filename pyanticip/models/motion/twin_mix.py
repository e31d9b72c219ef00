"""Parameters as a linear mix of the causal twin's columns plus a network's correction."""

import math

import torch
from torch import Tensor, nn

from pyanticip.vocabulary import FEATURES, FEATURES_V1, HORIZONS_MS, PARAMETERS

TWINS = (FEATURES - FEATURES_V1) // len(PARAMETERS)
"""Versions of the causal twin in a feature row: at four delays, and means over 1 and 4 s of the second."""
MEAN = 4
"""Index of the mean over 1 s."""
PULSE = PARAMETERS.index("pulse")
OWN_WEIGHT = 0.3
"""Initial weight of a parameter's own squared movement in a scaled head."""
OTHER_WEIGHT = 0.03
"""Initial weight of another parameter's squared movement."""
HALF_MOVEMENT = 0.02
"""Initial c, the movement at which the correction is scaled by 0.7."""
MIN_SQUARE = 1e-8
"""Added to the squared movement."""
LOG_SCALE = 8.0
"""Divisor of the learned logarithms, so that they learn as fast as weights."""


class TwinMix(nn.Module):
    """Parameters as a linear mix of each one's own past in the causal twin, plus a correction.

    More accurate for movement outside the training data than a head without the twin. ``skip``
    (8, 5, :data:`TWINS`) holds the mix, initially between hold and mean. With ``scaled`` the correction is
    multiplied by ``m / sqrt(m^2 + c^2)``: m is how far the parameters moved recently (m^2 is a learned
    weighted sum of the squared differences of the twin's other columns from its mean over 1 s), and c is
    learned. So nearly all of it counts in lively movement, and little where the body hardly moves.

    Args:
        twin: whether there is a mix at all.
        scaled: whether the correction is scaled.
    """

    def __init__(self, *, twin: bool = True, scaled: bool = False) -> None:
        super().__init__()
        shape = len(PARAMETERS), len(HORIZONS_MS)
        # Between the twin 20 ms late and its mean over 4 s: the further ahead, the more of the mean.
        self.skip = nn.Parameter(torch.zeros(*shape, TWINS)) if twin else None
        if self.skip is not None:
            mean = torch.tensor([min(ms / 400.0, 0.5) for ms in HORIZONS_MS])
            with torch.no_grad():
                self.skip[..., 1], self.skip[..., -1] = 1.0 - mean, mean
        self.moves = self.still = None
        if scaled:
            # A parameter's own movement has the largest weight; pulse, which is rarely at rest, little.
            moves = torch.full((len(PARAMETERS), TWINS - 1, len(PARAMETERS)), OTHER_WEIGHT)
            moves[..., PULSE] *= 0.1
            for parameter in range(len(PARAMETERS)):
                moves[parameter, :, parameter] = OWN_WEIGHT
            self.moves = nn.Parameter(moves.log() / LOG_SCALE)
            self.still = nn.Parameter(torch.full(shape, 2.0 * math.log(HALF_MOVEMENT) / LOG_SCALE))

    def mixed(self, added: Tensor, twin: Tensor) -> Tensor:
        """Parameters (..., 8, 5) from a correction ``added`` (..., 8, 5) and the twin (..., 48)."""
        assert self.skip is not None
        past = twin.reshape(*twin.shape[:-1], TWINS, len(PARAMETERS))
        if self.moves is not None and self.still is not None:
            others = torch.cat((past[..., :MEAN, :], past[..., MEAN + 1 :, :]), -2)
            squares = (others - past[..., MEAN : MEAN + 1, :]).square()
            movement2 = (
                MIN_SQUARE
                + torch.einsum("...kp,qkp->...q", squares, torch.exp(LOG_SCALE * self.moves))[..., None]
            )
            added = added * (movement2 / (movement2 + torch.exp(LOG_SCALE * self.still))).sqrt()
        params = added + torch.einsum("...kp,phk->...ph", past, self.skip)
        # Not clamped in training, so that values out of range have a gradient.
        return params if self.training else params.clamp(0.0, 1.0)
