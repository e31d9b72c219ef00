"""Every fault that there can be here."""

from __future__ import annotations

from realtime.soak.faults import children, control, disk, files, motion, surroundings
from realtime.soak.faults.base import Fault
from realtime.soak.servers import Pulse
from realtime.soak.theatre import Theatre

__all__ = ["every"]


def every(show: Theatre, pulse: Pulse | None) -> dict[str, Fault]:
    """By name, those of this show: a process that it does not have cannot die."""
    there = {word for word, module in children.CHILDREN.items() if show.children(module)}
    deaths = {
        name: fault
        for name, fault in children.FAULTS.items()
        if not name.startswith("killed") or name.partition(": ")[2] in there
    }
    sound = surroundings.SOUND if pulse is not None else {}
    return control.FAULTS | deaths | disk.FAULTS | sound | files.FAULTS | motion.FAULTS | surroundings.FAULTS
