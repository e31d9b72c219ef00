"""Frames as far as they can be trusted, and the last ones that could be for the rest.

The control field of a block makes keys of risky frames worth less to those that attend. It cannot undo a bad
frame's own way through the model: its embedding, what the short filter carries on for half a second, and the
measures that go straight to the outputs. Here a risk dh is read before all that, and what goes on is

    y_t = s_t x_t + (1 - s_t) y_(t-1),  s_t = exp(-dh_t)

with s the chance that the frame is good, where the risk was taught as a hazard. A whole sequence is computed
in log2 L steps.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.part import LossContext, Part
from pyanticip.models.parts.field.control_field import distrust_loss

HIDDEN = 32


class FrameHold(Part):
    """Reads a risk off filtered frames, and holds the last trusted frame in place of risky ones.

    Args:
        width: of the embedded frames.
        hidden: of the layer that reads the risk.
    """

    def __init__(self, width: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * width)
        self.first = nn.Linear(2 * width, hidden)
        self.last = nn.Linear(hidden, 1)
        nn.init.normal_(self.first.weight, 0.0, (2 * width) ** -0.5)
        nn.init.normal_(self.last.weight, 0.0, 0.01 * hidden**-0.5)
        nn.init.zeros_(self.first.bias)
        nn.init.constant_(self.last.bias, -4.0)  # as the control field: nearly everything is trusted at first

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """``distrust``, see :func:`~pyanticip.models.parts.field.control_field.distrust_loss`, where bad
        steps are known and it counts."""
        if "distrust" not in context.weighed or context.bad is None or context.weight is None:
            return {}
        known = (context.bad, context.weight, context.divisor)
        return {"distrust": distrust_loss(context.out.distrust, *known)}

    def forward(self, frames: Tensor, filtered: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Trusted frames (B, L, D), and the risk dh >= 0 of each (B, L).

        Args:
            frames: (B, L, D) embedded frames as they came.
            filtered: (B, L, D) the same after the causal filter: what the last ones were like.
            before: (B, D) the trusted frame before the first; zeros at a stream's start.
        """
        seen = self.norm(torch.cat((frames, filtered), -1))
        risk = F.softplus(self.last(F.gelu(self.first(seen))).squeeze(-1))
        return held(frames, torch.exp(-risk)[..., None], before), risk


def held(x: Tensor, share: Tensor, before: Tensor) -> Tensor:
    """``y_t = s_t x_t + (1 - s_t) y_(t-1)`` along the second axis, in log2 L parallel steps.

    Args:
        x: (B, L, D).
        share: (B, L, 1) in 0..1.
        before: (B, D) what comes before the first.
    """
    keep, sums = 1.0 - share, share * x
    reach = 1
    while reach < x.shape[1]:
        # Each step knows a stretch of ``reach`` steps that ends with it: join it to the one before.
        sums = sums + keep * F.pad(sums[:, :-reach], (0, 0, reach, 0))
        keep = keep * F.pad(keep[:, :-reach], (0, 0, reach, 0), value=1.0)
        reach *= 2
    return sums + keep * before[:, None]
