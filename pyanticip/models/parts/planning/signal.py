"""The planning signal as a part of a model: anticipator, simulator, and the embedding of plans."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import ShapeError
from pyanticip.models.core.block import first_norm
from pyanticip.models.core.part import LossContext, Part, Positions
from pyanticip.models.core.plan import Plan
from pyanticip.models.parts.planning.config import PlanConfig
from pyanticip.models.parts.planning.heads import AnticipationSimulator, Anticipator
from pyanticip.models.parts.planning.targets import (
    PlanChoice,
    anticipation_losses,
    look_ahead,
    select,
)

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


@dataclass(frozen=True)
class PlanningLosses:
    """Scalars: ``ce`` cross-entropy of the anticipator, ``unlikelihood``, and ``simulator`` the simulator's
    negative log-likelihood, which is minimised by itself, at a higher rate."""

    ce: Tensor
    unlikelihood: Tensor
    simulator: Tensor


class PlanningSignal(Part):
    """What a model needs to make plans and to be trained with them.

    Args:
        width: D of the model.
        vocab: number of codes.
        embedding: the embedding (V, D) of the codes, where the model has one; else an own one is learned.
        norm: what the first attention layer's input goes through before its projections.
        absolute: whether steps have position encodings for plans to be marked with; otherwise the mark of the
            future is one learned vector.
    """

    log_frequency: Tensor

    def __init__(
        self,
        cfg: PlanConfig,
        width: int,
        vocab: int,
        *,
        embedding: nn.Embedding | None,
        norm: nn.LayerNorm,
        absolute: bool,
    ) -> None:
        super().__init__()
        self.horizon = cfg.tokens
        self.slots = min(cfg.tokens, vocab)
        self.vocab = vocab
        self.width = width
        self.floor = cfg.floor
        self.paper = cfg.paper
        self.refine = cfg.refine
        self.recurrent = cfg.inference == "recurrent"
        self.absolute = absolute
        self.anticipator = Anticipator(width, vocab)
        self.simulator = AnticipationSimulator(cfg.hidden, scale=float(self.horizon))
        # The model's own modules must not appear a second time among the parameters.
        self._shared: tuple[nn.LayerNorm, nn.Embedding | None] = (norm, embedding)
        self.codes: nn.Embedding | None = None
        if embedding is None:
            self.codes = nn.Embedding(vocab, width)
            nn.init.normal_(self.codes.weight, 0.0, 0.02)
        else:
            self.anticipator.start_from(embedding.weight)
        self.future: nn.Linear | None = None
        self.mark: nn.Parameter | None = None
        if absolute:
            # At first a plan's codes stand where the step itself stands.
            self.future = nn.Linear(width, width)
            nn.init.eye_(self.future.weight)
            nn.init.zeros_(self.future.bias)
        else:
            self.mark = nn.Parameter(torch.zeros(width))
        uniform = torch.full((vocab,), 1.0 / vocab).clamp(min=self.floor).log()
        self.register_buffer("log_frequency", uniform)

    @classmethod
    def of(
        cls,
        model: "ModelConfig",
        codes: int,
        blocks: nn.ModuleList,
        positions: Positions,
        embedding: nn.Embedding | None = None,
    ) -> "PlanningSignal":
        """As a model's configuration has it.

        Args:
            codes: how many there are.
            blocks: the first pathway, whose first layer looks at plans.
        """
        assert model.planning is not None
        norm, absolute = first_norm(blocks), positions.absolute
        return cls(model.planning, model.d_model, codes, embedding=embedding, norm=norm, absolute=absolute)

    @torch.no_grad()
    def set_frequencies(self, counts: Tensor) -> None:
        """How often each code occurs in the training data, (V,) counts or shares; uniform until this is set.

        Raises:
            ShapeError: another shape, negative counts, or none at all.
        """
        total = float(counts.sum()) if counts.ndim == 1 else 0.0
        if counts.shape != (self.vocab,) or not total > 0.0 or bool((counts < 0).any()):
            raise ShapeError(
                f"counts must be {self.vocab} numbers from 0, not all 0, got shape {tuple(counts.shape)}"
            )
        shares = (counts.double() / total).clamp(min=self.floor)
        self.log_frequency.copy_(shares.log())

    def select(self, log_scores: Tensor, boost: Tensor | None = None) -> PlanChoice:
        """The plans (..., K) of an anticipator's log-scores (..., V), by the learned frequencies."""
        return select(log_scores, self.log_frequency, self.slots, boost)

    def hint(self, codes: Tensor) -> PlanChoice:
        """Plans of one code each, (..., 1) of codes (...,); empty where a code is negative."""
        there = (codes >= 0).to(self.log_frequency.dtype)
        return PlanChoice(codes.clamp(min=0)[..., None], there[..., None])

    def embed(self, choice: PlanChoice, places: Tensor | None = None) -> Plan:
        """Plans as the first attention layer takes them.

        Args:
            choice: (B, L, K).
            places: (B, L, D) the steps' position encodings, where they have some.
        """
        norm, shared = self._shared
        table = self.codes if shared is None else shared
        assert table is not None
        if self.future is None:
            assert self.mark is not None
            marks = self.mark.expand(1, choice.codes.shape[1], -1)
        else:
            assert places is not None
            marks = self.future(places).to(table.weight.dtype)
        log_weights = choice.weights.to(table.weight.dtype).log()
        return Plan(choice.codes, log_weights, table.weight, marks, norm, self.paper)

    def simulate(self, codes: Tensor, length: int) -> PlanChoice:
        """Plans for training on the first ``length`` steps at once, drawn from the simulator: (B, L, K).

        The plan of step n stands for what was anticipated at n - 1; the first step has none, as when the
        model runs.

        Args:
            codes: (B, N) codes of the steps and of those after them, N >= length.
        """
        # Where they are drawn, too.
        ahead = look_ahead(codes.cpu(), self.horizon, max(length - 1, 0))
        drawn = self.simulator.draw(ahead, self.log_frequency, self.slots)
        return PlanChoice(F.pad(drawn.codes, (0, 0, 1, 0)), F.pad(drawn.weights, (0, 0, 1, 0)))

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """``plan``, what the anticipator has to learn, and ``simulator``, which learns by itself, at a rate
        of its own; where the codes are known."""
        if context.codes is None or context.out.anticipation is None:
            return {}
        found = self.judged(context.out.anticipation, context.codes)
        return {"plan": found.ce + found.unlikelihood, "simulator": found.simulator}

    def judged(self, log_scores: Tensor, codes: Tensor) -> PlanningLosses:
        """What anticipator and simulator are trained to minimise: means over the steps whose next K codes are
        all known (over all steps that something follows, where there is no such step).

        Args:
            log_scores: (B, L, V) of the anticipator.
            codes: (B, N) codes of the steps and of those after them, N >= L.
        """
        length = log_scores.shape[1]
        ahead = look_ahead(codes, self.horizon, length)
        counted = ahead.whole if bool(ahead.whole.any()) else ahead.codes[..., 0] >= 0
        ce, unlikelihood = anticipation_losses(log_scores, ahead)
        return PlanningLosses(
            _mean(ce, counted), _mean(unlikelihood, counted), self.simulator.loss(log_scores, ahead, counted)
        )


def _mean(value: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, value, 0.0).sum() / counted.sum().clamp(min=1)
