"""What a soak needs before it begins: a new folder, servers that nobody hears, an ear and a theatre."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyanticip.bench.machine import machine
from pyanticip.errors import OptionError
from realtime.soak.ear import Ear
from realtime.soak.processes import needs_proc
from realtime.soak.servers import Notes, Pulse, midi_port, pulse
from realtime.soak.theatre import Theatre

__all__ = ["REPORT", "House", "house", "report"]

REPORT = "soak.json"


class House(NamedTuple):
    """The show, who hears it, and the servers that are there."""

    show: Theatre
    ear: Ear
    pulse: Pulse | None
    notes: Notes | None


@contextlib.contextmanager
def house(out: Path, more: Sequence[Mapping[str, Any]] = ()) -> Iterator[House]:
    """Everything but the suit, ready to begin; ``more`` are further OSC receivers as a rig has them.

    Raises
    ------
    OptionError
        There is something in the folder ``out``.
    DeviceError
        This system does not tell of its processes.
    """
    needs_proc()
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise OptionError(f"{out}: expected a new folder, or an empty one")
    out.mkdir(parents=True, exist_ok=True)
    with pulse() as server, midi_port() as notes, contextlib.closing(Ear()) as ear:
        midi = None if notes is None else notes.name
        environment = {} if server is None else server.environment
        show = Theatre(out / "show", ear, more, midi=midi, environment=environment)
        with contextlib.closing(show):
            yield House(show, ear, server, notes)


def report(out: Path, built: House, seed: int, told: Mapping[str, Any]) -> dict[str, Any]:
    """Write what there is to tell, and of what machine, into ``out``; returns it."""
    there = {"sound": built.pulse is not None, "midi": built.notes is not None}
    result = {**told, "seed": seed, **there, **machine()}
    (out / REPORT).write_text(json.dumps(result, indent=1))
    return result
