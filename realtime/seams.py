"""The four extension points of the live path, each with its registry.

Built-in implementations are listed here; other packages add names in the entry-point group of their metadata,
which the rig and the command line then accept (docs/extending.md).
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

T = TypeVar("T")


class SlowCalls:
    """Reports, once for each callee, calls in the path of every frame that are so slow that all else
    waits."""

    _SLOW_NS = 5_000_000
    # A single call slower than this is reported; below, it may just have been interrupted.
    _VERY_SLOW_NS = 100_000_000
    # A callee is reported when its score reaches this. A slow call adds 1 ...
    _MAX_SCORE = 3.0
    # ... and a quick one subtracts this, so that more than one slow call in five adds up.
    _QUICK_CREDIT = 0.25

    def __init__(self) -> None:
        self._scores: dict[object, float] = {}

    def record(self, callee: object, since_ns: int, name: str, say: Callable[[str], None]) -> int:
        """Record a call that began at ``since_ns`` of ``time.perf_counter_ns``; returns the time now."""
        now = time.perf_counter_ns()
        took = now - since_ns
        if took <= self._SLOW_NS and callee not in self._scores:
            return now
        score = self._scores.get(callee, 0.0)
        if score >= self._MAX_SCORE:
            return now
        score = score + 1.0 if took > self._SLOW_NS else max(score - self._QUICK_CREDIT, 0.0)
        self._scores[callee] = score = self._MAX_SCORE if took > self._VERY_SLOW_NS else score
        if score >= self._MAX_SCORE:
            say(f"{name} takes {took / 1e6:.0f} ms: all else waits for it")
        return time.perf_counter_ns()


class _WithDefaults:
    """Wraps an object that takes no attributes (slots, an extension type) to add missing ones."""

    def __init__(self, obj: object) -> None:
        self._object = obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._object, name)


class _Foreign:
    """An object of another package: what it raises and what it lacks becomes an OptionError of one line."""

    def __init__(self, registry: Registry[Any], point: metadata.EntryPoint) -> None:
        self._registry = registry
        self._description = f"{registry.kind} {point.name!r}: {point.value}"
        with foreign_errors(f"{self._description} cannot be imported"):
            self._object = point.load()
        if isinstance(self._object, type):  # what a function will return is not known yet
            self._check(self._object, registry.methods)

    @property
    def Config(self) -> type[BaseModel]:
        """The pydantic model of its table in a rig."""
        with foreign_errors(f"{self._description} cannot be used"):
            config: type[BaseModel] = self._object.Config
            if not (isinstance(config, type) and hasattr(config, "model_validate")):
                raise TypeError("its Config is not a pydantic model")
        return config

    def __call__(self, *args: Any) -> Any:
        """Open an instance, check it and add missing defaults."""
        with foreign_errors(f"{self._description} cannot be opened"):
            opened = self._object(*args)
        with foreign_errors(f"{self._description} cannot be used"):
            self._check(opened, (*self._registry.attributes, *self._registry.methods))
            defaults = self._registry.defaults.items()
            if missing := {name: value for name, value in defaults if not hasattr(opened, name)}:
                opened = opened if hasattr(opened, "__dict__") else _WithDefaults(opened)
                vars(opened).update(missing)  # frozen ones too
                self._check(opened, tuple(missing))
            if fault := self._registry.find_fault(opened):
                raise OptionError(f"{self._description} cannot be used ({fault})")
        return opened

    def _check(self, obj: Any, attributes: Sequence[str]) -> None:
        if missing := [name for name in attributes if not hasattr(obj, name)]:
            raise OptionError(f"{self._description} cannot be used (it has no {', '.join(missing)})")


class Registry(Generic[T]):
    """Objects of one kind by name, imported when they are loaded.

    ``built_in`` maps names to ``module:attribute``, as entry points are written. Other packages add theirs in
    the entry-point ``group`` of their metadata, under other names. What such an object opens must have
    ``attributes`` and ``methods`` (names separated by spaces); missing ``defaults`` are added. ``find_fault``
    returns what is wrong with its values, or nothing.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        built_in: Mapping[str, str],
        attributes: str,
        methods: str,
        find_fault: Callable[[Any], str] = lambda opened: "",
        defaults: Mapping[str, Any] = {},
    ) -> None:
        self.kind = kind
        self.group = group
        self.attributes, self.methods = attributes.split(), methods.split()
        self.defaults = defaults
        self.find_fault = find_fault
        self._built_in = {name: metadata.EntryPoint(name, target, group) for name, target in built_in.items()}

    @property
    def built_in(self) -> tuple[str, ...]:
        """The built-in names."""
        return tuple(self._built_in)

    def __contains__(self, name: str) -> bool:
        return name in self._built_in or any(metadata.entry_points(group=self.group, name=name))

    def names(self) -> tuple[str, ...]:
        """All names: the built-in ones in their order, then those of other packages, sorted."""
        others = {point.name for point in metadata.entry_points(group=self.group)} - set(self._built_in)
        return (*self._built_in, *sorted(others))

    def shadowed(self) -> list[metadata.EntryPoint]:
        """Entry points of other packages that have a built-in name and are therefore ignored."""
        return [point for point in metadata.entry_points(group=self.group) if point.name in self._built_in]

    def find(self, name: str) -> metadata.EntryPoint:
        """The entry point of a name; nothing is imported.

        Raises:
            OptionError: No object has this name, or those of two packages have it.
        """
        if name in self._built_in:
            return self._built_in[name]
        points = list(metadata.entry_points(group=self.group, name=name))
        if not points:
            raise OptionError(f"expected one of {', '.join(self.names())}, got {name!r}")
        if len(points) > 1:
            targets = ", ".join(point.value for point in points)
            raise OptionError(f"{self.kind} {name!r} is claimed more than once: {targets}")
        return points[0]

    def load(self, name: str) -> T:
        """Import the object of a name.

        Raises:
            OptionError: As :meth:`find`; or another package cannot be imported, or its class lacks a method.
                Opening the returned object raises it as well, if that fails or the result lacks something.
        """
        point = self.find(name)
        if name in self._built_in:
            return cast(T, point.load())
        return cast(T, _Foreign(self, point))


