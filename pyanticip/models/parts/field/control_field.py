"""The control field of Napolitano (2026, *Consistency Is All You Need*): a running estimate of which steps to
trust.

Every block estimates a risk of each step, averages it over the recent past, and gates with it: keys of risky
stretches get lower scores from every query, and the feed-forward output is reduced where steps are erratic.

    phi_t   = W x_t                                       fibre, 8 numbers
    dh_t    = softplus(MLP([x_t; phi_t]))                 risk of the step
    h_t     = a h_(t-1) + (1 - a) dh_t, over 1 - a^(t+1)  held risk, corrected for the start at 0
    g_t     = sigmoid(-lambda h_t)                        log(g_j + 1e-8) goes to the scores of key j
    kappa_t = |phi_t - phi_(t-2)| / 2                     curvature; the feed-forward output is multiplied by
                                                          sigmoid(1 - lambda_k kappa_t)

The paper's curvature is centred on t and so uses phi_(t+1), which tells every step of a language model the
token that it has to predict. Here it uses past steps only, and is 0 for the first two.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.layouts import exact
from pyanticip.models.core.part import Gate, GateTrace, Gating, LossContext
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.field.config import FieldConfig
from pyanticip.models.parts.field.reduction import (
    GATE_FLOOR,
    FieldWeights,
    decayed_sums,
    log_gates,
    project,
    reduce_field,
    scales,
)

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig

RISK_WEIGHT, CURVATURE_WEIGHT = 1e-3, 1e-4
"""Weights of the mean risk and the mean curvature in the loss; the paper uses them with sums, not means."""


@dataclass
class FieldState(State):
    """Streaming state of one block's field: ``count`` (B,) int64 steps so far, ``sums`` (B,) the running
    average of the risk before its bias correction, ``fibres`` (B, 2, 8) of the last two steps, oldest
    first."""

    count: Tensor
    sums: Tensor
    fibres: Tensor


@dataclass(frozen=True)
class FieldOutput(Gating):
    """Output of one block's field for each step, all (B, L).

    ``held`` h, ``risk`` dh and ``kappa`` are the held risk, the step's own, and the curvature, all >= 0.
    """

    held: Tensor
    risk: Tensor
    kappa: Tensor

    @property
    def trust(self) -> Tensor:
        """Trust (B, L) in 0..1: twice the gate, which is at most one half. 1 where there is no risk."""
        return 2.0 * (self.log_gate.exp() - GATE_FLOOR).clamp(min=0.0)


@dataclass(frozen=True)
class FieldTrace(GateTrace):
    """Outputs of the fields of a model's blocks."""

    fast: tuple[FieldOutput, ...]
    slow: tuple[FieldOutput, ...] = ()

    def loss(self, weight: Tensor | None = None, stride: int = 1, divisor: float | None = None) -> Tensor:
        """The auxiliary loss: 1e-3 times the mean risk plus 1e-4 times the mean curvature.

        Arguments as of :func:`risk_loss`; without ``weight`` all steps count.
        """
        parts = [part for part in (*self.fast, *self.slow) if part.risk.numel()]
        each = [RISK_WEIGHT * part.risk + CURVATURE_WEIGHT * part.kappa for part in parts]
        if weight is None:
            return torch.stack([values.mean() for values in each]).mean()
        frames = weight.sum().clamp(min=1.0) if divisor is None else max(divisor, 1e-6)
        strides = [1] * len(self.fast) + [stride] * len(self.slow)
        sums = [_frame_sum(values, weight, every) for values, every in zip(each, strides, strict=False)]
        return torch.stack(sums).mean() / frames

    def live(self) -> Tensor:
        """Trust and curvature of the fast blocks (B, L, blocks, 2), for monitoring."""
        pairs = [torch.stack((part.trust, part.kappa), -1) for part in self.fast]
        return torch.stack(pairs, 2)


