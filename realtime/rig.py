"""The rig: one frozen tree that says what listens, what plays, and how.

Precedence: command line, then the rig file (TOML), then what is built in. Unknown keys are refused with a
suggestion; every error is one line that names the file and the key.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from pyanticip.controls import NEUTRAL, EventTrigger, Range, Smoothing
from pyanticip.errors import OptionError, RigError, suggestion
from pyanticip.last_moment import BEAT_LEAD_MS, LastMoment
from pyanticip.motion.options import ReadingOptions
from pyanticip.options import Options, host_port, option
from pyanticip.vocabulary import CANONICAL_JOINTS, EVENTS, PARAMETERS
from realtime.mapping.performer import Performer, Reach

__all__ = ["PORTS", "Rig", "load_rig", "recorded_rig", "template"]

SourceKind = Literal["mocopi", "vmc", "msgpack"]
#: Where each kind of source listens unless told otherwise.
PORTS = {"mocopi": 12351, "vmc": 39539, "msgpack": 12352}

Part = Literal["frame", "scalars", "param", "params", "event", "field", "plan", "status"]
#: What an OSC bundle is made of, in order.
PARTS: tuple[Part, ...] = ("frame", "scalars", "param", "params", "event", "field", "plan", "status")

Port = Annotated[int, Field(ge=1, le=65535)]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(ge=0.0, le=3600.0)]


class SourceRig(ReadingOptions):
    """Where motion comes from. Loopback unless ``host`` says otherwise (0.0.0.0: every interface).

    ``from`` names the one sender that is heard (``host`` or ``host:port``); ``buffer_ms`` trades latency for
    a regular pace (see :class:`realtime.playout.Playout`).
    """

    model_config = ConfigDict(populate_by_name=True)

    kind: SourceKind = "mocopi"
    host: str = "127.0.0.1"
    port: Port | None = None
    sender: str | None = Field(default=None, alias="from", min_length=1)
    buffer_ms: Literal["auto"] | Annotated[float, Field(ge=0.0, le=100.0)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, given: object) -> object:
        return source_table(given) if isinstance(given, str) else given

    @property
    def listen(self) -> tuple[str, int]:
        """The address to bind, with the kind's usual port where none is given."""
        return self.host, self.port or PORTS[self.kind]


BackendKind = Literal["auto", "onnx", "torch", "cuda-graph"]


class ModelRig(Options):
    """The checkpoint that steps. ``enabled = false`` plays the scalars alone."""

    enabled: bool = option("Without: the seven scalars play alone.", True)
    checkpoint: str | None = option("Another model than the built-in one (a folder).", None, metavar="PATH")
    backend: BackendKind = option("What steps the model.", "auto")
    budget_ms: Annotated[float, Field(gt=0.0, le=1000.0)] = 15.0


class SmoothingRig(Options):
    """Smoothing of one parameter; see :class:`pyanticip.controls.Smoothing`."""

    kind: Literal["spring", "one-euro", "none"] = "spring"
    half_life: Annotated[float, Field(gt=0.0, le=60.0)] = 0.02
    min_cutoff: Annotated[float, Field(gt=0.0, le=1000.0)] = 2.0
    beta: Annotated[float, Field(ge=0.0, le=1000.0)] = 4.0

    def build(self) -> Smoothing:
        """The setting that :class:`pyanticip.controls.Smoother` takes."""
        return Smoothing(self.kind, self.half_life, self.min_cutoff, self.beta)


class RangeRig(Options):
    """Range and curve of one parameter at one target."""

    low: Annotated[float, Field(ge=-1e30, le=1e30)] = 0.0
    high: Annotated[float, Field(ge=-1e30, le=1e30)] = 1.0
    curve: Literal["linear", "exponential", "power"] = "linear"
    exponent: Annotated[float, Field(gt=0.0, le=100.0)] = 2.0

    @model_validator(mode="after")
    def _makes_sense(self) -> RangeRig:
        try:
            self.build()
        except OptionError as error:
            raise ValueError(str(error)) from None
        return self

    def build(self) -> Range:
        """The mapping itself."""
        return Range(self.low, self.high, self.curve, self.exponent)


def _as_address(value: object) -> object:
    """An address is a string, or a list of an address and what stands before the value."""
    return (value,) if isinstance(value, str) else value


Address = Annotated[tuple[str | int | float, ...], BeforeValidator(_as_address)]


