"""What steers the attention scores of one pathway beside queries and keys."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Steering:
    """Additive bias and positions of one pathway, for one call.

    The bias of query i on key j is ``amplitude_i exp(-rate (i - j) + beta) - slope (i - j)``, distances in
    the pathway's own steps.

    ``amplitude`` (B, L, H) of the trajectory bias with ``rate`` (H,), its decay per step, and ``beta`` (H,);
    all three ``None`` without it. ``slopes`` (H,) of the linear bias (ALiBi), per step. ``rotary``: distance
    of neighbouring steps in the rotary encoding, 0 for none.
    """

    amplitude: Tensor | None = None
    rate: Tensor | None = None
    beta: Tensor | None = None
    slopes: Tensor | None = None
    rotary: float = 0.0

    def kernel(self, distance: Tensor) -> Tensor | None:
        """The decay (H, ...) at distances (...), ``None`` without a trajectory bias."""
        if self.rate is None or self.beta is None:
            return None
        shape = (-1,) + (1,) * distance.ndim
        steps = distance.to(self.rate.dtype)
        return torch.exp(-self.rate.view(shape) * steps + self.beta.view(shape))

    def linear(self, distance: Tensor) -> Tensor | None:
        """The linear bias (H, ...) at distances (...), ``None`` without one."""
        if self.slopes is None:
            return None
        return -self.slopes.view((-1,) + (1,) * distance.ndim) * distance.to(self.slopes.dtype)
