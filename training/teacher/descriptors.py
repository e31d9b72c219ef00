"""What of the teacher's body events are looked for in; the parameters' measures are the Rust core's."""

from typing import Final

from training.teacher.kinematics import MASSES, Array

FAST_HZ: Final = 3.0
"""-3 dB point of the speed that beats are looked for in, and of six parameters."""

SLOW_HZ: Final = 1.0
"""-3 dB point of density and pulse."""

MOTION_HZ: Final = 6.6
"""-3 dB point of the positions before they are differentiated: mocap noise stays out of the jerk."""

ENDS: Final = (9, 13, 17, 21, 5)
"""The five ends of the body: hands, toes, head."""


def speeds(velocity: Array) -> tuple[Array, Array]:
    """Mean squared speed (T,) of the ends, and kinetic energy per kilogram x 2, of velocities (T, 22, 3)."""
    speed2 = (velocity**2).sum(axis=-1)
    return speed2[:, ENDS].mean(axis=1), speed2 @ MASSES
