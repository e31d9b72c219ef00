"""The four seams of the live path, each with its registry.

What is built in stands here; somebody else's package adds a name in the entry-point group of its metadata,
and the rig and the command line know it (docs/extending.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError, one_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from realtime.sinks.base import SinkType
    from realtime.sources.base import Source
    from realtime.step.base import StepBackend
    from realtime.voice.base import Preset

__all__ = ["BACKENDS", "SINKS", "SOURCES", "VOICES", "Registry"]

T = TypeVar("T")


class _Foreign:
    """A thing of somebody else's package: what it raises and what it lacks is told in one line."""

    def __init__(
        self, what: str, point: metadata.EntryPoint, has: Sequence[str], does: Sequence[str]
    ) -> None:
        self._at = f"{what} {point.name!r}: {point.value}"
        self._has = (*has, *does)
        with self._told("cannot be imported"):
            self._thing = point.load()
        if isinstance(self._thing, type):  # what a function will open is not known before
            self._check(self._thing, does)

    @property
    def Config(self) -> type[BaseModel]:
        """Its table."""
        with self._told("cannot be used"):
            config: type[BaseModel] = self._thing.Config
            if not hasattr(config, "model_validate"):
                raise TypeError("its Config is no pydantic model")
        return config

    def __call__(self, *given: Any) -> Any:
        """Open one."""
        with self._told("cannot be opened"):
            opened = self._thing(*given)
        self._check(opened, self._has)
        return opened

    def _check(self, thing: Any, has: Sequence[str]) -> None:
        if lacks := [name for name in has if not hasattr(thing, name)]:
            raise OptionError(f"{self._at} cannot be used (it has no {', '.join(lacks)})")

    @contextlib.contextmanager
    def _told(self, why: str) -> Iterator[None]:
        try:
            yield
        except MotionError:
            raise
        except Exception as error:
            # Not our module: whatever it raises is the reader's only clue.
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise OptionError(f"{self._at} {why} ({reason})") from None


class Registry(Generic[T]):
    """Things of one kind by name.

    Built-in ones are named as entry points are, ``module:attribute``, and imported when they are asked for.
    Another package adds its own in the entry-point ``group`` of its metadata; built-in names cannot be taken.
    What its thing opens ``has`` these attributes, and methods for what it ``does``.
    """

    def __init__(self, what: str, group: str, built_in: Mapping[str, str], has: str, does: str) -> None:
        self.what = what
        self.group = group
        self._has, self._does = has.split(), does.split()
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

        :raises OptionError: as :meth:`find`, and where somebody else's package cannot be imported or its
            class lacks a method; so does what is loaded of theirs, where it cannot be opened or lacks more.
        """
        point = self.find(name)
        thing = point.load() if name in self._built_in else _Foreign(self.what, point, self._has, self._does)
        return cast(T, thing)


#: Kinds of motion capture. A name gives what makes a :class:`realtime.sources.base.Source` for one sender.
SOURCES: Registry[Callable[[], Source]] = Registry(
    "source",
    "pyanticip.sources",
    {
        **{kind: f"realtime.sources.native:{kind}" for kind in _core.PROTOCOLS},
        **{kind: f"realtime.sources.osc:{kind}" for kind in ("phone", "wek", "osc")},
    },
    "port wire native",
    "decode",
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
    "name",
    "announce send counters close",
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
    "name told manifest hidden codes why core",
    "step imagine reset prewarm steer close",
)

#: Voices. A name gives what opens a :class:`realtime.voice.base.Voice` from ``[synth] options``.
VOICES: Registry[Preset] = Registry(
    "voice",
    "pyanticip.voices",
    {name: f"realtime.voice.open:PRESETS.{name}" for name in _core.PRESETS},
    "sample_rate latency position",
    "set params event fade render",
)
