"""Files that a show was begun with, cut off while it plays."""

from __future__ import annotations

from pathlib import Path

from pyanticip.models.checkpoint.manifest import WEIGHTS
from realtime.soak.faults.base import Fault, Scene, back, back_to, wait
from realtime.soak.theatre import MODEL, RIG

__all__ = ["FAULTS"]


def _cut(scene: Scene, path: Path) -> None:
    """Leave a part of a file, let the show be asked for it, and make it whole."""
    whole = path.read_bytes()
    path.write_bytes(whole[: scene.chance.randrange(len(whole))])
    try:
        scene.show.ask("rig/load", RIG)
        wait(scene)
    finally:
        path.write_bytes(whole)


def _weights(scene: Scene) -> float | None:
    """The model's weights: what plays is in memory."""
    _cut(scene, scene.show.folder / MODEL / WEIGHTS)
    return back_to(scene, "plays=model")


def _rig(scene: Scene) -> float | None:
    """The rig: what plays goes on, and it can be loaded again."""
    _cut(scene, scene.show.folder / RIG)
    return back(scene, lambda: scene.show.ask("rig/load", RIG)[0] == "ok")


FAULTS: dict[str, Fault] = {"file: weights": _weights, "file: rig": _rig}
