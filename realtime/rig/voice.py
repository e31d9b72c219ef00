"""The built-in voice as a rig has it."""

from __future__ import annotations

from collections.abc import Callable

from realtime.rig.tree import SynthRig
from realtime.sockets import free_port
from realtime.voice.process import SynthProcess

__all__ = ["begin_voice"]


def begin_voice(rig: SynthRig, say: Callable[[str], None]) -> SynthProcess:
    """Start its process, which looks for its device: that takes longest of all that a show begins with."""
    port = rig.port or free_port()
    return SynthProcess(port, rig.device, say, preset=rig.preset, options=rig.voice_options)
