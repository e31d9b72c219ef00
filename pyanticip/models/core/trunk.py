"""The dual-pathway trunk that every model of the family shares (Diomande 2026, Anticipatory Transformer).

Embedded steps go in, hidden states and scalars come out. The fast pathway attends locally on every step; the
slow pathway runs once every ``slow_stride`` steps over pooled steps and holds its result in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from pyanticip.models.core.attention import Layout, Ring, TrajectoryAttention
from pyanticip.models.core.band import make_band
from pyanticip.models.core.bias import RandomScalars, TrajectoryBias
from pyanticip.models.core.encodings import alibi_slopes
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.gates import CommitmentGate, PathwayGate, PathwayMean
from pyanticip.models.core.heads import AnticipationHead
from pyanticip.models.core.plan_attention import Plan
from pyanticip.models.core.position_vectors import (
    PositionMix,
    PositionVectors,
    PositionVectorsState,
    position_rings,
)
from pyanticip.models.core.single_step import make_single_step
from pyanticip.models.core.steering import Extras, Steering
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.field.control_field import (
    ControlField,
    FieldOutput,
    FieldState,
    FieldTrace,
    join_traces,
)
from pyanticip.models.parts.positions.prism.module import PrismPositions, position_source

ScalarMode = Literal["external", "initial", "refined_prev"]
"""Which scalars steer bias and gates: the given ones, the initial head's, or the refined head's of the step
before."""


@dataclass
class TrunkState(State):
    """What the trunk remembers of each row.

    ``frames`` (B,) int64 steps since the row's start, which also gives phase and number of pools; one ring
    per block of either pathway; ``pool`` (B, D) the sum of the open pool's steps; ``held`` (B, D) the slow
    pathway's last result; ``refined`` (B, 7) the refined scalars of the last step; ``places`` of the steps so
    far, where they have some.
    """

    frames: Tensor
    fast: tuple[Ring, ...]
    slow: tuple[Ring, ...]
    pool: Tensor
    held: Tensor
    refined: Tensor
    places: PositionVectorsState | tuple[()] = ()


@dataclass(frozen=True)
class TrunkOutput:
    """``hidden`` (B, L, D) after the final norm, ``scalars`` and ``initial`` (B, L, 7) of the two heads,
    ``gate`` (B, L, 1) the commitment gate, ``share`` (B, L) of the fast pathway, ``field`` what the blocks'
    control fields say, where they have one."""

    hidden: Tensor
    scalars: Tensor
    initial: Tensor
    gate: Tensor
    share: Tensor
    field: FieldTrace | None = None


class Block(nn.Module):
    """Pre-norm attention and feed-forward: ``x += drop(attn(LN x)); x += FFN(LN x)``.

    With a control field keys are gated and the feed-forward output is scaled; see
    :mod:`pyanticip.models.parts.field.control_field`.

    :param cursors: how many places each step has; 0 for none.
    """

    def __init__(self, cfg: ModelConfig, past: int, cursors: int = 0) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(cfg.d_model)
        self.attention = TrajectoryAttention(cfg.d_model, cfg.heads, past)
        self.norm2 = nn.LayerNorm(cfg.d_model)
        self.up = nn.Linear(cfg.d_model, cfg.ff)
        self.down = nn.Linear(cfg.ff, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.ffn_dropout = nn.Dropout(cfg.dropout if cfg.ffn_dropout else 0.0)
        self.field = ControlField(cfg) if cfg.control_field else None
        self.places = PositionMix(cfg.heads, cursors, cfg.prism_alpha) if cursors else None

    def initial_state(self, batch: int) -> Ring:
        """The state before the first step, for ``batch`` rows."""
        return self.attention.initial_state(
            batch, None if self.field is None else self.field.initial_state(batch)
        )

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        ring: Ring | None,
        plan: Plan | None = None,
        new: Tensor | None = None,
    ) -> tuple[Tensor, Ring | None, FieldOutput | None]:
        """One block over a chunk (B, L, D).

        :param plan: what attention looks at beside the past.
        :param new: (B,) how many steps of the chunk are real in each row; ``None``: all of them.
        """
        felt: FieldOutput | None = None
        after: FieldState | None = None
        extras: Extras | None = None
        if self.field is not None:
            before = None if ring is None or not isinstance(ring.field, FieldState) else ring.field
            felt, after = self.field(x, before, new)
            extras = Extras(felt.log_gate)
        if self.places is not None:
            extras = Extras(None if felt is None else felt.log_gate, *self.places())
        mixed, ring = self.attention(self.norm1(x), layout, ring, extras, plan)
        x = x + self.dropout(mixed)
        change = self.ffn_dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        x = x + change if felt is None else torch.addcmul(x, change, felt.scale[..., None].to(change.dtype))
        if ring is not None and after is not None:
            ring = replace(ring, field=after)
        return x, ring, felt


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
        if cfg.prism_again:
            raise OptionError(
                f"prism_again={cfg.prism_again} is for layers in a row, in the plain transformer: the two "
                "pathways start from the same places"
            )
        self.prism = position_source(cfg)
        cursors = 0 if self.prism is None else self.prism.cursors
        self.fast = nn.ModuleList(Block(cfg, cfg.fast_past, cursors) for _ in range(cfg.fast_layers))
        self.slow = nn.ModuleList(Block(cfg, cfg.slow_past, cursors) for _ in range(cfg.slow_layers))
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
        reset_fields(self)

    def initial_state(self, batch: int) -> TrunkState:
        """The state before the first step of ``batch`` rows: zeros."""
        like = self.norm.weight
        zeros = like.new_zeros
        fast, slow = (
            tuple(_block(b).initial_state(batch) for b in blocks) for blocks in (self.fast, self.slow)
        )
        frames = torch.zeros(batch, dtype=torch.int64, device=like.device)
        d = self.cfg.d_model
        past = self.cfg.slow_past if self.cfg.slow_layers else -1
        places = position_rings(self.prism, like, batch, self.cfg.fast_past, past)
        return TrunkState(frames, fast, slow, zeros(batch, d), zeros(batch, d), zeros(batch, 7), places)

    def forward(
        self,
        x: Tensor,
        given: Tensor | None = None,
        state: TrunkState | None = None,
        *,
        mode: ScalarMode = "external",
        predicted: Tensor | None = None,
        due: bool | None = None,
        plan: Plan | None = None,
    ) -> tuple[TrunkOutput, TrunkState | None]:
        """Run a sequence from its start (no state) or a chunk that follows one (with its state).

        :param x: (B, L, D) embedded steps.
        :param given: (B, L, 7) scalars in native units, needed by ``mode="external"``.
        :param predicted: (B, L) bool, steps where the initial head's scalars replace the given ones
            (scheduled sampling).
        :param due: whether a pool closes in this chunk in some row, where the caller knows; ``None`` finds
            out.
        :param plan: what is foreseen at each step, for the first fast block to look at.
        """
        if mode == "refined_prev" and x.shape[1] > 1:
            return self._self_predicted(x, state, plan)
        initial: Tensor = self.initial_head(x)
        active = self._active(initial, given, state, mode, predicted)
        amplitude = self._amplitude(active, state)
        places, rings_of_places = self._places(x, state)
        fast = self._fast(x, amplitude, places, state, plan)
        if self.pathway is None:
            mixed, share = fast.out, x.new_ones(x.shape[:-1])
            slow = Pathway(
                torch.zeros_like(x[:, -1:]), stored=None if state is None else _ring(state, "slow")
            )
        else:
            slow = self._slow(x, amplitude, places, state, due)
            mixed, share = self.pathway(active, x, fast.out, slow.out)
        refined: Tensor = self.refined_head(mixed)
        hidden: Tensor = self.norm(mixed)
        gate: Tensor = self.commitment(hidden, refined[..., :1])
        trace = FieldTrace(fast.felt, slow.felt) if fast.felt else None
        out = TrunkOutput(hidden, refined, initial, gate, share, trace)
        if state is None:
            return out, None
        pool = torch.zeros_like(x[:, -1]) if slow.pool is None else slow.pool
        if rings_of_places is not None and fast.stored is not None and slow.stored is not None:
            rings_of_places = replace(rings_of_places, fast=fast.stored, slow=slow.stored)
        return out, TrunkState(
            state.frames + x.shape[1],
            fast.rings,
            slow.rings,
            pool,
            slow.out[:, -1],
            refined[:, -1].clone(),
            () if rings_of_places is None else rings_of_places,
        )

    def _places(
        self, x: Tensor, state: TrunkState | None
    ) -> tuple[PositionVectors | None, PositionVectorsState | None]:
        """Where the chunk's steps are, and the state of that with its rings as they were."""
        if self.prism is None:
            return None, None
        before = None if state is None or not isinstance(state.places, PositionVectorsState) else state.places
        places, source = self.prism(x, None if before is None else before.source)
        return places, None if before is None or source is None else replace(before, source=source)

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
        places: PositionVectors | None = None,
        ring: Tensor | None = None,
    ) -> Layout:
        """How a pathway attends over ``length`` of its steps that follow ``count`` earlier ones."""
        positions, bias = self.cfg.positions, self.bias
        steering = Steering(
            amplitude,
            None if bias is None else bias.rate(stride),
            None if bias is None else bias.beta,
            self.slopes * stride if positions == "alibi" else None,
            float(stride) if positions == "rope" else 0.0,
            places,
            ring,
        )
        if count is None:
            whole = None
            if not self.reference:
                dtype = compute_dtype(like)
                whole = make_fused(length, past, steering, device=like.device, dtype=dtype)
            if whole is not None:
                return whole
        elif length == 1 and not torch.is_grad_enabled():
            return make_single_step(past, steering, count=count, new=new, dtype=like.dtype)
        return make_band(length, past, steering, count=count, new=new, device=like.device, dtype=like.dtype)

    def _fast(
        self,
        x: Tensor,
        amplitude: Tensor | None,
        places: PositionVectors | None,
        state: TrunkState | None,
        plan: Plan | None,
    ) -> "Pathway":
        count, ring = (None, None) if state is None else (state.frames, _ring(state, "fast"))
        layout = self._layout(
            x.shape[1], self.cfg.fast_past, amplitude, x, count=count, places=places, ring=ring
        )
        return run_blocks(self.fast, x, layout, None if state is None else state.fast, plan=plan)

    def _slow(
        self,
        x: Tensor,
        amplitude: Tensor | None,
        places: PositionVectors | None,
        state: TrunkState | None,
        due: bool | None,
    ) -> "Pathway":
        """The slow pathway's result for every step (B, L, D), and what to remember."""
        rows, length, width = x.shape
        stride, past = self.cfg.slow_stride, self.cfg.slow_past
        if stride == 1:
            count, ring = (None, None) if state is None else (state.frames, _ring(state, "slow"))
            layout = self._layout(length, past, amplitude, x, count=count, places=places, ring=ring)
            return run_blocks(self.slow, x, layout, None if state is None else state.slow)
        if state is None:
            return self._slow_sequence(x, amplitude, places)
        steps = torch.arange(length, device=x.device)
        ring = _ring(state, "slow")
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
            places = None if places is None else places.pick(closing)
            layout = self._layout(
                most,
                past,
                amplitude,
                x,
                stride=stride,
                count=state.frames // stride,
                new=closed,
                places=places,
                ring=ring,
            )
            ran = run_blocks(self.slow, pools, layout, state.slow, new=closed)
        else:
            ran = Pathway(x.new_zeros(rows, 0, width), state.slow, stored=ring)
        # A pool shows from its closing step on; before the first of the chunk, what was held.
        shown = torch.cat((state.held[:, None], ran.out), 1)
        index = (phase[:, None] + steps + 1) // stride
        out = torch.gather(shown, 1, index[..., None].expand(rows, length, width))
        return replace(ran, out=out, pool=rest)

    def _slow_sequence(
        self, x: Tensor, amplitude: Tensor | None, places: PositionVectors | None
    ) -> "Pathway":
        """The slow pathway over a sequence from its start: zeros before the first pool, held between."""
        rows, length, width = x.shape
        stride = self.cfg.slow_stride
        most = length // stride
        if not most:
            return Pathway(torch.zeros_like(x))
        pools = x[:, : most * stride].view(rows, most, stride, width).sum(2) / stride
        if amplitude is not None:
            amplitude = amplitude[:, stride - 1 :: stride]
        places = None if places is None else places.every(stride)
        layout = self._layout(most, self.cfg.slow_past, amplitude, x, stride=stride, places=places)
        ran = run_blocks(self.slow, pools, layout, None)
        shown = torch.cat((ran.out.new_zeros(rows, 1, width), ran.out), 1)
        index = (torch.arange(length, device=x.device) + 1) // stride
        return replace(ran, out=shown[:, index])

    def _self_predicted(
        self, x: Tensor, state: TrunkState | None, plan: Plan | None
    ) -> tuple[TrunkOutput, TrunkState | None]:
        """The closed loop over a sequence: step by step, for each step needs the scalars of the one
        before."""
        running = self.initial_state(x.shape[0]) if state is None else state
        steps: list[TrunkOutput] = []
        for i in range(x.shape[1]):
            ahead = None if plan is None else plan.chunk(i, i + 1)
            out, after = self.forward(x[:, i : i + 1], None, running, mode="refined_prev", plan=ahead)
            assert after is not None
            running = after
            steps.append(out)
        out = join_outputs(steps)
        return out, None if state is None else running


