"""Who hears the show goes, and comes back: receivers, and the server of the sound device."""

from __future__ import annotations

import time
from functools import partial

from realtime.soak.faults.base import Fault, Scene, back, wait

__all__ = ["FAULTS", "SOUND"]

_NOTICED_S = 4.0


def _away(scene: Scene, transport: str) -> float | None:
    """A receiver is gone for a while."""
    (guest,) = (guest for guest in scene.guests if guest.transport == transport)
    guest.go()
    try:
        wait(scene)
    finally:
        guest.come()
    return back(scene, lambda: guest.heard)


def _silenced(scene: Scene) -> float | None:
    """PulseAudio is killed, and begun again."""
    assert scene.pulse is not None
    scene.pulse.stop()
    # A device is taken to have gone when it has not asked for samples for 2 s.
    noticed = time.monotonic() + _NOTICED_S
    try:
        wait(scene)
    finally:
        scene.pulse.start()
    return back(scene, lambda: time.monotonic() > noticed and scene.show.says("voice=yes"))


FAULTS: dict[str, Fault] = {
    "receiver away: udp": partial(_away, transport="udp"),
    "receiver away: tcp": partial(_away, transport="tcp"),
}
#: Where there is a server of ours.
SOUND: dict[str, Fault] = {"sound: server gone": _silenced}
