"""How a show stands, once a second: what the monitor's page shows beside the frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyanticip import _core
from pyanticip.vocabulary import PARAMETERS
from realtime.control.commands import Commands
from realtime.control.live_rig import LiveRig
from realtime.control.server import ControlServer
from realtime.pipeline import Pipeline
from realtime.sinks.base import trouble_of
from realtime.sinks.outputs import SENT
from realtime.status import is_writing, sink_counts

__all__ = ["health", "settable"]

_LOUDNESS = PARAMETERS.index("loudness")


def health(
    pipeline: Pipeline, commands: Commands, control: ControlServer | None, preset: str
) -> Mapping[str, Any]:
    """JSON of the state, the settings, who is heard and who hears; ``preset`` is that of the rig."""
    mixer, counters = pipeline.mixer, pipeline.front.counters()
    return {
        "state": pipeline.state,
        "mode": mixer.mode,
        "bypass": mixer.bypass,
        "settings": mixer.settings,
        "lead_ms": mixer.lead.leads[_LOUDNESS],
        "source": pipeline.kind,
        "rate": pipeline.front.timing[0],
        "lost": counters.get("lost", 0),
        "bad": sum(counters.get(name, 0) for name in ("truncated", "malformed", "alien")),
        "backend": "none" if pipeline.backend is None else pipeline.backend.name,
        "recording": is_writing(pipeline.tape),
        "presets": list(_core.PRESETS),
        "preset": commands.preset or preset,
        "senders": [(name, plays, frames) for name, plays, frames, _ in pipeline.front.senders()],
        "listens_to": commands.listens_to,
        "away": [sink.name for sink in pipeline.sinks if trouble_of(sink)],
        "sinks": sink_counts(pipeline.sinks),
        "commands": [] if control is None else [name for names in control.names for name in names],
    }


def settable(live_rig: LiveRig) -> Mapping[str, Any]:
    """JSON of what of the rig can be set, and how it stands."""
    rig = live_rig.rig
    return {
        "file": None if live_rig.file is None else live_rig.file.name,
        "outputs": live_rig.outputs(),
        "receivers": [table.url for table in rig.osc],
        "parts": {message.part: message.text for message in SENT.values()},
        "keys": [(key, takes.types, takes.limits, value) for key, takes, value in live_rig.settable()],
    }
