"""A memory of takes that were shown before."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import Memory
from pyanticip.errors import OptionError


def rehearse(takes: Iterable[tuple[str, NDArray[np.floating]]], *, capacity: int = 90_000) -> Memory:
    """A memory of whole takes, which stay whatever is played later.

    Args:
        takes: names and canonical rotations (T, 22, 4) at 50 Hz, w,x,y,z, local.
        capacity: moments there is room for, rehearsed or not; one every 40 ms, so 90,000 are an hour.

    Raises:
        ShapeError: rotations of another shape, or values that are not finite.
        OptionError: no take long enough to have a moment (0.9 s), or more than there is room for.
    """
    memory = Memory(capacity)
    for name, quats in takes:
        memory.rehearse(name, quats)
    if not len(memory):
        raise OptionError("nothing to remember: every take is shorter than 0.9 s")
    return memory
