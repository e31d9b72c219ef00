"""One update of any model, as lightning drives it: seeded, clipped, AdamW and the options' schedule."""

from abc import ABC, abstractmethod
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from training.run.options import TrainOptions
from training.run.settings import derived_seed

DROPOUT = 3
"""The stream of random numbers of dropout; those of the data have other numbers."""


class TrainModule(pl.LightningModule, ABC):
    """A model as lightning trains it.

    Args:
        model: trained in place.
        options: of the run.
    """

    def __init__(self, model: nn.Module, options: TrainOptions) -> None:
        super().__init__()
        self.model: Any = model
        self.options: Any = options
        self.grad_norm = torch.zeros(())
        """Norm of the last update's gradient before it was clipped."""

    def seed_dropout(self, step: int, part: int) -> None:
        """Seed the generator of dropout anew, from seed, update, part and process: what an update does
        depends on nothing that happened before but the weights and the optimiser's state."""
        torch.manual_seed(derived_seed(self.options.schedule.seed, DROPOUT, step, part, self.global_rank))

    @abstractmethod
    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        """The ``loss`` of one part of an update, and without gradient its pieces, ``parts``, in the order of
        :attr:`~training.run.recorder.Recorder.trained`."""

    @abstractmethod
    def groups(self) -> list[dict[str, Any]]:
        """AdamW's groups of weights; ``rate`` gives the learning rate of a step (from 0) where it is not the
        schedule's."""

    def clipped(self) -> list[nn.Parameter]:
        """The weights whose gradient is clipped together."""
        return list(self.model.parameters())

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip by the norm over all parameters, and keep it for the metrics."""
        bound = self.options.schedule.clip_norm or float("inf")
        self.grad_norm = nn.utils.clip_grad_norm_(self.clipped(), bound).detach()

    def configure_optimizers(self) -> Any:
        """AdamW, and the schedule of the options."""
        schedule = self.options.schedule
        groups = self.groups()
        rates = [group.pop("rate", schedule.learning_rate) for group in groups]
        # The schedule gives the rate itself, not a share of this.
        optimizer = torch.optim.AdamW(groups, lr=1.0, betas=schedule.betas)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": LambdaLR(optimizer, rates), "interval": "step"},
        }


def moved(value: Any, device: torch.device | str) -> Any:
    """A tensor on a device; anything else as it is."""
    return value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
