"""Learned modules of the planning signal: the anticipator, and a simulator of its errors that replaces it in
training."""

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
"""Learning rate of a simulator: high, so that it follows the anticipator as that changes."""

_POINTS = 2048
"""Number of tabulated quantiles."""

_EDGE = 16.0
"""Largest logit of a tabulated probability."""


class Anticipator(nn.Module):
    """Scores all codes for the next K steps: a linear map and a softmax with a learned temperature
    ``exp(log_tau)``.

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
        """Initialise the weights from a language-model head (V, D)."""
        self.head.weight.copy_(head)

    def forward(self, hidden: Tensor) -> Tensor:
        """Log-scores (..., V) of hidden states (..., D)."""
        # The temperature is applied to the smaller factor of the product.
        logits = self.head(hidden * torch.exp(-self.log_tau))
        scores: Tensor = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        return scores


@dataclass(frozen=True)
class Beta:
    """Beta distributions, ``alpha`` and ``beta`` of any one shape."""

    alpha: Tensor
    beta: Tensor

    def log_likelihood(self, count: Tensor, logs: Tensor, rests: Tensor) -> Tensor:
        """Log-likelihood of ``count`` scores s, given the sums ``logs`` of log s and ``rests`` of
        log(1 - s)."""
        norm = torch.lgamma(self.alpha) + torch.lgamma(self.beta) - torch.lgamma(self.alpha + self.beta)
        return (self.alpha - 1.0) * logs + (self.beta - 1.0) * rests - count * norm


class AnticipationSimulator(nn.Module):
    """The distribution of the anticipator's score given the target: 1 -> 32 sigmoid -> 2 softplus, a Beta.

    It lets a model train on all steps of a sequence at once: the plan of a step is drawn from it given the
    true future, instead of coming from the anticipator one step before.

    Args:
        hidden: width of the hidden layer.
        scale: factor of the first layer's initial weights: targets are of the order of 1 / K, which the
            hidden units could not tell apart otherwise.
    """

    def __init__(self, hidden: int = 32, scale: float = 50.0) -> None:
        super().__init__()
        self.first = nn.Linear(1, hidden)
        self.last = nn.Linear(hidden, 2)
        # The frequencies last drawn with, their version, and a copy as the core takes it.
        self._frequencies: tuple[Tensor, int, npt.NDArray[np.float64]] | None = None
        with torch.no_grad():
            self.first.weight.mul_(scale)

    def forward(self, target: Tensor) -> Beta:
        """Distributions of the scores of codes with targets (...,) in [0, 1], at least in float32: half
        precision rounds 1 - :data:`LOWEST` to 1, and has no draws from a Beta."""
        weight = self.first.weight
        with exact(weight):
            hidden = torch.sigmoid(self.first(target[..., None].to(weight)))
            shapes = F.softplus(self.last(hidden))
        shapes = shapes.to(torch.promote_types(shapes.dtype, torch.float32)).clamp(min=1e-3)
        return Beta(*shapes.unbind(-1))

    def loss(self, log_scores: Tensor, ahead: Ahead, counted: Tensor, zeros: int = 64) -> Tensor:
        """Negative log-likelihood of the anticipator's scores, a scalar: the mean over codes that occur plus
        the mean over a sample of codes that do not.

        Taking two means makes the density given the target independent of how many there are of each.

        Args:
            log_scores: (B, L, V), detached.
            ahead: the targets.
            counted: (B, L) the steps that count.
            zeros: how many codes are sampled at each step.
        """
        vocab, absent = log_scores.shape[-1], len(ahead.targets)
        step = counted.flatten().nonzero()[:, 0]
        codes, place = (part.flatten(0, 1).index_select(0, step) for part in (ahead.codes, ahead.place))
        sample = torch.randint(vocab, (len(step), min(zeros, vocab)), device=codes.device)
        # The last column is for missing codes.
        occurs = torch.zeros(len(step), vocab + 1, dtype=torch.bool, device=codes.device)
        occurs.scatter_(1, codes.remainder(vocab + 1), 1)
        indices = torch.cat((codes.clamp(min=0), sample), 1) + step[:, None] * vocab
        scores = log_scores.detach().take(indices).flatten().exp().clamp(LOWEST, 1.0 - LOWEST)
        # Scores are summed by target, of which there are few; sampled codes have the target 0.
        target_index = torch.cat(
            (place.where(place > 0, absent), occurs.gather(1, sample) * absent), 1
        ).flatten()
        count, logs, rests = (
            torch.bincount(target_index, each.double(), absent + 1)[:absent]
            for each in (torch.ones_like(scores), scores.log(), torch.log1p(-scores))
        )
        present = count.nonzero()[:, 0]
        means = torch.where(present > 0, count[1:].sum(), count[0]).clamp(min=1.0)
        shapes = self(ahead.targets[present])
        shapes = Beta(shapes.alpha.double(), shapes.beta.double())
        likelihood = shapes.log_likelihood(count[present], logs[present], rests[present])
        return -(likelihood / means).sum().to(scores)

    @torch.no_grad()
    def draw(self, ahead: Ahead, log_frequency: Tensor, slots: int) -> PlanChoice:
        """Draw plans as the anticipator might have made them for these targets.

        A score is drawn for every code, including those that do not occur: a plan of occurring codes alone
        would reveal the future.

        Args:
            ahead: targets of (B, L) steps.
            log_frequency: (V,) log frequencies of the codes, with their floor.
            slots: codes per plan.
        """
        shapes = self(ahead.targets)
        pairs = torch.stack((shapes.alpha, shapes.beta), -1).double().numpy(force=True)
        occurs, place = (part.flatten(0, 1).numpy(force=True) for part in (ahead.codes, ahead.place))
        codes = torch.empty(len(occurs), slots, dtype=torch.int64)
        contrasts = torch.empty(len(occurs), slots, dtype=torch.float64)
        _core.plan_draw(
            np.ascontiguousarray(occurs),
            place,
            pairs,
            self._on_host(log_frequency),
            _quantiles(*pairs[0]),
            _EDGE,
            int(torch.randint(2**63 - 1, ())),
            codes.numpy(),
            contrasts.numpy(),
        )
        shape = (*ahead.codes.shape[:2], slots)
        weights = normalised(contrasts).view(shape)
        return PlanChoice(codes.view(shape).to(log_frequency.device), weights.to(shapes.alpha))

    def _on_host(self, log_frequency: Tensor) -> npt.NDArray[np.float64]:
        """The frequencies as the core takes them; copied again only when they have changed."""
        if log_frequency.is_inference():  # such tensors do not count their changes
            return log_frequency.double().numpy(force=True)
        cached, version = self._frequencies, log_frequency._version
        if cached is None or cached[0] is not log_frequency or cached[1] != version:
            cached = log_frequency, version, log_frequency.double().numpy(force=True)
            self._frequencies = cached
        return cached[2]


def _quantiles(alpha: float, beta: float) -> npt.NDArray[np.float64]:
    """Logarithms of a Beta's quantiles, at probabilities evenly spaced in their logit."""
    odds = np.linspace(-_EDGE, _EDGE, _POINTS)
    low, high = special.expit(odds), special.expit(-odds)
    # Each tail is computed from its own side: a probability near 1 has lost precision.
    quantiles = np.where(
        odds < 0.0, special.betaincinv(alpha, beta, low), special.betainccinv(alpha, beta, high)
    )
    clipped = np.nan_to_num(quantiles, nan=LOWEST).clip(LOWEST, 1.0 - LOWEST)
    return np.asarray(np.log(clipped), np.float64)
