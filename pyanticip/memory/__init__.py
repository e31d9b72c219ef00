"""What a performer did before: rehearsing it, keeping it in a file, and what it says about what comes.

The stream itself is :class:`pyanticip._core.Memory`: the offline teacher hears each frame 1.3 s late, every
other frame becomes a moment with what followed it, and the twelve earlier moments nearest to now say what may
come. It is mixed with what the model says by who was right of late. NumPy only, no torch.
"""

from pyanticip._core import Memory
from pyanticip.memory.files import load_memory, load_rehearsal, save_memory, save_moments
from pyanticip.memory.rehearsal import rehearse

__all__ = ["Memory", "load_memory", "load_rehearsal", "rehearse", "save_memory", "save_moments"]
