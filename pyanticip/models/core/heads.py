"""The head that says the seven scalars."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AnticipationHead(nn.Module):
    """Seven scalars in their native units from a hidden state: sigmoid, but 2 tanh for transition
    pressure."""

    gain: Tensor
    offset: Tensor
    slope: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.first = nn.Linear(d_model, d_model // 2)
        self.last = nn.Linear(d_model // 2, 7)
        # 2 tanh(z) = 4 sigmoid(2 z) - 2: one formula for all seven.
        for name, plain, pressure in (("slope", 1.0, 2.0), ("gain", 1.0, 4.0), ("offset", 0.0, -2.0)):
            values = torch.full((7,), plain)
            values[2] = pressure
            self.register_buffer(name, values, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scalars (..., 7) of hidden states (..., D)."""
        z = self.last(F.gelu(self.first(self.norm(x))))
        scalars: Tensor = torch.sigmoid(z * self.slope) * self.gain + self.offset
        return scalars
