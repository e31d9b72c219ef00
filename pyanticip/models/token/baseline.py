"""The baseline: a plain transformer with one pathway, no scalars, no gates and as many parameters."""

from dataclasses import dataclass, replace
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.config import ModelConfig
from pyanticip.models.core.attention import Ring
from pyanticip.models.core.block import (
    Block,
    Pathway,
    blocks_of,
    first_gate,
    fit,
    gate_trace,
    init_weights,
    reset_parts,
    run_blocks,
)
from pyanticip.models.core.inputs import (
    add_step_axis,
    can_read_values,
    check_batch,
    check_state,
    check_tensor,
)
from pyanticip.models.core.layouts import make_layout
from pyanticip.models.core.part import (
    GateTrace,
    Part,
    Positions,
    embed_fits,
    present,
    run_vectors,
    vectors_fit,
    vectors_state,
)
from pyanticip.models.core.plan import Plan
from pyanticip.models.core.steering import PositionVectorsState, Steering
from pyanticip.models.core.streaming import State, part_of
from pyanticip.models.parts.planning.passes import Passes, PlanState, Steps
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice


def check_token_config(cfg: ModelConfig) -> None:
    """Check that a configuration is one of a token model.

    Raises:
        OptionError: it has no vocabulary, or body kinematics.
    """
    if not cfg.vocab:
        raise OptionError("a token model needs vocab >= 1: start from ModelConfig.small() or .default()")
    if cfg.kinematics:
        raise OptionError("a token model has no body: kinematics must be False, got True")


