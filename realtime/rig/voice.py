"""Starts the built-in voice of a rig."""

from __future__ import annotations

from collections.abc import Callable

from realtime.rig.tree import SynthRig
from realtime.sockets import free_port
from realtime.voice.process import SynthProcess

__all__ = ["begin_voice"]


def begin_voice(rig: SynthRig, say: Callable[[str], None]) -> SynthProcess:
    """Start the voice's process. Opening its audio device is the slowest part of starting a show."""
    port = rig.port or free_port()
    return SynthProcess(port, rig.device, say, preset=rig.preset, options=rig.voice_options)
