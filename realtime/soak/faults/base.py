"""What a fault is, and what it can lay hands on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from realtime.soak.ear import Guest
from realtime.soak.servers import Pulse
from realtime.soak.suit import Suit
from realtime.soak.theatre import Theatre

__all__ = ["Fault", "Scene", "back", "back_to", "recorded_again", "wait"]

# Who is not back after so long is gone: pauses before a restart grow to 30 s, and what stands still is left
# so for 10.
_PATIENCE_S = 60.0
# The status comes once a second: what it says after so long is not of before.
_ANEW_S = 1.1


@dataclass(frozen=True)
class Scene:
    """A show that plays, what is around it, and for how long (seconds) a fault that lasts is to last."""

    show: Theatre
    suit: Suit
    guests: tuple[Guest, ...]
    pulse: Pulse | None
    chance: random.Random
    lasts: float


#: Does what goes wrong and sets it right again, in the calling thread; returns seconds from then until all
#: was as before, None where it was not in time.
Fault = Callable[[Scene], float | None]


def wait(scene: Scene, seconds: float | None = None) -> None:
    """As long as the fault lasts, or so long; raises Ended when the show does not."""
    until = time.monotonic() + (scene.lasts if seconds is None else seconds)
    while scene.show.pid and (left := until - time.monotonic()) > 0.0:
        time.sleep(min(left, 0.1))


def back(scene: Scene, condition: Callable[[], object]) -> float | None:
    """Seconds from now until something is so; None: not in time."""
    begun = time.monotonic()
    found = scene.show.until(condition, _PATIENCE_S)
    return time.monotonic() - begun if found else None


def back_to(scene: Scene, beginning: str) -> float | None:
    """Seconds from now until a new status has a word that begins so."""
    since = time.monotonic() + _ANEW_S
    return back(scene, lambda: time.monotonic() > since and scene.show.says(beginning))


def recorded_again(scene: Scene, take: str) -> float | None:
    """Seconds from now until the show records: into a new file where it does not go on by itself."""
    since = time.monotonic() + _ANEW_S

    def does() -> bool:
        nonlocal since
        if (now := time.monotonic()) < since or scene.show.says("recording=yes"):
            return now >= since
        if scene.show.says("recording=no") and not scene.show.says("recording=no ("):
            since = now + _ANEW_S
            scene.show.command("record/start", take)
        return False

    return back(scene, does)
