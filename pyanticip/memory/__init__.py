"""Memory of what a performer did before: rehearsing takes, saving them, and forecasting from them.

The stream itself is :class:`pyanticip._core.Memory`: the offline teacher labels each frame 1.3 s later, every
other frame is stored as a moment with what followed it, and the twelve stored moments nearest to the current
one form a forecast. It is mixed with the model's forecast by their recent accuracy. NumPy only, no torch.
"""

from pyanticip._core import Memory
from pyanticip.memory.files import load_memory, load_rehearsal, save_memory, save_moments
from pyanticip.memory.rehearsal import rehearse

__all__ = ["Memory", "load_memory", "load_rehearsal", "rehearse", "save_memory", "save_moments"]
