"""Disks and folders that do not take what is recorded."""

from __future__ import annotations

import os
import resource
import signal

from realtime.soak.faults.base import Fault, Scene, recorded_again, wait
from realtime.soak.faults.children import CHILDREN

__all__ = ["FAULTS"]


def _full(scene: Scene) -> float | None:
    """No file of the recorder may grow: what a full disk is to it, and nobody else notices."""
    (pid,) = scene.show.children(CHILDREN["recorder"])
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1024, hard))
    try:
        wait(scene)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    return recorded_again(scene, "full")


def _gone(scene: Scene) -> float | None:
    """The folder is taken away, and the recorder dies: the next part has nowhere to go until it is back."""
    takes, away = scene.show.takes, scene.show.folder / "elsewhere"
    takes.rename(away)
    try:
        for pid in scene.show.children(CHILDREN["recorder"]):
            os.kill(pid, signal.SIGKILL)
        wait(scene)
    finally:
        away.rename(takes)
    return recorded_again(scene, "gone")


def _in_the_way(scene: Scene) -> float | None:
    """Where a take is to go stands a pipe that nobody reads, a folder, or a link to nowhere."""
    name = f"way{scene.chance.getrandbits(32):x}"
    path = scene.show.takes / f"{name}.anticip"
    make = scene.chance.choice((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/nowhere/at/all")))
    make(path)
    try:
        verdict, _ = scene.show.ask("record/start", name)
        wait(scene)
    finally:
        path.rmdir() if path.is_dir() else path.unlink()
    return recorded_again(scene, f"{name}-again") if verdict != "ok" else None


FAULTS: dict[str, Fault] = {
    **({"disk: full": _full} if hasattr(resource, "prlimit") else {}),
    "disk: folder gone": _gone,
    "disk: in the way": _in_the_way,
}
