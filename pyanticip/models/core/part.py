"""What a model may have besides its trunk: parts, and the hooks by which the trunk knows them.

A part is a module with options of its own (:class:`~pyanticip.models.core.config.PartConfig`), state of its
own (:class:`~pyanticip.models.core.streaming.State`) and hooks. Those of :class:`Positions` say where a step
is: ``embed`` adds to the embedding, ``steer`` and ``vectors`` bend the attention. A :class:`Gate` says how
much a step counts, a :class:`~pyanticip.models.parts.planning.signal.PlanningSignal` what comes. What a part
is trained to do, whatever the task, ``losses`` says. Each hook of a base class does nothing, so that a part
has only those that it needs; none may look ahead. A part is a class and a line of
:data:`~pyanticip.models.parts.registry.PARTS`, or another package's entry point; which of them a model has
its configuration says.
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
    """What training knows of whole windows, for parts to learn from; ``None`` where a task does not know it.

    ``out`` what the model said of them; ``weighed`` the names of the losses that count; ``codes`` (B, N) of
    the steps and of those after them, N >= L; ``weight`` (B, L) 1 for steps that are judged, else 0;
    ``divisor`` what sums over steps are divided by, by default the sum of the weights; ``bad`` (B, L) 1 for
    steps that are known to be bad; ``stride`` steps of a pool of the slow pathway.
    """

    out: Any
    weighed: Collection[str] = ()
    codes: Tensor | None = None
    weight: Tensor | None = None
    divisor: float | None = None
    bad: Tensor | None = None
    stride: int = 1


class Part(nn.Module):
    """What all parts have in common.

    Loading a checkpoint first builds a model on torch's meta device, to compare its weights with the file's:
    a part's constructor reads no values of tensors.
    """

    def reset_parameters(self) -> None:
        """Put the weights to the part's own start, after the model has put all weights to its."""

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """What the part is trained to minimise, by name: scalars, of which those that the task has no weight
        for count once. Of a part that every block has, the first block's is asked for all."""
        return {}


class Positions(Part):
    """A position scheme; this class is that of none.

    Three hooks, of which a scheme has one: :meth:`embed` adds to the embedding, :meth:`steer` bends the
    attention of either pathway, and :meth:`vectors` gives every step vectors that its queries and keys carry
    beside their content.
    """

    absolute: bool = False
    """Whether :meth:`embed` counts from a sequence's start, and so knows a longest sequence."""
    cursors: int = 0
    """How many vectors each step has; 0 for none."""
    width: int = 0
    """Numbers in each of them."""
    again: int = 0
    """Layer of a plain transformer, from 2, before which a second scheme makes new vectors; 0 for none."""

    def embed_state(self, batch: int, like: Tensor) -> State | tuple[()]:
        """What :meth:`embed` remembers before the first step, of the type and on the device of ``like``."""
        return ()

    def embed(
        self, x: Tensor, frames: Tensor | None, state: State | None
    ) -> tuple[Tensor | None, State | tuple[()]]:
        """What to add to embedded steps (B, L, D), and the state after them.

        Args:
            frames: (B,) steps before these; ``None`` at a sequence's start.
            state: what came before; ``None`` at a sequence's start, and then nothing comes back.
        """
        return None, ()

    def steer(self, steering: Steering, stride: int) -> Steering:
        """The steering of a pathway that runs on every ``stride``-th step."""
        return steering

    def initial_state(self, batch: int) -> Any:
        """What :meth:`vectors` remembers before the first step."""
        return ()

    def vectors(self, x: Tensor, state: Any) -> tuple[PositionVectors | None, Any]:
        """Vectors of a chunk (B, L, D) of the trunk's input, and the state after it."""
        return None, None

    def mix(self, heads: int) -> PositionMix | None:
        """One layer's weights of the vectors."""
        return None


@dataclass(frozen=True)
class Gating:
    """What a gate says of each step, all (B, L).

    ``log_gate`` is added to the scores of the step as a key; ``scale`` multiplies its feed-forward output.
    """

    log_gate: Tensor
    scale: Tensor


@dataclass(frozen=True)
class GateTrace:
    """What the gates of a model's blocks said: ``fast`` one for each block over the steps; ``slow`` one for
    each block of the slow pathway, over its pools. A plain transformer has all its layers in ``fast``.

    In a chunk after a state ``slow`` is as long as the most pools that close in any row; rows in which fewer
    do have padding at the end.
    """

    fast: tuple[Any, ...]
    slow: tuple[Any, ...] = ()

    def live(self) -> Tensor:
        """(B, L, blocks, 2) for whoever watches, of the fast blocks: here the gate and the scale."""
        return torch.stack([torch.stack((each.log_gate.exp(), each.scale), -1) for each in self.fast], 2)


class Gate(Part, ABC):
    """A part of every block that says how much each step counts."""

    @abstractmethod
    def initial_state(self, batch: int) -> State:
        """The state before the first step."""

    def trace(self, fast: tuple[Any, ...], slow: tuple[Any, ...]) -> GateTrace:
        """What a model tells of its gates: of those of the fast and of the slow blocks."""
        return GateTrace(fast, slow)

    @abstractmethod
    def forward(self, x: Tensor, state: Any = None, new: Tensor | None = None) -> tuple[Any, Any]:
        """The :class:`Gating` of the block's input (B, L, D), and the state after it.

        Args:
            new: (B,) how many steps of the chunk are real in each row; the rest is not remembered.
        """


def present(*parts: Part | None) -> list[Part]:
    """Those parts that a model has."""
    return [part for part in parts if part is not None]


def vectors_state(
    scheme: Positions, batch: int, like: Tensor, fast: int, slow: int
) -> PositionVectorsState | tuple[()]:
    """The state of a scheme's vectors before the first step; nothing where there are none.

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
    """Whether a state is that of a scheme's vectors, or there are none of either."""
    if not isinstance(state, PositionVectorsState):
        return not scheme.cursors
    if state.fast.shape[2:] != (scheme.cursors, scheme.width):
        return False
    own, given = scheme.initial_state(1).tensors(), state.source.tensors()
    return [each.shape[1:] for each in own] == [each.shape[1:] for each in given]


def embed_fits(scheme: Positions, state: State | tuple[()], like: Tensor) -> bool:
    """Whether a state is that of a scheme's :meth:`Positions.embed`, or there is none of either."""
    return type(state) is type(scheme.embed_state(1, like))


def run_vectors(
    scheme: Positions, x: Tensor, state: PositionVectorsState | tuple[()] | None
) -> tuple[PositionVectors | None, PositionVectorsState | tuple[()]]:
    """A scheme's vectors of a chunk, and their state with its rings as they were."""
    before = state if isinstance(state, PositionVectorsState) else None
    vectors, source = scheme.vectors(x, None if before is None else before.source)
    return vectors, () if before is None else replace(before, source=source)


def join(chunks: Sequence[Any]) -> Any:
    """What was said of chunks that follow each other, as one: a tensor (B, L, ...), a dataclass or tuple of
    such, or nothing."""
    first = chunks[0]
    if isinstance(first, Tensor):
        return torch.cat(list(chunks), 1)
    if isinstance(first, tuple):
        # Not every chunk closes a pool.
        return tuple(join(parts) for parts in zip(*(c for c in chunks if c), strict=True))
    if first is None:
        return None
    return type(first)(*(join([getattr(c, each.name) for c in chunks]) for each in fields(first)))
