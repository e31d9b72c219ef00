"""The planning signal, a part of a model: anticipator, simulator, and the embedding of plans."""

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
from pyanticip.models.parts.planning.targets import PlanChoice, anticipation_losses, look_ahead, select

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


@dataclass(frozen=True)
class PlanningLosses:
    """Scalar losses: ``ce`` cross-entropy of the anticipator, ``unlikelihood``, and ``simulator`` the
    simulator's negative log-likelihood, which is minimised separately, at a higher learning rate."""

    ce: Tensor
    unlikelihood: Tensor
    simulator: Tensor


class PlanningSignal(Part):
    """The part of a model that makes plans and trains with them.

    Args:
        width: D of the model.
        vocab: number of codes.
        embedding: the model's embedding (V, D) of the codes; ``None`` to learn a separate one.
        norm: the norm before the first attention layer's projections.
        absolute: whether steps have position encodings, from which the marks of plans are computed;
            otherwise all plans have one learned mark.
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
        # In a tuple, so that the model's own modules are not registered a second time.
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
            # Initially a plan's mark is the position of the step itself.
            self.future = nn.Linear(width, width)
            nn.init.eye_(self.future.weight)
            nn.init.zeros_(self.future.bias)
        else:
            self.mark = nn.Parameter(torch.zeros(width))
        uniform = torch.full((vocab,), 1.0 / vocab).clamp(min=self.floor).log()
        self.register_buffer("log_frequency", uniform)

    @classmethod
    def from_model_config(
        cls,
        model: "ModelConfig",
        codes: int,
        blocks: nn.ModuleList,
        positions: Positions,
        embedding: nn.Embedding | None = None,
    ) -> "PlanningSignal":
        """Build the signal from a model's configuration.

        Args:
            codes: number of codes.
            blocks: the fast pathway, whose first layer attends to plans.
        """
        assert model.planning is not None
        norm, absolute = first_norm(blocks), positions.absolute
        return cls(model.planning, model.d_model, codes, embedding=embedding, norm=norm, absolute=absolute)

    @torch.no_grad()
    def set_frequencies(self, counts: Tensor) -> None:
        """Set the frequency of each code in the training data, (V,) counts or shares; initially uniform.

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
        """Select plans (..., K) from an anticipator's log-scores (..., V) and the code frequencies."""
        return select(log_scores, self.log_frequency, self.slots, boost)

    def hint(self, codes: Tensor) -> PlanChoice:
        """Plans of one code each, (..., 1) of codes (...,); empty where a code is negative."""
        weights = (codes >= 0).to(self.log_frequency.dtype)
        return PlanChoice(codes.clamp(min=0)[..., None], weights[..., None])

    def embed(self, choice: PlanChoice, places: Tensor | None = None) -> Plan:
        """Convert plans to the form that the first attention layer takes.

        Args:
            choice: (B, L, K).
            places: (B, L, D) the steps' position encodings, needed if ``absolute``.
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
        """Draw plans (B, L, K) from the simulator, to train on the first ``length`` steps at once.

        The plan of step n stands for the anticipation at n - 1; the first step has an empty plan, as at
        inference.

        Args:
            codes: (B, N) codes of the steps and of those after them, N >= length.
        """
        # On the CPU, where the plans are drawn.
        ahead = look_ahead(codes.cpu(), self.horizon, max(length - 1, 0))
        drawn = self.simulator.draw(ahead, self.log_frequency, self.slots)
        return PlanChoice(F.pad(drawn.codes, (0, 0, 1, 0)), F.pad(drawn.weights, (0, 0, 1, 0)))

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """``plan``, the anticipator's loss, and ``simulator``, which is trained separately at its own
        learning rate; nothing where the codes are unknown."""
        if context.codes is None or context.out.anticipation is None:
            return {}
        losses = self.planning_losses(context.out.anticipation, context.codes)
        return {"plan": losses.ce + losses.unlikelihood, "simulator": losses.simulator}

    def planning_losses(self, log_scores: Tensor, codes: Tensor) -> PlanningLosses:
        """Losses of anticipator and simulator: means over the steps whose next K codes are all known, or,
        without such a step, over all steps that have a next code.

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
