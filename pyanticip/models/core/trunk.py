"""The dual-pathway trunk that every model of the family shares (Diomande 2026, Anticipatory Transformer).

Embedded steps go in, hidden states and scalars come out. The fast pathway attends locally on every step; the
slow pathway runs once every ``slow_stride`` steps over pooled steps and holds its result in between.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError
from pyanticip.models.core.attention import Layout, Ring
from pyanticip.models.core.bias import RandomScalars, TrajectoryBias
from pyanticip.models.core.block import (
    Block,
    Pathway,
    blocks_of,
    fit,
    gate_trace,
    init_weights,
    reset_parts,
    run_blocks,
)
from pyanticip.models.core.gates import AnticipationHead, CommitmentGate, PathwayGate, PathwayMean
from pyanticip.models.core.inputs import can_read_values
from pyanticip.models.core.layouts import make_layout
from pyanticip.models.core.part import GateTrace, Positions, join, run_vectors, vectors_fit, vectors_state
from pyanticip.models.core.plan import Plan
from pyanticip.models.core.steering import PositionVectors, PositionVectorsState, Steering
from pyanticip.models.core.streaming import State

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig

ScalarMode = Literal["external", "initial", "refined_prev"]
"""The scalars that enter bias and gates: those passed in, the initial head's, or the refined head's of the
previous step."""


@dataclass
class TrunkState(State):
    """The trunk's streaming state.

    ``frames`` (B,) int64 steps since the row's start, which also determines phase and number of pools;
    ``fast`` and ``slow`` one ring per block; ``pool`` (B, D) the sum of the open pool's steps; ``held``
    (B, D) the slow pathway's last result; ``refined`` (B, 7) the refined scalars of the last step;
    ``positions`` the state of the position vectors, if the scheme has any.
    """

    frames: Tensor
    fast: tuple[Ring, ...]
    slow: tuple[Ring, ...]
    pool: Tensor
    held: Tensor
    refined: Tensor
    positions: PositionVectorsState | tuple[()] = ()


@dataclass(frozen=True)
class TrunkOutput:
    """``hidden`` (B, L, D) after the final norm, ``scalars`` and ``initial`` (B, L, 7) of the two heads,
    ``gate`` (B, L, 1) the commitment gate, ``share`` (B, L) of the fast pathway, ``field`` the trace of the
    blocks' gates, if they have one."""

    hidden: Tensor
    scalars: Tensor
    initial: Tensor
    gate: Tensor
    share: Tensor
    field: GateTrace | None = None


