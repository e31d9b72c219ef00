"""The four seams of the live path, each with its registry.

What is built in stands here; somebody else's package adds a name in the entry-point group of its metadata,
and the rig and the command line know it (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from pyanticip import _core
from pyanticip.errors import OptionError

if TYPE_CHECKING:
    from realtime.sinks.base import SinkType
    from realtime.sources.base import Source
    from realtime.step.base import StepBackend
    from realtime.voice.base import Preset

__all__ = ["BACKENDS", "SINKS", "SOURCES", "VOICES", "Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name.

    Built-in ones are named as entry points are, ``module:attribute``, and imported when they are asked for.
    Another package adds its own in the entry-point ``group`` of its metadata; built-in names cannot be taken.
    """

    def __init__(self, what: str, group: str, built_in: Mapping[str, str]) -> None:
        self.what = what
        self.group = group
        self._built_in = {name: metadata.EntryPoint(name, at, group) for name, at in built_in.items()}

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names that need no other package."""
        return tuple(self._built_in)

    def __contains__(self, name: str) -> bool:
        return name in self._built_in or any(metadata.entry_points(group=self.group, name=name))

    def names(self) -> tuple[str, ...]:
        """Every name: the built-in ones in their order, then those of other packages."""
        more = {point.name for point in metadata.entry_points(group=self.group)} - set(self._built_in)
        return (*self._built_in, *sorted(more))

    def find(self, name: str) -> metadata.EntryPoint:
        """Where the thing of that name is; nothing is imported.

        :raises OptionError: none has it, or two packages do.
        """
        if name in self._built_in:
            return self._built_in[name]
        points = list(metadata.entry_points(group=self.group, name=name))
        if not points:
            raise OptionError(f"expected one of {', '.join(self.names())}, got {name!r}")
        if len(points) > 1:
            at = ", ".join(point.value for point in points)
            raise OptionError(f"{self.what} {name!r} is claimed more than once: {at}")
        return points[0]

    def load(self, name: str) -> T:
        """The thing of that name.

        :raises OptionError: as :meth:`find`, and where somebody else's package cannot be imported.
        """
        point = self.find(name)
        if name in self._built_in:
            found: T = point.load()
            return found
        try:
            found = point.load()
        except Exception as error:
            # Not our module: whatever it raises is the reader's only clue.
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise OptionError(f"{self.what} {name!r}: {point.value} cannot be imported ({reason})") from None
        return found


#: Kinds of motion capture. A name gives what makes a :class:`realtime.sources.base.Source` for one sender.
SOURCES: Registry[Callable[[], Source]] = Registry(
    "source",
    "pyanticip.sources",
    {
        **{kind: f"realtime.sources.native:{kind}" for kind in _core.PROTOCOLS},
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
