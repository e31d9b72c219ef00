"""Build a memory from whole takes."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import Memory
from pyanticip.errors import OptionError, ShapeError


def rehearse(takes: Iterable[tuple[str, NDArray[np.floating]]], *, capacity: int = 90_000) -> Memory:
    """A memory of whole takes; rehearsed moments are never evicted by what is played later.

    Args:
        takes: names and canonical rotations (T, 22, 4) at 50 Hz, w,x,y,z, local.
        capacity: most moments held, rehearsed and learned; one every 40 ms, so 90,000 are an hour.

    Raises:
        ShapeError: rotations of another shape, or values that are no unit quaternions.
        OptionError: an invalid capacity, takes that are no such pairs, all of them too short for a moment
            (0.9 s), two of the same name, or more moments than ``capacity``.
    """
    memory = empty(capacity)
    names: set[str] = set()
    for take in takes if isinstance(takes, Iterable) else [takes]:
        if not (isinstance(take, tuple | list) and len(take) == 2 and isinstance(take[0], str)):
            raise OptionError(
                "takes are pairs of a name and rotations (T, 22, 4), such as "
                f"[('walk', clip.retarget('humanoid').resample(50).quats)], got {type(take).__name__}"
            )
        name, quats = take
        if name in names:
            raise OptionError(f"there is a take called {name!r} already")
        names.add(name)
        try:
            memory.rehearse(name, quats)
        except ShapeError as error:
            raise ShapeError(f"take {name!r}: {error}") from error
    if not len(memory):
        raise OptionError("nothing to remember: every take is shorter than 0.9 s")
    return memory


def empty(capacity: int) -> Memory:
    """An empty memory of ``capacity`` moments.

    Raises:
        OptionError: ``capacity`` is not an integer, or out of range.
    """
    try:
        return Memory(capacity)
    except (OverflowError, TypeError):
        raise OptionError(f"capacity: expected a number of moments from 1, got {capacity!r}") from None