class ControlField(Gate):
    """The field of one block.

    Args:
        width: D of the block's input.
    """

    def __init__(self, width: int, cfg: FieldConfig) -> None:
        super().__init__()
        self.decay = cfg.decay
        self.bend = cfg.curvature
        self.start = cfg.gate
        self.fibre = nn.Linear(width, cfg.width, bias=False)
        self.hidden = nn.Linear(width + cfg.width, cfg.hidden)
        self.last = nn.Linear(cfg.hidden, 1)
        self.raw = nn.Parameter(torch.zeros(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as in the paper: Xavier, and a last layer that starts near zero risk."""
        for linear in (self.fibre, self.hidden, self.last):
            nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(self.hidden.bias)
        with torch.no_grad():
            self.last.weight.mul_(0.01)
            self.last.bias.fill_(-4.0)
            self.raw.fill_(math.log(math.expm1(self.start)))

    @classmethod
    def from_model_config(cls, model: "ModelConfig") -> "ControlField":
        """Build the field from a model's configuration."""
        assert isinstance(model.control_field, FieldConfig)
        return cls(model.d_model, model.control_field)

    @property
    def strength(self) -> Tensor:
        """Lambda of the attention gate, learned; it is above 0, so that the gate is at most one half."""
        strength: Tensor = F.softplus(self.raw)
        return strength

    def trace(self, fast: tuple[FieldOutput, ...], slow: tuple[FieldOutput, ...]) -> FieldTrace:
        """See :class:`~pyanticip.models.core.part.Gate`."""
        return FieldTrace(fast, slow)

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """``field``, see :meth:`FieldTrace.loss`; and, where bad steps are known, ``risk``, see
        :func:`~pyanticip.models.parts.field.control_field.risk_loss`."""
        trace = context.out.field
        losses = {"field": trace.loss(context.weight, context.stride, context.divisor)}
        if context.bad is not None and context.weight is not None:
            labels = (context.bad, context.weight, context.stride, context.divisor)
            losses["risk"] = risk_loss(trace, *labels, distrust=context.out.distrust)
        return losses

    def initial_state(self, batch: int) -> FieldState:
        """The state before the first step: zeros."""
        zeros = self.fibre.weight.new_zeros
        count = torch.zeros(batch, dtype=torch.int64, device=self.fibre.weight.device)
        return FieldState(count, zeros(batch), zeros(batch, 2, self.fibre.out_features))

    def forward(
        self, x: Tensor, state: FieldState | None = None, new: Tensor | None = None
    ) -> tuple[FieldOutput, FieldState | None]:
        """The field over a sequence from its start, or over a chunk that follows a state.

        Args:
            x: (B, L, D) the block's input.
            new: (B,) how many steps of the chunk are real in each row; the rest does not enter the state.
        """
        with exact(x):
            x = x.to(self.fibre.weight.dtype)
            if state is None:
                return FieldOutput(*reduce_field(x, self.weights, self.decay, self.bend)), None
            phi, pre_risk = project(x, self.weights)
            risk = F.softplus(self.last(F.gelu(pre_risk)).squeeze(-1))
            sums = decayed_sums((1.0 - self.decay) * risk, self.decay, state.sums)
            steps = state.count[:, None] + torch.arange(1, x.shape[1] + 1, device=x.device)
            held = sums / -torch.expm1(steps.to(sums.dtype) * math.log(self.decay))
            joined = torch.cat((state.fibres, phi), 1)
            distance = torch.linalg.vector_norm(joined[:, 2:] - joined[:, :-2], dim=-1)
            kappa = 0.5 * distance * (steps > 2)
            gate = log_gates(held, self.raw)
        out = FieldOutput(gate, scales(kappa, self.bend), held, risk, kappa)
        return out, self._after(state, sums, joined, new)

    @property
    def weights(self) -> FieldWeights:
        """The field's parameters."""
        hidden, last = self.hidden, self.last
        return FieldWeights(self.fibre.weight, hidden.weight, hidden.bias, last.weight, last.bias, self.raw)

    @staticmethod
    def _after(state: FieldState, sums: Tensor, joined: Tensor, new: Tensor | None) -> FieldState:
        """The state after the chunk's real steps."""
        if new is None:
            return FieldState(state.count + sums.shape[1], sums[:, -1], joined[:, -2:])
        series = torch.cat((state.sums[:, None], sums), 1)
        at = (new[:, None] + torch.arange(2, device=new.device))[..., None].expand(-1, -1, joined.shape[-1])
        return FieldState(
            state.count + new, torch.gather(series, 1, new[:, None])[:, 0], torch.gather(joined, 1, at)
        )


def risk_loss(
    trace: GateTrace,
    bad: Tensor,
    weight: Tensor,
    stride: int,
    divisor: float | None = None,
    distrust: Tensor | None = None,
) -> Tensor:
    """Negative log-likelihood of the ``bad`` labels under the risks, in nats per frame, mean over the blocks.

    The risk of a step, dh >= 0, is a hazard: the probability that a frame is bad is ``1 - exp(-dh)``. As dh
    is a softplus, that is the sigmoid of its argument, and the likelihood that of logistic regression. With
    ``distrust``, the loss of the input frames is added.

    A pool of the slow pathway is bad if any of its frames is, and counts once per frame that counts.

    Args:
        trace: of fields over whole windows from their start.
        bad: (B, L) 1 for bad frames, else 0.
        weight: (B, L) 1 for frames that count, else 0.
        stride: frames per pool; 1 if the slow pathway runs on every frame.
        divisor: divides sums over frames to give means; by default the sum of the weights.
        distrust: (B, L) risk of the input frames, if the model estimates it.
    """
    frames = weight.sum().clamp(min=1.0) if divisor is None else max(divisor, 1e-6)
    sums = [_frame_sum(risk_nll(block.risk, bad), weight) for block in trace.fast]
    for block in trace.slow:
        pools = block.risk.shape[1]
        whole = slice(0, pools * stride)
        labels = bad[:, whole].reshape(len(bad), pools, stride)
        labels = labels.amax(2) if pools else labels[..., 0]
        sums.append(_frame_sum(risk_nll(block.risk, labels), weight, stride))
    total = torch.stack(sums).mean() / frames
    return total if distrust is None else total + distrust_loss(distrust, bad, weight, divisor)


def _frame_sum(values: Tensor, weight: Tensor, stride: int = 1) -> Tensor:
    """Sum of ``values`` of frames, or of pools of ``stride`` frames, over the frames that count."""
    each = values.repeat_interleave(stride, 1)
    return (each * weight[:, : each.shape[1]]).sum()


def distrust_loss(distrust: Tensor, bad: Tensor, weight: Tensor, divisor: float | None = None) -> Tensor:
    """As :func:`risk_loss`, for the risk ``distrust`` (B, L) of the input frames alone."""
    frames = weight.sum().clamp(min=1.0) if divisor is None else max(divisor, 1e-6)
    return (risk_nll(distrust, bad) * weight).sum() / frames


def risk_nll(risk: Tensor, bad: Tensor) -> Tensor:
    """Negative log-likelihood of ``bad`` (1 or 0) under risks of the same shape."""
    # The clamp avoids log 0, where there is no gradient; every risk above 0 has one.
    log_bad = torch.log(-torch.expm1(-risk.clamp(min=torch.finfo(risk.dtype).tiny)))
    return torch.where(bad > 0.5, -log_bad, risk)
