"""Sinusoidal encodings at real positions: exact, by adding angles, or interpolated between whole ones."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.models.core.encodings import sine_pairs, sinusoids, speeds

INTERPOLATIONS = ("exact", "linear", "cubic")

CHUNK: Final = 1 << 18
"""Channels computed at a time, so that what lies between input and output stays in the processor's cache."""

_BETWEEN: Final = 16
"""Numbers that an interpolation needs at a time for every one that it gives, at the most."""


class RealPositions(nn.Module):
    """Encodings (..., width) of real positions (...,), as :func:`~pyanticip.models.core.encodings.sinusoids`.

    ``exact`` is the sine and cosine of the position itself. In float32, up to the table's end, those of a
    whole position nearby are looked up and the angle of the rest is added (on a CPU by the Rust core): within
    5e-7 of float64, at any position. Otherwise they are computed in float64. ``linear`` is the paper's
    interpolation between the two whole positions around (off by up to 1 - cos(1/2) = .122 in the fastest
    channel), ``cubic`` Catmull and Rom's (1974) between four.

    Args:
        width: D, at least 1.
        rows: whole positions 0 to ``rows - 1`` are kept in a table; 0 for none.
        interpolation: one of :data:`INTERPOLATIONS`.

    Raises:
        OptionError: another one.
    """

    table: Tensor
    speeds: Tensor

    def __init__(self, width: int, rows: int = 0, interpolation: str = "exact") -> None:
        super().__init__()
        if interpolation not in INTERPOLATIONS:
            raise OptionError(
                f"interpolation must be one of {', '.join(INTERPOLATIONS)}, got {interpolation!r}"
            )
        self.width, self.rows, self.interpolation = width, rows, interpolation
        # Catmull and Rom's spline also looks one position before the first.
        self.first = -1 if interpolation == "cubic" and rows else 0
        whole = torch.arange(self.first, rows)
        self.register_buffer("table", sine_pairs(whole, width).float(), persistent=False)
        known = speeds(width) if interpolation == "exact" and rows else torch.zeros(0)
        self.register_buffer("speeds", known.float(), persistent=False)

    def standard(self, whole: Tensor, dtype: torch.dtype, inside: bool) -> Tensor:
        """The encodings of whole positions: the table's rows, bit for bit, or those computed afresh."""
        if inside and self.rows:
            return self.table[whole - self.first, : self.width].to(dtype)
        return sinusoids(whole, self.width).to(dtype)

    def forward(self, positions: Tensor, dtype: torch.dtype, inside: bool = False) -> Tensor:
        """Encodings (..., width) of ``dtype``.

        Args:
            positions: (...,) float64, from 0 on.
            inside: whether all of them are known to be below ``rows - 1``.
        """
        learning = torch.is_grad_enabled() and positions.requires_grad
        if self.interpolation != "exact":
            if torch.compiler.is_compiling():
                return self.interpolate(positions, dtype, inside)[..., : self.width]
            if not learning:
                return self.interpolate_pieces(positions, dtype, inside)[..., : self.width]
            found: Tensor = _Interpolated.apply(positions, self, dtype, inside)  # type: ignore[no-untyped-call]
            return found[..., : self.width]
        if torch.compiler.is_compiling():
            return sinusoids(positions, self.width).to(dtype)
        looked_up = inside and self.looks_up(dtype)
        if not learning:
            return self.encode(positions, dtype, looked_up)[..., : self.width]
        out: Tensor = _Exact.apply(positions, self, dtype, looked_up)  # type: ignore[no-untyped-call]
        return out[..., : self.width]

    def looks_up(self, dtype: torch.dtype) -> bool:
        """Whether exact encodings of ``dtype`` inside the table are taken from it."""
        # Half precision is computed as float32, in tables that were not made half precision themselves.
        exact = self.interpolation == "exact" and self.rows > 0
        return exact and dtype != torch.float64 and self.table.dtype == torch.float32

    def encode(self, positions: Tensor, dtype: torch.dtype, looked_up: bool) -> Tensor:
        """Exact encodings with a cosine to every sine, (..., even) of ``dtype``; no gradient flows."""
        if looked_up:
            return self._piecewise(positions, dtype, self._add)
        return self._piecewise(positions, dtype, lambda x, out: out.copy_(sine_pairs(x, self.width)))

    def _piecewise(
        self,
        positions: Tensor,
        dtype: torch.dtype,
        fill: Callable[[Tensor, Tensor], object],
        between: int = 1,
    ) -> Tensor:
        """(..., even) of ``dtype``, filled some rows at a time; ``between`` times fewer than usual."""
        flat, even = positions.reshape(-1), self.width + self.width % 2
        out = torch.empty(len(flat), even, dtype=dtype, device=flat.device)
        size = chunk(flat, between * even)
        for begin in range(0, len(flat), size):
            fill(flat[begin : begin + size], out[begin : begin + size])
        return out.view(*positions.shape, even)

    def _add(self, positions: Tensor, out: Tensor) -> None:
        """Encodings (N, even) of positions (N,): the whole part's, turned by the rest."""
        if positions.device.type == "cpu":
            made = out if out.dtype == torch.float32 else torch.empty(out.shape)
            arrays = (t.numpy() for t in (positions, self.table, self.speeds, made))
            _core.encode_positions(*arrays)
            if made is not out:
                out.copy_(made)
            return
        whole = positions.floor()
        angle = (whole - positions).float()[:, None] * self.speeds
        encoded = self.table.index_select(0, whole.long())
        # A pair (sin, cos) is i exp(-i angle).
        turned = torch.polar(torch.ones((), device=angle.device), angle)
        torch.view_as_complex(_pairs(encoded)).mul_(turned)
        out.copy_(encoded)

    def _nodes(self, whole: Tensor, inside: bool, dtype: torch.dtype) -> Tensor:
        if inside and self.rows:
            return self.table[whole - self.first].to(dtype)
        return sine_pairs(whole, self.width).to(dtype)

    def interpolate_pieces(self, positions: Tensor, dtype: torch.dtype, inside: bool) -> Tensor:
        """As :meth:`interpolate`, some rows at a time: what lies between takes several times the room."""

        def fill(x: Tensor, out: Tensor) -> None:
            out.copy_(self.interpolate(x, dtype, inside))

        return self._piecewise(positions, dtype, fill, _BETWEEN)

    def interpolate(self, positions: Tensor, dtype: torch.dtype, inside: bool) -> Tensor:
        """Encodings between those of whole positions, (..., even) of ``dtype``, a cosine to every sine."""
        whole = positions.detach().floor()
        t = (positions - whole).to(dtype)[..., None]
        k = whole.long()
        before, after = self._nodes(k, inside, dtype), self._nodes(k + 1, inside, dtype)
        if self.interpolation == "linear":
            return (1.0 - t) * before + t * after
        left, right = self._nodes(k - 1, inside, dtype), self._nodes(k + 2, inside, dtype)
        bend = 2.0 * left - 5.0 * before + 4.0 * after - right
        twist = 3.0 * (before - after) + right - left
        return before + 0.5 * t * (after - left + t * (bend + t * twist))


