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

    def log_likelihood(self, count: Tensor, logs: Tensor, rests: Tensor) -> Tensor:
        """Of ``count`` scores from each, whose logarithms add up to ``logs``, and those of 1 less each score
        to ``rests``."""
        norm = torch.lgamma(self.alpha) + torch.lgamma(self.beta) - torch.lgamma(self.alpha + self.beta)
        return (self.alpha - 1.0) * logs + (self.beta - 1.0) * rests - count * norm


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
            hidden = torch.sigmoid(self.first(target[..., None].to(weight)))
            found = F.softplus(self.last(hidden))
        found = found.to(torch.promote_types(found.dtype, torch.float32)).clamp(min=1e-3)
        return Beta(*found.unbind(-1))

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
        vocab, none = log_scores.shape[-1], len(ahead.targets)
        step = counted.flatten().nonzero()[:, 0]
        codes, place = (part.flatten(0, 1).index_select(0, step) for part in (ahead.codes, ahead.place))
        some = torch.randint(vocab, (len(step), min(zeros, vocab)), device=codes.device)
        # With a column for what is no code.
        comes = torch.zeros(len(step), vocab + 1, dtype=torch.bool, device=codes.device)
        comes.scatter_(1, codes.remainder(vocab + 1), 1)
        at = torch.cat((codes.clamp(min=0), some), 1) + step[:, None] * vocab
        said = log_scores.detach().take(at).flatten().exp().clamp(LOWEST, 1.0 - LOWEST)
        # Few targets differ, and all scores of the same target are as one: what is drawn has the target 0.
        of = torch.cat((place.where(place > 0, none), comes.gather(1, some) * none), 1).flatten()
        count, logs, rests = (
            torch.bincount(of, each.double(), none + 1)[:none]
            for each in (torch.ones_like(said), said.log(), torch.log1p(-said))
        )
        seen = count.nonzero()[:, 0]
        means = torch.where(seen > 0, count[1:].sum(), count[0]).clamp(min=1.0)
        found = self(ahead.targets[seen])
        found = Beta(found.alpha.double(), found.beta.double())
        likelihood = found.log_likelihood(count[seen], logs[seen], rests[seen])
        return -(likelihood / means).sum().to(said)

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
        shapes = self(ahead.targets)
        pairs = torch.stack((shapes.alpha, shapes.beta), -1).double().numpy(force=True)
        comes, place = (part.flatten(0, 1).numpy(force=True) for part in (ahead.codes, ahead.place))
        codes = torch.empty(len(comes), slots, dtype=torch.int64)
        best = torch.empty(len(comes), slots, dtype=torch.float64)
        _core.plan_draw(
            np.ascontiguousarray(comes),
            place,
            pairs,
            log_frequency.double().numpy(force=True),
            _quantiles(*pairs[0]),
            _EDGE,
            int(torch.randint(2**63 - 1, ())),
            codes.numpy(),
            best.numpy(),
        )
        shape = (*ahead.codes.shape[:2], slots)
        weights = normalised(best).view(shape)
        return PlanChoice(codes.view(shape).to(log_frequency.device), weights.to(shapes.alpha))


def _quantiles(alpha: float, beta: float) -> npt.NDArray[np.float64]:
    """Logarithms of a Beta's quantiles, evenly spaced in the logit of the probability."""
    odds = np.linspace(-_EDGE, _EDGE, _POINTS)
    low, high = special.expit(odds), special.expit(-odds)
    # Either tail from its own side: near 1 a probability has lost its digits.
    found = np.where(odds < 0.0, special.betaincinv(alpha, beta, low), special.betainccinv(alpha, beta, high))
    kept = np.nan_to_num(found, nan=LOWEST).clip(LOWEST, 1.0 - LOWEST)
    return np.asarray(np.log(kept), np.float64)
