"""PRISM positions (Lee 2025, "Position as Probability"): a step's position as a learned distribution.

Each of C query cursors and C key cursors holds a histogram over P places. A recurrent network over the
content gives at every step the probabilities that a cursor returns to the start (*reset*), and that it moves
up, down or not at all (*inc*, *dec*, *keep*); the histogram is updated exactly by
:mod:`~pyanticip.models.parts.positions.prism.scan`, and sharpened. A step's position vector is the
superposition of the sinusoids of all places, weighted by the histogram: ``e = sum_k h[k] f(k)``. Each layer
has its own weights of position against content (:class:`~pyanticip.models.core.steering.PositionMix`).

Not in the paper: a layer norm before the recurrent network (token embeddings are too small for it), and
cursors shared by all layers and heads, each head with its own weights of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.core.part import LossContext, Positions
from pyanticip.models.core.steering import PositionMix, PositionVectors
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.positions.prism.config import PrismConfig
from pyanticip.models.parts.positions.prism.copy_branch import CopyBranch, CopyState
from pyanticip.models.parts.positions.prism.gru import OrthogonalGRU
from pyanticip.models.parts.positions.prism.scan import places_available, scan, scan_loop, superpose

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig

ScanInputs: TypeAlias = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


@dataclass
class PrismState(State):
    """Streaming state of the cursors: ``frames`` (B,) int64 steps so far, ``histograms`` (B, 2 C, P), queries
    first, the recurrent network's ``hidden`` (B, H), and the keys of the ``copy`` branch, if there is one."""

    frames: Tensor
    histograms: Tensor
    hidden: Tensor
    copy: CopyState | tuple[()] = ()


