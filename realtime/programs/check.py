"""What ``pyanticip rig check`` looks for: what a live show of a rig would be refused for."""

from __future__ import annotations

from pathlib import Path
from socket import SOCK_DGRAM

from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.teach.mapping import load_mapping
from realtime.memory.live_memory import open_memory
from realtime.programs.live import check_new
from realtime.rig import Rig
from realtime.rig.load import solo
from realtime.rig.ports import check_ports
from realtime.sockets import resolve

__all__ = ["check_show"]


def check_show(rig: Rig) -> None:
    """Look at ports, hosts and files, but open nothing. Raises the MotionError that ``live`` would."""
    check_ports(rig)
    for target in rig.osc:
        resolve(target.host, target.port, f"OSC target {target.url}", SOCK_DGRAM)
    for own in [solo(rig, one.name) for one in rig.performers] or [rig]:
        own.resolved()
        if own.model.enabled and own.model.checkpoint is not None:
            read_manifest(own.model.checkpoint)
        if own.memory.enabled:
            open_memory(own.memory.file, own.memory.sha256, cues=own.cue)
        if own.mapping is not None:
            load_mapping(own.mapping)
        if own.record is not None:
            check_new(Path(own.record))
