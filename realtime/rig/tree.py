"""The configuration tree of a performance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    ValidationError,
    create_model,
    model_validator,
)

from pyanticip.memory.cues import Cue
from pyanticip.options import Options, PathText, host_port, option
from realtime.config import LeadMs, Port, one_problem, registered
from realtime.rig.mapping import EventsRig, MemoryRig, PerformerRig, Shapes, SilenceRig, Smoothings
from realtime.rig.performers import PerformerTable, check_performers, repeated_cue
from realtime.rig.source import ModelRig, SourceRig
from realtime.seams import SINKS, SOURCES, VOICES
from realtime.sinks.config import ENSEMBLE, PARTS, OscConfig, Sendable
from realtime.sinks.midi.config import MidiConfig
from realtime.sockets import is_loopback


class ControlRig(Options):
    """The remote control by OSC. Replies go to the sender, or to ``reply_port`` at the sender's host."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 9010
    reply_port: Port | None = None


class OscQueryRig(Options):
    """The OSCQuery server, which describes outputs and commands. On loopback unless ``host`` says otherwise.

    ``name`` is its name in the network; ``send`` selects the offered outputs, as in a receiver's table.
    """

    enabled: bool = option("Serve OSCQuery, so that clients discover every address.", False)
    host: str = "127.0.0.1"
    port: Port = 9020
    name: Annotated[str, Field(min_length=1, max_length=60)] = "pyanticip"
    send: tuple[Sendable, ...] = (*PARTS, ENSEMBLE)


class MonitorRig(Options):
    """Address of the monitor's page: on this machine only, unless ``host`` says otherwise.

    From other machines it needs ``token``, which is generated at every start if none is given. The text
    ``HOST:PORT`` may stand for the table.
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    port: Port = 8765
    token: str = Field(default="", pattern="^[A-Za-z0-9_-]*$", max_length=64)

    @model_validator(mode="before")
    @classmethod
    def _parse_text(cls, value: object) -> object:
        return monitor_table(value) if isinstance(value, str) else value

    @property
    def is_local(self) -> bool:
        """Whether it can be reached from this machine only."""
        return is_loopback(self.host)


def monitor_table(text: str) -> dict[str, Any]:
    """The ``monitor`` table of the text ``HOST:PORT``, or ``on`` for the default address.

    Raises:
        ValueError: Not an address.
    """
    address = {} if text == "on" else dict(zip(("host", "port"), host_port(text), strict=True))
    return {"enabled": True, **address}


def _strict(config: type[BaseModel]) -> type[BaseModel]:
    """The same model, refusing unknown keys unless it is configured to allow them."""
    if config.model_config.get("extra") in ("allow", "forbid") or issubclass(config, RootModel):
        return config
    return create_model(config.__name__, __base__=config, __cls_kwargs__={"extra": "forbid"})


def _config(config: type[BaseModel], values: Mapping[str, Any], *key: str) -> BaseModel:
    """Validate a table of another package; errors name it by its key in the rig."""
    try:
        _strict(config).model_validate(values)
        return config.model_validate(values)
    except ValidationError as error:
        raise ValueError(one_problem(error, config, *key)) from None


class SinkRig(Options):
    """A receiver of any registered kind: ``kind``, and the keys of that kind's own table."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, registered(SINKS)]

    @model_validator(mode="after")
    def _check_values(self) -> SinkRig:
        self.config()
        return self

    def config(self) -> BaseModel:
        """The validated table of this kind."""
        return _config(SINKS.load(self.kind).Config, self.model_extra or {})


