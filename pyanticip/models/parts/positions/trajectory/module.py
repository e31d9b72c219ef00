"""Positions that depend on content: a step to a distant embedding advances the position further.

``disp_0 = 0; disp_i = disp_{i-1} + a tanh(b |e_i - e_{i-1}|)``, and step i of a row is encoded as position
``i + disp_i``. After *Trajectory-Guided Positional Encoding: Technical Blueprint* (version 2.0, 2025), with
three differences. Its clamp to the longest sequence made the positions of the last steps equal: here the
table covers all positions that can occur. It interpolates the table linearly: here that is an option, and the
default is to encode the position itself. And it falls back to the standard encoding for a whole sequence when
one embedding is not finite, so that the future affects the past: here a row falls back from that step on.
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
from pyanticip.models.core.inputs import can_read_values
from pyanticip.models.core.part import Positions
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.positions.trajectory.config import TrajectoryConfig, auto_strength
from pyanticip.models.parts.positions.trajectory.real_positions import RealPositions
from pyanticip.models.parts.positions.trajectory.step_lengths import step_lengths

CACHE_BYTES: Final = 1 << 26
"""Maximum total size of the cached sequences, 64 MiB; one of 32,768 steps takes a quarter of a MiB."""


class DisplacementCache:
    """LRU cache of the displacements of whole sequences.

    A key is a SHA-256 of the bytes, the shape and the dtype; the paper's cache would return one sequence's
    positions for another that merely resembles it.

    Args:
        entries: maximum number of sequences, at least 1.
        size: maximum size of the displacements, in bytes.
    """

    def __init__(self, entries: int, size: int = CACHE_BYTES) -> None:
        self.entries, self.size = entries, size
        self.bytes = 0
        self._entries: OrderedDict[bytes, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @staticmethod
    def keys(embedded: Tensor) -> list[bytes]:
        """A key for each row of (B, L, D) embeddings on the CPU."""
        plain = embedded.detach().contiguous()
        shape = f"{tuple(plain.shape[1:])}{plain.dtype}".encode()
        # As bytes: NumPy lacks some of torch's dtypes.
        return [sha256(shape + memoryview(row.view(torch.uint8).numpy())).digest() for row in plain]

    def get(self, key: bytes) -> Tensor | None:
        """The displacements (L,) of a key, or ``None``."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: bytes, displacement: Tensor) -> None:
        """Store displacements (L,), which must not be written to afterwards."""
        if displacement.nbytes > self.size:
            return
        old = self._entries.pop(key, None)
        self.bytes += displacement.nbytes - (0 if old is None else old.nbytes)
        self._entries[key] = displacement
        while len(self._entries) > self.entries or self.bytes > self.size:
            self.bytes -= self._entries.popitem(last=False)[1].nbytes


if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


