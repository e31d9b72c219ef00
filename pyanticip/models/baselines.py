"""The plain transformer to compare with: one pathway, no scalars, no gates, as many parameters."""

from dataclasses import dataclass, replace
from typing import overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import ShapeError
from pyanticip.models.attention import Layout, Ring
from pyanticip.models.band import make_band
from pyanticip.models.config import ModelConfig
from pyanticip.models.control_field import FieldTrace
from pyanticip.models.fused import make_fused
from pyanticip.models.places import Places, PlacesState, place_rings, place_source
from pyanticip.models.plan import Plan
from pyanticip.models.positions import alibi_slopes, sinusoids
from pyanticip.models.slots import make_slots
from pyanticip.models.steering import Steering
from pyanticip.models.streaming import State
from pyanticip.models.tokens import check_ids, check_length, check_token_config
from pyanticip.models.trajectory_positions import TrajectoryPositions, TrajectoryState, moved_positions
from pyanticip.models.trunk import Block, compute_dtype, init_weights, reset_fields, run_blocks


@dataclass(frozen=True)
class BaselineOutput:
    """``logits`` (B, L, V), ``hidden`` (B, L, D) after the final norm, ``field`` what the layers' control
    fields say and ``plan`` what was foreseen, where there are such."""

    logits: Tensor
    hidden: Tensor
    field: FieldTrace | None = None
    plan: Plan | None = None


@dataclass
class BaselineState(State):
    """``frames`` (B,) int64 tokens so far; one ring per layer; ``moved`` of trajectory positions and
    ``places`` of the tokens so far, where there are such."""

    frames: Tensor
    rings: tuple[Ring, ...]
    moved: TrajectoryState | tuple[()] = ()
    places: PlacesState | tuple[()] = ()


class BaselineTransformer(nn.Module):
    """A pre-norm causal transformer of ``fast_layers + slow_layers`` layers in a row, with a tied head.

    Positions are the configuration's: sinusoidal, moved by the trajectory, ALiBi, RoPE or none. The
    feed-forward layers are widened until it has as many parameters as the anticipatory transformer of the
    same configuration (within half a column of each).

    :param cfg: a token configuration; ``bias``, ``window`` and ``slow_stride`` do not matter here.
    :param matched: False keeps ``cfg.ff``.
    :raises OptionError: a configuration without a vocabulary.
    """

    places: Tensor
    slopes: Tensor
    reference: bool = False
    """Whether whole sequences take the reference layout; see :class:`~pyanticip.models.trunk.Trunk`."""

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
        self.prism = place_source(cfg)
        cursors = 0 if self.prism is None else self.prism.cursors
        count = cfg.fast_layers + cfg.slow_layers
        self.layers = nn.ModuleList(Block(cfg, past, cursors) for _ in range(count))
        self.norm = nn.LayerNorm(cfg.d_model)
        steps = cfg.max_seq_len if cfg.positions == "sinusoidal" else 0
        self.register_buffer("places", sinusoids(torch.arange(steps), cfg.d_model).float(), persistent=False)
        self.register_buffer("slopes", alibi_slopes(cfg.heads), persistent=False)
        self.moved = TrajectoryPositions.of(cfg) if cfg.positions == "trajectory" else None
        self.apply(init_weights)
        reset_fields(self)

    def initial_state(self, batch: int) -> BaselineState:
        """The state before the first token, for ``batch`` independent rows."""
        frames = torch.zeros(batch, dtype=torch.int64, device=self.norm.weight.device)
        blocks = (block for block in self.layers if isinstance(block, Block))
        moved = () if self.moved is None else self.moved.initial_state(batch, self.token.weight)
        rings = tuple(block.initial_state(batch) for block in blocks)
        past = self.cfg.max_seq_len - 1
        return BaselineState(frames, rings, moved, place_rings(self.prism, self.norm.weight, batch, past, -1))

    def _layout(
        self, length: int, count: Tensor | None, like: Tensor, places: Places | None, ring: Tensor | None
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
            return make_slots(past, steering, count=count, new=None, dtype=like.dtype)
        return make_band(length, past, steering, count=count, device=like.device, dtype=like.dtype)

    @overload
    def forward(self, ids: Tensor, *, state: None = ..., plan: Plan | None = ...) -> BaselineOutput: ...

    @overload
    def forward(
        self, ids: Tensor, *, state: BaselineState, plan: Plan | None = ...
    ) -> tuple[BaselineOutput, BaselineState]: ...

    def forward(
        self, ids: Tensor, *, state: BaselineState | None = None, plan: Plan | None = None
    ) -> BaselineOutput | tuple[BaselineOutput, BaselineState]:
        """Run whole sequences from their start, or a chunk of any length that follows ``state``.

        :param ids: (B, L) int64 tokens, 0 <= id < vocab.
        :param plan: what is foreseen at each step, for the first layer to look at.
        :raises ShapeError: ids out of range, a sequence longer than ``max_seq_len``.
        """
        check_ids(ids, self.cfg.vocab)
        rows, length = ids.shape
        frames = None if state is None else state.frames
        if frames is not None and frames.shape[0] != rows:
            raise ShapeError(f"the state has {frames.shape[0]} rows, the ids have {rows}")
        check_length(length, frames, self.cfg)
        x = self.token(ids)
        if self.cfg.positions == "sinusoidal":
            steps = torch.arange(length, device=ids.device)
            x = x + self.places[steps if frames is None else frames[:, None] + steps]
        shifted, moved = moved_positions(self.moved, x, None if state is None else state.moved)
        x = x if shifted is None else x + shifted
        x = self.dropout(x)
        before = None if state is None or not isinstance(state.places, PlacesState) else state.places
        places, source = None, None
        if self.prism is not None:
            places, source = self.prism(x, None if before is None else before.source)
        layout = self._layout(length, frames, x, places, None if before is None else before.fast)
        ran = run_blocks(self.layers, x, layout, None if state is None else state.rings, plan=plan)
        hidden = self.norm(ran.out)
        out = BaselineOutput(
            F.linear(hidden, self.token.weight), hidden, FieldTrace(ran.felt) if ran.felt else None, plan
        )
        if state is None:
            return out
        after: PlacesState | tuple[()] = ()
        if before is not None and source is not None and ran.stored is not None:
            after = replace(before, source=source, fast=ran.stored)
        return out, BaselineState(state.frames + length, ran.rings, moved, after)

    def step(self, ids: Tensor, state: BaselineState) -> tuple[BaselineOutput, BaselineState]:
        """One token (B,) or (B, 1): ``forward`` with a state. Outputs keep their L axis (1)."""
        return self.forward(ids[:, None] if ids.ndim == 1 else ids, state=state)


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