def _source_fault(source: Any) -> str:
    wire, ask, greet = source.wire, source.ask, source.greet
    if not _is_port(source.port):
        return f"its port is {source.port!r}, expected 1 to 65535"
    if wire not in _core.PROTOCOLS:
        return f"its wire is {wire!r}, expected one of {', '.join(_core.PROTOCOLS)}"
    if not isinstance(source.group, str | None):
        return f"its group is {source.group!r}, expected an address or None"
    if not (ask is None or (_is_pair(ask) and isinstance(ask[0], bytes) and _is_port(ask[1]))):
        return f"its ask is {ask!r}, expected a datagram of bytes and a port, or None"
    if not (greet is None or (_is_pair(greet) and all(isinstance(datagram, bytes) for datagram in greet))):
        return f"its greet is {greet!r}, expected two datagrams of bytes, or None"
    return ""


def _is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _backend_fault(backend: StepBackend) -> str:
    core: object = backend.core
    if core is None or isinstance(core, _core.MotionStream):
        return ""
    return f"its core is {core!r}, expected a MotionStream or None"


def _in_range(value: object, low: float, high: float) -> bool:
    return isinstance(value, Real) and low <= float(value) <= high


def _voice_fault(voice: Voice) -> str:
    rate, latency = voice.sample_rate, voice.latency
    if not _in_range(rate, 8000, 192_000):
        return f"its sample_rate is {rate!r}, expected 8000 to 192000"
    if not _in_range(latency, 0, rate):
        return f"its latency is {latency!r}, expected 0 to {rate:g} samples, a second"
    return ""


#: Kinds of motion capture; each name loads a factory of a :class:`realtime.sources.base.Source` for one
#: sender.
SOURCES: Registry[Callable[[], Source]] = Registry(
    "source",
    "pyanticip.sources",
    {
        **{kind: f"realtime.sources.native:{kind}" for kind in _core.PROTOCOLS},
        **{kind: f"realtime.sources.osc:{kind}" for kind in ("phone", "wek", "osc")},
    },
    "port wire native",
    "decode",
    _source_fault,
    {"group": None, "ask": None, "greet": None, "begin_anew": lambda: None},
)

#: Kinds of receivers; each name loads what opens a :class:`realtime.sinks.base.Sink` from a table of the rig.
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

#: Backends that step the model; each name loads what opens a checkpoint (its folder; None: the packaged one)
#: as a :class:`realtime.step.base.StepBackend`.
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
    _backend_fault,
)

#: Voices; each name loads what opens a :class:`realtime.voice.base.Voice` from ``[synth] options``.
VOICES: Registry[Preset] = Registry(
    "voice",
    "pyanticip.voices",
    {name: f"realtime.voice.open:PRESETS.{name}" for name in _core.PRESETS},
    "sample_rate latency position",
    "set params event fade render",
    _voice_fault,
)
