"""Optional parts of a model besides its trunk, and the hooks through which the trunk calls them.

A part is a module with its own options (:class:`~pyanticip.models.core.config.PartConfig`), its own state
(:class:`~pyanticip.models.core.streaming.State`) and hooks. :class:`Positions` encodes where a step is:
``embed`` adds to the embedding, ``steer`` and ``vectors`` change the attention scores. A :class:`Gate` weighs
each step; a :class:`~pyanticip.models.parts.planning.signal.PlanningSignal` predicts the next steps.
``losses`` returns a part's own training losses, whatever the task. The hooks of a base class do nothing, so
that a part implements only those it needs; none may look ahead. A part is a class plus a line of
:data:`~pyanticip.models.parts.registry.PARTS`, or an entry point of another package; the model's
configuration selects the parts.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from pyanticip.models.core.steering import PositionMix, PositionVectors, PositionVectorsState, Steering
from pyanticip.models.core.streaming import State


@dataclass(frozen=True)
class LossContext:
    """Training data of whole windows, for the losses of parts; fields that a task lacks are ``None``.

    ``out`` is the model's output; ``weighted`` the names of the losses with a nonzero weight; ``codes`` (B,
    N) those of the steps and of the ones after them, N >= L; ``weight`` (B, L) 1 for steps that count, else
    0; ``divisor`` what sums over steps are divided by, by default the sum of the weights; ``bad`` (B, L) 1
    for steps known to be corrupted; ``stride`` the steps per pool of the slow pathway.
    """

    out: Any
    weighted: Collection[str] = ()
    codes: Tensor | None = None
    weight: Tensor | None = None
    divisor: float | None = None
    bad: Tensor | None = None
    stride: int = 1


class Part(nn.Module):
    """Base class of all parts.

    A constructor must not read tensor values: loading a checkpoint first builds the model on torch's meta
    device, to compare its weights with the file's.
    """

    def reset_parameters(self) -> None:
        """Initialise the part's weights; called after the model has initialised all weights."""

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """The part's training losses by name, scalars; one that the task has no weight for has weight 1.

        Where every block has the part, only the first block's is called, for all of them.
        """
        return {}


class Positions(Part):
    """Base class of position schemes; itself the scheme without positions.

    A scheme implements one of three hooks: :meth:`embed` adds to the embedding, :meth:`steer` changes the
    attention scores of either pathway, and :meth:`vectors` returns vectors that the queries and keys of each
    step carry beside their content.
    """

    absolute: bool = False
    """Whether :meth:`embed` counts from a sequence's start, which limits the sequence length."""
    cursors: int = 0
    """Vectors per step; 0 for none."""
    width: int = 0
    """Length of each vector."""
    again: int = 0
    """Layer of a plain transformer, from 2, before which a second scheme computes new vectors; 0 for none."""

    def embed_state(self, batch: int, like: Tensor) -> State | tuple[()]:
        """The state of :meth:`embed` before the first step, with the dtype and device of ``like``."""
        return ()

    def embed(
        self, x: Tensor, frames: Tensor | None, state: State | None
    ) -> tuple[Tensor | None, State | tuple[()]]:
        """The term to add to embedded steps (B, L, D), and the state after them.

        Args:
            frames: (B,) steps before these; ``None`` at a sequence's start.
            state: the state before these steps; ``None`` at a sequence's start, then none is returned.
        """
        return None, ()

    def steer(self, steering: Steering, stride: int) -> Steering:
        """The steering of a pathway that runs on every ``stride``-th step."""
        return steering

    def initial_state(self, batch: int) -> Any:
        """The state of :meth:`vectors` before the first step."""
        return ()

    def vectors(self, x: Tensor, state: Any) -> tuple[PositionVectors | None, Any]:
        """Position vectors of a chunk (B, L, D) of the trunk's input, and the state after it."""
        return None, None

    def mix(self, heads: int) -> PositionMix | None:
        """A module with one layer's weights of the vectors, ``None`` without vectors."""
        return None