@dataclass
class TrajectoryState(State):
    """Streaming state of trajectory positions.

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

    Step lengths are computed in the embeddings' own precision (float32 for half precision) or better, and
    everything after that in float64, so that angles are accurate at any position. Gradients flow into the
    embeddings. Whole float32 sequences without gradients are encoded by the Rust core on a CPU, with no
    memory besides the output.

    Args:
        width: D, 1 to 65,536.
        config: the options.
        length: longest sequence; encodings of steps beyond it are computed without a table.
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
    def from_model_config(cls, model: "ModelConfig") -> "TrajectoryPositions":
        """Build the positions from a model's configuration."""
        assert isinstance(model.positions, TrajectoryConfig)
        return cls(model.d_model, model.positions, model.max_seq_len)

    def embed_state(self, batch: int, like: Tensor) -> TrajectoryState:
        """The state before the first step of ``batch`` rows: zeros.

        Args:
            like: a tensor with the dtype and device of the embeddings.
        """
        zeros = torch.zeros(batch, dtype=torch.float64, device=like.device)
        last = torch.zeros(batch, self.width, dtype=like.dtype, device=like.device)
        return TrajectoryState(zeros.long(), zeros, last, zeros.clone())

    def forward(
        self, embedded: Tensor, state: TrajectoryState | None = None
    ) -> tuple[Tensor, TrajectoryState | None]:
        """Encodings (B, L, D) of whole sequences, or of a chunk of any length that follows ``state``.

        Args:
            embedded: (B, L, D) embeddings, L >= 1. From a row's first non-finite embedding on, its encoding
                is the standard one.
            state: the state before these steps; ``None`` at a sequence's start, then none is returned.

        Raises:
            ShapeError: embeddings of another shape, or a state of another number of rows.
        """
        if embedded.ndim != 3 or embedded.shape[2] != self.width or embedded.shape[1] < 1:
            shape = tuple(embedded.shape)
            raise ShapeError(f"embeddings must be (B, L, {self.width}) with L >= 1, got {shape}")
        if state is not None and state.frames.shape[0] != embedded.shape[0]:
            rows = state.frames.shape[0]
            raise ShapeError(f"the state has {rows} rows, the embeddings have {embedded.shape[0]}")
        rows, length = embedded.shape[:2]
        in_table = self._in_table(length, state)
        is_moving = self.strength > 0.0 and (length > 1 or state is not None)
        if is_moving and in_table and state is None and self.cache is None and self._in_core(embedded):
            return self._encode_in_core(embedded), None
        steps = torch.arange(length, device=embedded.device)
        numbers = steps.expand(rows, length) if state is None else state.frames[:, None] + steps
        if not is_moving:
            encoded = self.places.standard(steps if state is None else numbers, embedded.dtype, in_table)
            return encoded.expand(rows, -1, -1), self._advance(embedded, state)
        displacement, power = (
            self._cached_displacements(embedded) if state is None else self.displacements(embedded, state)
        )
        positions = numbers + displacement
        if not can_read_values(embedded) or not math.isfinite(displacement[:, -1].sum().item()):
            # Masked before the sum: ``where`` would give NaN gradients in the discarded branch.
            positions = numbers + displacement.masked_fill(displacement.isnan(), 0.0)
        encoded = self.places(positions, embedded.dtype, in_table)
        if state is None:
            return encoded, None
        last = torch.nan_to_num(embedded[:, -1], posinf=0.0, neginf=0.0)
        frames = state.frames + length
        return encoded, TrajectoryState(frames, displacement[:, -1], last, power[:, -1])

    def embed(
        self, x: Tensor, frames: Tensor | None, state: Any
    ) -> tuple[Tensor, TrajectoryState | tuple[()]]:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        encoded, after = self(x, state)
        return encoded, () if after is None else after

    def displacements(self, embedded: Tensor, state: TrajectoryState | None = None) -> tuple[Tensor, Tensor]:
        """How far each step's position exceeds its number, and in a stream the row's power after it.

        Returns:
            displacements (B, L) and power (B, L), float64; displacements are NaN where a row has fallen back.
        """
        lengths, bad = self._lengths(embedded, state)
        power = lengths
        if state is not None:
            power = state.power[:, None] + lengths.square().cumsum(1)
        elif self.scale == "rms":
            power = lengths.square().cumsum(1)
        if self.scale == "rms":
            lengths = lengths / self._scale(power, state)
        displacement = (self.strength * torch.tanh(self.magnitude * lengths)).cumsum(1)
        if state is not None:
            # A row that has fallen back stays so: its displacement is NaN.
            displacement = state.displacement[:, None] + displacement
        if bad is not None:
            displacement = displacement.masked_fill(bad.cumsum(1) > 0, math.nan)
        return displacement, power

    def _in_core(self, embedded: Tensor) -> bool:
        """Whether the Rust core can encode: without gradients, in float32, from the table."""
        if embedded.device.type != "cpu" or embedded.dtype != torch.float32 or not can_read_values(embedded):
            return False
        learning = torch.is_grad_enabled() and embedded.requires_grad
        return not learning and self.places.looks_up(torch.float32)

    def _encode_in_core(self, embedded: Tensor) -> Tensor:
        """Encodings of whole sequences, by the Rust core."""
        path = embedded.detach().contiguous()
        out = torch.empty_like(path)
        arrays = (t.numpy() for t in (self.places.table, self.places.speeds, out))
        _core.trajectory_encode(path.numpy(), self.strength, self.magnitude, self.scale == "rms", *arrays)
        return out

    def _advance(self, embedded: Tensor, state: TrajectoryState | None) -> TrajectoryState | None:
        if state is None:
            return None
        frames = state.frames + embedded.shape[1]
        # Copies: a captured graph cannot return its inputs.
        return TrajectoryState(
            frames, state.displacement.clone(), embedded[:, -1].clone(), state.power.clone()
        )

    def _in_table(self, length: int, state: TrajectoryState | None) -> bool:
        """Whether all positions are below the table's end."""
        if not self.length or (state is not None and not can_read_values(state.frames)):
            return False
        before = 0 if state is None else int(state.frames.max())
        return before + length <= self.length

    def _scale(self, power: Tensor, state: TrajectoryState | None) -> Tensor:
        """Root mean square length (B, L) of all steps so far; a row's first embedding is not a step."""
        steps = torch.arange(power.shape[1], device=power.device).expand_as(power)
        if state is not None:
            steps = state.frames[:, None] + steps
        mean = power / steps.clamp(min=1)
        is_zero = mean == 0.0
        # Avoids the root of zero, whose gradient is infinite.
        return torch.where(is_zero, torch.ones_like(mean), mean).sqrt()

    def _lengths(self, embedded: Tensor, state: TrajectoryState | None) -> tuple[Tensor, Tensor | None]:
        """Lengths (B, L) of the steps, float64, 0 for a row's first; and (B, L) which embeddings are not
        finite, ``None`` if all are."""
        last = None if state is None else state.last
        started = None if state is None else state.frames > 0
        lengths = _distances(embedded, last, started)
        if not can_read_values(embedded):
            return lengths.nan_to_num(0.0, 0.0), ~lengths.isfinite()
        # A non-finite embedding makes the step to it or from it, and so the sum, non-finite.
        if math.isfinite(lengths.sum().item()):
            return lengths, None
        bad = ~embedded.isfinite().all(-1)
        clean = embedded.masked_fill(bad[..., None], 0.0)
        lengths = _distances(clean, last, started)
        # The distance of finite embeddings can overflow float32. Lengths that do not overflow are kept bit
        # for bit: later steps must not change them.
        return torch.where(lengths.isfinite(), lengths, _distances(clean.double(), last, started)), bad

    def _cached_displacements(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Displacements of whole sequences, from the cache where possible; then the second result is not the
        power, which whole sequences do not need."""
        cache = self.cache
        learning = torch.is_grad_enabled() and embedded.requires_grad
        if cache is None or learning or embedded.device.type != "cpu" or not can_read_values(embedded):
            return self.displacements(embedded)
        keys = cache.keys(embedded)
        cached = [cache.get(key) for key in keys]
        missing = [row for row, found in enumerate(cached) if found is None]
        if missing:
            missing_rows = embedded if len(missing) == len(keys) else embedded[missing]
            computed, _ = self.displacements(missing_rows)
            for row, displacement in zip(missing, computed, strict=True):
                cache.put(keys[row], displacement.clone())
                cached[row] = displacement
        found = torch.stack([displacement for displacement in cached if displacement is not None])
        return found, found


def _distances(embedded: Tensor, last: Tensor | None, started: Tensor | None) -> Tensor:
    """Distance (B, L) float64 of each embedding from the previous one; of the first from ``last`` in rows
    that are ``started``, else 0."""
    if embedded.dtype in (torch.float16, torch.bfloat16):
        embedded = embedded.float()
    if last is None or started is None:
        first = embedded.new_zeros(embedded.shape[0], 1)
    else:
        first = torch.linalg.vector_norm(embedded[:, :1] - last[:, None].to(embedded.dtype), dim=-1)
        first = first * started[:, None]
    return torch.cat((first, step_lengths(embedded)), 1).double()
