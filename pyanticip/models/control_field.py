"""The control field of Napolitano (2026, *Consistency Is All You Need*): a running sense of what to trust.

Every block reads a risk off each step, averages it over the recent past, and gates with it: keys of risky
stretches are worth less to every query, and the feed-forward layer holds back where the steps jump about.

    phi_t   = W x_t                                       fibre, 8 numbers
    dh_t    = softplus(MLP([x_t; phi_t]))                 risk of the step
    h_t     = a h_(t-1) + (1 - a) dh_t, over 1 - a^(t+1)  held risk, without the bias towards early steps
    g_t     = sigmoid(-lambda h_t)                        log(g_j + 1e-8) goes to the scores of key j
    kappa_t = |phi_t - phi_(t-2)| / 2                     curvature; the feed-forward output is multiplied by
                                                          sigmoid(1 - lambda_k kappa_t)

The paper's curvature is centred on t, which takes phi_(t+1), and so tells every step of a language model the
token it is to foretell. Here it is taken over the steps that have been, and is 0 for the first two.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.config import ModelConfig
from pyanticip.models.streaming import State

GATE_FLOOR = 1e-8
"""What is added to a gate before its logarithm."""

RISK_WEIGHT, CURVATURE_WEIGHT = 1e-3, 1e-4
"""Weights of the mean risk and the mean curvature in the loss (the paper's, which sums in place of means)."""

_BLOCK = 256


@dataclass
class FieldState(State):
    """What one block's field remembers: ``count`` (B,) int64 steps so far, ``sums`` (B,) the running average
    of the risk before it is freed of its bias, ``fibres`` (B, 2, 8) of the last two steps, older first."""

    count: Tensor
    sums: Tensor
    fibres: Tensor


@dataclass(frozen=True)
class FieldOutput:
    """What one block's field says of each step, all (B, L).

    ``log_gate`` is added to the scores of the step as a key; ``scale`` multiplies its feed-forward output;
    ``held`` h, ``risk`` dh and ``kappa`` are the held risk, the step's own, and the curvature, all >= 0.
    """

    log_gate: Tensor
    scale: Tensor
    held: Tensor
    risk: Tensor
    kappa: Tensor

    @property
    def trust(self) -> Tensor:
        """(B, L) in 0..1: twice the gate, which is never above one half. 1 where there is no risk."""
        return 2.0 * (self.log_gate.exp() - GATE_FLOOR)


@dataclass(frozen=True)
class FieldTrace:
    """The fields of a model's blocks: ``fast`` one for each block over the steps; ``slow`` one for each block
    of the slow pathway, over its pools. A plain transformer has all its layers in ``fast``.

    In a chunk after a state ``slow`` is as long as the most pools that close in any row; rows in which fewer
    do have padding at the end.
    """

    fast: tuple[FieldOutput, ...]
    slow: tuple[FieldOutput, ...] = ()

    def loss(self) -> Tensor:
        """The auxiliary loss: 1e-3 times the mean risk plus 1e-4 times the mean curvature."""
        parts = [part for part in (*self.fast, *self.slow) if part.risk.numel()]
        risk = torch.stack([part.risk.mean() for part in parts]).mean()
        kappa = torch.stack([part.kappa.mean() for part in parts]).mean()
        return RISK_WEIGHT * risk + CURVATURE_WEIGHT * kappa

    def live(self) -> Tensor:
        """(B, L, blocks, 2) trust and curvature of the fast blocks, for whoever watches."""
        pairs = [torch.stack((part.trust, part.kappa), -1) for part in self.fast]
        return torch.stack(pairs, 2)


def join_traces(traces: list[FieldTrace]) -> FieldTrace:
    """The traces of chunks that follow each other, as one."""

    def joined(parts: tuple[FieldOutput, ...]) -> FieldOutput:
        names = ("log_gate", "scale", "held", "risk", "kappa")
        return FieldOutput(*(torch.cat([getattr(part, name) for part in parts], 1) for name in names))

    fast = zip(*(trace.fast for trace in traces), strict=True)
    slow = zip(*(trace.slow for trace in traces if trace.slow), strict=True)
    return FieldTrace(tuple(map(joined, fast)), tuple(map(joined, slow)))


class ControlField(nn.Module):
    """The field of one block.

    :param cfg: its ``field_*`` options.
    """

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.decay = cfg.field_decay
        self.bend = cfg.field_curvature
        self.start = cfg.field_gate
        self.fibre = nn.Linear(cfg.d_model, cfg.field_width, bias=False)
        self.hidden = nn.Linear(cfg.d_model + cfg.field_width, cfg.field_hidden)
        self.last = nn.Linear(cfg.field_hidden, 1)
        self.raw = nn.Parameter(torch.zeros(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The paper's start: Xavier, and a last layer that begins near no risk at all."""
        for linear in (self.fibre, self.hidden, self.last):
            nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(self.hidden.bias)
        with torch.no_grad():
            self.last.weight.mul_(0.01)
            self.last.bias.fill_(-4.0)
            self.raw.fill_(math.log(math.expm1(self.start)))

    @property
    def strength(self) -> Tensor:
        """Lambda of the attention gate, learned, above 0: so the gate is never above one half."""
        strength: Tensor = F.softplus(self.raw)
        return strength

    def initial_state(self, batch: int) -> FieldState:
        """The state before the first step: zeros."""
        zeros = self.fibre.weight.new_zeros
        count = torch.zeros(batch, dtype=torch.int64, device=self.fibre.weight.device)
        return FieldState(count, zeros(batch), zeros(batch, 2, self.fibre.out_features))

    def forward(
        self, x: Tensor, state: FieldState | None = None, new: Tensor | None = None
    ) -> tuple[FieldOutput, FieldState | None]:
        """The field over a sequence from its start, or over a chunk that follows a state.

        :param x: (B, L, D) the block's input.
        :param new: (B,) how many steps of the chunk are real in each row; the rest is not remembered.
        """
        with _exact(x):
            phi, felt = self._read(x)
            risk = F.softplus(self.last(F.gelu(felt)).squeeze(-1))
            share = (1.0 - self.decay) * risk
            sums = decayed_sums(share, self.decay, None if state is None else state.sums)
            count = None if state is None else state.count
            held = sums / self._mass(x.shape[1], count, sums)
            gate = torch.sigmoid(-self.strength * held)
            joined = None if state is None else torch.cat((state.fibres, phi), 1)
            kappa = self._curvature(phi, joined, count)
            out = FieldOutput(
                torch.log(gate + GATE_FLOOR), torch.sigmoid(1.0 - self.bend * kappa), held, risk, kappa
            )
        if state is None or joined is None:
            return out, None
        return out, self._after(state, sums, joined, new)

    def _read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The fibre (B, L, 8) and the hidden layer (B, L, 16) before its nonlinearity.

        Both are linear in the step, the second one by way of the first as well: so one product does it.
        """
        fibre, width, inner = self.fibre.weight, self.fibre.out_features, self.hidden.weight
        weight = torch.cat((fibre, torch.addmm(inner[:, : x.shape[-1]], inner[:, x.shape[-1] :], fibre)))
        seen = F.linear(x.to(weight.dtype), weight)
        return seen[..., :width], seen[..., width:] + self.hidden.bias

    def _mass(self, length: int, count: Tensor | None, like: Tensor) -> Tensor:
        """(B or 1, L) how much of the average is filled, ``1 - a^(t + 1)``."""
        if count is None:
            return _constant(_filled, self.decay, length, like)
        steps = count[:, None] + torch.arange(1, length + 1, device=like.device)
        return -torch.expm1(steps.to(like.dtype) * math.log(self.decay))

    @staticmethod
    def _curvature(phi: Tensor, joined: Tensor | None, count: Tensor | None) -> Tensor:
        """(B, L) half the way between the fibres of a step and of the one before the last."""
        if joined is None or count is None:
            way = torch.linalg.vector_norm(phi[:, 2:] - phi[:, :-2], dim=-1)
            return 0.5 * F.pad(way, (min(2, phi.shape[1]), 0))
        way = torch.linalg.vector_norm(joined[:, 2:] - joined[:, :-2], dim=-1)
        before = count[:, None] + torch.arange(phi.shape[1], device=phi.device)
        kappa: Tensor = 0.5 * way * (before >= 2)
        return kappa

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


def decayed_sums(x: Tensor, decay: float, before: Tensor | None = None) -> Tensor:
    """``s_t = decay s_(t-1) + x_t`` along the last axis, in parallel and in linear time.

    Blocks of 256 are summed by a triangular matrix, and what blocks pass on to each other by this function
    itself.

    :param x: (B, L).
    :param before: (B,) the sum before the first step, 0 if absent.
    """
    rows, length = x.shape
    if length == 1:
        return x if before is None else x + decay * before[:, None]
    size = min(length, _BLOCK)
    reach = _constant(_reach, decay, size, x)
    if length <= _BLOCK:
        sums = x @ reach
        return sums if before is None else sums + before[:, None] * (reach[0] * decay)
    fall = reach[0] * decay
    blocks = -(-length // size)
    inner = F.pad(x, (0, blocks * size - length)).view(rows, blocks, size) @ reach
    ends = decayed_sums(inner[..., -1], decay**size, before) if decay**size else inner[..., -1]
    first = x.new_zeros(rows) if before is None else before
    carried = torch.cat((first[:, None], ends[:, :-1]), 1)
    return (inner + carried[..., None] * fall).flatten(1)[:, :length]


def _reach(decay: float, length: int, like: Tensor) -> Tensor:
    """(i, t): how much of step i is left at step t."""
    steps = torch.arange(length, device=like.device)
    ages = (steps - steps[:, None]).to(like.dtype)
    return torch.exp(ages.clamp(min=0) * math.log(decay)).triu()


def _filled(decay: float, length: int, like: Tensor) -> Tensor:
    """(1, L): how much of the average is filled at each step from the first on."""
    steps = torch.arange(1, length + 1, device=like.device)
    return -torch.expm1(steps.to(like.dtype) * math.log(decay))[None]


Make = Callable[[float, int, Tensor], Tensor]


def _constant(make: Make, decay: float, length: int, like: Tensor) -> Tensor:
    """What ``make`` computes of these numbers, made once for each type and device: it depends on nothing
    else, and making it takes longer than using it."""
    if torch.compiler.is_compiling():
        return make(decay, length, like)
    return _made(make, decay, length, like.dtype, like.device)


@lru_cache(maxsize=32)
def _made(make: Make, decay: float, length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return make(decay, length, torch.empty(0, dtype=dtype, device=device))


def stepwise_sums(x: Tensor, decay: float, before: Tensor | None = None) -> Tensor:
    """What :func:`decayed_sums` computes, step by step: the definition, to compare with."""

    def run() -> Iterator[Tensor]:
        held = x.new_zeros(x.shape[0]) if before is None else before
        for step in x.unbind(1):
            held = decay * held + step
            yield held

    return torch.stack(list(run()), 1)


def _exact(x: Tensor) -> AbstractContextManager[object]:
    """Full precision where mixed precision is on: the average runs over many steps."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
