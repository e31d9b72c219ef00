"""Turn a stream of joint rotations into anticipation, and anticipation into sound control.

Conventions, everywhere: right-handed axes, y up; metres, seconds, radians; quaternions are Hamilton in the
order w, x, y, z, unit, local to the parent joint (they take coordinates seen from the joint to coordinates
seen from its parent). Arrays of poses are (T, J, 4), time first; speeds are per frame where no unit is given.
The seven scalars have one order, :data:`SCALARS`.

Importing this package loads the Rust core alone; what needs NumPy is loaded at first use, torch never.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyanticip._core import __version__
from pyanticip.errors import (
    CheckpointError,
    DeviceError,
    FormatError,
    MotionError,
    OptionError,
    RigError,
    ShapeError,
    SkeletonError,
    WireError,
)
from pyanticip.vocabulary import SCALARS

if TYPE_CHECKING:
    from pyanticip.geometry import JointLimits, ScalarStream, VectorStream, pose_scalars, vector_scalars
    from pyanticip.motion.clip import Clip
    from pyanticip.motion.load import load_motion

__all__ = [
    "SCALARS",
    "CheckpointError",
    "Clip",
    "DeviceError",
    "FormatError",
    "JointLimits",
    "MotionError",
    "OptionError",
    "RigError",
    "ScalarStream",
    "ShapeError",
    "SkeletonError",
    "VectorStream",
    "WireError",
    "__version__",
    "load_motion",
    "pose_scalars",
    "vector_scalars",
]

_GEOMETRY = ("JointLimits", "ScalarStream", "VectorStream", "pose_scalars", "vector_scalars")
_LAZY = {
    "Clip": "pyanticip.motion.clip",
    "load_motion": "pyanticip.motion.load",
    **dict.fromkeys(_GEOMETRY, "pyanticip.geometry"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
