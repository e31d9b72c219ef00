"""The seven scalars of one position as a record with names, for analysis.

Arrays are for computing; a packet is for reading, logging and comparing. :func:`packets` turns an array of
scalars into packets, :func:`from_packets` turns them back, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from pyanticip.errors import ShapeError

__all__ = ["AnticipationPacket", "from_packets", "packets"]


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
    """Commitment gained and uncertainty lost per position, -2 to 2."""
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
        """The seven, in the order they have everywhere."""
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
        raise ShapeError(f"scalars: expected an array (L, 7), given {type(scalars).__name__}") from error
    if array.ndim != 2 or array.shape[1] != 7:
        raise ShapeError(f"scalars: expected shape (L, 7), one sequence, given {array.shape}")
    return [
        AnticipationPacket(c, u, t, r, p, n, s, start + i)
        for i, (c, u, t, r, p, n, s) in enumerate(array.tolist())
    ]


def from_packets(given: Iterable[AnticipationPacket]) -> npt.NDArray[np.float64]:
    """The array :func:`packets` was given.

    Args:
        given: packets of consecutive positions, in order.

    Returns:
        The scalars, (L, 7), float64.

    Raises:
        ShapeError: something that is no packet, or a position missing or out of order.
    """
    rows: list[tuple[float, ...]] = []
    last: int | None = None
    for packet in given:
        if not isinstance(packet, AnticipationPacket):
            raise ShapeError(f"packets[{len(rows)}]: expected an AnticipationPacket, given {packet!r}")
        if last is not None and packet.index != last + 1:
            raise ShapeError(f"packets[{len(rows)}]: expected index {last + 1}, given {packet.index}")
        last = packet.index
        rows.append(packet.scalars)
    return np.array(rows, dtype=np.float64).reshape(len(rows), 7)
