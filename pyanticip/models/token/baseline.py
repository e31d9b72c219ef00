"""The plain transformer to compare with: one pathway, no scalars, no gates, as many parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.config import ModelConfig
from pyanticip.models.core.attention import Layout, Ring
from pyanticip.models.core.band import make_band
from pyanticip.models.core.encodings import alibi_slopes, sinusoids
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.plan_attention import Plan
from pyanticip.models.core.position_vectors import PositionVectors, PositionVectorsState, position_rings
from pyanticip.models.core.single_step import make_single_step
from pyanticip.models.core.steering import Steering
from pyanticip.models.core.streaming import State
from pyanticip.models.core.trunk import (
    Block,
    Pathway,
    compute_dtype,
    first_norm,
    init_weights,
    reset_fields,
    run_blocks,
)
from pyanticip.models.parts.field.control_field import FieldTrace, join_traces
from pyanticip.models.parts.planning.passes import Passes, PlanState, Steps, check_plan
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.parts.positions.prism.module import PrismPositions, position_source
from pyanticip.models.parts.positions.trajectory.module import (
    TrajectoryPositions,
    TrajectoryState,
    moved_positions,
)
from pyanticip.models.token.checks import check_ids, check_length, check_token_config


@dataclass(frozen=True)
class BaselineOutput:
    """``logits`` (B, L, V), ``hidden`` (B, L, D) after the final norm, ``field`` what the layers' control
    fields say, ``plan`` the codes that each step was told to expect and ``anticipation`` (B, L, V) log-scores
    for the steps after it, where there are such."""

    logits: Tensor
    hidden: Tensor
    field: FieldTrace | None = None
    plan: PlanChoice | None = None
    anticipation: Tensor | None = None


@dataclass(frozen=True)
class BaselinePass:
    """What one pass over a chunk gives, see :class:`BaselineOutput`."""

    hidden: Tensor
    field: FieldTrace | None = None


@dataclass
class BaselineState(State):
    """``frames`` (B,) int64 tokens so far; one ring per layer; where there are such, ``moved`` of trajectory
    positions, ``places`` of the tokens so far and ``again`` those that a later layer makes anew, and what
    plans need to remember in ``planning``."""

    frames: Tensor
    rings: tuple[Ring, ...]
    moved: TrajectoryState | tuple[()] = ()
    places: PositionVectorsState | tuple[()] = ()
    planning: PlanState | tuple[()] = ()
    again: PositionVectorsState | tuple[()] = ()


class BaselineTransformer(nn.Module):
    """A pre-norm causal transformer of ``fast_layers + slow_layers`` layers in a row, with a tied head.

    Positions are the configuration's: sinusoidal, moved by the trajectory, learned (PRISM), ALiBi, RoPE or
    none; with ``prism_again`` a later layer makes new places of what the stream has become. The feed-forward
    layers are widened until it has as many parameters as the anticipatory transformer of the
    same configuration (within half a column of each).

    :param cfg: a token configuration; ``bias``, ``window`` and ``slow_stride`` do not matter here.
    :param matched: False keeps ``cfg.ff``.
    :raises OptionError: a configuration without a vocabulary.
    """

    places: Tensor
    slopes: Tensor
    reference: bool = False
    """Whether whole sequences take the reference layout; see :class:`~pyanticip.models.core.trunk.Trunk`."""

    def __init__(self, cfg: ModelConfig | None = None, *, matched: bool = True) -> None:
        super().__init__()
        cfg = ModelConfig.small() if cfg is None else cfg
        check_token_config(cfg)
        if matched:
            cfg = replace(cfg, ff=matched_ff(cfg))
        self.cfg = cfg
        past = cfg.max_seq_len - 1
        self.token = nn.Embedding(cfg.vocab, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.prism = position_source(cfg)
        cursors = 0 if self.prism is None else self.prism.cursors
        count = cfg.fast_layers + cfg.slow_layers
        if cfg.prism_again == 1 or cfg.prism_again > count:
            raise OptionError(
                f"prism_again must be 0 or a layer from 2 to the last one, {count}, got {cfg.prism_again}"
            )
        self.again = PrismPositions(cfg) if cfg.prism_again else None
        self.layers = nn.ModuleList(Block(cfg, past, cursors) for _ in range(count))
        self.norm = nn.LayerNorm(cfg.d_model)
        steps = cfg.max_seq_len if cfg.positions == "sinusoidal" else 0
        self.register_buffer("places", sinusoids(torch.arange(steps), cfg.d_model).float(), persistent=False)
        self.register_buffer("slopes", alibi_slopes(cfg.heads), persistent=False)
        self.moved = TrajectoryPositions.of(cfg) if cfg.positions == "trajectory" else None
        self.apply(init_weights)
        reset_fields(self)
        self.planning: PlanningSignal | None = None
        if cfg.planning:
            self.planning = PlanningSignal(
                cfg,
                cfg.vocab,
                embedding=self.token,
                norm=first_norm(self.layers),
                absolute=cfg.positions in ("sinusoidal", "trajectory"),
            )

    def initial_state(self, batch: int) -> BaselineState:
        """The state before the first token, for ``batch`` independent rows."""
        state = self._fresh(batch)
        if self.moved is not None:
            state.moved = self.moved.initial_state(batch, self.token.weight)
        if self.planning is not None:
            state.planning = self._passes(self.planning).initial_state(batch, given=False)
        return state

    def _fresh(self, batch: int) -> BaselineState:
        frames = torch.zeros(batch, dtype=torch.int64, device=self.norm.weight.device)
        blocks = (block for block in self.layers if isinstance(block, Block))
        rings = tuple(block.initial_state(batch) for block in blocks)
        past = self.cfg.max_seq_len - 1
        places, again = (
            position_rings(source, self.norm.weight, batch, past, -1) for source in (self.prism, self.again)
        )
        return BaselineState(frames, rings, (), places, again=again)

    def _layout(
        self,
        length: int,
        count: Tensor | None,
        like: Tensor,
        places: PositionVectors | None,
        ring: Tensor | None,
    ) -> Layout:
        positions, past = self.cfg.positions, self.cfg.max_seq_len - 1
        steering = Steering(
            slopes=self.slopes if positions == "alibi" else None,
            rotary=1.0 if positions == "rope" else 0.0,
            places=places,
            place_ring=ring,
        )
        if count is None:
            whole = None
            if not self.reference:
                whole = make_fused(length, past, steering, device=like.device, dtype=compute_dtype(like))
            if whole is not None:
                return whole
            past = min(past, max(length - 1, 0))
        elif length == 1 and not torch.is_grad_enabled():
            return make_single_step(past, steering, count=count, new=None, dtype=like.dtype)
        return make_band(length, past, steering, count=count, device=like.device, dtype=like.dtype)

    @overload
    def forward(
        self, ids: Tensor, *, state: None = ..., plan: PlanChoice | None = ..., boost: Tensor | None = ...
    ) -> BaselineOutput: ...

    @overload
    def forward(
        self,
        ids: Tensor,
        *,
        state: BaselineState,
        plan: PlanChoice | None = ...,
        boost: Tensor | None = ...,
    ) -> tuple[BaselineOutput, BaselineState]: ...

    def forward(
        self,
        ids: Tensor,
        *,
        state: BaselineState | None = None,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> BaselineOutput | tuple[BaselineOutput, BaselineState]:
        """Run whole sequences from their start, or a chunk of any length that follows ``state``.

        :param ids: (B, L) int64 tokens, 0 <= id < vocab.
        :param plan: what each step is told to expect, (B, L, K) codes and weights, in place of the model's
            own plans.
        :param boost: (V,) or (B, 1, V), added to the contrasts by which the model's own plans are selected.
        :raises ShapeError: ids out of range, a sequence longer than ``max_seq_len``.
        """
        check_ids(ids, self.cfg.vocab)
        rows, length = ids.shape
        frames = None if state is None else state.frames
        if frames is not None and frames.shape[0] != rows:
            raise ShapeError(f"the state has {frames.shape[0]} rows, the ids have {rows}")
        check_length(length, frames, self.cfg)
        check_plan(self.planning, (rows, length), plan, boost)
        x, places = self.token(ids), None
        if self.cfg.positions == "sinusoidal":
            steps = torch.arange(length, device=ids.device)
            places = self.places[steps if frames is None else frames[:, None] + steps].expand_as(x)
        shifted, moved = moved_positions(self.moved, x, None if state is None else state.moved)
        places = places if shifted is None else shifted
        x = x if places is None else x + places
        chunk = Steps(self.dropout(x), ids, places)
        memory: PlanState | tuple[()] = ()
        if self.planning is None:
            said, after = self._pass(chunk, state, None)
            out = BaselineOutput(F.linear(said.hidden, self.token.weight), said.hidden, said.field)
        else:
            before = state.planning if state is not None and isinstance(state.planning, PlanState) else None
            foreseen = self._passes(self.planning)(chunk, state, before, plan=plan, boost=boost)
            said, after = foreseen.out, foreseen.state
            memory = () if foreseen.planning is None else foreseen.planning
            logits = F.linear(said.hidden, self.token.weight)
            out = BaselineOutput(logits, said.hidden, said.field, foreseen.choice, foreseen.anticipation)
        return out if after is None else (out, replace(after, moved=moved, planning=memory))

    def _passes(self, signal: PlanningSignal) -> Passes[BaselinePass, BaselineState]:
        """How the layers run with plans."""
        return Passes(signal, self._pass, self._fresh, _join)

    def _pass(
        self, steps: Steps, state: BaselineState | None, plan: Plan | None
    ) -> tuple[BaselinePass, BaselineState | None]:
        """One pass of all layers over embedded steps."""
        x = steps.embedded
        first = len(self.layers) if self.again is None else self.cfg.prism_again - 1
        rings = None if state is None else state.rings
        ran, places = self._run(
            self.layers[:first],
            self.prism,
            x,
            None if state is None else state.frames,
            None if rings is None else rings[:first],
            () if state is None else state.places,
            plan,
        )
        again: PositionVectorsState | tuple[()] = ()
        if self.again is not None:
            then, again = self._run(
                self.layers[first:],
                self.again,
                ran.out,
                None if state is None else state.frames,
                None if rings is None else rings[first:],
                () if state is None else state.again,
            )
            ran = replace(then, rings=ran.rings + then.rings, felt=ran.felt + then.felt)
        said = BaselinePass(self.norm(ran.out), FieldTrace(ran.felt) if ran.felt else None)
        if state is None:
            return said, None
        return said, BaselineState(state.frames + x.shape[1], ran.rings, (), places, again=again)

    def _run(
        self,
        layers: nn.ModuleList,
        source: PrismPositions | None,
        x: Tensor,
        frames: Tensor | None,
        rings: tuple[Ring, ...] | None,
        state: PositionVectorsState | tuple[()],
        plan: Plan | None = None,
    ) -> tuple[Pathway, PositionVectorsState | tuple[()]]:
        """Layers in a row over a chunk, with the places that a source makes of it, and the state of those."""
        before = state if isinstance(state, PositionVectorsState) else None
        places, after = None, None
        if source is not None:
            places, after = source(x, None if before is None else before.source)
        layout = self._layout(x.shape[1], frames, x, places, None if before is None else before.fast)
        ran = run_blocks(layers, x, layout, rings, plan=plan)
        if before is None or after is None or ran.stored is None:
            return ran, ()
        return ran, replace(before, source=after, fast=ran.stored)

    def step(
        self,
        ids: Tensor,
        state: BaselineState,
        *,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> tuple[BaselineOutput, BaselineState]:
        """One token (B,) or (B, 1): ``forward`` with a state. Outputs keep their L axis (1)."""
        return self.forward(ids[:, None] if ids.ndim == 1 else ids, state=state, plan=plan, boost=boost)


def _join(steps: Sequence[BaselinePass]) -> BaselinePass:
    traces = [s.field for s in steps if s.field is not None]
    hidden = torch.cat([s.hidden for s in steps], 1)
    return BaselinePass(hidden, join_traces(traces) if traces else None)


def matched_ff(cfg: ModelConfig) -> int:
    """The feed-forward width that gives the plain transformer the anticipatory one's parameter count."""
    d = cfg.d_model
    heads = 2 * (2 * d + d * (d // 2) + d // 2 + 7 * (d // 2) + 7)
    gates = (7 + d + 1) + (d + 1) + 3
    bias = (
        0
        if cfg.bias == "none"
        else (7 * 56 + 56) + (56 * 56 + 56) + (56 * cfg.heads + cfg.heads) + 2 * cfg.heads
    )
    layers = cfg.fast_layers + cfg.slow_layers
    return cfg.ff + round((heads + gates + bias) / (layers * (2 * d + 1)))