class OscRig(Options):
    """One OSC receiver. ``addresses`` renames parts, ``ranges`` maps parameters, ``send`` chooses parts.

    ``HOST:PORT`` stands for a receiver with everything else built in.
    """

    host: str = "127.0.0.1"
    port: Port = 9000
    prefix: str = "/anticip"
    send: tuple[Part, ...] = PARTS
    addresses: dict[str, Address] = {}
    ranges: dict[str, RangeRig] = {}
    max_rate: Annotated[float, Field(gt=0.0, le=1000.0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, given: object) -> object:
        return dict(zip(("host", "port"), host_port(given), strict=True)) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _known_names(self) -> OscRig:
        if self.prefix and not self.prefix.startswith("/"):
            raise ValueError(f"prefix: expected an address that starts with '/', got {self.prefix!r}")
        known = ("frame", "scalars", "params", "status", *PARAMETERS, *EVENTS)
        for name, address in self.addresses.items():
            _known("addresses", name, known)
            if not address or not isinstance(address[0], str) or not address[0].startswith("/"):
                raise ValueError(f"addresses.{name}: expected an address that starts with '/', got {address}")
        for name in self.ranges:
            _known("ranges", name, PARAMETERS)
        return self


class EventsRig(Options):
    """When events are announced; see :class:`pyanticip.last_moment.LastMoment`, and for the other rule
    :class:`pyanticip.controls.EventTrigger`."""

    rule: Literal["last-moment", "reach"] = "last-moment"
    lead_ms: Annotated[float, Field(ge=0.0, le=400.0)] = BEAT_LEAD_MS
    threshold: dict[str, Unit] = {}
    refractory: dict[str, Seconds] = {}
    theta: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8
    max_buffer: Annotated[int, Field(ge=1, le=100)] = 5
    reach_ms: Annotated[float, Field(ge=20.0, le=500.0)] = 200.0
    sure: Unit = 0.95

    @model_validator(mode="after")
    def _known_names(self) -> EventsRig:
        for table, names in (("threshold", self.threshold), ("refractory", self.refractory)):
            for name in names:
                _known(table, name, EVENTS)
        return self

    def build(self) -> EventTrigger:
        """The rule itself."""
        options: dict[str, Any] = {
            "threshold": self.threshold,
            "refractory": self.refractory,
            "theta": self.theta,
            "max_buffer": self.max_buffer,
            "reach_ms": self.reach_ms,
        }
        if self.rule == "reach":
            return EventTrigger(**options)
        return LastMoment(lead_ms=self.lead_ms, sure=self.sure, **options)


class SilenceRig(Options):
    """What happens while the source is silent; see :class:`pyanticip.controls.Presence`."""

    hold: Seconds = 1.0
    fade: Annotated[float, Field(gt=0.0, le=3600.0)] = 2.0
    catch_up: Seconds = 0.4
    neutral: dict[str, Unit] = {}

    @model_validator(mode="after")
    def _known_names(self) -> SilenceRig:
        for name in self.neutral:
            _known("neutral", name, PARAMETERS)
        return self

    def neutral_vector(self) -> tuple[float, ...]:
        """The eight neutral values in order."""
        return tuple(self.neutral.get(n, d) for n, d in zip(PARAMETERS, NEUTRAL, strict=True))


Degrees = Annotated[float, Field(ge=0.0, le=30.0)]
_JOINTS = len(CANONICAL_JOINTS)
Jitter = Annotated[tuple[Degrees, ...], Field(min_length=_JOINTS, max_length=_JOINTS)]


class PerformerRig(Options):
    """Who plays: how much the suit trembles, and the range of the parameters that are stretched.

    ``noise`` is the jitter of the 22 canonical joints in degrees; ``loudness`` and ``brightness`` are still,
    low and high as the model says them. `pyanticip calibrate` writes all three.
    """

    enabled: bool = True
    steady: bool = True
    frozen: bool = False
    noise: Jitter | None = None
    loudness: tuple[Unit, Unit, Unit] | None = None
    brightness: tuple[Unit, Unit, Unit] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> PerformerRig:
        try:
            self.reaches()
        except OptionError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def jitter(self) -> list[float] | None:
        """The noise in radians."""
        return None if self.noise is None else [math.radians(degrees) for degrees in self.noise]

    def reaches(self) -> dict[str, Reach]:
        """The ranges that are known."""
        given = {"loudness": self.loudness, "brightness": self.brightness}
        return {name: Reach(*values) for name, values in given.items() if values is not None}

    def build(self) -> Performer | None:
        """What stretches the parameters; None where it is not wanted."""
        return Performer(self.reaches(), frozen=self.frozen) if self.enabled else None


class ControlRig(Options):
    """The performer's OSC control. Replies go to the sender, or to ``reply_port`` on the sender's host."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 9010
    reply_port: Port | None = None


class SynthRig(Options):
    """The built-in voice, a process of its own that is one more OSC target."""

    enabled: bool = option("Play the built-in voice.", False)
    port: Port | None = None
    device: str | int | None = None


class Rig(Options):
    """The whole configuration of a performance."""

    source: SourceRig = option(
        f"{', '.join(PORTS)}, with an optional ://HOST:PORT to listen at.",
        SourceRig(),
        metavar="KIND[://HOST:PORT]",
    )
    model: ModelRig = ModelRig()
    lead_ms: Annotated[float, Field(ge=0.0, le=400.0)] = option("How far ahead to play, 0..400.", 0.0)
    gain: Annotated[float, Field(ge=0.0, le=4.0)] = 1.0
    smoothing: dict[str, SmoothingRig] = {}
    osc: tuple[OscRig, ...] = option("OSC receiver; repeatable.", (OscRig(),), metavar="HOST:PORT")
    events: EventsRig = EventsRig()
    silence: SilenceRig = SilenceRig()
    performer: PerformerRig = PerformerRig()
    control: ControlRig = ControlRig()
    synth: SynthRig = SynthRig()
    record: str | None = option("Record to a new .anticip file.", None, metavar="PATH")
    mapping: str | None = option("Taught outputs: what `teach fit` wrote.", None, metavar="PATH")
    teach: str | None = option(
        "Let /anticip/control/teach work on a project (made if it is not there).", None, metavar="PROJECT"
    )
    realtime_priority: bool = True
    _file: Path | None = PrivateAttr(default=None)

    @property
    def file(self) -> Path | None:
        """The file it was read from."""
        return self._file

    @model_validator(mode="after")
    def _known_names(self) -> Rig:
        for name in self.smoothing:
            _known("smoothing", name, (*PARAMETERS, "default"))
        return self

    def smoothings(self) -> list[Smoothing]:
        """One setting per parameter; ``smoothing.default`` stands for those without their own."""
        default = self.smoothing.get("default", SmoothingRig())
        return [self.smoothing.get(name, default).build() for name in PARAMETERS]


def source_table(text: str) -> dict[str, Any]:
    """The ``source`` table of ``KIND[://HOST:PORT]``.

    Raises
    ------
    ValueError
        An unknown kind, or no address.
    """
    kind, mark, where = text.partition("://")
    if kind not in PORTS:
        raise ValueError(f"expected {', '.join(PORTS)}, got {kind!r}{suggestion(kind, PORTS)}")
    return {"kind": kind, **(dict(zip(("host", "port"), host_port(where), strict=True)) if mark else {})}


def recorded_rig(path: str | Path) -> dict[str, Any]:
    """What shaped the sound of a recording, as a tree: all of its rig but receivers, ports and devices.

    Empty for what is no recording. Raises FormatError for a damaged one.
    """
    from pyanticip.motion.recording import is_recording, read_recording

    try:
        with Path(path).open("rb") as file:
            if not is_recording(file.read(16)):
                return {}
    except OSError:
        # Told by whoever is going to read it.
        return {}
    rig = read_recording(path).header.get("rig")
    if not isinstance(rig, dict):
        return {}
    heard = ("model", "lead_ms", "gain", "smoothing", "events", "silence", "mapping", "performer")
    tree = {key: rig[key] for key in heard if rig.get(key) is not None}
    source = rig.get("source")
    if isinstance(source, dict):
        tree["source"] = {key: source[key] for key in ("buffer_ms", "from") if source.get(key) is not None}
    return tree


def load_rig(
    path: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    recorded: Mapping[str, Any] | None = None,
) -> Rig:
    """The rig of a TOML file (or the built-in one) with the command line's ``overrides`` on top.

    ``overrides`` is a tree like the rig's, whose source may be typed (``mocopi://0.0.0.0:12351``); tables are
    merged, everything else replaces. A source of another kind on the command line does not inherit the
    file's port. ``recorded`` (see :func:`recorded_rig`) stands below both. Raises :class:`RigError`.
    """
    tree: dict[str, Any] = dict(recorded or {})
    where = "the recording" if recorded else "command line"
    if path is not None:
        where = str(path)
        try:
            tree = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise RigError(f"{path}: not valid TOML: {error}") from None
        except UnicodeDecodeError:
            raise RigError(f"{path}: not a text file in UTF-8") from None
    over = dict(overrides or {})
    if isinstance(over.get("source"), str):
        over["source"] = source_table(over["source"])
    new = over.get("source")
    old = tree.get("source")
    if new and isinstance(old, dict) and new.get("kind", old.get("kind")) != old.get("kind", "mocopi"):
        old.pop("port", None)
    _merge(tree, over)
    try:
        rig = Rig.model_validate(tree)
    except ValidationError as error:
        raise RigError(f"{where}: {_one_line(error)}") from None
    rig._file = None if path is None else Path(path)
    return rig


def _merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = dict(value) if isinstance(value, Mapping) else value


def _known(table: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{table}.{name}: unknown name{_near(name, known)}")


def _near(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(known)}"


def _one_line(error: ValidationError) -> str:
    """The first problem, with its key and, for an unknown key, the nearest known one."""
    problems = error.errors(include_url=False)
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    loc = first["loc"]
    key = ".".join(str(part) for part in loc) or "rig"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key{_near(str(loc[-1]), _keys_at(loc[:-1]))}{more}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return (f"{key}.{message}" if loc else message) + more
    given = first["input"]
    return f"{key}: {message[:1].lower()}{message[1:]}, got {given!r}{more}"


def _keys_at(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """The field names of the table at a location of the tree."""
    table: type[BaseModel] = Rig
    for part in loc:
        field = table.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            table = next((t for t in _tables(field.annotation)), table)
    return tuple(table.model_fields)


def _tables(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [t for a in getattr(annotation, "__args__", ()) for t in _tables(a)]


def template() -> str:
    """The commented rig that ``pyanticip rig init`` writes: every key at its built-in value."""
    return _TEMPLATE


_TEMPLATE = """\
# A rig for pyanticip. Every key may be left out; what stands here is what is built in.
lead_ms = 0               # how far ahead the parameters speak, 0 to 400
gain = 1.0                # on loudness
realtime_priority = true  # run before ordinary programs where the system allows it
# mapping = "mine/mapping.safetensors"   # what `pyanticip teach fit` wrote
# teach = "mine"          # a teaching project that /anticip/control/teach works on

[source]
kind = "mocopi"           # mocopi, vmc or msgpack
host = "127.0.0.1"        # 0.0.0.0 to hear a suit on the network
port = 12351              # vmc: 39539, msgpack: 12352
buffer_ms = 0             # 0 to 100, or "auto": bundles leave that much later and at an even pace
# from = "192.168.1.23"   # the one sender that is heard; otherwise the first that comes
# up = "z"                # of a file that is replayed or rendered: the axis that is up,
# rest = 0                # the frame in which it stands straight or in a T-pose,
# joints = "map.toml"     # which joint is which (`pyanticip info FILE --joints`),
# skeleton = "05.asf"     # and the skeleton of an AMC file

[model]
enabled = true            # false: the seven scalars alone
backend = "auto"          # auto, onnx, torch or cuda-graph
budget_ms = 15.0          # a step slower than this counts as late
# checkpoint = "folder"   # another checkpoint than the built-in one

# spring: half_life in seconds. one-euro: min_cutoff in Hz, beta. none.
[smoothing.default]
kind = "spring"
half_life = 0.02
# [smoothing.pan]
# kind = "one-euro"
# min_cutoff = 1.0
# beta = 4.0

# One block for each receiver.
[[osc]]
host = "127.0.0.1"
port = 9000
prefix = "/anticip"
send = ["frame", "scalars", "param", "params", "event", "field", "plan", "status"]
# max_rate = 20           # bundles a second for a slow receiver: it gets the newest
# addresses.pitch = "/synth/freq"
# addresses.loudness = ["/n_set", 1000, "amp"]   # an address and what stands before the value
# ranges.pitch = { low = 55, high = 880, curve = "exponential" }

[events]
rule = "last-moment"      # beats wait until lead_ms leaves no more time; reach: until due within reach_ms
lead_ms = 100             # last-moment: how far ahead beats are announced at least, 0 to 400
sure = 0.95               # last-moment: a beat as likely as this is announced before
theta = 0.8               # gate threshold, falling to half while waiting
max_buffer = 5            # frames an event may wait for the gate
reach_ms = 200            # phrases, and beats by reach: announced when due within this time or the lead + 100
# threshold.onset = 0.4   # reach: 0.5
# refractory.onset = 0.12

[silence]
hold = 1.0                # seconds
fade = 2.0
catch_up = 0.4
# neutral.loudness = 0.0

[performer]
enabled = true            # loudness and brightness follow the performer's range
steady = true             # who stands still, stands still: the suit's noise is learned and held
frozen = false            # true: what is not calibrated is learned no further
# loudness = [0.02, 0.06, 0.5]   # still, low, high: `pyanticip calibrate` writes these, and the noise
# brightness = [0.02, 0.06, 0.5]

[control]
enabled = true
host = "127.0.0.1"
port = 9010
# reply_port = 9011       # replies go back to the sender's own port unless this is set

[synth]
enabled = false
# port = 57140            # any free port unless this is set
# device = 0              # number or name of the audio device
"""
