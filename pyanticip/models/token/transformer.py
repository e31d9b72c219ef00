"""The token model of the family: the Anticipatory Transformer of Diomande (2026)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.config import ModelConfig
from pyanticip.models.core.bias import Orthogonality
from pyanticip.models.core.block import first_gate
from pyanticip.models.core.inputs import (
    add_step_axis,
    check_batch,
    check_mask,
    check_state,
    check_steering,
    check_tensor,
)
from pyanticip.models.core.part import GateTrace, Part, embed_fits, present
from pyanticip.models.core.streaming import State, part_of
from pyanticip.models.core.trunk import ScalarMode, Trunk, TrunkOutput, TrunkState
from pyanticip.models.parts.planning.passes import Passes, PlanState, Steps, trunk_passes
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.token.baseline import BaselineTransformer, check_ids, check_length, check_token_config


@dataclass(frozen=True)
class LanguageOutput:
    """Output of the model at every step (B batch, L steps, V vocabulary, D width).

    ``logits`` (B, L, V) the tied head's times the gate, in training, evaluation and streaming alike: an
    uncommitted step spreads its prediction. ``scalars`` (B, L, 7) of the refined head and ``initial``
    (B, L, 7) of the initial head, native units; ``gate`` (B, L) commitment gate in (0, 1); ``share`` (B, L)
    of the fast pathway; ``hidden`` (B, L, D) after the final norm; ``head`` (V, D) the tied head's weight. Of
    optional parts: ``field`` the trace of the blocks' control fields, ``plan`` the plans that each step
    attended to, and ``anticipation`` (B, L, V) log-scores for the next steps.
    """

    logits: Tensor
    scalars: Tensor
    initial: Tensor
    gate: Tensor
    share: Tensor
    hidden: Tensor
    head: Tensor
    field: GateTrace | None = None
    plan: PlanChoice | None = None
    anticipation: Tensor | None = None

    @cached_property
    def raw_logits(self) -> Tensor:
        """Logits (B, L, V) of the tied head, before the gate."""
        return F.linear(self.hidden, self.head)


@dataclass
class LanguageState(State):
    """The trunk's state, whose ``frames`` is the number of tokens so far in each row, and the states of
    ``positions`` and ``planning``, if the model has them."""

    trunk: TrunkState
    positions: State | tuple[()] = ()
    planning: PlanState | tuple[()] = ()


class LanguageForwardOptions(TypedDict, total=False):
    """Keyword arguments of :meth:`AnticipatoryTransformer.forward`."""

    mode: ScalarMode | None
    predicted: Tensor | None
    plan: PlanChoice | None
    boost: Tensor | None


class AnticipatoryTransformer(nn.Module):
    """Token embedding + positions -> dual-pathway trunk -> tied language-model head.

    Args:
        cfg: sizes and options; see :meth:`ModelConfig.small` and :meth:`ModelConfig.default`.

    Raises:
        OptionError: a configuration without a vocabulary.
    """

    def __init__(self, cfg: ModelConfig | None = None) -> None:
        super().__init__()
        cfg = ModelConfig.small() if cfg is None else cfg
        check_token_config(cfg)
        self.cfg = cfg
        self.token = nn.Embedding(cfg.vocab, cfg.d_model)
        nn.init.normal_(self.token.weight, 0.0, 0.02)
        self.dropout = nn.Dropout(cfg.dropout)
        self.trunk = Trunk(cfg)
        self.planning: PlanningSignal | None = cfg.build(
            "planning", cfg.vocab, self.trunk.fast, self.trunk.positions, self.token
        )

    def parts(self) -> list[Part]:
        """The model's parts."""
        return present(first_gate(self.trunk.fast), self.planning, self.trunk.positions)

    def embed(self, ids: Tensor) -> Tensor:
        """Token embeddings (B, L, D) of ids (B, L), without positions: the trajectory that the scalars
        describe.

        Raises:
            ShapeError: ids that are not integers (B, L) from 0 to ``vocab - 1``.
        """
        check_ids(ids, self.cfg.vocab)
        embedded: Tensor = self.token(ids)
        return embedded

    def latent(self, hidden: Tensor) -> Tensor:
        """A hidden state (..., D) scaled to the token embeddings, to be used in place of one."""
        scale = self.token.weight.detach().square().mean().sqrt()
        return hidden * (scale / hidden.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-6))

    def initial_state(self, batch: int) -> LanguageState:
        """The state before the first token, for ``batch`` independent rows."""
        check_batch(batch)
        positions = self.trunk.positions.embed_state(batch, self.token.weight)
        planning = self._passes("initial").initial_state(batch, external=True)
        return LanguageState(self.trunk.initial_state(batch), positions, planning)

    @overload
    def forward(
        self,
        ids: Tensor,
        scalars: Tensor | None = ...,
        *,
        state: None = ...,
        **options: Unpack[LanguageForwardOptions],
    ) -> LanguageOutput: ...

    @overload
    def forward(
        self,
        ids: Tensor,
        scalars: Tensor | None = ...,
        *,
        state: LanguageState,
        **options: Unpack[LanguageForwardOptions],
    ) -> tuple[LanguageOutput, LanguageState]: ...

    def forward(
        self,
        ids: Tensor,
        scalars: Tensor | None = None,
        *,
        state: LanguageState | None = None,
        mode: ScalarMode | None = None,
        predicted: Tensor | None = None,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> LanguageOutput | tuple[LanguageOutput, LanguageState]:
        """Run whole sequences from their start, or a chunk of any length that follows ``state``.

        Args:
            ids: (B, L) int64 tokens, 0 <= id < vocab.
            scalars: (B, L, 7) anticipation scalars in native units, finite.
            state: the state before these tokens; ``None`` for sequences from their start, then the output is
                returned alone. Without gradients its rings are written in place: continue with the returned
                state.
            mode: which scalars steer: ``external`` those in ``scalars``, ``initial`` the initial head's,
                ``refined_prev`` the refined head's of the previous step. ``None``: ``external`` if there are
                ``scalars``, else ``initial``.
            predicted: (B, L) bool, steps where the initial head's scalars replace the external ones.
            plan: plans (B, L, K) to use in place of the model's own, such as those drawn for training.
            boost: (V,) or (B, 1, V), added to the contrasts by which the model's own plans are selected:
                positive values favour a token, -inf forbids it.

        Raises:
            OptionError: an unknown ``mode``, ``external`` or ``predicted`` without scalars, or ``plan`` or
                ``boost`` for a model without planning.
            ShapeError: no ids, ids out of range, a sequence longer than ``max_seq_len``, scalars of another
                shape or not finite, or ``predicted``, ``plan`` or ``boost`` that does not fit.
        """
        return self._run(self.embed(ids), ids, scalars, state, mode, predicted, plan, boost)

    def step(
        self,
        ids: Tensor,
        state: LanguageState,
        scalars: Tensor | None = None,
        *,
        mode: ScalarMode | None = None,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> tuple[LanguageOutput, LanguageState]:
        """Run :meth:`forward` on one token (B,) or (B, 1), with scalars (B, 7) and boost (B, V), or the same
        with an L axis of length 1. Outputs have that axis."""
        check_tensor(ids, "ids", "(B,) or (B, 1)")
        ids = ids[:, None] if ids.ndim == 1 else ids
        return self.forward(
            ids, add_step_axis(scalars), state=state, mode=mode, plan=plan, boost=add_step_axis(boost)
        )

    def latent_step(
        self,
        ids: Tensor,
        hidden: Tensor,
        waiting: Tensor,
        state: LanguageState,
        scalars: Tensor | None = None,
        *,
        mode: ScalarMode | None = None,
    ) -> tuple[LanguageOutput, LanguageState]:
        """Run one step in which waiting rows get their hidden state as input in place of a token.

        Args:
            ids: (B,) tokens of the rows that do not wait; waiting rows need a valid id too.
            hidden: (B, D) the hidden states of the previous step.
            waiting: (B,) bool.
        """
        check_ids(ids[:, None], self.cfg.vocab)
        check_mask(waiting, "waiting", tuple(ids.shape))
        if hidden.shape != (len(ids), self.cfg.d_model):
            expected = f"({len(ids)}, {self.cfg.d_model})"
            raise ShapeError(f"hidden must be {expected}, got {tuple(hidden.shape)}")
        embedded = torch.where(waiting[:, None], self.latent(hidden), self.token(ids))
        # A latent step has no code.
        codes = torch.where(waiting, -1, ids)[:, None]
        out = self._run(embedded[:, None], codes, add_step_axis(scalars), state, mode, None, None, None)
        assert isinstance(out, tuple)
        return out

    def _run(
        self,
        embedded: Tensor,
        codes: Tensor,
        scalars: Tensor | None,
        state: LanguageState | None,
        mode: ScalarMode | None,
        predicted: Tensor | None,
        plan: PlanChoice | None,
        boost: Tensor | None,
    ) -> LanguageOutput | tuple[LanguageOutput, LanguageState]:
        rows, length = embedded.shape[:2]
        if state is not None and not torch.compiler.is_compiling():
            check_state(self._fits(state))
        frames = None if state is None else state.trunk.frames
        if frames is not None and frames.shape[0] != rows:
            raise ShapeError(f"the state has {frames.shape[0]} rows, the ids have {rows}")
        check_length(length, frames, self.cfg, self.trunk.positions.absolute)
        mode = self._mode(scalars, mode)
        if scalars is None and predicted is not None:
            raise OptionError("predicted needs scalars for the other steps, got none")
        check_steering(scalars, predicted, rows, length)
        added, positions = self.trunk.positions.embed(embedded, frames, part_of(state, "positions"))
        embedded = self.dropout(embedded if added is None else embedded + added)
        external = None if scalars is None else scalars.to(embedded.dtype)
        result = self._passes(mode)(
            Steps(embedded, codes, added, external, predicted),
            None if state is None else state.trunk,
            part_of(state, "planning"),
            plan=plan,
            boost=boost,
        )
        trunk, head = result.out, self.token.weight
        out = LanguageOutput(
            # The gate is applied to the smaller factor of the product: D numbers instead of V.
            F.linear(trunk.hidden * trunk.gate, head),
            trunk.scalars,
            trunk.initial,
            trunk.gate[..., 0],
            trunk.share,
            trunk.hidden,
            head,
            trunk.field,
            result.choice,
            result.anticipation,
        )
        if result.state is None:
            return out
        return out, LanguageState(result.state, positions, result.planning)

    def _fits(self, state: Any) -> bool:
        """Whether a state is one of this configuration."""
        return (
            isinstance(state, LanguageState)
            and self.trunk.fits(state.trunk)
            and embed_fits(self.trunk.positions, state.positions, self.token.weight)
            and self._passes("initial").fits(state.planning)
        )

    def _passes(self, mode: ScalarMode) -> Passes[TrunkOutput, TrunkState]:
        """Runs the trunk, with plans if the model makes them."""
        return trunk_passes(self.trunk, self.planning, mode)

    @staticmethod
    def _mode(scalars: Tensor | None, mode: ScalarMode | None) -> ScalarMode:
        if mode is None:
            mode = "initial" if scalars is None else "external"
        if mode not in ("external", "initial", "refined_prev"):
            raise OptionError(f"mode must be external, initial or refined_prev, got {mode!r}")
        if scalars is None and mode == "external":
            raise OptionError("mode 'external' needs scalars, got none")
        return mode

    def orthogonality(self) -> Orthogonality | None:
        """Overlap of the bias heads' directions, ``None`` without a bias."""
        return None if self.trunk.bias is None else self.trunk.bias.orthogonality()


LanguageModel = AnticipatoryTransformer | BaselineTransformer


def build_language_model(
    cfg: ModelConfig, kind: Literal["anticipatory", "baseline"] = "anticipatory"
) -> LanguageModel:
    """Build the anticipatory transformer of a configuration, or the baseline of equal size.

    Raises:
        OptionError: an unknown kind, or a configuration without a vocabulary.
    """
    if kind == "anticipatory":
        return AnticipatoryTransformer(cfg)
    if kind == "baseline":
        return BaselineTransformer(cfg)
    raise OptionError(f"kind must be 'anticipatory' or 'baseline', got {kind!r}")
