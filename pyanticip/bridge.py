"""GeometryBridge: from token embeddings, or any vectors, to the seven scalars, on any device.

:func:`torch_scalars` is the definition of ``docs/scalars.md`` for vectors as tensor code: CPU, CUDA,
``torch.compile``. :func:`pyanticip.vector_scalars` is the same in Rust, and much faster on a CPU.
:func:`bridge_scalars` uses whichever suits the device. No gradient passes through either: the scalars
describe a trajectory, they do not shape it.

**Precision.** All arithmetic is float64, whatever the input. Uncertainty orders neighbours on a grid of 1e-9
of the window's radius, so that equal tokens tie exactly; a distance from a Gram matrix
(``a.a - 2 a.b + b.b``) loses half the digits near zero and would order ties by rounding noise. Distances
between states therefore are sums of squared differences. Matrix products are used where they are safe: the
window's mean, and the search for the state farthest from it, both relative to a state which every window of
the block contains, so that neither a far-away origin nor data outside the window costs digits; the distance
found is then computed in full.

**Memory.** Queries are processed in blocks of at most a window, against the states their windows reach: the
largest temporaries hold :data:`MAX_BLOCK_ELEMENTS` numbers, never (L, L, d).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip import _core
from pyanticip.errors import OptionError, ShapeError
from pyanticip.geometry import Stability, Uncertainty, _Options, vector_scalars

__all__ = [
    "AnticipationPacket",
    "GeometryBridge",
    "bridge_scalars",
    "from_packets",
    "packets",
    "torch_scalars",
]

MAX_BLOCK_ELEMENTS = 1 << 22
"""Numbers in the largest temporary (32 MiB of float64)."""
MAX_COMPONENT = 1e100
"""A vector with a larger component counts as missing: its square could not be summed."""
DISTANCE_GRID = 1e-9
"""Distances are compared in units of this times the window's radius."""
MAX_AGE = 1 << 20
"""More than any age in frames; the largest grid distance (2e9) times this is still exact in float64."""

Missing = Literal["hold", "refuse"]


