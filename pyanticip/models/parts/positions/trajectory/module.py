"""Positions that content moves: a step to a distant embedding is a longer step (paper of 2025, see below).

``disp_0 = 0; disp_i = disp_{i-1} + a tanh(b |e_i - e_{i-1}|)``, and step i of a row is encoded as position
``i + disp_i``. After *Trajectory-Guided Positional Encoding: Technical Blueprint* (version 2.0, 2025). Three
things differ from its letter. Its clamp to the longest sequence made the positions of the last steps equal:
here the table reaches as far as positions can. It interpolates the table linearly: here that is an option,
and the encoding of the position itself the default. And it falls back to the standard encoding for a whole
sequence when one embedding is not finite, which lets the future decide about the past: here a row falls back
from that step on.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from pyanticip import _core
from pyanticip.errors import ShapeError
from pyanticip.models.core.part import Positions
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.positions.trajectory.config import TrajectoryConfig, auto_strength
from pyanticip.models.parts.positions.trajectory.real_positions import RealPositions
from pyanticip.models.parts.positions.trajectory.step_lengths import step_lengths

CACHE_BYTES: Final = 1 << 26
"""What kept sequences may take together, 64 MiB: one of 32,768 steps takes a quarter of one."""


class DisplacementCache:
    """The most recent sequences' displacements, the least recently used dropped first.

    A key is a SHA-256 of the bytes, the shape and the type: similar is not equal, other than in the paper,
    whose cache would hand one sequence's positions to another that resembles it.

    Args:
        entries: most sequences kept, at least 1.
        size: most bytes of displacements kept.
    """

    def __init__(self, entries: int, size: int = CACHE_BYTES) -> None:
        self.entries, self.size = entries, size
        self.bytes = 0
        self._found: OrderedDict[bytes, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    @staticmethod
    def keys(embedded: Tensor) -> list[bytes]:
        """A key for each row of (B, L, D) embeddings on the CPU."""
        plain = embedded.detach().contiguous()
        shape = f"{tuple(plain.shape[1:])}{plain.dtype}".encode()
        # As bytes, for NumPy does not know every type of torch's.
        return [sha256(shape + memoryview(row.view(torch.uint8).numpy())).digest() for row in plain]

    def get(self, key: bytes) -> Tensor | None:
        """The displacements (L,) of a key, or ``None``."""
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: bytes, moved: Tensor) -> None:
        """Keep displacements (L,), which nobody may write to afterwards."""
        if moved.nbytes > self.size:
            return
        old = self._found.pop(key, None)
        self.bytes += moved.nbytes - (0 if old is None else old.nbytes)
        self._found[key] = moved
        while len(self._found) > self.entries or self.bytes > self.size:
            self.bytes -= self._found.popitem(last=False)[1].nbytes


if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


@dataclass
class TrajectoryState(State):
    """What a row's next position depends on.

    ``frames`` (B,) int64 steps so far; ``displacement`` (B,) float64 of the last step, NaN once the row has
    fallen back; ``last`` (B, D) its embedding; ``power`` (B,) float64, the sum of the squared lengths of all
    steps.
    """

    frames: Tensor
    displacement: Tensor
    last: Tensor
    power: Tensor


class TrajectoryPositions(Positions):
    """Encodings of positions that follow the path of the embeddings.

    The lengths of steps are measured in the embeddings' own precision (float32 for half precision) or better,
    and all that follows in float64, so that angles are right at any position. Gradients flow into the
    embeddings. Whole float32 sequences without gradients are encoded by the Rust core on a CPU, with no
    memory beside what comes out.

    Args:
        width: D, 1 to 65,536.
        config: how far steps move.
        length: longest sequence; positions of steps beyond it are computed without a table.
    """

    absolute = True

    def __init__(self, width: int, config: TrajectoryConfig, length: int = 0) -> None:
        super().__init__()
        strength = config.strength
        self.strength = auto_strength(config.content) if isinstance(strength, str) else strength
        self.magnitude, self.scale = config.magnitude, config.scale
        self.width, self.length = width, length
        rows = math.ceil(length * (1.0 + self.strength)) + 1 if length else 0
        self.places = RealPositions(width, rows, config.interpolation)
        self.cache = DisplacementCache(config.cache) if config.cache else None

    @classmethod
    def of(cls, model: "ModelConfig") -> "TrajectoryPositions":
        """As a model's configuration has it."""
        assert isinstance(model.positions, TrajectoryConfig)
        return cls(model.d_model, model.positions, model.max_seq_len)

    def embed_state(self, batch: int, like: Tensor) -> TrajectoryState:
        """The state before the first step of ``batch`` rows: zeros.

        Args:
            like: a tensor of the embeddings' type, on their device.
        """
        zeros = torch.zeros(batch, dtype=torch.float64, device=like.device)
        last = torch.zeros(batch, self.width, dtype=like.dtype, device=like.device)
        return TrajectoryState(zeros.long(), zeros, last, zeros.clone())

    def forward(
        self, embedded: Tensor, state: TrajectoryState | None = None
    ) -> tuple[Tensor, TrajectoryState | None]:
        """Encodings (B, L, D) of whole sequences, or of a chunk of any length that follows ``state``.

        Args:
            embedded: (B, L, D) embeddings, L >= 1. From a row's first embedding that is not finite on, its
                encoding is the standard one.
            state: what came before; ``None`` starts afresh, and ``None`` comes back.

        Raises:
            ShapeError: embeddings of another shape, or a state of another number of rows.
        """
        if embedded.ndim != 3 or embedded.shape[2] != self.width or embedded.shape[1] < 1:
            shape = tuple(embedded.shape)
            raise ShapeError(f"embeddings must be (B, L, {self.width}) with L >= 1, got {shape}")
        if state is not None and state.frames.shape[0] != embedded.shape[0]:
            rows = state.frames.shape[0]
            raise ShapeError(f"the state has {rows} rows, the embeddings have {embedded.shape[0]}")
        return self._encode(embedded, state)

    def embed(
        self, x: Tensor, frames: Tensor | None, state: Any
    ) -> tuple[Tensor, TrajectoryState | tuple[()]]:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        encoded, after = self(x, state)
        return encoded, () if after is None else after

    def displacements(self, embedded: Tensor, state: TrajectoryState | None = None) -> tuple[Tensor, Tensor]:
        """How far each step's position lies beyond its number, and in a stream the row's power after it.

        Returns:
            (B, L) and (B, L), float64; the displacements are NaN where a row has fallen back.
        """
        lengths, bad = self._lengths(embedded, state)
        power = lengths
        if state is not None:
            power = state.power[:, None] + lengths.square().cumsum(1)
        elif self.scale == "rms":
            power = lengths.square().cumsum(1)
        if self.scale == "rms":
            lengths = lengths / self._scale(power, state)
        moved = (self.strength * torch.tanh(self.magnitude * lengths)).cumsum(1)
        if state is not None:
            # What had fallen back stays so: its displacement is NaN.
            moved = state.displacement[:, None] + moved
        if bad is not None:
            moved = moved.masked_fill(bad.cumsum(1) > 0, math.nan)
        return moved, power

    def _encode(
        self, embedded: Tensor, state: TrajectoryState | None
    ) -> tuple[Tensor, TrajectoryState | None]:
        rows, length = embedded.shape[:2]
        inside = self._inside(length, state)
        moving = self.strength > 0.0 and (length > 1 or state is not None)
        if moving and inside and state is None and self.cache is None and self._in_core(embedded):
            return self._whole(embedded), None
        steps = torch.arange(length, device=embedded.device)
        whole = steps.expand(rows, length) if state is None else state.frames[:, None] + steps
        if not moving:
            encoded = self.places.standard(steps if state is None else whole, embedded.dtype, inside)
            return encoded.expand(rows, -1, -1), self._unmoved(embedded, state)
        moved, power = self._cached(embedded) if state is None else self.displacements(embedded, state)
        positions = whole + moved
        if _recorded(embedded) or not math.isfinite(moved[:, -1].sum().item()):
            # Not by where alone: it would hand NaN times zero to what it leaves out.
            positions = whole + moved.masked_fill(moved.isnan(), 0.0)
        encoded = self.places(positions, embedded.dtype, inside)
        if state is None:
            return encoded, None
        last = torch.nan_to_num(embedded[:, -1], posinf=0.0, neginf=0.0)
        frames = state.frames + length
        return encoded, TrajectoryState(frames, moved[:, -1], last, power[:, -1])

    def _in_core(self, embedded: Tensor) -> bool:
        """Whether the Rust core may do the work: without gradients, in float32, from the table."""
        if embedded.device.type != "cpu" or embedded.dtype != torch.float32 or _recorded(embedded):
            return False
        learning = torch.is_grad_enabled() and embedded.requires_grad
        return not learning and self.places.looks_up(torch.float32)

    def _whole(self, embedded: Tensor) -> Tensor:
        """Encodings of whole sequences, in one go."""
        path = embedded.detach().contiguous()
        out = torch.empty_like(path)
        places, rms = self.places, self.scale == "rms"
        _core.trajectory_encode(
            path.numpy(),
            self.strength,
            self.magnitude,
            rms,
            places.table.numpy(),
            places.speeds.numpy(),
            out.numpy(),
        )
        return out

    def _unmoved(self, embedded: Tensor, state: TrajectoryState | None) -> TrajectoryState | None:
        if state is None:
            return None
        frames = state.frames + embedded.shape[1]
        # Copies, for a graph cannot hand out what it was given.
        return TrajectoryState(
            frames, state.displacement.clone(), embedded[:, -1].clone(), state.power.clone()
        )

    def _inside(self, length: int, state: TrajectoryState | None) -> bool:
        """Whether all positions are below the table's end."""
        if not self.length or (state is not None and _recorded(state.frames)):
            return False
        before = 0 if state is None else int(state.frames.max())
        return before + length <= self.length

    def _scale(self, power: Tensor, state: TrajectoryState | None) -> Tensor:
        """Root mean square (B, L) of all steps so far; a row's first embedding is no step."""
        steps = torch.arange(power.shape[1], device=power.device).expand_as(power)
        if state is not None:
            steps = state.frames[:, None] + steps
        mean = power / steps.clamp(min=1)
        still = mean == 0.0
        # Without a root of zero, whose slope has no end.
        return torch.where(still, torch.ones_like(mean), mean).sqrt()

    def _lengths(self, embedded: Tensor, state: TrajectoryState | None) -> tuple[Tensor, Tensor | None]:
        """Lengths (B, L) of the steps, float64, 0 for a row's first; and (B, L) where an embedding is not
        finite, ``None`` if all are."""
        last = None if state is None else state.last
        going = None if state is None else state.frames > 0
        lengths = _distances(embedded, last, going)
        if _recorded(embedded):
            return lengths.nan_to_num(0.0, 0.0), ~lengths.isfinite()
        # What is not finite shows in the step to it or from it, and in the sum.
        if math.isfinite(lengths.sum().item()):
            return lengths, None
        bad = ~embedded.isfinite().all(-1)
        clean = embedded.masked_fill(bad[..., None], 0.0)
        lengths = _distances(clean, last, going)
        # Finite embeddings may lie further apart than float32 can say. Lengths that it can say stay as they
        # are to the last bit: what comes later must not change them.
        return torch.where(lengths.isfinite(), lengths, _distances(clean.double(), last, going)), bad

    def _cached(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Displacements of whole sequences, looked up where that is allowed; the power only where not."""
        cache = self.cache
        learning = torch.is_grad_enabled() and embedded.requires_grad
        if cache is None or learning or embedded.device.type != "cpu" or _recorded(embedded):
            return self.displacements(embedded)
        keys = cache.keys(embedded)
        known = [cache.get(key) for key in keys]
        missing = [row for row, found in enumerate(known) if found is None]
        if missing:
            some = embedded if len(missing) == len(keys) else embedded[missing]
            fresh, _ = self.displacements(some)
            for row, moved in zip(missing, fresh, strict=True):
                cache.put(keys[row], moved.clone())
                known[row] = moved
        found = torch.stack([moved for moved in known if moved is not None])
        return found, found


def _recorded(x: Tensor) -> bool:
    """Whether operations go into a graph, so that none may depend on a value."""
    return torch.compiler.is_compiling() or (x.is_cuda and torch.cuda.is_current_stream_capturing())


def _distances(embedded: Tensor, last: Tensor | None, going: Tensor | None) -> Tensor:
    """(B, L) float64: how far each embedding lies from the one before; the first from ``last`` in rows that
    are ``going``, else 0."""
    if embedded.dtype in (torch.float16, torch.bfloat16):
        embedded = embedded.float()
    if last is None or going is None:
        first = embedded.new_zeros(embedded.shape[0], 1)
    else:
        first = torch.linalg.vector_norm(embedded[:, :1] - last[:, None].to(embedded.dtype), dim=-1)
        first = first * going[:, None]
    return torch.cat((first, step_lengths(embedded)), 1).double()
