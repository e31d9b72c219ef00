"""Explicit streaming state: typed trees of tensors, batch first.

Every streaming module has ``initial_state(batch)`` and one ``forward(x, state=None)`` for a whole sequence,
a chunk and a single step. An initial state is all zeros, so that resetting a row means zeroing it.

With gradients off, ``forward`` writes the rings of its state in place and returns that state with its small
tensors replaced: keep the returned state, and :meth:`State.clone` one to go back to. With gradients on,
nothing is written in place.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from pyanticip.errors import ShapeError
from pyanticip.models.core.inputs import check_tensor


@dataclass
class State:
    """Base of all states: a dataclass whose fields are tensors (batch first), states, or tuples of states."""

    def tensors(self) -> Iterator[Tensor]:
        """Iterate over every tensor of the tree, in the order of the fields."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, State):
                    yield from item.tensors()
                else:
                    yield item

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Return a new tree with ``function`` applied to every tensor."""
        new = copy.copy(self)
        for field in dataclasses.fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, tuple):
                setattr(new, field.name, tuple(item.map(function) for item in value))
            else:
                setattr(new, field.name, value.map(function) if isinstance(value, State) else function(value))
        return new

    def clone(self) -> Self:
        """A snapshot that shares no memory with this state."""
        return self.map(torch.clone)

    def detach(self) -> Self:
        """The same values, detached from the autograd graph."""
        return self.map(torch.detach)

    @torch.no_grad()
    def restore(self, snapshot: Self, rows: Tensor | None = None) -> None:
        """Copy a snapshot's values into this state's own memory.

        Commits a step of some rows only, the others stay at the step before. A ring that both states share
        is skipped: in the other rows only its next slot was written, which the next step overwrites before
        it reads.

        Args:
            rows: (B,) bool, the rows to copy; ``None`` copies all of them.
        """
        for target, source in zip(self.tensors(), snapshot.tensors(), strict=True):
            if target is not source:
                if rows is not None:
                    source = torch.where(rows.view(-1, *(1,) * (target.ndim - 1)), source, target)
                target.copy_(source)

    @torch.no_grad()
    def reset(self, rows: Tensor | None = None) -> None:
        """Reset rows to the start of a stream, in place.

        Args:
            rows: (B,) bool, the rows to reset; ``None`` resets all of them.

        Raises:
            ShapeError: ``rows`` has another shape or dtype; nothing is reset then.
        """
        if rows is not None and (batch := next((len(tensor) for tensor in self.tensors()), None)) is not None:
            expected = f"({batch},) of torch.bool"
            check_tensor(rows, "rows", expected)
            if rows.dtype != torch.bool or rows.shape != (batch,):
                raise ShapeError(f"rows must be {expected}, got {tuple(rows.shape)} of {rows.dtype}")
        for tensor in self.tensors():
            if rows is None:
                tensor.zero_()
            else:
                tensor[rows] = 0


def part_of(state: State | None, name: str) -> Any:
    """The state of a part within a model's state; ``None`` at a sequence's start, and where the part is
    absent."""
    return None if state is None else getattr(state, name) or None