@torch.no_grad()
def torch_scalars(
    x: Tensor,
    *,
    window: int | None = 256,
    k: int = 8,
    stride: int = 1,
    horizon: int = 1,
    theiler: int = 1,
    eps_v: float = 1e-9,
    r0: float | None = None,
    m: int = 5,
    commitment: Sequence[float] = (0.4, 0.3, 0.3),
    ema: float | None = None,
    uncertainty: Uncertainty = "directional",
    stability: Stability = "speed",
    missing: Missing = "hold",
) -> Tensor:
    """The seven scalars of vector sequences, as tensor code; causal, without gradient.

    The same options, defaults and values (within 1e-6, and within 1e-9 on anything but contrived data) as
    :func:`pyanticip.vector_scalars`, but computed on the device of ``x``, without the core. It compiles
    without a graph break (``torch.compile(torch_scalars, fullgraph=True)``).

    Args:
        x: the vectors, (..., L, d), floating point.
        window, k, stride, horizon, theiler, eps_v, r0, m, commitment, ema, uncertainty, stability: as in
            :class:`pyanticip.VectorStream`.
        missing: what to do with a vector that has a component that is not finite or beyond 1e100. ``"hold"``:
            replace it by the last valid one, zeros before the first, as in Rust. ``"refuse"``: raise an error
            that names it (waits for the device, and breaks a compiled graph).

    Returns:
        The scalars, (..., L, 7), on the device of ``x``; float64 for float64, float32 for anything narrower.

    Raises:
        ShapeError: ``x`` is not a floating-point tensor of at least two axes, the last not empty; or it has
            missing vectors and ``missing="refuse"``.
        OptionError: an option outside its range.

    >>> line = torch.arange(40.0)[:, None] * torch.tensor([1.0, 2.0])
    >>> [round(value, 3) for value in torch_scalars(line)[-1].tolist()]
    [1.0, 0.0, 0.0, 0.0, 1.0, 0.026, 1.0]
    """
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ShapeError(f"x: expected a floating-point tensor (..., L, d), got {kind}")
    if x.ndim < 2 or x.shape[-1] == 0:
        raise ShapeError(f"x: expected shape (..., L, d) with d >= 1, got {tuple(x.shape)}")
    weights = tuple(commitment)
    o = _checked_options(
        window, k, stride, horizon, theiler, eps_v, r0, m, weights, ema, uncertainty, stability
    )
    _check_missing(x, missing)
    dtype = x.dtype if x.dtype == torch.float64 else torch.float32
    lead, (length, dim) = x.shape[:-2], x.shape[-2:]
    if x.numel() == 0:
        return x.new_zeros(*lead, length, 7, dtype=dtype)
    flat = x.detach().reshape(-1, length, dim)
    # Even the smallest block of queries must not exceed the budget, whatever the batch.
    reach = length if window is None else min(length, window + _MIN_QUERIES)
    parts = torch.split(flat, max(1, MAX_BLOCK_ELEMENTS // (_MIN_QUERIES * max(reach, min(k, reach) * dim))))
    scalars = [_batch_scalars(_fill_missing(part.double()), o).to(dtype) for part in parts]
    return torch.cat(scalars).reshape(*lead, length, 7)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def _checked_options(*values: Any) -> dict[str, Any]:
    """The options by name, their ranges checked by the Rust core."""
    options = _Options(*values)
    _core.VectorStream(1, options)
    if options["r0"] is None:
        options["r0"] = options["eps_v"]
    return dict(options)


_MIN_QUERIES = 16
"""Fewest queries in a block (window permitting)."""


def _fill_missing(x: Tensor) -> Tensor:
    """Missing vectors replaced by the last valid one, by zeros before the first. (B, L, d)."""
    valid = (x.abs() <= MAX_COMPONENT).all(-1)
    index = torch.arange(x.shape[1], device=x.device)
    last = torch.where(valid, index, -1).cummax(-1).values
    filled = x.gather(1, last.clamp(min=0)[..., None].expand_as(x))
    return torch.where((last >= 0)[..., None], filled, 0.0)


def _check_missing(x: Tensor, missing: str) -> None:
    """Raise for an unknown value of the option, and for missing vectors where they are refused."""
    if missing not in ("hold", "refuse"):
        raise OptionError(f"option missing: expected 'hold' or 'refuse', got {missing!r}")
    if missing == "hold":
        return
    invalid = ~(x.detach().abs().double() <= MAX_COMPONENT)
    if invalid.any():
        index = invalid.nonzero()[0].tolist()
        value = x.detach()[tuple(index)].item()
        raise ShapeError(f"x{index}: expected a finite number of at most 1e100, got {value}")


def _batch_scalars(x: Tensor, o: dict[str, Any]) -> Tensor:
    """The seven scalars of vectors (B, L, d) float64: (B, L, 7)."""
    batch, length, dim = x.shape
    window = o["window"] or length
    directions, rests = _continuations(x, o)
    # A block's temporaries are queries x states, and queries x neighbours x dim.
    widest = max(min(window, length), min(o["k"], length) * dim)
    # Large blocks where each operation costs a launch or a compilation.
    most = 64 if x.device.type == "cpu" and not torch.compiler.is_compiling() else 256
    queries = max(_MIN_QUERIES, min(most, MAX_BLOCK_ELEMENTS // (batch * widest)))
    queries = min(queries, window, length)
    terms = [
        _block_terms(x, directions, rests, first, min(first + queries, length), window, o)
        for first in range(0, length, queries)
    ]
    spread, proximity, novelty = (torch.cat(term, dim=1) for term in zip(*terms, strict=True))
    persistence, phase, stability = _velocity_terms(x, o, window)
    a, b, c = o["commitment"]
    commitment = (a * (1 - spread) + b * proximity + c * persistence).clamp(0, 1)
    pressure = _difference(commitment, o["stride"]) - _difference(spread, o["stride"])
    if o["ema"] is not None:
        pressure = _ema(pressure, o["ema"])
    columns = (commitment, spread, pressure.clamp(-2, 2), 1 - proximity, phase, novelty, stability)
    return torch.stack(columns, dim=-1)


def _norm(x: Tensor) -> Tensor:
    return (x * x).sum(-1).sqrt()


def _continuations(x: Tensor, o: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Unit directions (B, L, d) and rest coordinates (B, L) of each state's continuation; the last are 0."""
    length, horizon, eps = x.shape[1], o["horizon"], o["eps_v"]
    if length <= horizon:
        return torch.zeros_like(x), torch.zeros_like(x[..., 0])
    c = x[:, horizon:] - x[:, :-horizon]
    norm = ((c * c).sum(-1) + eps * eps).sqrt()
    return F.pad(c / norm[..., None], (0, 0, 0, horizon)), F.pad(eps / norm, (0, horizon))


def _block_terms(
    x: Tensor, directions: Tensor, rests: Tensor, first: int, end: int, window: int, o: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """Uncertainty, proximity and novelty of the queries ``first..end``, at most a window's length of them."""
    batch, _, dim = x.shape
    low = max(0, first - window + 1)
    states = x[:, low:end]
    index = torch.arange(low, end, device=x.device)
    age = index[first - low :, None] - index
    inside = (age >= 0) & (age < window)
    count = inside.sum(-1).double()

    # State `first` is in every query's window: relative to it nothing in a window is larger than the window's
    # diameter, so sums and products lose no digits, and a constant window gives exact zeros.
    relative = states - x[:, first : first + 1]
    mean = torch.matmul(inside.double(), relative) / count[:, None]
    offset = _norm(relative[:, first - low :] - mean)
    square = (relative * relative).sum(-1)
    far = square[:, None] - 2 * torch.matmul(mean, relative.mT)
    farthest = far.masked_fill(~inside, -torch.inf).argmax(-1)
    radius = _norm(relative.gather(1, farthest[..., None].expand(-1, -1, dim)) - mean)
    scale = torch.maximum(radius, offset) + o["r0"]
    proximity = (offset / scale * ((count - 1) / 8).clamp(max=1)).clamp(0, 1)

    distance = torch.cdist(x[:, first:end], states, compute_mode="donot_use_mm_for_euclid_dist")
    near = inside & (age >= o["theiler"])
    least = distance.masked_fill(~near, torch.inf).amin(-1)
    novelty = (least / (2 * scale)).clamp(max=1)

    past = inside & (age >= max(o["theiler"], o["horizon"]))
    # Orders by distance on the grid, then by age: one exact number, no two equal.
    key = torch.round(distance / (DISTANCE_GRID * scale[..., None])) * MAX_AGE + age
    key = key.masked_fill(~past, torch.inf)
    found, slot = key.topk(min(o["k"], end - low), largest=False, sorted=True)
    known = torch.isfinite(found)
    row = torch.where(known, slot + low, x.shape[1] - 1)  # the last state has no continuation: zeros
    item = torch.arange(batch, device=x.device)[:, None, None]
    spread = _spread(directions[item, row], rests[item, row], known.sum(-1).double(), o)
    return spread, proximity, novelty


def _spread(u: Tensor, rest: Tensor, n: Tensor, o: dict[str, Any]) -> Tensor:
    """Uncertainty of neighbours' directions (B, Q, k, d) and rests (B, Q, k); n (B, Q) of the k count."""
    k = o["k"]
    pairs = (n * (n - 1)).clamp(min=1)
    if o["uncertainty"] == "directional":
        total = u.sum(2)
        square = (total * total).sum(-1) + rest.sum(-1) ** 2
        spread = 1 - ((square - n) / pairs).clamp(min=0)
    else:
        cosine = torch.matmul(u, u.mT) + rest[..., :, None] * rest[..., None, :]
        present = (torch.arange(u.shape[2], device=u.device) < n[..., None]).double()
        kernel = torch.exp(4 * (cosine.clamp(-1, 1) - 1)) * present[..., :, None] * present[..., None, :]
        values = torch.linalg.eigvalsh(kernel / n.clamp(min=1)[..., None, None]).clamp(min=0)
        spread = -torch.xlogy(values, values).sum(-1) / n.clamp(min=2).log()
    blended = (n * spread.clamp(0, 1) + (k - n)) / k
    return torch.where(n < 2, 1.0, blended.clamp(0, 1))


def _velocity_terms(x: Tensor, o: dict[str, Any], window: int) -> tuple[Tensor, Tensor, Tensor]:
    """Persistence, phase stiffness and stability, (B, L) each, from the last velocities."""
    length, eps, m, stride = x.shape[1], o["eps_v"], o["m"], o["stride"]
    t = torch.arange(length, device=x.device)
    v = _difference(x, 1)
    speed = _norm(v)
    # The last m velocities sum to the displacement over m frames.
    displacement = _norm(x - x[:, (t - m).clamp(min=0)])
    path = F.pad(speed, (m - 1, 0)).unfold(-1, m, 1).sum(-1) + m * eps
    persistence = (displacement / path).clamp(max=1)

    if stride > 1:
        v = _difference(x, stride)
        speed, eps = _norm(v), stride * eps
    v1, speed1 = _delayed(v, stride), _delayed(speed, stride)
    moving = (t >= 2 * stride) & (speed > eps) & (speed1 > eps)
    cosine = (v * v1).sum(-1) / torch.where(moving, speed, 1.0) / torch.where(moving, speed1, 1.0)
    phase = torch.where(moving, ((1 + cosine) / 2).clamp(0, 1), 0.5)

    v2, speed2 = _delayed(v, 2 * stride), _delayed(speed, 2 * stride)
    known = t >= 3 * stride
    jerk = torch.where(known, _norm((v - v1) - (v1 - v2)), 0.0)
    if o["stability"] == "speed":
        bound = speed + 2 * speed1 + speed2
        steady = bound <= 4 * eps
    else:
        # A jerk reaches three strides back: those of the window's first three strides reach outside it.
        reach = max(1, min(window, length + 3 * stride) - 3 * stride)
        bound = F.pad(jerk, (reach - 1, 0)).unfold(-1, reach, 1).amax(-1)
        steady = bound <= 0
    ratio = (1 - jerk / torch.where(steady, 1.0, bound)).clamp(0, 1)
    return persistence, phase, torch.where(steady | ~known, 1.0, ratio)


def _difference(x: Tensor, frames: int) -> Tensor:
    """Change along axis 1 over ``frames``; 0 for the first ``frames``."""
    return torch.cat((torch.zeros_like(x[:, :frames]), x[:, frames:] - x[:, :-frames]), dim=1)


def _delayed(x: Tensor, frames: int) -> Tensor:
    """Axis 1 shifted later by ``frames``, zeros in front."""
    return torch.cat((torch.zeros_like(x[:, :frames]), x[:, :-frames]), dim=1)[:, : x.shape[1]]


def _ema(x: Tensor, weight: float) -> Tensor:
    """Causal moving average along axis 1 from 0, in log2(L) steps."""
    y, decay, shift = x * weight, 1 - weight, 1
    while shift < x.shape[1] and decay > 0:
        y = y + decay * _delayed(y, shift)
        decay, shift = decay * decay, 2 * shift
    return y


def bridge_scalars(x: Tensor | npt.ArrayLike, *, missing: Missing = "refuse", **options: Any) -> Tensor:
    """The seven scalars, by the fastest implementation for the device of ``x``.

    Tensors on a CUDA device: :func:`torch_scalars` there. Everything else: the Rust core on the CPU, and the
    result on the device of ``x``.

    Args:
        x: the vectors, (..., L, d): a floating-point tensor, or an array.
        missing: as in :func:`torch_scalars`, but missing vectors are refused by default.
        options: those of :func:`pyanticip.vector_scalars`.

    Returns:
        The scalars, (..., L, 7), on the device of ``x``; float64 for float64, float32 for anything narrower.

    Raises:
        ShapeError: another shape or type, or missing vectors.
        OptionError: an unknown option, or one outside its range.
    """
    if not isinstance(x, Tensor):
        array = np.asarray(x)
        if array.dtype.kind != "f":
            raise ShapeError(f"x: expected floating-point numbers (..., L, d), got {array.dtype}")
        x = torch.from_numpy(np.ascontiguousarray(array, np.float64 if array.itemsize > 4 else np.float32))
    if unknown := sorted(options.keys() - _OPTION_NAMES):
        raise OptionError(f"option {unknown[0]}: expected one of {', '.join(sorted(_OPTION_NAMES))}")
    if x.is_cuda or not x.is_floating_point() or x.ndim < 2 or x.shape[-1] == 0:
        return torch_scalars(x, missing=missing, **options)
    _check_missing(x, missing)
    dtype = x.dtype if x.dtype == torch.float64 else torch.float32
    values = x.detach().to(device="cpu", dtype=dtype)
    return torch.from_numpy(vector_scalars(values.numpy(), **options)).to(device=x.device, dtype=dtype)


_OPTION_NAMES = frozenset(vector_scalars.__kwdefaults__ or ()) - {"profile"}


class GeometryBridge:
    """:func:`bridge_scalars` with its options set once, checked when it is made.

    Args:
        missing: as in :func:`bridge_scalars`.
        options: those of :func:`pyanticip.vector_scalars`.

    Raises:
        OptionError: an unknown option, or one outside its range.

    >>> bridge = GeometryBridge(window=None)
    >>> bridge(torch.ones(2, 20, 3))[0, -1]
    tensor([0.4000, 0.0000, 0.0000, 1.0000, 0.5000, 0.0000, 1.0000])
    """

    __slots__ = ("missing", "options")

    def __init__(self, *, missing: Missing = "refuse", **options: Any) -> None:
        self.missing: Missing = missing
        self.options = dict(options)
        bridge_scalars(torch.zeros(1, 1), missing=missing, **options)

    def __call__(self, x: Tensor | npt.ArrayLike) -> Tensor:
        """The scalars of ``x``, (..., L, d) to (..., L, 7)."""
        return bridge_scalars(x, missing=self.missing, **self.options)

    def packets(self, x: Tensor | npt.ArrayLike) -> list[AnticipationPacket]:
        """The scalars of one sequence, (L, d), as packets with names."""
        return packets(self(x).cpu())


@dataclass(frozen=True, slots=True)
class AnticipationPacket:
    """The scalars at one position of a sequence; definitions in ``docs/scalars.md``.

    >>> packet = AnticipationPacket(0.4, 0.0, 0.0, 1.0, 0.5, 0.0, 1.0, index=12)
    >>> packet.commitment, packet.index
    (0.4, 12)
    """

    commitment: float
    """How settled the course is, 0 to 1."""
    uncertainty: float
    """How differently it went on from here before, 0 to 1."""
    transition_pressure: float
    """Commitment gained and uncertainty lost over a stride of positions, -2 to 2."""
    recovery_margin: float
    """Distance from the edge of the range, 0 to 1."""
    phase_stiffness: float
    """Whether the direction of motion lasts, 0 to 1."""
    novelty: float
    """Distance from everything visited, 0 to 1."""
    stability: float
    """Freedom from jerk, 0 to 1."""
    index: int
    """Position in the sequence, from 0."""

    @property
    def scalars(self) -> tuple[float, ...]:
        """The seven scalars, in the order of :data:`pyanticip.SCALARS`."""
        values: tuple[float, ...] = astuple(self)[:7]
        return values


def packets(scalars: npt.ArrayLike, *, start: int = 0) -> list[AnticipationPacket]:
    """The scalars of one sequence as packets.

    Args:
        scalars: the scalars, (L, 7), in the order of :data:`pyanticip.SCALARS`; an array or CPU tensor.
        start: index of the first one.

    Returns:
        One packet a position, in order.

    Raises:
        ShapeError: another shape, or no real numbers.
    """
    try:
        array = np.asarray(scalars, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"scalars: expected an array (L, 7), got {type(scalars).__name__}") from error
    if array.ndim != 2 or array.shape[1] != 7:
        raise ShapeError(f"scalars: expected shape (L, 7), one sequence, got {array.shape}")
    return [
        AnticipationPacket(c, u, t, r, p, n, s, start + i)
        for i, (c, u, t, r, p, n, s) in enumerate(array.tolist())
    ]


def from_packets(packets: Iterable[AnticipationPacket]) -> npt.NDArray[np.float64]:
    """The inverse of :func:`packets`.

    Args:
        packets: packets of consecutive positions, in order.

    Returns:
        The scalars, (L, 7), float64.

    Raises:
        ShapeError: an element that is not a packet, or a position missing or out of order.
    """
    rows: list[tuple[float, ...]] = []
    last: int | None = None
    for packet in packets:
        if not isinstance(packet, AnticipationPacket):
            raise ShapeError(f"packets[{len(rows)}]: expected an AnticipationPacket, got {packet!r}")
        if last is not None and packet.index != last + 1:
            raise ShapeError(f"packets[{len(rows)}]: expected index {last + 1}, got {packet.index}")
        last = packet.index
        rows.append(packet.scalars)
    return np.array(rows, dtype=np.float64).reshape(len(rows), 7)
