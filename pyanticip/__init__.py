"""Turn a stream of joint rotations into anticipation, and anticipation into sound control."""

from pyanticip.errors import MotionError
from pyanticip.motion.clip import Clip
from pyanticip.motion.load import load_motion

__all__ = ["Clip", "MotionError", "load_motion"]
