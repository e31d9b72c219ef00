"""The four seams of the live path, each with its registry.

What is built in stands here; somebody else's package adds a name in the entry-point group of its metadata,
and the rig and the command line know it (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyanticip import _core
from realtime.registry import Registry

if TYPE_CHECKING:
    from realtime.sinks.base import SinkType
    from realtime.sources.base import Source
    from realtime.step.base import StepBackend
    from realtime.voice.base import Preset

__all__ = ["BACKENDS", "SINKS", "SOURCES", "VOICES"]

#: Kinds of motion capture. A name gives what makes a :class:`realtime.sources.base.Source` for one sender.
SOURCES: Registry[Callable[[], Source]] = Registry(
    "source",
    "pyanticip.sources",
    {
        **{kind: f"realtime.sources.native:{kind}" for kind in _core.PROTOCOLS},
        "vrchat": "realtime.sources.trackers:vrchat",
        **{kind: f"realtime.sources.osc:{kind}" for kind in ("phone", "wek", "osc")},
    },
)

#: Kinds of receivers. A name gives what opens a :class:`realtime.sinks.base.Sink` from a table of the rig.
SINKS: Registry[SinkType] = Registry(
    "sink",
    "pyanticip.sinks",
    {
        "osc": "realtime.sinks.osc:OscSink",
        "midi": "realtime.sinks.midi.sink:MidiSink",
        "link": "realtime.sinks.link:LinkSink",
    },
)

#: What steps the model. A name gives what opens a checkpoint (its folder; None: the one that comes with the
#: package) as a :class:`realtime.step.base.StepBackend`.
BACKENDS: Registry[Callable[[str | Path | None], StepBackend]] = Registry(
    "backend",
    "pyanticip.backends",
    {
        "rust": "realtime.step.open:open_rust",
        "torch": "realtime.step.torch:TorchBackend",
        "cuda-graph": "realtime.step.torch:CudaGraphBackend",
    },
)

#: Voices. A name gives what opens a :class:`realtime.voice.base.Voice` from ``[synth] options``.
VOICES: Registry[Preset] = Registry(
    "voice", "pyanticip.voices", {name: f"realtime.voice.open:PRESETS.{name}" for name in _core.PRESETS}
)
