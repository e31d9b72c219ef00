"""Replaces frames that cannot be trusted by the last ones that can.

The control field of a block reduces the attention to risky frames. It cannot undo a bad frame's other effects
on the model: its own embedding, its trace in the short filter for half a second, and the measures that go
directly to the outputs. Here a risk dh is estimated before all of that, and the model continues with

    y_t = s_t x_t + (1 - s_t) y_(t-1),  s_t = exp(-dh_t)

where s is the probability that the frame is good, if the risk is trained as a hazard. A whole sequence is
computed in log2 L parallel steps.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.part import LossContext, Part
from pyanticip.models.parts.field.control_field import distrust_loss

HIDDEN = 32
"""Width of the hidden layer that estimates the risk."""


class FrameHold(Part):
    """Estimates a risk from each frame and the filtered ones, and replaces risky frames by the last trusted.

    Args:
        width: width of the embedded frames.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * width)
        self.first = nn.Linear(2 * width, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)
        nn.init.normal_(self.first.weight, 0.0, (2 * width) ** -0.5)
        nn.init.normal_(self.last.weight, 0.0, 0.01 * HIDDEN**-0.5)
        nn.init.zeros_(self.first.bias)
        nn.init.constant_(self.last.bias, -4.0)  # as in the control field, frames are trusted initially

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """``distrust``, see :func:`~pyanticip.models.parts.field.control_field.distrust_loss`, where bad
        steps are known and the task weighs it."""
        if "distrust" not in context.weighted or context.bad is None or context.weight is None:
            return {}
        labels = (context.bad, context.weight, context.divisor)
        return {"distrust": distrust_loss(context.out.distrust, *labels)}

    def forward(self, frames: Tensor, filtered: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Trusted frames (B, L, D), and the risk dh >= 0 of each (B, L).

        Args:
            frames: (B, L, D) embedded frames.
            filtered: (B, L, D) the same after the causal filter, which represents the last ones.
            before: (B, D) the trusted frame before the first; zeros at a stream's start.
        """
        inputs = self.norm(torch.cat((frames, filtered), -1))
        risk = F.softplus(self.last(F.gelu(self.first(inputs))).squeeze(-1))
        return hold_trusted(frames, torch.exp(-risk)[..., None], before), risk


def hold_trusted(x: Tensor, share: Tensor, before: Tensor) -> Tensor:
    """``y_t = s_t x_t + (1 - s_t) y_(t-1)`` along the second axis, in log2 L parallel steps.

    Args:
        x: (B, L, D).
        share: (B, L, 1) in 0..1.
        before: (B, D) y before the first step.
    """
    keep, sums = 1.0 - share, share * x
    reach = 1
    while reach < x.shape[1]:
        # Each step has the result of the last ``reach`` steps: combine it with that of the ``reach`` before.
        sums = sums + keep * F.pad(sums[:, :-reach], (0, 0, reach, 0))
        keep = keep * F.pad(keep[:, :-reach], (0, 0, reach, 0), value=1.0)
        reach *= 2
    return sums + keep * before[:, None]