class SynthRig(Options):
    """The built-in voice, a process that receives OSC. ``options`` are those of the preset."""

    enabled: bool = option("Play the built-in voice.", False)
    port: Port | None = None
    device: str | int | None = None
    preset: Annotated[str, registered(VOICES)] = option(
        "Preset of the built-in voice; `pyanticip presets` lists them.  [default: default]",
        "default",
        names="realtime.seams:VOICES",
    )
    samples: PathText | None = option(
        "Folder of samples for the preset granular.", None, metavar="FOLDER", exists=True
    )
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def voice_options(self) -> dict[str, Any]:
        """Options of the voice, including the folder of samples."""
        return self.options if self.samples is None else {**self.options, "samples": self.samples}

    @model_validator(mode="after")
    def _check_values(self) -> SynthRig:
        # Defaults of built-in voices are valid, and importing their module is slow.
        if self.preset not in VOICES.built_in or self.voice_options:
            self.config()
        return self

    def config(self) -> BaseModel:
        """The validated table of the preset."""
        return _config(VOICES.load(self.preset).Config, self.voice_options, "options")


class Rig(Options):
    """The whole configuration of a performance."""

    source: SourceRig = option(
        f"{', '.join(SOURCES.built_in)}, or auto: whoever sends to one of their ports; with an optional"
        " ://HOST or ://HOST:PORT to listen at.  [default: mocopi://127.0.0.1]",
        SourceRig(),
        metavar="KIND[://HOST[:PORT]]",
        names="realtime.seams:SOURCES",
    )
    model: ModelRig = ModelRig()
    memory: MemoryRig = MemoryRig()
    cue: tuple[Cue, ...] = ()
    lead_ms: LeadMs = option(
        "How far ahead parameters are read: auto, or 0..400 ms.  [default: auto]", "auto", metavar="auto|MS"
    )
    gain: Annotated[float, Field(ge=0.0, le=4.0)] = 1.0
    smoothing: Smoothings = {}
    shape: Shapes = {}
    osc: tuple[OscConfig, ...] = option(
        "OSC receiver; repeatable.  [default: 127.0.0.1:9000]", (OscConfig(),), metavar="[tcp://]HOST:PORT"
    )
    midi: MidiConfig = MidiConfig()
    sink: tuple[SinkRig, ...] = ()
    events: EventsRig = EventsRig()
    silence: SilenceRig = SilenceRig()
    performer: PerformerRig = PerformerRig()
    #: ``[[performer]]`` in a file.
    performers: tuple[PerformerTable, ...] = ()
    control: ControlRig = ControlRig()
    oscquery: OscQueryRig = OscQueryRig()
    monitor: MonitorRig = option(
        "The monitor's page, to open in a browser.  [default address: 127.0.0.1:8765]",
        MonitorRig(),
        metavar="[HOST:PORT]",
        alone="on",
    )
    synth: SynthRig = SynthRig()
    record: PathText | None = option("Record into a new .anticip file.", None, metavar="PATH")
    record_spare: PathText | None = None
    mapping: PathText | None = option("Mapping file written by `teach fit`.", None, metavar="PATH")
    teach: PathText | None = option(
        "Project to teach over OSC (/anticip/control/teach); created if missing.", None, metavar="PROJECT"
    )
    realtime_priority: bool = True
    spin: bool = option("Poll instead of sleeping before each datagram: less latency, more CPU.", False)
    _file: Path | None = PrivateAttr(default=None)
    _as_loaded: tuple[Rig | None, Rig] | None = PrivateAttr(default=None)
    _performer_name: str = PrivateAttr(default="")
    _only_records: bool = PrivateAttr(default=False)

    @model_validator(mode="before")
    @classmethod
    def _read_performers(cls, value: object) -> object:
        """Read a list ``performer`` as ``performers``; a table is the settings of a single one."""
        if not isinstance(value, Mapping) or not isinstance(
            performers := value.get("performer"), list | tuple
        ):
            return value
        return {**{key: v for key, v in value.items() if key != "performer"}, "performers": performers}

    @model_validator(mode="after")
    def _check_tables(self) -> Rig:
        check_performers(self.performers, self.source, self.osc)
        # Checked here because a source on the command line, or a performer's, inherits those of the file.
        sources = {f"performer.{one.name}": one.source_for(self.source) for one in self.performers}
        for key, source in (sources or {"source": self.source}).items():
            if source.kind == "osc" and not source.addresses:
                raise ValueError(
                    f'{key}.addresses: an osc source needs them, by joint: left_hand = "/phone/quat"'
                    " in [source.addresses] of a rig (--rig)"
                )
        if twice := repeated_cue(self.cue):
            raise ValueError(f"cue: two are called {twice!r}; expected a name of its own for each")
        if self.midi.mpe and any(one.channel is not None for one in self.performers):
            raise ValueError("performer.channel: an MPE zone has channels of its own; leave midi.mpe out")
        return self

    def resolved(self) -> Rig:
        """A copy with the sender's address in place of its host name. Raises a DeviceError."""
        return self.model_copy(update={"source": self.source.resolved()})

    def ignored_options(self, options: Mapping[str, Any], voice: bool | None = None) -> list[str]:
        """Lines on ``options`` of the command line (a tree like this) for a model or voice that is off.
        ``voice`` says whether one plays, if that does not depend on the rig."""
        if voice is None:
            voice = self.has_voice
        ignored = [] if self.model.enabled else [(n, "model") for n in ("checkpoint", "backend", "lead_ms")]
        ignored += [] if voice else [(name, "voice") for name in ("preset", "samples")]
        values = {**options, **options.get("model", {}), **options.get("synth", {})}
        return [
            f"--{n.replace('_', '-')}: without the {part} it does nothing"
            for n, part in ignored
            if n in values
        ]

    @property
    def has_voice(self) -> bool:
        """Whether the built-in voice plays for anyone."""
        return self.synth.enabled or any(one.preset for one in self.performers)

    @property
    def offers_control(self) -> bool:
        """Whether clients of OSCQuery can reach the remote control."""
        return is_loopback(self.oscquery.host) or not is_loopback(self.control.host)

    @property
    def latency_ms(self) -> float:
        """Latency of the slowest receiver, in milliseconds."""
        midi = () if self.midi.port is None else (self.midi.latency_ms,)
        return max((*(table.latency_ms for table in self.osc), *midi), default=0.0)

    def untaught_output_lines(self, taught: Collection[str]) -> list[str]:
        """Lines on keys that name outputs of a mapping other than ``taught``."""
        names = [*self.shape]
        if self.midi.port is not None:
            names += [note.output for note in self.midi.note]
            names += [control.output for control in self.midi.controls]
        missing = dict.fromkeys(name for name in names if name.startswith("taught/"))
        return [f"{n}: no mapping teaches it" for n in missing if n.removeprefix("taught/") not in taught]

    @property
    def file(self) -> Path | None:
        """The file it was read from; None for the rig of one of several performers, who share the file."""
        return None if self._performer_name else self._file

    @property
    def as_loaded(self) -> tuple[Rig | None, Rig]:
        """The rig of the file alone (None if that is not valid), and with the command line, before resolving
        names."""
        return self._as_loaded or (self, self)

    @property
    def folder(self) -> Path:
        """The folder of the show: that of its file, or else the working folder."""
        return Path() if self._file is None else self._file.parent

    @property
    def only_records(self) -> bool:
        """Whether nothing plays, and model and mapping are only recorded, for a later replay."""
        return self._only_records

    def without_receivers(self) -> Rig:
        """A copy without receivers and voices."""
        update = {
            "synth": self.synth.model_copy(update={"enabled": False}),
            "midi": self.midi.model_copy(update={"port": None}),
            "osc": (),
            "sink": (),
            "performers": tuple(one.model_copy(update={"preset": None}) for one in self.performers),
        }
        return self.model_copy(update=update)

    def for_recording(self) -> Rig:
        """A copy that plays nothing, and records all that is needed to play it later."""
        rig = self.without_receivers()
        rig._only_records = True
        return rig

    @property
    def performer_name(self) -> str:
        """The performer whose rig this is, if there are several; empty for the rig of all."""
        return self._performer_name
