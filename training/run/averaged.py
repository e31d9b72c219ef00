"""A short training loop without checkpoints: AdamW with a cosine schedule and averaged weights."""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError
from training.run.module import decay_groups

PEAK: Final = 1e-3
"""Peak learning rate; it rises over the first thirtieth of the steps, while it falls by a cosine."""
DECAY: Final = 0.02
"""Weight decay of matrices."""
AVERAGE: Final = 0.998
"""Decay of the averaged weights per step; less in the first steps."""


def check_loss(loss: Tensor, step: int) -> None:
    """Check that the loss of update ``step`` (from 1) is finite.

    Raises:
        OptionError: it is not.
    """
    if not math.isfinite(value := float(loss.detach())):
        raise OptionError(
            f"the loss became {value} at update {step}; nothing was written; try another --seed"
        )


def train_averaged(
    model: nn.Module,
    loss: Callable[[], Tensor],
    steps: int,
    say: Callable[[int], None] = lambda done: None,
) -> None:
    """Train a model; it ends with the averaged weights, in evaluation mode.

    Args:
        model: trained in place.
        loss: returns the loss of the next batch, a scalar.
        steps: number of updates.
        say: called with the number of updates done.

    Raises:
        OptionError: see :func:`check_loss`.
    """
    optimiser = torch.optim.AdamW(decay_groups(model.parameters(), DECAY), lr=PEAK, betas=(0.9, 0.98))
    mean = {name: value.clone() for name, value in model.state_dict().items()}
    for step in range(steps):
        done = (step + 1) / steps
        for group in optimiser.param_groups:
            group["lr"] = PEAK * min(1.0, 30.0 * done) * (0.01 + 0.495 * (1.0 + math.cos(math.pi * done)))
        batch_loss = loss()
        check_loss(batch_loss, step + 1)
        optimiser.zero_grad()
        batch_loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        decay = min(AVERAGE, (step + 1) / (step + 11))
        for name, value in model.state_dict().items():
            mean[name].lerp_(value, 1.0 - decay)
        say(step + 1)
    model.load_state_dict(mean)
    model.eval()
