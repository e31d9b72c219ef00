"""The teacher's causal twin: the same descriptors from the past alone, frame by frame.

It is what an instrument without a model would play, and the rival that the model must beat: backward
differences for central ones, low-passes for the Gaussians, the stretch before now for the one around it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import CausalTwins

MOTION_DELAY_S: Final = 0.04
"""Delay of the smoother before the differences: four poles of 10 ms have the variance of the Gaussian."""

MOTION_POLES: Final = 4


def causal_twin(
    quats: NDArray[np.floating], delay_s: float = 0.08, motion_delay_s: float = MOTION_DELAY_S
) -> NDArray[np.float32]:
    """The twin's parameters (T, 8) over a whole clip (T, 22, 4) of canonical rotations at 50 Hz.

    Args:
        quats: the rotations.
        delay_s: group delay of the smoothing of the measures, seconds; 0 smooths nothing. The slow two
            (density, pulse) are smoothed with three times that, as their bandwidth is a third.
        motion_delay_s: delay of the smoother before the differences, seconds.

    Raises:
        ShapeError: another shape, or values that are not finite.
        OptionError: a delay out of 0 to 10 s.
    """
    return CausalTwins([delay_s], motion_delay_s=motion_delay_s).push(quats)[:, 0]