def check_ids(ids: Tensor, vocab: int, name: str = "ids") -> None:
    """Check that ids are integers (B, L) from 0 to ``vocab - 1``.

    Raises:
        ShapeError: they are not; the message has the first invalid id and its index.
    """
    check_tensor(ids, name, "(B, L)")
    if ids.ndim != 2 or not ids.numel():
        raise ShapeError(f"{name} must be (B, L) with B >= 1 and L >= 1, got {tuple(ids.shape)}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise ShapeError(f"{name} must be int64 or int32, got {ids.dtype}")
    if not can_read_values(ids):
        return
    wrong = (ids < 0) | (ids >= vocab)
    if bool(wrong.any()):
        row, step = (int(i) for i in torch.nonzero(wrong)[0])
        raise ShapeError(f"{name} must be 0 to {vocab - 1}, got {int(ids[row, step])} at [{row}, {step}]")


def check_length(length: int, frames: Tensor | None, cfg: ModelConfig, absolute: bool) -> None:
    """Check that a sequence, or a stream with absolute positions, is at most ``max_seq_len`` long.

    Streams with relative positions are unbounded, as their rings slide; absolute positions are not trained
    beyond ``max_seq_len``.

    Args:
        frames: (B,) tokens so far in each row of a stream; ``None`` for a sequence.
        absolute: whether positions count from a sequence's start.

    Raises:
        ShapeError: it is longer.
    """
    longest = cfg.max_seq_len
    if frames is None:
        if length > longest:
            raise ShapeError(f"ids are {length} long, max_seq_len is {longest}")
    elif absolute and can_read_values(frames):
        end = int(frames.max()) + length
        if end > longest:
            raise ShapeError(f"the stream would be {end} long, max_seq_len is {longest}")


@dataclass(frozen=True)
class BaselineOutput:
    """``logits`` (B, L, V) and ``hidden`` (B, L, D) after the final norm. Of optional parts: ``field`` the
    trace of the layers' control fields, ``plan`` the plans that each step attended to, and ``anticipation``
    (B, L, V) log-scores for the next steps."""

    logits: Tensor
    hidden: Tensor
    field: GateTrace | None = None
    plan: PlanChoice | None = None
    anticipation: Tensor | None = None


@dataclass(frozen=True)
class BaselinePass:
    """Output of one pass over a chunk, see :class:`BaselineOutput`."""

    hidden: Tensor
    field: GateTrace | None = None


@dataclass
class BaselineState(State):
    """``frames`` (B,) int64 tokens so far; ``rings`` one per layer; of optional parts the states of
    ``positions`` in the embedding, of position ``vectors`` and those that a later layer computes ``again``,
    and of ``planning``."""

    frames: Tensor
    rings: tuple[Ring, ...]
    positions: State | tuple[()] = ()
    vectors: PositionVectorsState | tuple[()] = ()
    planning: PlanState | tuple[()] = ()
    again: PositionVectorsState | tuple[()] = ()


class BaselineTransformer(nn.Module):
    """A pre-norm causal transformer of ``fast_layers + slow_layers`` layers in a row, with a tied head.

    With PRISM's option ``again``, new positions are computed from the hidden states before a later layer. The
    feed-forward layers are widened until the model has as many parameters as the anticipatory transformer of
    the same configuration (within half a column of each).

    Args:
        cfg: a token configuration; ``window`` and ``slow_stride`` have no effect here, and ``bias`` only on
            the number of parameters to match.
        matched: whether to widen the layers; False keeps ``cfg.ff``.

    Raises:
        OptionError: a configuration without a vocabulary.
    """

    reference: bool = False
    """Whether whole sequences take the reference layout; see :class:`~pyanticip.models.core.trunk.Trunk`."""

    def __init__(self, cfg: ModelConfig | None = None, *, matched: bool = True) -> None:
        super().__init__()
        cfg = ModelConfig.small() if cfg is None else cfg
        check_token_config(cfg)
        if matched:
            cfg = cfg.replace(ff=matched_ff(cfg))
        self.cfg = cfg
        past = cfg.max_seq_len - 1
        self.token = nn.Embedding(cfg.vocab, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.positions: Positions = cfg.build("positions") or Positions()
        count = cfg.fast_layers + cfg.slow_layers
        first = self.positions.again
        if first == 1 or first > count:
            raise OptionError(
                f"positions option again must be 0 or a layer from 2 to the last one, {count}, got {first}"
            )
        self.again: Positions | None = cfg.build("positions") if first else None
        self.layers = nn.ModuleList(Block(cfg, past, self.positions) for _ in range(count))
        self.norm = nn.LayerNorm(cfg.d_model)
        self.apply(init_weights)
        reset_parts(self)
        self.planning: PlanningSignal | None = cfg.build(
            "planning", cfg.vocab, self.layers, self.positions, self.token
        )

    def parts(self) -> list[Part]:
        """The model's parts."""
        return present(first_gate(self.layers), self.planning, self.positions, self.again)

    def initial_state(self, batch: int) -> BaselineState:
        """The state before the first token, for ``batch`` independent rows."""
        check_batch(batch)
        state = self._initial_layers(batch)
        state.positions = self.positions.embed_state(batch, self.token.weight)
        state.planning = self._passes().initial_state(batch, external=False)
        return state

    def _initial_layers(self, batch: int) -> BaselineState:
        like, past = self.norm.weight, self.cfg.max_seq_len - 1
        frames = torch.zeros(batch, dtype=torch.int64, device=like.device)
        rings = tuple(block.initial_state(batch) for block in blocks_of(self.layers))
        vectors, again = (
            () if scheme is None else vectors_state(scheme, batch, like, past, -1)
            for scheme in (self.positions, self.again)
        )
        return BaselineState(frames, rings, (), vectors, again=again)

    @overload
    def forward(
        self, ids: Tensor, *, state: None = ..., plan: PlanChoice | None = ..., boost: Tensor | None = ...
    ) -> BaselineOutput: ...

    @overload
    def forward(
        self, ids: Tensor, *, state: BaselineState, plan: PlanChoice | None = ..., boost: Tensor | None = ...
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

        Args:
            ids: (B, L) int64 tokens, 0 <= id < vocab.
            state: the state before these tokens; ``None`` for sequences from their start, then the output is
                returned alone.
            plan: plans (B, L, K) to use in place of the model's own.
            boost: (V,) or (B, 1, V), added to the contrasts by which the model's own plans are selected.

        Raises:
            ShapeError: ids out of range, a sequence longer than ``max_seq_len``, or ``plan`` or ``boost``
                that does not fit.
        """
        check_ids(ids, self.cfg.vocab)
        rows, length = ids.shape
        if state is not None and not torch.compiler.is_compiling():
            check_state(self._fits(state))
        frames = None if state is None else state.frames
        if frames is not None and frames.shape[0] != rows:
            raise ShapeError(f"the state has {frames.shape[0]} rows, the ids have {rows}")
        check_length(length, frames, self.cfg, self.positions.absolute)
        x = self.token(ids)
        added, positions = self.positions.embed(x, frames, part_of(state, "positions"))
        chunk = Steps(self.dropout(x if added is None else x + added), ids, added)
        result = self._passes()(chunk, state, part_of(state, "planning"), plan=plan, boost=boost)
        hidden, after = result.out.hidden, result.state
        logits = F.linear(hidden, self.token.weight)
        out = BaselineOutput(logits, hidden, result.out.field, result.choice, result.anticipation)
        if state is None or after is None:
            return out
        return out, replace(after, positions=positions, planning=result.planning)

    def _fits(self, state: Any) -> bool:
        """Whether a state is one of this configuration."""
        return (
            isinstance(state, BaselineState)
            and fit(self.layers, state.rings)
            and vectors_fit(self.positions, state.vectors)
            and vectors_fit(self.again or Positions(), state.again)
            and embed_fits(self.positions, state.positions, self.token.weight)
            and self._passes().fits(state.planning)
        )

    def _passes(self) -> Passes[BaselinePass, BaselineState]:
        """Runs the layers, with plans if the model makes them."""
        return Passes(self.planning, self._pass, self._initial_layers)

    def _pass(
        self, steps: Steps, state: BaselineState | None, plan: Plan | None
    ) -> tuple[BaselinePass, BaselineState | None]:
        """One pass of all layers over embedded steps."""
        x, first = steps.embedded, self.positions.again - 1 if self.again else len(self.layers)
        frames, rings = (None, None) if state is None else (state.frames, state.rings)
        vectors = None if state is None else state.vectors
        pathway, vectors = self._run(slice(0, first), self.positions, x, frames, rings, vectors, plan)
        again: PositionVectorsState | tuple[()] = ()
        if self.again is not None:
            past = None if state is None else state.again
            later, again = self._run(slice(first, None), self.again, pathway.out, frames, rings, past)
            pathway = replace(later, rings=pathway.rings + later.rings, gating=pathway.gating + later.gating)
        gating = gate_trace(self.layers, pathway.gating)
        out = BaselinePass(self.norm(pathway.out), gating)
        if state is None:
            return out, None
        return out, BaselineState(state.frames + x.shape[1], pathway.rings, (), vectors, again=again)

    def _run(
        self,
        layers: slice,
        scheme: Positions,
        x: Tensor,
        frames: Tensor | None,
        rings: tuple[Ring, ...] | None,
        state: PositionVectorsState | tuple[()] | None,
        plan: Plan | None = None,
    ) -> tuple[Pathway, PositionVectorsState | tuple[()]]:
        """Run successive layers over a chunk with a scheme's position vectors; returns the vectors' state."""
        vectors, after = run_vectors(scheme, x, state)
        ring = state.fast if isinstance(state, PositionVectorsState) else None
        steering = self.positions.steer(Steering(places=vectors, place_ring=ring), 1)
        length, past = x.shape[1], self.cfg.max_seq_len - 1
        past = min(past, max(length - 1, 0)) if frames is None else past
        layout = make_layout(length, past, steering, x, count=frames, reference=self.reference)
        pathway = run_blocks(
            self.layers[layers], x, layout, None if rings is None else rings[layers], plan=plan
        )
        if isinstance(after, PositionVectorsState) and pathway.stored is not None:
            after = replace(after, fast=pathway.stored)
        return pathway, after

    def step(
        self,
        ids: Tensor,
        state: BaselineState,
        *,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> tuple[BaselineOutput, BaselineState]:
        """Run :meth:`forward` on one token (B,) or (B, 1), with ``boost`` (B, V) or (B, 1, V). Outputs have
        an L axis of length 1."""
        check_tensor(ids, "ids", "(B,) or (B, 1)")
        ids = ids[:, None] if ids.ndim == 1 else ids
        return self.forward(ids, state=state, plan=plan, boost=add_step_axis(boost))


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
