"""The head that predicts the seven scalars, and the gates that depend on them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AnticipationHead(nn.Module):
    """Predicts the seven scalars in their native units: sigmoid, but 2 tanh for transition pressure."""

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


class PathwayGate(nn.Module):
    """``h = a fast + (1 - a) slow`` with ``a = sigmoid(Linear([scalars; x]))``."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(7 + d_model, 1)

    def forward(self, scalars: Tensor, x: Tensor, fast: Tensor, slow: Tensor) -> tuple[Tensor, Tensor]:
        """The mixture (..., D) and the fast pathway's share ``a`` (...,)."""
        share = torch.sigmoid(self.linear(torch.cat((scalars, x), -1)))
        return slow + share * (fast - slow), share[..., 0]


class PathwayMean(nn.Module):
    """``h = (fast + slow) / 2``: the ablation of :class:`PathwayGate`."""

    def forward(self, scalars: Tensor, x: Tensor, fast: Tensor, slow: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`PathwayGate.forward`, with a share of 1/2."""
        return 0.5 * (fast + slow), x.new_full(x.shape[:-1], 0.5)


class CommitmentGate(nn.Module):
    """How committed the movement is: ``g = sigmoid(Linear([sigmoid(Linear(hidden)); C]))``.

    The last layer starts at weights [1, 4] and bias -2.5, so that g rises with the predicted commitment C and
    can cross the threshold of the inference rule, :func:`decide`.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.local = nn.Linear(d_model, 1)
        self.combine = nn.Linear(2, 1)

    def reset_parameters(self) -> None:
        """Initialise the last layer as described above; the local layer keeps the model's initialisation."""
        with torch.no_grad():
            self.combine.weight.copy_(torch.tensor([[1.0, 4.0]]))
            self.combine.bias.fill_(-2.5)

    def forward(self, hidden: Tensor, commitment: Tensor) -> Tensor:
        """The gate (..., 1) in (0, 1) of hidden states (..., D) and predicted commitment (..., 1)."""
        local = torch.sigmoid(self.local(hidden))
        gate: Tensor = torch.sigmoid(self.combine(torch.cat((local, commitment), -1)))
        return gate


def threshold(waited: Tensor, theta: float, max_buffer: int) -> Tensor:
    """Commitment threshold ``theta (1 - 0.5 n / max_buffer)`` after n steps of waiting."""
    return theta * (1.0 - 0.5 * waited / max_buffer)


@torch.no_grad()
def decide(gate: Tensor, waited: Tensor, theta: float, max_buffer: int) -> tuple[Tensor, Tensor]:
    """Decide which rows emit now: those over their threshold, and those that waited ``max_buffer`` steps.

    Args:
        gate: (B,) the gate of this step.
        waited: (B,) int64 steps that each row has waited.

    Returns:
        emit (B,) bool, and the new ``waited``: 0 for rows that emit, one more for the others.
    """
    emit = (gate > threshold(waited, theta, max_buffer).to(gate.dtype)) | (waited >= max_buffer)
    return emit, torch.where(emit, torch.zeros_like(waited), waited + 1)
