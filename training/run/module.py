"""What is trained, and how its weights are grouped and clipped; seeded anew in every update."""

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from training.run.options import TrainOptions
from training.run.settings import derived_seed

DROPOUT = 3
"""The stream of random numbers of dropout; those of the data have other numbers."""

MIXED = {"bf16": torch.bfloat16, "16": torch.float16}


class TrainModule(nn.Module, ABC):
    """A model and its loss.

    Args:
        model: trained in place.
        options: of the run.
    """

    rank = 0
    """Number of this process."""

    def __init__(self, model: nn.Module, options: TrainOptions) -> None:
        super().__init__()
        self.model: Any = model
        self.options: Any = options
        self.grad_norm = torch.zeros(())
        """Norm of the last update's gradient before it was clipped."""

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        found: torch.device = next(self.model.parameters()).device
        return found

    def autocast(self) -> torch.autocast:
        """Mixed precision, where the options say so, around a forward pass."""
        mixed = MIXED.get(self.options.run.precision)
        return torch.autocast(self.device.type, mixed or torch.bfloat16, enabled=mixed is not None)

    def forward(self, batch: Any) -> dict[str, Tensor]:
        """See :meth:`training_step`. The generator of dropout is seeded anew, from seed, update, part and
        process: what an update does depends on nothing that happened before but the weights and the
        optimiser's state."""
        seed = self.options.schedule.seed
        torch.manual_seed(derived_seed(seed, DROPOUT, batch.step, batch.part, self.rank))
        return self.training_step(batch)

    @abstractmethod
    def training_step(self, batch: Any) -> dict[str, Tensor]:
        """The ``loss`` of one part of an update, and without gradient its pieces, ``parts``, in the order of
        :attr:`~training.run.recorder.Recorder.trained`."""

    @abstractmethod
    def groups(self) -> list[dict[str, Any]]:
        """AdamW's groups of weights; ``rate`` gives the learning rate of a step (from 0) where it is not the
        schedule's."""

    def clipped(self) -> list[nn.Parameter]:
        """The weights whose gradient is clipped together."""
        return list(self.model.parameters())

    def clip(self) -> None:
        """Clip by the norm over :meth:`clipped`, and keep it for the metrics."""
        bound = self.options.schedule.clip_norm or float("inf")
        self.grad_norm = nn.utils.clip_grad_norm_(self.clipped(), bound).detach()


def moved(value: Any, device: torch.device | str) -> Any:
    """A tensor on a device, or a tuple or dataclass with all that it holds; anything else as it is."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, tuple):
        parts = [moved(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: moved(getattr(value, each.name), device) for each in fields(value)}
        )
    return value
