"""The dual-pathway trunk that every model of the family shares (Diomande 2026, Anticipatory Transformer).

Embedded steps go in, hidden states and scalars come out. The fast pathway attends locally on every step; the
slow pathway runs once every ``slow_stride`` steps over pooled steps and holds its result in between.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.attention import Layout, Ring, TrajectoryAttention
from pyanticip.models.band import make_band
from pyanticip.models.bias import RandomScalars, TrajectoryBias
from pyanticip.models.config import ModelConfig
from pyanticip.models.fused import make_fused
from pyanticip.models.gates import CommitmentGate, PathwayGate, PathwayMean
from pyanticip.models.heads import AnticipationHead
from pyanticip.models.positions import alibi_slopes
from pyanticip.models.slots import make_slots
from pyanticip.models.steering import Steering
from pyanticip.models.streaming import State

ScalarMode = Literal["external", "initial", "refined_prev"]
"""Which scalars steer bias and gates: the given ones, the initial head's, or the refined head's of the step
before."""


@dataclass
class TrunkState(State):
    """What the trunk remembers of each row.

    ``frames`` (B,) int64 steps since the row's start, which also gives phase and number of pools; one ring
    per block of either pathway; ``pool`` (B, D) the sum of the open pool's steps; ``held`` (B, D) the slow
    pathway's last result; ``refined`` (B, 7) the refined scalars of the last step.
    """

    frames: Tensor
    fast: tuple[Ring, ...]
    slow: tuple[Ring, ...]
    pool: Tensor
    held: Tensor
    refined: Tensor


@dataclass(frozen=True)
class TrunkOutput:
    """``hidden`` (B, L, D) after the final norm, ``scalars`` and ``initial`` (B, L, 7) of the two heads,
    ``gate`` (B, L, 1) the commitment gate, ``share`` (B, L) of the fast pathway."""

    hidden: Tensor
    scalars: Tensor
    initial: Tensor
    gate: Tensor
    share: Tensor


class Block(nn.Module):
    """Pre-norm attention and feed-forward: ``x += drop(attn(LN x)); x += FFN(LN x)``."""

    def __init__(self, cfg: ModelConfig, past: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(cfg.d_model)
        self.attention = TrajectoryAttention(cfg.d_model, cfg.heads, past)
        self.norm2 = nn.LayerNorm(cfg.d_model)
        self.up = nn.Linear(cfg.d_model, cfg.ff)
        self.down = nn.Linear(cfg.ff, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.ffn_dropout = nn.Dropout(cfg.dropout if cfg.ffn_dropout else 0.0)

    def forward(self, x: Tensor, layout: Layout, ring: Ring | None) -> tuple[Tensor, Ring | None]:
        """One block over a chunk (B, L, D)."""
        mixed, ring = self.attention(self.norm1(x), layout, ring)
        x = x + self.dropout(mixed)
        x = x + self.ffn_dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        return x, ring


class Trunk(nn.Module):
    """Both pathways, the bias, the gates and the anticipation heads, up to the final norm.

    Without slow layers the fast pathway's result goes on alone, with a share of 1.
    """

    slopes: Tensor
    reference: bool = False
    """Whether whole sequences take the reference layout too: slower, the bias in memory; for comparison."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.initial_head = AnticipationHead(cfg.d_model)
        self.bias: TrajectoryBias | None = None
        if cfg.bias != "none":
            self.bias = TrajectoryBias(cfg.heads, cfg.dist_scale, cfg.alpha == "softplus")
        self.random = RandomScalars() if cfg.bias == "random" else None
        self.register_buffer("slopes", alibi_slopes(cfg.heads), persistent=False)
        self.fast = nn.ModuleList(Block(cfg, cfg.fast_past) for _ in range(cfg.fast_layers))
        self.slow = nn.ModuleList(Block(cfg, cfg.slow_past) for _ in range(cfg.slow_layers))
        self.pathway: PathwayGate | PathwayMean | None = None
        if cfg.slow_layers:
            self.pathway = PathwayGate(cfg.d_model) if cfg.mixing == "gated" else PathwayMean()
        self.refined_head = AnticipationHead(cfg.d_model)
        self.norm = nn.LayerNorm(cfg.d_model)
        self.commitment = CommitmentGate(cfg.d_model, cfg.theta, cfg.max_buffer, cfg.gate_gradient)
        self.apply(init_weights)
        if self.bias is not None and cfg.bias_start == "fan-in":
            self.bias.reset_parameters()
        if cfg.gate_start == "monotone":
            self.commitment.reset_parameters()

    def initial_state(self, batch: int) -> TrunkState:
        """The state before the first step of ``batch`` rows: zeros."""
        like = self.norm.weight
        zeros = like.new_zeros
        fast = tuple(_attention(block).initial_state(batch) for block in self.fast)
        slow = tuple(_attention(block).initial_state(batch) for block in self.slow)
        frames = torch.zeros(batch, dtype=torch.int64, device=like.device)
        d = self.cfg.d_model
        return TrunkState(frames, fast, slow, zeros(batch, d), zeros(batch, d), zeros(batch, 7))

    def forward(
        self,
        x: Tensor,
        given: Tensor | None = None,
        state: TrunkState | None = None,
        *,
        mode: ScalarMode = "external",
        predicted: Tensor | None = None,
        due: bool | None = None,
    ) -> tuple[TrunkOutput, TrunkState | None]:
        """Run a sequence from its start (no state) or a chunk that follows one (with its state).

        :param x: (B, L, D) embedded steps.
        :param given: (B, L, 7) scalars in native units, needed by ``mode="external"``.
        :param predicted: (B, L) bool, steps where the initial head's scalars replace the given ones
            (scheduled sampling).
        :param due: whether a pool closes in this chunk in some row, where the caller knows; ``None`` finds
            out.
        """
        if mode == "refined_prev" and x.shape[1] > 1:
            return self._self_predicted(x, state)
        initial: Tensor = self.initial_head(x)
        active = self._active(initial, given, state, mode, predicted)
        amplitude = self._amplitude(active, state)
        fast, rings = self._fast(x, amplitude, state)
        memory: tuple[tuple[Ring, ...], Tensor, Tensor]
        if self.pathway is None:
            mixed, share = fast, x.new_ones(x.shape[:-1])
            memory = ((), torch.zeros_like(x[:, -1]), torch.zeros_like(x[:, -1]))
        else:
            slow, memory = self._slow(x, amplitude, state, due)
            mixed, share = self.pathway(active, x, fast, slow)
        refined: Tensor = self.refined_head(mixed)
        hidden: Tensor = self.norm(mixed)
        gate: Tensor = self.commitment(hidden, refined[..., :1])
        out = TrunkOutput(hidden, refined, initial, gate, share)
        if state is None:
            return out, None
        pools, pool, held = memory
        frames = state.frames + x.shape[1]
        return out, TrunkState(frames, rings, pools, pool, held, refined[:, -1].clone())

    def _active(
        self,
        initial: Tensor,
        given: Tensor | None,
        state: TrunkState | None,
        mode: ScalarMode,
        predicted: Tensor | None,
    ) -> Tensor:
        if mode == "refined_prev":
            if state is None:
                return initial
            return torch.where((state.frames > 0)[:, None, None], state.refined[:, None], initial)
        if mode == "initial" or given is None:
            return initial
        return given if predicted is None else torch.where(predicted[..., None], initial, given)

    def _amplitude(self, active: Tensor, state: TrunkState | None) -> Tensor | None:
        """What the bias makes of the active scalars, or of random ones in their place."""
        if self.bias is None:
            return None
        if self.random is not None:
            noise: Tensor = self.random(active.shape[1], None if state is None else state.frames)
            active = noise.to(active.dtype).expand_as(active)
        # The kernel's factors need more than autocast's half precision.
        with torch.autocast(active.device.type, enabled=False):
            amplitude: Tensor = self.bias(active.to(self.bias.beta.dtype))
        return amplitude

    def _layout(
        self,
        length: int,
        past: int,
        amplitude: Tensor | None,
        like: Tensor,
        *,
        stride: int = 1,
        count: Tensor | None = None,
        new: Tensor | None = None,
    ) -> Layout:
        """How a pathway attends over ``length`` of its steps that follow ``count`` earlier ones."""
        positions, bias = self.cfg.positions, self.bias
        steering = Steering(
            amplitude,
            None if bias is None else bias.rate(stride),
            None if bias is None else bias.beta,
            self.slopes * stride if positions == "alibi" else None,
            float(stride) if positions == "rope" else 0.0,
        )
        if count is None:
            whole = None
            if not self.reference:
                dtype = compute_dtype(like)
                whole = make_fused(length, past, steering, device=like.device, dtype=dtype)
            if whole is not None:
                return whole
        elif length == 1 and not torch.is_grad_enabled():
            return make_slots(past, steering, count=count, new=new, dtype=like.dtype)
        return make_band(length, past, steering, count=count, new=new, device=like.device, dtype=like.dtype)

    def _fast(
        self, x: Tensor, amplitude: Tensor | None, state: TrunkState | None
    ) -> tuple[Tensor, tuple[Ring, ...]]:
        count = None if state is None else state.frames
        layout = self._layout(x.shape[1], self.cfg.fast_past, amplitude, x, count=count)
        return run_blocks(self.fast, x, layout, None if state is None else state.fast)

    def _slow(
        self, x: Tensor, amplitude: Tensor | None, state: TrunkState | None, due: bool | None
    ) -> tuple[Tensor, tuple[tuple[Ring, ...], Tensor, Tensor]]:
        """The slow pathway's result for every step (B, L, D), and what to remember: rings, pool, held."""
        rows, length, width = x.shape
        stride, past = self.cfg.slow_stride, self.cfg.slow_past
        if stride == 1:
            count = None if state is None else state.frames
            layout = self._layout(length, past, amplitude, x, count=count)
            out, rings = run_blocks(self.slow, x, layout, None if state is None else state.slow)
            return out, (rings, x.new_zeros(rows, width), out[:, -1])
        if state is None:
            return self._slow_sequence(x, amplitude), ((), x[:, -1], x[:, -1])
        steps = torch.arange(length, device=x.device)
        rings = state.slow
        phase = state.frames % stride
        most = (stride - 1 + length) // stride
        if due is None and not torch.compiler.is_compiling():
            due = bool((phase + length >= stride).any())
        most = most if due or due is None else 0
        # Pool of each step, counted from the pool that is open when the chunk begins.
        member = (phase[:, None] + steps) // stride  # (B, L)
        closed = (phase + length) // stride  # (B,)
        numbers = torch.arange(most + 1, device=x.device)
        share = (member[:, None, :] == numbers[None, :, None]).to(x.dtype)  # (B, most + 1, L)
        sums = share @ x
        sums = torch.cat((sums[:, :1] + state.pool[:, None], sums[:, 1:]), 1)
        rest = torch.gather(sums, 1, closed[:, None, None].expand(rows, 1, width))[:, 0]
        if most:
            pools = sums[:, :most] / stride
            closing = ((numbers[:most] + 1) * stride - 1 - phase[:, None]).clamp(0, length - 1)
            if amplitude is not None:
                amplitude = torch.gather(amplitude, 1, closing[..., None].expand(-1, -1, amplitude.shape[-1]))
            count = state.frames // stride
            layout = self._layout(most, past, amplitude, x, stride=stride, count=count, new=closed)
            pools, rings = run_blocks(self.slow, pools, layout, rings)
        else:
            pools = x.new_zeros(rows, 0, width)
        # A pool shows from its closing step on; before the first of the chunk, what was held.
        shown = torch.cat((state.held[:, None], pools), 1)
        index = (phase[:, None] + steps + 1) // stride
        out = torch.gather(shown, 1, index[..., None].expand(rows, length, width))
        return out, (rings, rest, out[:, -1])

    def _slow_sequence(self, x: Tensor, amplitude: Tensor | None) -> Tensor:
        """The slow pathway over a sequence from its start: zeros before the first pool, held between."""
        rows, length, width = x.shape
        stride = self.cfg.slow_stride
        most = length // stride
        if not most:
            return torch.zeros_like(x)
        pools = x[:, : most * stride].view(rows, most, stride, width).sum(2) / stride
        if amplitude is not None:
            amplitude = amplitude[:, stride - 1 :: stride]
        layout = self._layout(most, self.cfg.slow_past, amplitude, x, stride=stride)
        pools, _ = run_blocks(self.slow, pools, layout, None)
        shown = torch.cat((pools.new_zeros(rows, 1, width), pools), 1)
        index = (torch.arange(length, device=x.device) + 1) // stride
        return shown[:, index]

    def _self_predicted(self, x: Tensor, state: TrunkState | None) -> tuple[TrunkOutput, TrunkState | None]:
        """The closed loop over a sequence: step by step, for each step needs the scalars of the one
        before."""
        running = self.initial_state(x.shape[0]) if state is None else state
        steps: list[TrunkOutput] = []
        for i in range(x.shape[1]):
            out, after = self.forward(x[:, i : i + 1], None, running, mode="refined_prev")
            assert after is not None
            running = after
            steps.append(out)
        joined = (
            torch.cat([getattr(s, name) for s in steps], 1)
            for name in ("hidden", "scalars", "initial", "gate", "share")
        )
        return TrunkOutput(*joined), None if state is None else running


def run_blocks(
    blocks: nn.ModuleList, x: Tensor, layout: Layout, rings: tuple[Ring, ...] | None
) -> tuple[Tensor, tuple[Ring, ...]]:
    """A pathway's blocks one after the other."""
    after: list[Ring] = []
    for i, block in enumerate(blocks):
        x, ring = block(x, layout, None if rings is None else rings[i])
        if ring is not None:
            after.append(ring)
    return x, tuple(after)


def compute_dtype(like: Tensor) -> torch.dtype:
    """The type attention will run in: autocast's where it is on."""
    device = like.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return like.dtype


def _attention(block: nn.Module) -> TrajectoryAttention:
    assert isinstance(block, Block)
    return block.attention


def init_weights(module: nn.Module) -> None:
    """Linear and embedding weights N(0, .02), biases 0; layer norms (1, 0)."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
