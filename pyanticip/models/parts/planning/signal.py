"""The planning signal, a part of a model: anticipator, simulator, and the embedding of plans."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import ShapeError
from pyanticip.models.core.block import first_norm
from pyanticip.models.core.part import LossContext, Part, Positions
from pyanticip.models.core.plan import Plan
from pyanticip.models.parts.planning.heads import AnticipationSimulator, Anticipator
from pyanticip.models.parts.planning.targets import PlanChoice, anticipation_losses, look_ahead, select

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


class PlanningSignal(Part):
    """The part of a model that makes plans and trains with them.

    If steps have absolute position encodings, the marks of plans are computed from them; otherwise all plans
    have one learned mark.

    Args:
        model: the model's configuration; its ``planning`` are the options.
        codes: V, number of codes.
        blocks: the fast pathway, whose first layer attends to plans.
        positions: the model's position scheme.
        embedding: the model's embedding (V, D) of the codes; ``None`` to learn a separate one.
    """

    log_frequency: Tensor

    def __init__(
        self,
        model: "ModelConfig",
        codes: int,
        blocks: nn.ModuleList,
        positions: Positions,
        embedding: nn.Embedding | None = None,
    ) -> None:
        super().__init__()
        assert model.planning is not None
        cfg, width = model.planning, model.d_model
        self.horizon = cfg.tokens
        self.slots = min(cfg.tokens, codes)
        self.vocab = codes
        self.width = width
        self.floor = cfg.floor
        self.paper = cfg.paper
        self.refine = cfg.refine
        self.recurrent = cfg.inference == "recurrent"
        self.absolute = positions.absolute
        self.anticipator = Anticipator(width, codes)
        self.simulator = AnticipationSimulator(cfg.hidden, scale=float(self.horizon))
        # In a tuple, so that the model's own modules are not registered a second time.
        self._shared: tuple[nn.LayerNorm, nn.Embedding | None] = (first_norm(blocks), embedding)
        self.codes: nn.Embedding | None = None
        if embedding is None:
            self.codes = nn.Embedding(codes, width)
            nn.init.normal_(self.codes.weight, 0.0, 0.02)
        else:
            self.anticipator.start_from(embedding.weight)
        self.future: nn.Linear | None = None
        self.mark: nn.Parameter | None = None
        if self.absolute:
            # Initially a plan's mark is the position of the step itself.
            self.future = nn.Linear(width, width)
            nn.init.eye_(self.future.weight)
            nn.init.zeros_(self.future.bias)
        else:
            self.mark = nn.Parameter(torch.zeros(width))
        uniform = torch.full((codes,), 1.0 / codes).clamp(min=self.floor).log()
        self.register_buffer("log_frequency", uniform)

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
        choice = select(log_scores, self.log_frequency, self.slots, boost)
        # Scores are of single precision at least; a stream keeps its dtype.
        return PlanChoice(choice.codes, choice.weights.to(self.log_frequency.dtype))

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
        """``plan``, the anticipator's cross-entropy and unlikelihood, and ``simulator``, the simulator's
        negative log-likelihood, which is minimised separately at its own learning rate; nothing where the
        codes are unknown.

        Means over the steps whose next K codes are all known, or, without such a step, over all steps that
        have a next code.
        """
        log_scores = context.out.anticipation
        if context.codes is None or log_scores is None:
            return {}
        ahead = look_ahead(context.codes, self.horizon, log_scores.shape[1])
        counted = ahead.whole if bool(ahead.whole.any()) else ahead.codes[..., 0] >= 0
        ce, unlikelihood = anticipation_losses(log_scores, ahead)
        simulator = self.simulator.loss(log_scores, ahead, counted)
        return {"plan": _mean(ce, counted) + _mean(unlikelihood, counted), "simulator": simulator}


def _mean(value: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, value, 0.0).sum() / counted.sum().clamp(min=1)
