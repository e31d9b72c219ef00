"""Sinusoidal encodings at real positions: exact, by angle addition, or interpolated between whole ones."""

from collections.abc import Callable
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from pyanticip import _core
from pyanticip.models.core.encodings import sine_pairs, sinusoids, speeds

CHUNK: Final = 1 << 18
"""Channels computed at a time, so that intermediate values stay in the CPU's cache."""

_BETWEEN: Final = 16
"""Maximum number of intermediate values of an interpolation per output value."""


class RealPositions(nn.Module):
    """Encodings (..., width) of real positions (...,), as :func:`~pyanticip.models.core.encodings.sinusoids`.

    ``exact`` is the sine and cosine of the position itself. In float32, up to the table's end, those of the
    whole position below are looked up and the angle of the fraction is added (on a CPU by the Rust core):
    within 5e-7 of float64, at any position. Otherwise they are computed in float64. ``linear`` is the paper's
    interpolation between the two neighbouring whole positions (off by up to 1 - cos(1/2) = .122 in the
    fastest channel), ``cubic`` that of Catmull and Rom (1974) between four.

    Args:
        width: D, at least 1.
        rows: the table has the whole positions 0 to ``rows - 1``; 0 for no table.
    """

    table: Tensor
    speeds: Tensor

    def __init__(self, width: int, rows: int, interpolation: Literal["exact", "linear", "cubic"]) -> None:
        super().__init__()
        self.width, self.rows, self.interpolation = width, rows, interpolation
        # The Catmull-Rom spline also needs one position before the first.
        self.first = -1 if interpolation == "cubic" and rows else 0
        whole = torch.arange(self.first, rows)
        self.register_buffer("table", sine_pairs(whole, width).float(), persistent=False)
        pair_speeds = speeds(width) if interpolation == "exact" and rows else torch.zeros(0)
        self.register_buffer("speeds", pair_speeds.float(), persistent=False)

    def standard(self, whole: Tensor, dtype: torch.dtype, in_table: bool) -> Tensor:
        """Encodings of whole positions: the table's rows, bit for bit, or computed."""
        return self._nodes(whole, in_table, dtype)[..., : self.width]

    def forward(self, positions: Tensor, dtype: torch.dtype, in_table: bool = False) -> Tensor:
        """Encodings (..., width) of ``dtype``.

        Args:
            positions: (...,) float64, from 0 on.
            in_table: whether all of them are known to be below ``rows - 1``.
        """
        needs_grad = torch.is_grad_enabled() and positions.requires_grad
        if self.interpolation != "exact":
            if torch.compiler.is_compiling():
                return self.interpolate(positions, dtype, in_table)[..., : self.width]
            if not needs_grad:
                return self.interpolate_pieces(positions, dtype, in_table)[..., : self.width]
            gradients: Tensor = _Interpolated.apply(positions, self, dtype, in_table)  # type: ignore[no-untyped-call]
            return gradients[..., : self.width]
        if torch.compiler.is_compiling():
            return sinusoids(positions, self.width).to(dtype)
        looked_up = in_table and self.looks_up(dtype)
        if not needs_grad:
            return self.encode(positions, dtype, looked_up)[..., : self.width]
        out: Tensor = _Exact.apply(positions, self, dtype, looked_up)  # type: ignore[no-untyped-call]
        return out[..., : self.width]

    def looks_up(self, dtype: torch.dtype) -> bool:
        """Whether exact encodings of ``dtype`` are looked up in the table."""
        # Half precision is computed as float32, unless the table itself was converted to half precision.
        exact = self.interpolation == "exact" and self.rows > 0
        return exact and dtype != torch.float64 and self.table.dtype == torch.float32

    def encode(self, positions: Tensor, dtype: torch.dtype, looked_up: bool) -> Tensor:
        """Exact encodings (..., even) of ``dtype``, a cosine for every sine, without gradients."""
        if looked_up:
            return self._piecewise(positions, dtype, self._rotate_from_table)
        return self._piecewise(positions, dtype, lambda x, out: out.copy_(sine_pairs(x, self.width)))

    def _piecewise(
        self,
        positions: Tensor,
        dtype: torch.dtype,
        fill: Callable[[Tensor, Tensor], object],
        between: int = 1,
    ) -> Tensor:
        """An output (..., even) of ``dtype``, filled in chunks of rows, smaller by the factor ``between``."""
        flat, even = positions.reshape(-1), self.width + self.width % 2
        out = torch.empty(len(flat), even, dtype=dtype, device=flat.device)
        size = chunk(flat, between * even)
        for begin in range(0, len(flat), size):
            fill(flat[begin : begin + size], out[begin : begin + size])
        return out.view(*positions.shape, even)

    def _rotate_from_table(self, positions: Tensor, out: Tensor) -> None:
        """Encodings (N, even) of positions (N,): that of the whole part, rotated by the fraction."""
        if positions.device.type == "cpu":
            encoded = out if out.dtype == torch.float32 else torch.empty(out.shape)
            arrays = (t.numpy() for t in (positions, self.table, self.speeds, encoded))
            _core.encode_positions(*arrays)
            if encoded is not out:
                out.copy_(encoded)
            return
        whole = positions.floor()
        angle = (whole - positions).float()[:, None] * self.speeds
        encoded = self.table.index_select(0, whole.long())
        # A pair (sin, cos), read as a complex number, is i exp(-i angle).
        rotation = torch.polar(torch.ones((), device=angle.device), angle)
        torch.view_as_complex(_pairs(encoded)).mul_(rotation)
        out.copy_(encoded)

    def _nodes(self, whole: Tensor, in_table: bool, dtype: torch.dtype) -> Tensor:
        """Encodings (..., even) of whole positions."""
        if in_table and self.rows:
            return self.table[whole - self.first].to(dtype)
        return sine_pairs(whole, self.width).to(dtype)

    def interpolate_pieces(self, positions: Tensor, dtype: torch.dtype, in_table: bool) -> Tensor:
        """As :meth:`interpolate`, in chunks of rows: intermediate values take several times the memory."""

        def fill(x: Tensor, out: Tensor) -> None:
            out.copy_(self.interpolate(x, dtype, in_table))

        return self._piecewise(positions, dtype, fill, _BETWEEN)

    def interpolate(self, positions: Tensor, dtype: torch.dtype, in_table: bool) -> Tensor:
        """Encodings (..., even) of ``dtype`` interpolated between whole positions, in (sin, cos) pairs."""
        whole = positions.detach().floor()
        t = (positions - whole).to(dtype)[..., None]
        k = whole.long()
        before, after = self._nodes(k, in_table, dtype), self._nodes(k + 1, in_table, dtype)
        if self.interpolation == "linear":
            return (1.0 - t) * before + t * after
        left, right = self._nodes(k - 1, in_table, dtype), self._nodes(k + 2, in_table, dtype)
        bend = 2.0 * left - 5.0 * before + 4.0 * after - right
        twist = 3.0 * (before - after) + right - left
        return before + 0.5 * t * (after - left + t * (bend + t * twist))


