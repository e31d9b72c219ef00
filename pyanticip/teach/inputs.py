"""What a head sees of a frame: where the body is and how it moves, and the trunk's hidden state.

``body`` (177) are the model's own kinematics of a feature row: positions and velocities of the joints seen
from the hips, heights, and what movement is measured by; they know the pose. ``hidden`` (D, 128 in the packaged
checkpoint) is what the trunk makes of the last seconds; it knows the movement, and belongs to one
checkpoint. Neither depends on where the performer faces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError, ShapeError

__all__ = ["BLOCKS", "BODY", "SCALES", "Body", "check_blocks"]

F32 = npt.NDArray[np.float32]

BLOCKS = ("body", "hidden")
"""What inputs are made of, in this order."""

BODY = 177
"""Width of the body block."""

SCALES = {"body": 1.0, "hidden": 1.0}
"""Typical size of a block's values over all kinds of movement. A few takes show little of it: a value that
stood still in them must not be blown up, so half of this is added (squared) to what the takes show."""


def check_blocks(blocks: Sequence[str]) -> tuple[str, ...]:
    """The blocks in their order. Raises OptionError for an unknown one, or none."""
    given = [str(block) for block in blocks]
    if not given or any(block not in BLOCKS for block in given) or len(set(given)) != len(given):
        raise OptionError(f"inputs: expected some of {', '.join(BLOCKS)}, each once, got {given}")
    return tuple(block for block in BLOCKS if block in given)


class Body:
    """The body block of feature rows, on the canonical body: the same for every checkpoint."""

    def __init__(self) -> None:
        offsets = np.array(_core.CANONICAL_OFFSETS, np.float32)
        offsets[0] = 0.0
        self._kinematics = _core.BodyKinematics(offsets)
        self._row = np.zeros((1, len(_core.FEATURE_NAMES)), np.float32)
        self._out = np.zeros((1, BODY), np.float32)

    def of(self, row: F32) -> F32:
        """The block (177,) of one feature row (231,); a view that the next call overwrites."""
        self._row[0] = row
        self._kinematics.compute(self._row, self._out)
        found: F32 = self._out[0]
        return found

    def batch(self, rows: F32) -> F32:
        """The block (T, 177) of feature rows (T, 231).

        :raises ShapeError: other rows.
        """
        if rows.ndim != 2 or rows.shape[1] != self._row.shape[1]:
            raise ShapeError(f"feature rows must be (T, {self._row.shape[1]}), got {rows.shape}")
        return (
            np.stack([self.of(row).copy() for row in rows]) if len(rows) else np.zeros((0, BODY), np.float32)
        )