@dataclass(frozen=True)
class Gating:
    """Output of a gate for each step, all (B, L).

    ``log_gate`` is added to the scores of the step as a key; ``scale`` multiplies its feed-forward output.
    """

    log_gate: Tensor
    scale: Tensor


@dataclass(frozen=True)
class GateTrace:
    """Outputs of a model's gates: ``fast`` has one per block, over the steps; ``slow`` one per block of the
    slow pathway, over its pools. A plain transformer has all its layers in ``fast``.

    In a chunk after a state, ``slow`` is as long as the largest number of pools that close in any row; rows
    with fewer are padded at the end.
    """

    fast: tuple[Any, ...]
    slow: tuple[Any, ...] = ()

    def live(self) -> Tensor:
        """Values of the fast blocks for monitoring, (B, L, blocks, 2): here the gate and the scale."""
        return torch.stack([torch.stack((each.log_gate.exp(), each.scale), -1) for each in self.fast], 2)


class Gate(Part, ABC):
    """A part of every block that weighs each step."""

    @abstractmethod
    def initial_state(self, batch: int) -> State:
        """The state before the first step."""

    def trace(self, fast: tuple[Any, ...], slow: tuple[Any, ...]) -> GateTrace:
        """The model's gate trace, from the outputs of the fast and of the slow blocks."""
        return GateTrace(fast, slow)

    @abstractmethod
    def forward(self, x: Tensor, state: Any = None, new: Tensor | None = None) -> tuple[Any, Any]:
        """The :class:`Gating` of the block's input (B, L, D), and the state after it.

        Args:
            new: (B,) how many steps of the chunk are real in each row; the rest does not enter the state.
        """


def present(*parts: Part | None) -> list[Part]:
    """The parts that are not ``None``."""
    return [part for part in parts if part is not None]


def vectors_state(
    scheme: Positions, batch: int, like: Tensor, fast: int, slow: int
) -> PositionVectorsState | tuple[()]:
    """The state of a scheme's vectors before the first step; empty for a scheme without vectors.

    Args:
        fast: past steps that the fast pathway reaches.
        slow: past pools that the slow pathway reaches; -1 without one.
    """
    if not scheme.cursors:
        return ()
    shape = (scheme.cursors, scheme.width)
    rings = (like.new_zeros(batch, past + 1, *shape) for past in (fast, slow))
    return PositionVectorsState(scheme.initial_state(batch), *rings)


def vectors_fit(scheme: Positions, state: PositionVectorsState | tuple[()]) -> bool:
    """Whether a state belongs to a scheme's vectors, or neither has any."""
    if not isinstance(state, PositionVectorsState):
        return not scheme.cursors
    if state.fast.shape[2:] != (scheme.cursors, scheme.width):
        return False
    expected, actual = scheme.initial_state(1).tensors(), state.source.tensors()
    return [each.shape[1:] for each in expected] == [each.shape[1:] for each in actual]


def embed_fits(scheme: Positions, state: State | tuple[()], like: Tensor) -> bool:
    """Whether a state belongs to a scheme's :meth:`Positions.embed`, or neither has one."""
    return type(state) is type(scheme.embed_state(1, like))


def run_vectors(
    scheme: Positions, x: Tensor, state: PositionVectorsState | tuple[()] | None
) -> tuple[PositionVectors | None, PositionVectorsState | tuple[()]]:
    """A scheme's vectors of a chunk, and their new state; its rings are not updated yet."""
    before = state if isinstance(state, PositionVectorsState) else None
    vectors, source = scheme.vectors(x, None if before is None else before.source)
    return vectors, () if before is None else replace(before, source=source)


def join(chunks: Sequence[Any]) -> Any:
    """Concatenate the outputs of successive chunks: tensors (B, L, ...), dataclasses or tuples of tensors,
    or ``None``."""
    first = chunks[0]
    if isinstance(first, Tensor):
        return torch.cat(list(chunks), 1)
    if isinstance(first, tuple):
        # Not every chunk closes a pool.
        return tuple(join(parts) for parts in zip(*(c for c in chunks if c), strict=True))
    if first is None:
        return None
    return type(first)(*(join([getattr(c, each.name) for c in chunks]) for each in fields(first)))