def join_outputs(steps: Sequence[TrunkOutput]) -> TrunkOutput:
    """What was said about steps one by one, as if about a sequence."""
    hidden, scalars, initial, gate, share = (
        torch.cat([getattr(s, name) for s in steps], 1)
        for name in ("hidden", "scalars", "initial", "gate", "share")
    )
    traces = [s.field for s in steps if s.field is not None]
    return TrunkOutput(hidden, scalars, initial, gate, share, join_traces(traces) if traces else None)


@dataclass(frozen=True)
class Pathway:
    """What a pathway's blocks made of a chunk: ``out`` (B, L, D), the blocks' ``rings`` after it, what their
    control fields ``felt``, the ring of places ``stored`` after it, and the sum ``pool`` (B, D) of the steps
    that no pool has closed over yet."""

    out: Tensor
    rings: tuple[Ring, ...] = ()
    felt: tuple[FieldOutput, ...] = ()
    stored: Tensor | None = None
    pool: Tensor | None = None


def run_blocks(
    blocks: nn.ModuleList,
    x: Tensor,
    layout: Layout,
    rings: tuple[Ring, ...] | None,
    *,
    plan: Plan | None = None,
    new: Tensor | None = None,
) -> Pathway:
    """A pathway's blocks one after the other; only the first looks at the plan."""
    after: list[Ring] = []
    fields: list[FieldOutput] = []
    for i, block in enumerate(blocks):
        x, ring, felt = block(x, layout, None if rings is None else rings[i], plan if i == 0 else None, new)
        if ring is not None:
            after.append(ring)
        if felt is not None:
            fields.append(felt)
    return Pathway(x, tuple(after), tuple(fields), layout.stored)


def reset_fields(model: nn.Module) -> None:
    """Put the control fields and cursors of a model to their own start."""
    for module in model.modules():
        if isinstance(module, (ControlField, PrismPositions)):
            module.reset_parameters()


def compute_dtype(like: Tensor) -> torch.dtype:
    """The type attention will run in: autocast's where it is on."""
    device = like.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return like.dtype


def first_norm(blocks: nn.ModuleList) -> nn.Module:
    """What the first block's attention sees its input through."""
    return _block(blocks[0]).norm1


def _block(module: nn.Module) -> Block:
    assert isinstance(module, Block)
    return module


def _ring(state: TrunkState, pathway: Literal["fast", "slow"]) -> Tensor | None:
    """The places of a pathway's past keys."""
    return getattr(state.places, pathway) if isinstance(state.places, PositionVectorsState) else None


def init_weights(module: nn.Module) -> None:
    """Linear and embedding weights N(0, .02), biases 0; layer norms (1, 0)."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
