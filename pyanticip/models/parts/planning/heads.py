"""What is learned for the planning signal: the anticipator, and the model of its errors that stands in for it
in training."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.layouts import exact
from pyanticip.models.parts.planning.targets import LOWEST, Ahead, PlanChoice, normalised

ALL_BELOW = 8192
"""Up to so many codes, each one's score is drawn; beyond, the largest of each class of frequency."""

SIMULATOR_LR = 1e-2
"""The rate to train a simulator at: high, so that it forgets what the anticipator was like before."""

CLASSES = 64
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
        with exact(weight):
            hidden = torch.sigmoid(self.first(target[..., None].to(weight.dtype)))
            found = F.softplus(self.last(hidden))
        found = found.to(torch.promote_types(found.dtype, torch.float32)).clamp(min=1e-3)
        return Beta(found[..., 0], found[..., 1])

    def loss(self, log_scores: Tensor, ahead: Ahead, zeros: int = 64) -> Tensor:
        """Negative log-likelihood of what the anticipator said, a scalar: the mean over codes that come, and
        the mean over codes that do not, of which some are drawn.

        The density given the target does not depend on how many of each there are.

        Args:
            log_scores: (B, L, V); no gradient goes there.
            ahead: the target.
            zeros: how many codes are drawn at each step.
        """
        log_scores = log_scores.detach()
        said = log_scores.gather(-1, ahead.codes.clamp(min=0)).exp()
        come = -self(ahead.scores).log_prob(said)
        come = torch.where(ahead.first, come, 0.0).sum() / ahead.first.sum().clamp(min=1)
        vocab = log_scores.shape[-1]
        some = torch.randint(vocab, (*log_scores.shape[:-1], min(zeros, vocab)), device=log_scores.device)
        come_there = ahead.codes.sort(-1).values
        at = torch.searchsorted(come_there, some).clamp(max=come_there.shape[-1] - 1)
        absent = come_there.gather(-1, at) != some
        none = self(torch.zeros((), dtype=come.dtype, device=come.device))
        rest = -none.log_prob(log_scores.gather(-1, some).exp())
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
        vocab = len(log_frequency)
        slots = min(slots, vocab)
        came = self(ahead.scores).sample().log()
        none = self(ahead.scores.new_zeros(()))
        if vocab <= ALL_BELOW:
            contrast = _every(none, (*ahead.codes.shape[:2], vocab)) - log_frequency
            codes = None
        else:
            drawn, codes = _largest(none, ahead.codes.shape[:2], log_frequency, 2 * ahead.codes.shape[-1])
            taken = torch.zeros((*ahead.codes.shape[:2], vocab + 1), dtype=torch.bool, device=drawn.device)
            taken.scatter_(-1, torch.where(ahead.codes >= 0, ahead.codes, vocab), True)
            contrast = torch.where(taken.gather(-1, codes), -torch.inf, drawn - log_frequency[codes])
        # Codes that come have scores of their own; slots that repeat one, or lie beyond the end, have none.
        own = came - log_frequency[ahead.codes.clamp(min=0)]
        if codes is None:
            spare = F.pad(contrast, (0, 1))
            spare.scatter_(-1, torch.where(ahead.first, ahead.codes, vocab), own)
            best, chosen = spare[..., :vocab].topk(slots, -1)
            return PlanChoice(chosen, normalised(best))
        both = torch.cat((torch.where(ahead.first, own, -torch.inf), contrast), -1)
        best, at = both.topk(slots, -1)
        chosen = torch.cat((ahead.codes.clamp(min=0), codes), -1).gather(-1, at)
        return PlanChoice(chosen, normalised(best))


def _quantiles(distribution: Beta) -> Tensor:
    """Logarithms of a Beta's quantiles, evenly spaced in the logit of the probability."""
    alpha, beta = float(distribution.alpha), float(distribution.beta)
    odds = np.linspace(-_EDGE, _EDGE, _POINTS)
    low, high = special.expit(odds), special.expit(-odds)
    # Either tail from its own side: near 1 a probability has lost its digits.
    found = np.where(odds < 0.0, special.betaincinv(alpha, beta, low), special.betainccinv(alpha, beta, high))
    kept = np.nan_to_num(found, nan=LOWEST).clip(LOWEST, 1.0 - LOWEST)
    return torch.from_numpy(np.log(kept)).to(distribution.alpha)


def _interpolate(table: Tensor, odds: Tensor) -> Tensor:
    """The quantiles at these logits of probabilities."""
    at = (odds + _EDGE).mul_((_POINTS - 1) / (2.0 * _EDGE)).clamp_(0.0, _POINTS - 1.001)
    below = at.int().flatten()
    share = at.flatten().sub_(below)
    left = table.index_select(0, below)
    return left.lerp_(table.index_select(0, below + 1), share).view_as(odds)


def _every(distribution: Beta, shape: tuple[int, ...]) -> Tensor:
    """Log-scores of this shape, drawn independently."""
    table = _quantiles(distribution)
    uniform = torch.rand(shape, device=table.device, dtype=table.dtype).clamp_(1e-7, 1.0 - 1e-7)
    return _interpolate(table, torch.logit(uniform))


def _largest(
    distribution: Beta, shape: tuple[int, ...], log_frequency: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The largest of independent log-scores of all codes, and whose they are: (..., classes * count) each.

    Codes of about the same frequency form a class; of each the ``count`` largest scores are drawn by order
    statistics (the j-th largest of n uniform numbers is the product of U_i^(1 / (n - i + 1)), i <= j). Where
    the codes of a class are equally frequent, nothing that is left out could have been selected.
    """
    order = log_frequency.argsort()
    table = _quantiles(distribution)
    scores, codes = [], []
    for members in order.tensor_split(CLASSES):
        size = len(members)
        most = min(count, size)
        rank = size - torch.arange(most, device=table.device, dtype=table.dtype)
        uniform = torch.rand((*shape, most), device=table.device, dtype=table.dtype).clamp_(min=1e-30)
        logs = (uniform.log() / rank).cumsum(-1)
        odds = logs - torch.log(-torch.expm1(logs).clamp(max=-1e-30))
        scores.append(_interpolate(table, odds))
        # Whose: a fresh order of the class, entered at another place by every step.
        mixed = members[torch.randperm(size, device=members.device)]
        start = torch.randint(size, (*shape, 1), device=members.device)
        codes.append(mixed[(start + torch.arange(most, device=members.device)) % size])
    return torch.cat(scores, -1), torch.cat(codes, -1)
