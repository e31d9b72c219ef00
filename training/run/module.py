"""The training module: a model with its loss, parameter groups and gradient clipping."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from training.run.options import TrainOptions
from training.run.settings import derived_seed

DROPOUT = 3
"""Number of dropout's stream of random numbers; the data's streams have other numbers."""

MIXED = {"bf16": torch.bfloat16, "16": torch.float16}
"""Dtypes of mixed precision by the option ``precision``."""


class TrainModule(nn.Module, ABC):
    """A model and its loss.

    Args:
        model: the model, trained in place.
        options: the run's options.
    """

    rank = 0
    """Rank of this process."""

    def __init__(self, model: nn.Module, options: TrainOptions) -> None:
        super().__init__()
        self.model: Any = model
        self.options: Any = options
        self.grad_norm = torch.zeros(())
        """Norm of the last update's gradient before clipping."""

    @property
    def device(self) -> torch.device:
        """The model's device."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def autocast(self) -> torch.autocast:
        """Context of a forward pass: mixed precision, if the options select it."""
        mixed = MIXED.get(self.options.run.precision)
        return torch.autocast(self.device.type, mixed or torch.bfloat16, enabled=mixed is not None)

    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Run :meth:`training_step` with the random generator seeded from seed, update, part and process, so
        that an update depends only on the weights and the optimiser's state."""
        seed = self.options.schedule.seed
        torch.manual_seed(derived_seed(seed, DROPOUT, batch.step, batch.part, self.rank))
        return self.training_step(batch)

    @abstractmethod
    def training_step(self, batch: Any) -> dict[str, Tensor]:
        """The ``loss`` of one part of an update, and its detached components ``parts``, in the order of
        :attr:`~training.run.recorder.Recorder.loss_names`."""

    @abstractmethod
    def groups(self) -> list[dict[str, Any]]:
        """AdamW's parameter groups; a function ``rate`` gives a group's learning rate by step (from 0) where
        it differs from the schedule's."""

    def clipped_parameters(self) -> list[nn.Parameter]:
        """The weights whose gradient is clipped by their joint norm."""
        return list(self.model.parameters())

    def clip(self) -> None:
        """Clip the gradient of :meth:`clipped_parameters` by its norm, and store the norm for the metrics."""
        max_norm = self.options.schedule.clip_norm or float("inf")
        self.grad_norm = nn.utils.clip_grad_norm_(self.clipped_parameters(), max_norm).detach()


def linear_weights(model: nn.Module) -> list[Tensor]:
    """The matrices of a model's linear layers."""
    return [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)]


def decay_groups(
    weights: Iterable[Tensor], decay: float, decayed: Iterable[Tensor] | None = None
) -> list[dict[str, Any]]:
    """AdamW's parameter groups: weight decay on matrices only.

    Args:
        weights: all weights of the two groups.
        decay: the weight decay.
        decayed: the weights it applies to, if they are among ``weights``; None for all matrices.
    """
    weights = list(weights)
    ids = {id(weight) for weight in weights}
    matrices = [w for w in weights if w.ndim > 1] if decayed is None else [w for w in decayed if id(w) in ids]
    matrix_ids = {id(weight) for weight in matrices}
    rest = [weight for weight in weights if id(weight) not in matrix_ids]
    return [{"params": matrices, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]


def to_device(value: Any, device: torch.device | str) -> Any:
    """Move a tensor, or all tensors of a tuple or dataclass, to a device; return anything else unchanged."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, tuple):
        parts = [to_device(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: to_device(getattr(value, each.name), device) for each in fields(value)}
        )
    return value