class _Exact(torch.autograd.Function):
    """Encodings with a cosine to every sine. The gradient comes from the encodings themselves: nothing else
    is kept."""

    @staticmethod
    def forward(positions: Tensor, places: RealPositions, dtype: torch.dtype, looked_up: bool) -> Tensor:
        return places.encode(positions, dtype, looked_up)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.width = inputs[1].width

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (encoded,) = ctx.saved_tensors
        known = speeds(ctx.width, encoded.device)
        if torch.is_grad_enabled():
            return _slopes(encoded, gradient, known), None, None, None
        # Some rows at a time: what lies between would take as much memory again.
        even = encoded.shape[-1]
        rows, given = encoded.reshape(-1, even), gradient.reshape(-1, even)
        size = chunk(rows, 8 * even)
        pieces = (slice(at, at + size) for at in range(0, len(rows), size))
        found = torch.cat([_slopes(rows[piece], given[piece], known) for piece in pieces])
        return found.view(encoded.shape[:-1]), None, None, None


class _Interpolated(torch.autograd.Function):
    """Interpolated encodings. The way back interpolates once more, some rows at a time: only the positions
    are kept."""

    @staticmethod
    def forward(positions: Tensor, places: RealPositions, dtype: torch.dtype, inside: bool) -> Tensor:
        return places.interpolate_pieces(positions, dtype, inside)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.options = inputs[1:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (positions,) = ctx.saved_tensors
        places, dtype, inside = ctx.options
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            if again:
                made = places.interpolate(positions, dtype, inside)
                (found,) = torch.autograd.grad(made, positions, gradient, create_graph=True)
                return found, None, None, None
            flat, given = positions.detach().reshape(-1), gradient.reshape(-1, gradient.shape[-1])
            size, parts = chunk(flat, _BETWEEN * given.shape[1]), []
            for at in range(0, len(flat), size):
                x = flat[at : at + size].requires_grad_()
                made = places.interpolate(x, dtype, inside)
                parts += torch.autograd.grad(made, x, given[at : at + size])
        return torch.cat(parts).view(positions.shape), None, None, None


def _slopes(encoded: Tensor, gradient: Tensor, known: Tensor) -> Tensor:
    """Gradients (...,) by positions, of encodings and their gradients (..., even)."""
    sines, cosines = _pairs(encoded).unbind(-1)
    by_sine, by_cosine = _pairs(gradient).unbind(-1)
    return (by_sine * cosines - by_cosine * sines).double() @ known


def chunk(x: Tensor, width: int) -> int:
    """Rows of ``width`` channels to compute at a time on the device of a tensor."""
    return max(1, (CHUNK if x.device.type == "cpu" else 1 << 26) // width)


def _pairs(x: Tensor) -> Tensor:
    """(..., 2 n) as (..., n, 2)."""
    return x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
