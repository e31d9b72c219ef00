"""Control vectors: of the model at a lead, or of the scalars alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS

__all__ = [
    "NEUTRAL",
    "ArrayLike",
    "Vector",
    "as_lists",
    "as_vector",
    "at_lead",
    "scalar_mapping",
    "shape_of",
    "unit",
]

Vector = list[float]

#: Where the parameters go when there is nobody to follow: silent, centred, dry.
NEUTRAL = (0.5, 0.0, 0.5, 0.0, 0.0, 0.5, 0.5, 0.0)

_N = len(PARAMETERS)


class ArrayLike(Protocol):
    """An array that can turn itself into lists (NumPy's, torch's)."""

    def tolist(self) -> Any:
        """The values as nested lists."""
        ...


def as_lists(values: ArrayLike | Sequence[Any]) -> list[Any]:
    """The values as a new list; what is within stays as it is."""
    found: Any = values if isinstance(values, list | tuple) else values.tolist()  # type: ignore[union-attr]
    return list(found)


def as_vector(values: ArrayLike | Sequence[float], length: int, what: str) -> Vector:
    """A new list of ``length`` numbers. Raises ShapeError, which begins with ``what``, for another shape."""
    found = as_lists(values)
    if len(found) != length or (found and isinstance(found[0], list)):
        raise ShapeError(f"{what}: expected shape ({length},), got {shape_of(found)}")
    return found


def shape_of(values: Any) -> tuple[int, ...]:
    """The shape of nested lists, as far as their first elements tell."""
    return (len(values), *shape_of(values[0])) if isinstance(values, list) and values else ()


def at_lead(params: ArrayLike | Sequence[Sequence[float]], lead_ms: float | Sequence[float]) -> Vector:
    """Parameters ``lead_ms`` ahead, one lead for all or one for each: linear between the model's horizons.

    ``params`` is (8, 5) in 0..1, one column per entry of :data:`HORIZONS_MS`; returns 8 values clipped to
    0..1. Raises :class:`OptionError` for a lead outside 0..400 ms, :class:`ShapeError` for another shape.
    """
    rows = as_lists(params)
    if len(rows) != _N or any(not isinstance(r, list | tuple) or len(r) != len(HORIZONS_MS) for r in rows):
        raise ShapeError(f"parameters: expected shape ({_N}, {len(HORIZONS_MS)}), got {shape_of(rows)}")
    leads = [lead_ms] * _N if isinstance(lead_ms, int | float) else lead_ms
    out = []
    for row, lead in zip(rows, leads, strict=True):
        if not HORIZONS_MS[0] <= lead <= HORIZONS_MS[-1]:
            raise OptionError(f"lead_ms: expected {HORIZONS_MS[0]} to {HORIZONS_MS[-1]}, got {lead!r}")
        k = 0
        while k < len(HORIZONS_MS) - 2 and lead > HORIZONS_MS[k + 1]:
            k += 1
        low, high = HORIZONS_MS[k], HORIZONS_MS[k + 1]
        out.append(unit(row[k] + (lead - low) / (high - low) * (row[k + 1] - row[k])))
    return out


def unit(value: float) -> float:
    """Clip to 0..1; NaN becomes 0."""
    return 0.0 if not value > 0.0 else 1.0 if value > 1.0 else value


def scalar_mapping(scalars: ArrayLike | Sequence[float]) -> Vector:
    """Control vector from the seven scalars alone: what plays when there is no model or it is late.

    ``scalars`` (7,) in the order commitment, uncertainty, transition pressure, recovery margin, phase
    stiffness, novelty, stability. A still performer is silent, novelty away from the centre of the recent
    range is loud, an uncertain course is dense, an unsteady one rough. Returns 8 values in 0..1.
    """
    given = as_vector(scalars, 7, "scalars")
    c, u, t, r, p, n, st = (x if math.isfinite(x) else 0.0 for x in given)
    reach = 1.0 - r
    loud = math.sqrt(max(n * reach, 0.0))
    mapped = (c, loud, 0.5 * (reach + loud), 1.0 - st, loud * (0.3 + 0.7 * u), r, 0.5 + 0.5 * t, p * loud)
    return [unit(x) for x in mapped]