class PrismPositions(Positions):
    """Position vectors by learned cursors.

    Args:
        model: the model's configuration; its ``positions`` are the options.
    """

    table: Tensor
    fixed: Tensor
    reference: bool = False
    """Whether to use the plain loop of the scan, which is slower."""

    def __init__(self, model: "ModelConfig") -> None:
        super().__init__()
        assert isinstance(model.positions, PrismConfig)
        self.cfg = cfg = model.positions
        self.again = cfg.again
        count = cfg.cursors
        self.pairs = count
        self.cursors = count + cfg.absolute
        """Position vectors per step: one for each cursor, and one more for the absolute encoding."""
        self.width = cfg.width
        self.copying = max(1, count // 5) if cfg.copying else 0
        """Number of query cursors that can copy, the first ones; their paired keys only count steps."""
        self.norm = nn.LayerNorm(model.d_model)
        self.recurrent = OrthogonalGRU(model.d_model, cfg.hidden, cfg.orthogonal)
        self.gates = nn.Linear(cfg.hidden, 4 * (2 * count - self.copying))
        self.copy: CopyBranch | None = None
        if self.copying:
            inputs = model.d_model + cfg.hidden
            self.copy = CopyBranch(inputs, self.copying, cfg.places, cfg.copy_width)
        self.sharpness = nn.Parameter(torch.empty(2 * count)) if cfg.sharpen else None
        places = torch.arange(cfg.places)
        table = sinusoids(places, cfg.width, cfg.base).to(torch.get_default_dtype())
        # Part of the checkpoint.
        self.register_buffer("table", table)
        self.register_buffer("fixed", torch.tensor([1.0, 0, 0, 0, 0]), persistent=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise: moves equally likely in every direction, resets by ``cfg.reset``, exponents 2."""
        nn.init.ones_(self.norm.weight)
        nn.init.zeros_(self.norm.bias)
        self.recurrent.reset_parameters()
        bound = 1.0 / math.sqrt(self.recurrent.hidden)
        nn.init.uniform_(self.gates.weight, -bound, bound)
        nn.init.zeros_(self.gates.bias)
        chance = self.cfg.reset
        biases = self.gates.bias.view(4, -1)
        biases.normal_(0.0, self.cfg.spread)
        biases[0] += math.log(chance / (1.0 - chance))
        if self.copy is not None:
            self.copy.reset_parameters()
        if self.sharpness is not None:
            nn.init.constant_(self.sharpness, math.log(math.e - 1.0))

    def losses(self, context: LossContext) -> dict[str, Tensor]:
        """``recurrence``, see :meth:`penalty`, with ``orthogonal="penalty"``."""
        return {"recurrence": self.penalty()} if self.cfg.orthogonal == "penalty" else {}

    def initial_state(self, batch: int) -> PrismState:
        """The state before the first step: zeros, which means that every cursor is at place 0."""
        like = self.norm.weight
        frames = torch.zeros(batch, dtype=torch.int64, device=like.device)
        histograms = like.new_zeros(batch, 2 * self.pairs, self.cfg.places)
        copy = () if self.copy is None else self.copy.initial_state(batch)
        return PrismState(frames, histograms, like.new_zeros(batch, self.recurrent.hidden), copy)

    def vectors(self, x: Tensor, state: Any) -> tuple[PositionVectors, PrismState | None]:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        result: tuple[PositionVectors, PrismState | None] = self(x, state)
        return result

    def mix(self, heads: int) -> PositionMix:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        return PositionMix(heads, self.cursors, self.cfg.alpha)

    def gamma(self) -> Tensor | None:
        """Exponents (2 C,) of the sharpening, above 1; ``None`` without sharpening."""
        return None if self.sharpness is None else nn.functional.softplus(self.sharpness) + 1.0

    def penalty(self) -> Tensor:
        """Deviation of the recurrences from orthogonality, times 1e-3."""
        with torch.autocast(self.norm.weight.device.type, enabled=False):
            return 1e-3 * self.recurrent.penalty()

    def moves(self, hidden: Tensor) -> Tensor:
        """Weights (B, 2 C, L, 5) of the cursors' moves for hidden states (B, L, H) of the recurrent
        network."""
        rows, length, _ = hidden.shape
        logits = self.gates(hidden).view(rows, length, 4, -1).permute(2, 0, 3, 1)  # (4, B, cursors, L)
        reset = torch.sigmoid(logits[0])
        inc, dec, keep = logits[1:].softmax(0)
        stay = torch.sigmoid(-logits[0])
        back = reset * (dec + keep), reset * inc
        moves = torch.stack((stay * inc, stay * dec, stay * keep, *back), -1)
        if not self.copying:
            return moves
        counting = self.fixed.to(moves.dtype).expand(rows, self.copying, length, -1)
        return torch.cat((moves[:, : self.pairs], counting, moves[:, self.pairs :]), 1)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[PositionVectors, PrismState | None]:
        """Position vectors of whole sequences from their start, or of a chunk that follows a state.

        Args:
            x: (B, L, D) content, without positions.

        Returns:
            vectors (B, L, C, d) of queries and keys with the histograms (B, L, 2 C, P), queries first, and
            the state after the chunk, ``None`` if none was passed. Without gradients the copy branch's keys
            are written in place.
        """
        assert state is None or isinstance(state, PrismState)
        with torch.autocast(x.device.type, enabled=False):
            return self._places(x.to(self.norm.weight.dtype), state)

    def scan_inputs(
        self, x: Tensor, state: PrismState | None = None
    ) -> tuple[ScanInputs, Tensor, CopyState | tuple[()]]:
        """The inputs of :func:`~pyanticip.models.parts.positions.prism.scan.scan_loop` for a sequence (moves,
        start, exponents and jumps), and the hidden state and the copy branch's state after it."""
        rows, length, _ = x.shape
        content = self.norm(x)
        before = content.new_zeros(rows, self.recurrent.hidden) if state is None else state.hidden
        hidden, last = self.recurrent(content, before)
        moves = self.moves(hidden)
        jumps, copied = None, None
        if self.copy is not None:
            frames = None if state is None else state.frames
            copy_state = state.copy if state is not None and isinstance(state.copy, CopyState) else None
            jumps, stay, copied = self.copy(torch.cat((content, hidden), -1), frames, copy_state)
            stay_all = torch.cat((stay, stay.new_ones(rows, 2 * self.pairs - self.copying, length)), 1)
            moves = moves * stay_all[..., None]
        return (moves, self._start(rows, state), self.gamma(), jumps), last, copied or ()

    def _places(self, x: Tensor, state: PrismState | None) -> tuple[PositionVectors, PrismState | None]:
        rows, length, _ = x.shape
        frames = None if state is None else state.frames
        inputs, last, copied = self.scan_inputs(x, state)
        histogram_source: Tensor | Callable[[], Tensor]
        if not self.reference and places_available(*inputs[:2], self.table):
            superposed, end = superpose(*inputs, self.table)
            histogram_source = partial(_histograms, *inputs)
        else:
            histograms = (scan_loop if self.reference else scan)(*inputs)  # (B, 2 C, L, P)
            superposed, end = histograms @ self.table, histograms[:, :, -1].clone()
            histogram_source = histograms.transpose(1, 2)
        superposed = superposed.transpose(1, 2)  # (B, L, 2 C, d)
        queries, keys = superposed[:, :, : self.pairs], superposed[:, :, self.pairs :]
        if self.cfg.absolute:
            steps = torch.arange(length, device=x.device)
            steps = steps if frames is None else frames[:, None] + steps
            absolute = sinusoids(steps, self.width, self.cfg.base).to(queries.dtype)
            absolute = absolute.expand(rows, -1, -1)[:, :, None]
            queries, keys = (torch.cat((e, absolute), 2) for e in (queries, keys))
        places = PositionVectors(self._normalise(queries), self._normalise(keys), histogram_source)
        if state is None:
            return places, None
        after = state.frames + length
        return places, PrismState(after, end, last, copied)

    def set_places(self, count: int) -> None:
        """Change the number of places, on which no learned weight depends. Earlier states become invalid.

        Raises:
            OptionError: ``count`` is below 3.
        """
        self.cfg = self.cfg.replace(places=count)
        table = sinusoids(torch.arange(count, device=self.table.device), self.width, self.cfg.base)
        self.table = table.to(self.table.dtype)
        if self.copy is not None:
            self.copy.places = count

    def _start(self, rows: int, state: PrismState | None) -> Tensor:
        """Histograms before the first step: all mass at place 0 where a row begins."""
        first = self.table.new_zeros(rows, 2 * self.pairs, self.cfg.places)
        first[..., :1].fill_(1.0)
        if state is None:
            return first
        return torch.where((state.frames == 0)[:, None, None], first, state.histograms)

    def _normalise(self, places: Tensor) -> Tensor:
        """Normalise over cursors and channels of one step, never over time: to a norm of sqrt(d), or by the
        constant that does the same where all histograms are sharp."""
        if self.cfg.norm == "fixed":
            return places * math.sqrt(2.0 / places.shape[2])
        norm: Tensor = torch.linalg.vector_norm(places.flatten(2), dim=-1).clamp(min=1e-6)
        return places * (math.sqrt(self.width) / norm)[..., None, None]


def _histograms(*inputs: Any) -> Tensor:
    """Histograms (B, L, 2 C, P), computed on demand for display."""
    return scan(*inputs).transpose(1, 2)
