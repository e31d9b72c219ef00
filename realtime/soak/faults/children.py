"""Processes beside the show that die, or stand still."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from functools import partial

from realtime.soak.faults.base import Fault, Scene, back, wait
from realtime.soak.theatre import Theatre

__all__ = ["CHILDREN", "FAULTS"]

#: What each runs, by the word that the status has for it.
CHILDREN = {
    "recorder": "realtime.recording.writer",
    "voice": "realtime.voice.synth",
    "monitor": "realtime.monitor.server",
    "guard": "realtime.sinks.guard",
    "oscquery": "realtime.oscquery.server",
    "midi": "realtime.sinks.midi.port",
}


def _is_well(show: Theatre, word: str) -> bool:
    """Whether the newest status has nothing to say against a process."""
    if word == "midi":
        return not show.says("away=midi")
    if word == "recorder" and not show.says("recording=yes"):
        return False
    return show.says(f"{word}=yes") or show.says(f"{word}=no (no audio device)")


def _killed(scene: Scene, word: str) -> float | None:
    show, before = scene.show, scene.show.children(CHILDREN[word])
    for pid in before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    came_ns = 0

    def plays() -> bool:
        nonlocal came_ns
        if not came_ns and set(show.children(CHILDREN[word])) - set(before):
            came_ns = time.monotonic_ns()
        # What was told since it came.
        return 0 < came_ns < show.ear.told_ns and _is_well(show, word)

    return back(scene, plays)


def _stands_still(scene: Scene) -> float | None:
    """One of them is stopped, and goes on, unless it was begun anew meanwhile."""
    show = scene.show
    there = [word for word, module in CHILDREN.items() if show.children(module)]
    word = scene.chance.choice(there)
    stopped = show.children(CHILDREN[word])
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait(scene)
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    since = time.monotonic_ns()
    return back(scene, lambda: show.ear.told_ns > since and _is_well(show, word))


FAULTS: dict[str, Fault] = {
    **{f"killed: {word}": partial(_killed, word=word) for word in CHILDREN},
    "stands still: a child": _stands_still,
}