class _Exact(torch.autograd.Function):
    """Exact encodings. The gradient is computed from the encodings themselves: nothing else is saved."""

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
        pair_speeds = speeds(ctx.width, encoded.device)
        if torch.is_grad_enabled():
            return _slopes(encoded, gradient, pair_speeds), None, None, None
        # In chunks: intermediate values would take as much memory again.
        even = encoded.shape[-1]
        rows, grad_rows = encoded.reshape(-1, even), gradient.reshape(-1, even)
        size = chunk(rows, 8 * even)
        pieces = (slice(at, at + size) for at in range(0, len(rows), size))
        gradients = torch.cat([_slopes(rows[piece], grad_rows[piece], pair_speeds) for piece in pieces])
        return gradients.view(encoded.shape[:-1]), None, None, None


class _Interpolated(torch.autograd.Function):
    """Interpolated encodings. Only the positions are saved: the backward pass interpolates again, in chunks
    of rows."""

    @staticmethod
    def forward(positions: Tensor, places: RealPositions, dtype: torch.dtype, in_table: bool) -> Tensor:
        return places.interpolate_pieces(positions, dtype, in_table)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.options = inputs[1:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (positions,) = ctx.saved_tensors
        places, dtype, in_table = ctx.options
        double_backward = torch.is_grad_enabled()
        with torch.enable_grad():
            if double_backward:
                encoded = places.interpolate(positions, dtype, in_table)
                (gradients,) = torch.autograd.grad(encoded, positions, gradient, create_graph=True)
                return gradients, None, None, None
            flat, grad_rows = positions.detach().reshape(-1), gradient.reshape(-1, gradient.shape[-1])
            size, parts = chunk(flat, _BETWEEN * grad_rows.shape[1]), []
            for at in range(0, len(flat), size):
                x = flat[at : at + size].requires_grad_()
                encoded = places.interpolate(x, dtype, in_table)
                parts += torch.autograd.grad(encoded, x, grad_rows[at : at + size])
        return torch.cat(parts).view(positions.shape), None, None, None


def _slopes(encoded: Tensor, gradient: Tensor, pair_speeds: Tensor) -> Tensor:
    """Gradients (...,) of positions, from encodings (..., even) and their gradients."""
    sines, cosines = _pairs(encoded).unbind(-1)
    by_sine, by_cosine = _pairs(gradient).unbind(-1)
    return (by_sine * cosines - by_cosine * sines).double() @ pair_speeds


def chunk(x: Tensor, width: int) -> int:
    """Rows of ``width`` channels to compute at a time on the device of a tensor."""
    return max(1, (CHUNK if x.device.type == "cpu" else 1 << 26) // width)


def _pairs(x: Tensor) -> Tensor:
    """(..., 2 n) as (..., n, 2)."""
    return x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
