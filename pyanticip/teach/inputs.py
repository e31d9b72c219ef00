"""What a head sees of a frame: where the body is and how it moves, and the trunk's hidden state.

``body`` (177) are the model's own kinematics of a feature row: positions and velocities of the joints seen
from the hips, heights, and what movement is measured by; they know the pose. ``hidden`` (D, 128 in the
packaged checkpoint) is what the trunk makes of the last seconds; it knows the movement, and belongs to one
checkpoint. Neither depends on where the performer faces.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyanticip import _core

__all__ = ["BODY", "SCALES", "body"]

F32 = npt.NDArray[np.float32]

BODY = 177
"""Width of the body block."""

SCALES = {"body": 1.0, "hidden": 1.0}
"""Typical size of a block's values over all kinds of movement. A few takes show little of it: a value that
stood still in them must not be blown up, so half of this is added (squared) to what the takes show."""


def body(rows: F32) -> F32:
    """The body block (T, 177) of feature rows (T, 231 or 279), on the canonical body: the same
    for every checkpoint.

    :raises ShapeError: other rows.
    """
    return _core.body_kinematics(np.ascontiguousarray(rows, np.float32))
