"""The teacher's beats in a speed that is given."""

import numpy as np
from numpy.typing import NDArray

from training.teacher import handmade as teacher


def arrivals(speed: NDArray[np.floating]) -> NDArray[np.int64]:
    """Frames of the beats in the smoothed speed (T,) of the ends of the body, m/s."""
    curve = np.log2(speed + teacher.ONSET_FLOOR)
    found = teacher.arrivals(curve, teacher.ONSET_FALL, teacher.ONSET_SPEED, teacher.ONSET_GAP)
    return np.array([frame for frame, _ in found], dtype=np.int64)
