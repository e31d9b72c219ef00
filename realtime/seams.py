"""The four seams of the live path, each with its registry.

What is built in stands here; somebody else's package adds a name in the entry-point group of its metadata,
and the rig and the command line know it (docs/extending.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pyanticip import _core
from pyanticip.errors import OptionError, foreign_errors

if TYPE_CHECKING:
    from pydantic import BaseModel

    from realtime.sinks.base import SinkType
    from realtime.sources.base import Source
    from realtime.step.base import StepBackend
    from realtime.voice.base import Preset, Voice

__all__ = ["BACKENDS", "SINKS", "SOURCES", "VOICES", "Registry", "SlowCalls"]

T = TypeVar("T")


class SlowCalls:
    """Says, once for each callee, that calls on the way of every frame take so long that all else waits."""

    _LIMIT_NS = 5_000_000
    # One that is slow alone was interrupted: for less than this.
    _LONG_NS = 100_000_000
    # So many in a row; a quick one takes this from the count, so that more than one in five adds up.
    _IN_A_ROW, _QUICK = 3.0, 0.25

    def __init__(self) -> None:
        self._slow: dict[object, float] = {}

    def took(self, callee: object, since_ns: int, name: str, say: Callable[[str], None]) -> int:
        """A call that began at ``since_ns`` of ``time.perf_counter_ns`` has ended; what time it is then."""
        now = time.perf_counter_ns()
        took = now - since_ns
        if took <= self._LIMIT_NS and callee not in self._slow:
            return now
        slow = self._slow.get(callee, 0.0)
        if slow >= self._IN_A_ROW:
            return now
        slow = slow + 1.0 if took > self._LIMIT_NS else max(slow - self._QUICK, 0.0)
        self._slow[callee] = slow = self._IN_A_ROW if took > self._LONG_NS else slow
        if slow >= self._IN_A_ROW:
            say(f"{name} takes {took / 1e6:.0f} ms: all else waits for it")
        return time.perf_counter_ns()


class _Completed:
    """A thing that takes no attributes of its own (slots, an extension), to give it what it lacks."""

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thing, name)


class _Foreign:
    """A thing of somebody else's package: what it raises and what it lacks is told in one line."""

    def __init__(
        self,
        what: str,
        point: metadata.EntryPoint,
        has: Sequence[str],
        does: Sequence[str],
        defaults: Mapping[str, Any],
        wrong: Callable[[Any], str],
    ) -> None:
        self._at = f"{what} {point.name!r}: {point.value}"
        self._has = (*has, *does)
        self._defaults = defaults
        self._wrong = wrong
        with foreign_errors(f"{self._at} cannot be imported"):
            self._thing = point.load()
        if isinstance(self._thing, type):  # what a function will open is not known before
            self._check(self._thing, does)

    @property
    def Config(self) -> type[BaseModel]:
        """Its table."""
        with foreign_errors(f"{self._at} cannot be used"):
            config: type[BaseModel] = self._thing.Config
            if not hasattr(config, "model_validate"):
                raise TypeError("its Config is no pydantic model")
        return config

    def __call__(self, *args: Any) -> Any:
        """Open one."""
        with foreign_errors(f"{self._at} cannot be opened"):
            opened = self._thing(*args)
        with foreign_errors(f"{self._at} cannot be used"):
            self._check(opened, self._has)
            if lacks := {name: value for name, value in self._defaults.items() if not hasattr(opened, name)}:
                opened = opened if hasattr(opened, "__dict__") else _Completed(opened)
                vars(opened).update(lacks)  # frozen ones too
                self._check(opened, tuple(lacks))
            if wrong := self._wrong(opened):
                raise OptionError(f"{self._at} cannot be used ({wrong})")
        return opened

    def _check(self, thing: Any, has: Sequence[str]) -> None:
        if lacks := [name for name in has if not hasattr(thing, name)]:
            raise OptionError(f"{self._at} cannot be used (it has no {', '.join(lacks)})")


class Registry(Generic[T]):
    """Things of one kind by name.

    Built-in ones are named as entry points are, ``module:attribute``, and imported when they are asked for.
    Another package adds its own in the entry-point ``group`` of its metadata; built-in names cannot be taken.
    What its thing opens ``has`` these attributes, and methods for what it ``does``; where it lacks
    one of ``defaults``, it gets that; what is ``wrong`` with the values, or nothing.
    """

    def __init__(
        self,
        what: str,
        group: str,
        built_in: Mapping[str, str],
        has: str,
        does: str,
        wrong: Callable[[Any], str] = lambda opened: "",
        defaults: Mapping[str, Any] = {},
    ) -> None:
        self.what = what
        self._defaults = defaults
        self._wrong = wrong
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

    def shadowed(self) -> list[metadata.EntryPoint]:
        """Where other packages name something as what is built in, which plays."""
        return [point for point in metadata.entry_points(group=self.group) if point.name in self._built_in]

    def find(self, name: str) -> metadata.EntryPoint:
        """Where the thing of that name is; nothing is imported.

        Raises:
            OptionError: none has it, or two packages do.
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

        Raises:
            OptionError: as :meth:`find`, and where somebody else's package cannot be imported or its class
                lacks a method; so does what is loaded of theirs, where it cannot be opened or lacks more.
        """
        point = self.find(name)
        if name in self._built_in:
            return cast(T, point.load())
        return cast(T, _Foreign(self.what, point, self._has, self._does, self._defaults, self._wrong))


def _wrong_source(source: Source) -> str:
    port, wire = source.port, source.wire
    if not (isinstance(port, int) and 1 <= port <= 65535):
        return f"its port is {port!r}, expected 1 to 65535"
    if wire not in _core.PROTOCOLS:
        return f"its wire is {wire!r}, expected one of {', '.join(_core.PROTOCOLS)}"
    return ""


def _wrong_backend(backend: StepBackend) -> str:
    core: object = backend.core
    if core is None or isinstance(core, _core.MotionStream):
        return ""
    return f"its core is {core!r}, expected a MotionStream or None"


def _within(value: object, low: float, high: float) -> bool:
    return isinstance(value, Real) and low <= float(value) <= high


def _wrong_voice(voice: Voice) -> str:
    rate, latency = voice.sample_rate, voice.latency
    if not _within(rate, 8000, 192_000):
        return f"its sample_rate is {rate!r}, expected 8000 to 192000"
    if not _within(latency, 0, rate):
        return f"its latency is {latency!r}, expected 0 to {rate:g} samples, a second"
    return ""


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
    _wrong_source,
    {"group": None, "ask": None, "greet": None, "begin_anew": lambda: None},
)

#: Kinds of receivers. A name gives what opens a :class:`realtime.sinks.base.Sink` from a table of the rig.
SINKS: Registry[SinkType] = Registry(
    "sink",
    "pyanticip.sinks",
    {
        "osc": "realtime.sinks.osc:OscSink",
        "midi": "realtime.sinks.midi.sink:MidiSink",
        "midi-clock": "realtime.sinks.midi.clock:ClockSink",
        "link": "realtime.sinks.link:LinkSink",
    },
    "name",
    "announce send counters close",
    defaults={"trouble": ""},
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
    "name description manifest hidden codes why core",
    "step imagine reset prewarm steer close",
    _wrong_backend,
)

#: Voices. A name gives what opens a :class:`realtime.voice.base.Voice` from ``[synth] options``.
VOICES: Registry[Preset] = Registry(
    "voice",
    "pyanticip.voices",
    {name: f"realtime.voice.open:PRESETS.{name}" for name in _core.PRESETS},
    "sample_rate latency position",
    "set params event fade render",
    _wrong_voice,
)
