"""The health of a show, which the monitor displays beside the frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyanticip import _core
from pyanticip.vocabulary import PARAMETERS
from realtime.control.commands import Commands
from realtime.control.live_rig import LiveRig
from realtime.control.server import ControlServer
from realtime.pipeline import Pipeline
from realtime.protocols import lost_frames
from realtime.sinks.outputs import MESSAGES
from realtime.status import is_writing, sink_counts, sink_troubles

_LOUDNESS = PARAMETERS.index("loudness")
# A sender that has sent nothing for this long is gone.
_GONE_NS = 2_000_000_000


def health(
    pipeline: Pipeline, commands: Commands, control: ControlServer | None, preset: str
) -> Mapping[str, Any]:
    """State, settings, senders and sinks of a show, as JSON values; ``preset`` is the rig's.

    ``senders`` has (name, whether it plays, good frames, seconds since it has been gone or 0) each; ``away``
    the sinks that cannot be reached.
    """
    mixer, counters = pipeline.mixer, pipeline.front.counters()
    now = pipeline.clock.now_ns()
    senders = [
        (name, plays, frames, (now - last) // 1_000_000_000 if now - last >= _GONE_NS else 0)
        for name, plays, frames, last in pipeline.front.senders()
    ]
    is_receiving = any(plays and not gone_s for _, plays, _, gone_s in senders)
    return {
        "state": pipeline.state,
        "mode": mixer.mode,
        "bypass": mixer.bypass,
        "settings": mixer.settings,
        "lead_ms": mixer.lead.leads[_LOUDNESS],
        "source": pipeline.source,
        "rate": pipeline.front.timing[0] if is_receiving else None,
        "lost": lost_frames(counters),
        "bad": sum(counters.get(name, 0) for name in ("truncated", "malformed", "alien")),
        "backend": "none" if pipeline.backend is None else pipeline.backend.name,
        "recording": is_writing(pipeline.tape),
        "presets": list(_core.PRESETS),
        "preset": commands.preset or preset,
        "senders": senders,
        "listens_to": commands.listens_to,
        "away": [name for name, why in sink_troubles(pipeline.sinks).items() if why],
        "sinks": sink_counts(pipeline.sinks),
        "commands": [] if control is None else [name for names in control.names for name in names],
    }


def settable(live_rig: LiveRig) -> Mapping[str, Any]:
    """The keys of the rig that can be set while the show plays, with their values, as JSON values."""
    rig = live_rig.rig
    parts = Counter(message.part for message in MESSAGES.values())
    return {
        "file": None if live_rig.file is None else live_rig.file.name,
        "outputs": live_rig.outputs(),
        "receivers": [table.url for table in rig.osc],
        "parts": {message.part: message.text for message in MESSAGES.values() if parts[message.part] == 1},
        "keys": [(key, control.types, control.limits, value) for key, control, value in live_rig.settable()],
    }
