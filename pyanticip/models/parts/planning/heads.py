"""What is learned for the planning signal: the anticipator, and the model of its errors that stands in for it
in training."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import special
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip import _core
from pyanticip.models.core.layouts import exact
from pyanticip.models.parts.planning.targets import LOWEST, Ahead, PlanChoice, normalised

SIMULATOR_LR = 1e-2
"""The rate to train a simulator at: high, so that it forgets what the anticipator was like before."""

_POINTS = 2048
_EDGE = 16.0


class Anticipator(nn.Module):
    """Scores over all codes for what comes within the next K steps: a linear map and a softmax whose
    temperature ``exp(log_tau)`` is learned.

    Args:
        width: of the hidden states.
        vocab: number of codes.
    """

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, vocab, bias=False)
        nn.init.normal_(self.head.weight, 0.0, 0.02)
        self.log_tau = nn.Parameter(torch.zeros(()))

    @torch.no_grad()
    def start_from(self, head: Tensor) -> None:
        """Start as the language-model head (V, D)."""
        self.head.weight.copy_(head)

    def forward(self, hidden: Tensor) -> Tensor:
        """Log-scores (..., V) of hidden states (..., D)."""
        # The temperature on the narrow side of the product.
        logits = self.head(hidden * torch.exp(-self.log_tau))
        scores: Tensor = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        return scores


@dataclass(frozen=True)
class Beta:
    """Beta distributions, ``alpha`` and ``beta`` of any one shape."""

    alpha: Tensor
    beta: Tensor

    def log_prob(self, score: Tensor) -> Tensor:
        """Log-densities of scores, which are kept off 0 and 1."""
        score = score.clamp(LOWEST, 1.0 - LOWEST)
        norm = torch.lgamma(self.alpha) + torch.lgamma(self.beta) - torch.lgamma(self.alpha + self.beta)
        return (self.alpha - 1.0) * score.log() + (self.beta - 1.0) * torch.log1p(-score) - norm

    def sample(self) -> Tensor:
        """A draw from each."""
        drawn = torch.distributions.Beta(self.alpha, self.beta, validate_args=False).sample()
        return drawn.clamp(LOWEST, 1.0 - LOWEST)


class AnticipationSimulator(nn.Module):
    """The distribution of the anticipator's score given the target: 1 -> 32 sigmoid -> 2 softplus, a Beta.

    It lets a model train on all steps of a sequence at once: the plan of a step is drawn from it, with the
    truth it would have to be anticipated from, instead of made by the anticipator one step before.

    Args:
        hidden: width of the hidden layer.
        scale: by how much larger the first layer's weights start: targets are of the order of 1 / K, and
            without it the hidden units see no difference between them.
    """

    def __init__(self, hidden: int = 32, scale: float = 50.0) -> None:
        super().__init__()
        self.first = nn.Linear(1, hidden)
        self.last = nn.Linear(hidden, 2)
        with torch.no_grad():
            self.first.weight.mul_(scale)

    def forward(self, target: Tensor) -> Beta:
        """The distributions of the scores of codes with targets (...,) in [0, 1], at least in float32: half
        precision rounds 1 less the lowest score to 1, and has no draws from a Beta."""
        weight = self.first.weight
        # Few targets differ: of codes that come once there are as many as steps ahead.
        target, place = target.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        with exact(weight):
            hidden = torch.sigmoid(self.first(target[:, None].to(weight.dtype)))
            found = F.softplus(self.last(hidden))
        found = found.to(torch.promote_types(found.dtype, torch.float32)).clamp(min=1e-3)
        alpha, beta = (each.index_select(0, place.flatten()).view_as(place) for each in found.unbind(-1))
        return Beta(alpha, beta)

    def loss(self, log_scores: Tensor, ahead: Ahead, counted: Tensor, zeros: int = 64) -> Tensor:
        """Negative log-likelihood of what the anticipator said, a scalar: the mean over codes that come, and
        the mean over codes that do not, of which some are drawn.

        The density given the target does not depend on how many of each there are.

        Args:
            log_scores: (B, L, V); no gradient goes there.
            ahead: the target.
            counted: (B, L) the steps that count.
            zeros: how many codes are drawn at each step.
        """
        row, step = (at[:, None] for at in counted.nonzero(as_tuple=True))
        log_scores, vocab = log_scores.detach(), log_scores.shape[-1]
        codes, scores, first = (part[counted] for part in (ahead.codes, ahead.scores, ahead.first))
        said = log_scores[row, step, codes.clamp(min=0)].exp()
        come = -self(scores).log_prob(said)
        come = torch.where(first, come, 0.0).sum() / first.sum().clamp(min=1)
        some = torch.randint(vocab, (len(codes), min(zeros, vocab)), device=codes.device)
        come_there = codes.sort(-1).values
        at = torch.searchsorted(come_there, some).clamp(max=come_there.shape[-1] - 1)
        absent = come_there.gather(-1, at) != some
        none = self(torch.zeros((), dtype=come.dtype, device=come.device))
        rest = -none.log_prob(log_scores[row, step, some].exp())
        return come + torch.where(absent, rest, 0.0).sum() / absent.sum().clamp(min=1)

    @torch.no_grad()
    def draw(self, ahead: Ahead, log_frequency: Tensor, slots: int) -> PlanChoice:
        """Plans as the anticipator might have made them from these targets.

        A score is drawn for every code, those that do not come included: a plan of those that come alone
        would name the future outright.

        Args:
            ahead: of (B, L) steps.
            log_frequency: (V,) of the codes, with its floor.
            slots: codes of a plan.
        """
        own = self(ahead.scores).sample().log() - log_frequency[ahead.codes.clamp(min=0)]
        # Slots that repeat a code, or lie beyond the end, have no scores.
        comes = torch.where(ahead.first, ahead.codes, -1).flatten(0, 1)
        codes = torch.empty(len(comes), slots, dtype=torch.int64)
        best = torch.empty(len(comes), slots, dtype=torch.float64)
        _core.plan_draw(
            comes.numpy(force=True),
            own.double().flatten(0, 1).numpy(force=True),
            log_frequency.double().numpy(force=True),
            _quantiles(self(ahead.scores.new_zeros(()))),
            _EDGE,
            int(torch.randint(2**63 - 1, ())),
            codes.numpy(),
            best.numpy(),
        )
        shape = (*ahead.codes.shape[:2], slots)
        return PlanChoice(
            codes.view(shape).to(own.device), normalised(best.view(shape)).to(own.device, own.dtype)
        )


def _quantiles(distribution: Beta) -> npt.NDArray[np.float64]:
    """Logarithms of a Beta's quantiles, evenly spaced in the logit of the probability."""
    alpha, beta = float(distribution.alpha), float(distribution.beta)
    odds = np.linspace(-_EDGE, _EDGE, _POINTS)
    low, high = special.expit(odds), special.expit(-odds)
    # Either tail from its own side: near 1 a probability has lost its digits.
    found = np.where(odds < 0.0, special.betaincinv(alpha, beta, low), special.betainccinv(alpha, beta, high))
    kept = np.nan_to_num(found, nan=LOWEST).clip(LOWEST, 1.0 - LOWEST)
    return np.asarray(np.log(kept), np.float64)