class Trunk(nn.Module):
    """Both pathways, the bias, the gates and the anticipation heads, up to the final norm.

    Without slow layers the fast pathway's result is used alone, with a share of 1.
    """

    reference: bool = False
    """Whether whole sequences use the reference layout too, which is slower and holds the bias in memory."""

    def __init__(self, cfg: "ModelConfig") -> None:
        super().__init__()
        self.cfg = cfg
        self.initial_head = AnticipationHead(cfg.d_model)
        self.bias: TrajectoryBias | None = None
        if cfg.bias != "none":
            self.bias = TrajectoryBias(cfg.heads, cfg.dist_scale, cfg.alpha == "softplus")
        self.random = RandomScalars() if cfg.bias == "random" else None
        self.positions: Positions = cfg.build("positions") or Positions()
        if self.positions.again:
            raise OptionError(
                f"positions option again={self.positions.again} is for layers in a row, in the plain "
                "transformer: the two pathways start from the same vectors"
            )
        blocks = ((cfg.fast_layers, cfg.fast_past), (cfg.slow_layers, cfg.slow_past))
        self.fast, self.slow = (
            nn.ModuleList(Block(cfg, past, self.positions) for _ in range(layers)) for layers, past in blocks
        )
        self.pathway: PathwayGate | PathwayMean | None = None
        if cfg.slow_layers:
            self.pathway = PathwayGate(cfg.d_model) if cfg.mixing == "gated" else PathwayMean()
        self.refined_head = AnticipationHead(cfg.d_model)
        self.norm = nn.LayerNorm(cfg.d_model)
        self.commitment = CommitmentGate(cfg.d_model)
        self.apply(init_weights)
        if cfg.gate_start == "monotone":
            self.commitment.reset_parameters()
        reset_parts(self)

    def initial_state(self, batch: int) -> TrunkState:
        """The state before the first step of ``batch`` rows: zeros."""
        like = self.norm.weight
        zeros, d = like.new_zeros, self.cfg.d_model
        fast, slow = (
            tuple(block.initial_state(batch) for block in blocks_of(each)) for each in (self.fast, self.slow)
        )
        frames = torch.zeros(batch, dtype=torch.int64, device=like.device)
        past = self.cfg.slow_past if self.cfg.slow_layers else -1
        vectors = vectors_state(self.positions, batch, like, self.cfg.fast_past, past)
        return TrunkState(frames, fast, slow, zeros(batch, d), zeros(batch, d), zeros(batch, 7), vectors)

    def fits(self, state: TrunkState) -> bool:
        """Whether a state's rings and position vectors match this configuration."""
        return (
            fit(self.fast, state.fast)
            and fit(self.slow, state.slow)
            and vectors_fit(self.positions, state.positions)
        )

    def forward(
        self,
        x: Tensor,
        external: Tensor | None = None,
        state: TrunkState | None = None,
        *,
        mode: ScalarMode = "external",
        predicted: Tensor | None = None,
        due: bool | None = None,
        plan: Plan | None = None,
    ) -> tuple[TrunkOutput, TrunkState | None]:
        """Run a sequence from its start (no state) or a chunk that follows one (with its state).

        Args:
            x: (B, L, D) embedded steps.
            external: (B, L, 7) scalars in native units for ``mode="external"``; ``None``: the initial head's.
            predicted: (B, L) bool, steps where the initial head's scalars replace ``external`` (scheduled
                sampling).
            due: whether a pool closes in this chunk in some row, if the caller knows; ``None``: computed.
            plan: predicted codes of each step, which the first fast block attends to.
        """
        if mode == "refined_prev" and x.shape[1] > 1:
            return self._self_predicted(x, state, plan)
        initial: Tensor = self.initial_head(x)
        active = self._active(initial, external, state, mode, predicted)
        amplitude = self._amplitude(active, state)
        vectors, positions = run_vectors(self.positions, x, None if state is None else state.positions)
        steering = StepSteering(amplitude, vectors)
        layout = self._layout(x, steering, "fast", state)
        fast = run_blocks(self.fast, x, layout, None if state is None else state.fast, plan=plan)
        if self.pathway is None:
            mixed, share = fast.out, x.new_ones(x.shape[:-1])
            slow = Pathway(torch.zeros_like(x[:, -1:]), stored=_ring(state, "slow"))
        else:
            slow = self._slow(x, steering, state, due)
            mixed, share = self.pathway(active, x, fast.out, slow.out)
        refined: Tensor = self.refined_head(mixed)
        hidden: Tensor = self.norm(mixed)
        gate: Tensor = self.commitment(hidden, refined[..., :1])
        gating = gate_trace(self.fast, fast.gating, slow.gating)
        out = TrunkOutput(hidden, refined, initial, gate, share, gating)
        if state is None:
            return out, None
        if positions and fast.stored is not None and slow.stored is not None:
            positions = replace(positions, fast=fast.stored, slow=slow.stored)
        pool = torch.zeros_like(x[:, -1]) if slow.pool is None else slow.pool
        frames = state.frames + x.shape[1]
        held, last = slow.out[:, -1], refined[:, -1].clone()
        return out, TrunkState(frames, fast.rings, slow.rings, pool, held, last, positions)

    def _active(
        self,
        initial: Tensor,
        external: Tensor | None,
        state: TrunkState | None,
        mode: ScalarMode,
        predicted: Tensor | None,
    ) -> Tensor:
        if mode == "refined_prev":
            if state is None:
                return initial
            return torch.where((state.frames > 0)[:, None, None], state.refined[:, None], initial)
        if mode == "initial" or external is None:
            return initial
        return external if predicted is None else torch.where(predicted[..., None], initial, external)

    def _amplitude(self, active: Tensor, state: TrunkState | None) -> Tensor | None:
        """The bias amplitude of the active scalars, or of random ones in the ablation."""
        if self.bias is None:
            return None
        if self.random is not None:
            noise: Tensor = self.random(active.shape[1], None if state is None else state.frames)
            active = noise.to(active.dtype).expand_as(active)
        # Autocast's half precision is not enough for the kernel's factors.
        with torch.autocast(active.device.type, enabled=False):
            amplitude: Tensor = self.bias(active.to(self.bias.beta.dtype))
        return amplitude

    def _layout(
        self,
        x: Tensor,
        steering: "StepSteering",
        pathway: Literal["fast", "slow"],
        state: TrunkState | None,
        *,
        length: int | None = None,
        stride: int = 1,
        new: Tensor | None = None,
    ) -> Layout:
        """The attention layout of a pathway over the chunk, or over ``length`` pools of ``stride`` steps."""
        bias = self.bias
        combined = Steering(
            steering.amplitude,
            None if bias is None else bias.rate(stride),
            None if bias is None else bias.beta,
            places=steering.vectors,
            place_ring=_ring(state, pathway),
        )
        return make_layout(
            x.shape[1] if length is None else length,
            self.cfg.fast_past if pathway == "fast" else self.cfg.slow_past,
            self.positions.steer(combined, stride),
            x,
            count=None if state is None else state.frames // stride if stride > 1 else state.frames,
            new=new,
            reference=self.reference,
        )

    def _slow(
        self, x: Tensor, steering: "StepSteering", state: TrunkState | None, due: bool | None
    ) -> Pathway:
        """The slow pathway's result for every step (B, L, D), and its state."""
        rows, length, width = x.shape
        stride = self.cfg.slow_stride
        if stride == 1:
            layout = self._layout(x, steering, "slow", state)
            return run_blocks(self.slow, x, layout, None if state is None else state.slow)
        if state is None:
            return self._slow_sequence(x, steering)
        steps = torch.arange(length, device=x.device)
        phase = state.frames % stride
        max_pools = (stride - 1 + length) // stride
        if due is None and can_read_values(phase):
            due = bool((phase + length >= stride).any())
        max_pools = max_pools if due or due is None else 0
        # Pool of each step, counted from the pool that is open when the chunk begins.
        member = (phase[:, None] + steps) // stride  # (B, L)
        closed = (phase + length) // stride  # (B,)
        numbers = torch.arange(max_pools + 1, device=x.device)
        share = (member[:, None, :] == numbers[None, :, None]).to(x.dtype)  # (B, max_pools + 1, L)
        sums = share @ x
        sums = torch.cat((sums[:, :1] + state.pool[:, None], sums[:, 1:]), 1)
        rest = torch.gather(sums, 1, closed[:, None, None].expand(rows, 1, width))[:, 0]
        if max_pools:
            pools = sums[:, :max_pools] / stride
            closing = ((numbers[:max_pools] + 1) * stride - 1 - phase[:, None]).clamp(0, length - 1)
            layout = self._layout(
                x, steering.pick(closing), "slow", state, length=max_pools, stride=stride, new=closed
            )
            result = run_blocks(self.slow, pools, layout, state.slow, new=closed)
        else:
            result = Pathway(x.new_zeros(rows, 0, width), state.slow, stored=_ring(state, "slow"))
        # A pool's result counts from its closing step on; before the chunk's first one, the held result does.
        outputs = torch.cat((state.held[:, None], result.out), 1)
        index = (phase[:, None] + steps + 1) // stride
        out = torch.gather(outputs, 1, index[..., None].expand(rows, length, width))
        return replace(result, out=out, pool=rest)

    def _slow_sequence(self, x: Tensor, steering: "StepSteering") -> Pathway:
        """The slow pathway over a sequence from its start: zeros before the first pool, then the last result
        held."""
        rows, length, width = x.shape
        stride = self.cfg.slow_stride
        max_pools = length // stride
        if not max_pools:
            return Pathway(torch.zeros_like(x))
        pools = x[:, : max_pools * stride].view(rows, max_pools, stride, width).sum(2) / stride
        layout = self._layout(x, steering.every(stride), "slow", None, length=max_pools, stride=stride)
        result = run_blocks(self.slow, pools, layout, None)
        outputs = torch.cat((result.out.new_zeros(rows, 1, width), result.out), 1)
        index = (torch.arange(length, device=x.device) + 1) // stride
        return replace(result, out=outputs[:, index])

    def _self_predicted(
        self, x: Tensor, state: TrunkState | None, plan: Plan | None
    ) -> tuple[TrunkOutput, TrunkState | None]:
        """Run a sequence in closed loop, step by step: each step needs the scalars of the previous one."""
        running = self.initial_state(x.shape[0]) if state is None else state
        steps: list[TrunkOutput] = []
        for i in range(x.shape[1]):
            step_plan = None if plan is None else plan.chunk(i, i + 1)
            out, after = self.forward(x[:, i : i + 1], None, running, mode="refined_prev", plan=step_plan)
            assert after is not None
            running = after
            steps.append(out)
        joined: TrunkOutput = join(steps)
        return joined, None if state is None else running


@dataclass(frozen=True)
class StepSteering:
    """Per-step inputs of a pathway's steering: the bias ``amplitude`` (B, L, H) and the position ``vectors``,
    ``None`` where the model has none."""

    amplitude: Tensor | None
    vectors: PositionVectors | None

    def pick(self, index: Tensor) -> "StepSteering":
        """Those of the steps at ``index`` (B, n)."""
        amplitude = self.amplitude
        if amplitude is not None:
            amplitude = torch.gather(amplitude, 1, index[..., None].expand(-1, -1, amplitude.shape[-1]))
        return StepSteering(amplitude, None if self.vectors is None else self.vectors.pick(index))

    def every(self, stride: int) -> "StepSteering":
        """Those of the last step in each whole group of ``stride``."""
        amplitude = None if self.amplitude is None else self.amplitude[:, stride - 1 :: stride]
        return StepSteering(amplitude, None if self.vectors is None else self.vectors.every(stride))


def _ring(state: TrunkState | None, pathway: Literal["fast", "slow"]) -> Tensor | None:
    """The ring of position vectors of a pathway's past keys."""
    if state is None or not isinstance(state.positions, PositionVectorsState):
        return None
    return state.positions.fast if pathway == "fast" else state.positions.slow
