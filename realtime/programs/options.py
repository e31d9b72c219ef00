"""Options of the commands that play, monitor, record and send.

Settings of a rig are declared in its tree, once; here are only the names of their command line options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pyanticip.motion.options import BodyOptions, ReadingOptions
from pyanticip.motion.units import RATE_LIMITS
from pyanticip.options import HostPort, JsonOption, Options, Overrides, SecondsOption, option
from realtime.config import LeadMs
from realtime.rig import Rig, SentKind
from realtime.seams import SOURCES

STILL_S, MOVE_S = 8.0, 22.0
"""Default seconds of standing still and of moving in a calibration."""
SOURCE = {"source": "source"}
READING = {name: f"source.{name}" for name in ReadingOptions.model_fields}
MODEL = {
    "checkpoint": "model.checkpoint",
    "model": "model.enabled",
    "lead_ms": "lead_ms",
    "mapping": "mapping",
    "memory": "memory.file",
}
PRESET = {"preset": "synth.preset", "samples": "synth.samples"}
SINKS = {
    "osc": "osc",
    "midi": "midi.port",
    "synth": "synth.enabled",
    "oscquery": "oscquery.enabled",
    "record": "record",
    "backend": "model.backend",
    "spin": "spin",
    **PRESET,
}
CHILDREN = {"teach": "teach", "monitor": "monitor"}


class RigOptions(Options):
    """A rig file, and settings of the command line that override it (``over``)."""

    rig_file: Path | None = option("Rig file (TOML).", None, flag="--rig", metavar="PATH")
    over: dict[str, Any] = {}


class LiveOptions(RigOptions, BodyOptions, SecondsOption, JsonOption):
    """Options of ``live``."""

    over: Annotated[dict[str, Any], Overrides(Rig, {**SOURCE, **SINKS, **MODEL, **CHILDREN})] = {}


class MonitorOptions(RigOptions, BodyOptions, SecondsOption, JsonOption):
    """Options of ``monitor``."""

    over: Annotated[dict[str, Any], Overrides(Rig, {**SOURCE, **MODEL, "at": "monitor"})] = {}


class MotionSecondsOption(SecondsOption):
    """``--seconds`` of commands that play files; counted from the first frame, which may come late."""

    seconds: float | None = option("Stop this many seconds after the first frame.", None, gt=0)


class ReplayOptions(RigOptions, MotionSecondsOption, JsonOption):
    """Options of ``replay``."""

    file: Path = option("Motion file or recording to play.", argument=True, exists=True)
    speed: str = option("Playback speed; max: as fast as possible.", "1", metavar="X|max")
    over: Annotated[dict[str, Any], Overrides(Rig, {**READING, **SINKS, **MODEL, **CHILDREN})] = {}


class RenderOptions(RigOptions, MotionSecondsOption, JsonOption):
    """Options of ``render``."""

    file: Path = option("A file, or a folder of files.", argument=True, exists=True)
    out: Path = option("OUT.wav, OUT.npz or OUT.csv; for a folder, a folder.", written=True)
    kind: Literal["wav", "npz", "csv"] | None = option("Output format for a folder; wav by default.", None)
    workers: int | None = option("Processes for a folder; one per core by default.", None, ge=1)
    over: Annotated[dict[str, Any], Overrides(Rig, {**MODEL, **PRESET, **READING})] = {}


class RecordOptions(RigOptions, BodyOptions, SecondsOption, JsonOption):
    """Options of ``record``."""

    out: Path = option("The new recording.", argument=True)
    over: Annotated[dict[str, Any], Overrides(Rig, SOURCE)] = {}


class CalibrateOptions(RigOptions, ReadingOptions, JsonOption):
    """Options of ``calibrate``."""

    file: Path | None = option(
        "A recording or motion file instead of a suit.", None, argument=True, exists=True
    )
    over: Annotated[dict[str, Any], Overrides(Rig, {**SOURCE, "checkpoint": "model.checkpoint"})] = {}
    still: float | None = option(f"Seconds to stand still; else {STILL_S:g}.", None, ge=2, le=600)
    move: float | None = option(f"Seconds to move; else {MOVE_S:g}.", None, ge=2, le=600)


class SetupOptions(JsonOption):
    """Options of ``setup``."""

    suit: str | None = option(
        "The suit's protocol, with an optional port; unknown: listen for all.",
        None,
        metavar="KIND[://HOST:PORT]|unknown",
    )
    osc: HostPort | None = option("Send OSC to this receiver.", None, metavar="HOST:PORT")
    synth: bool | None = option("Play the built-in voice.", None)
    midi: str | None = option(
        "MIDI out: virtual, or part of a port's name.", None, metavar="PORT", min_length=1
    )
    calibrate: bool | None = option("Calibrate to the performer.", None)
    still: float = option("Seconds to stand still.", STILL_S, ge=2, le=600)
    move: float = option("Seconds to move.", MOVE_S, ge=2, le=600)
    wait: float = option("Seconds to wait for the suit.", 300.0, gt=0)
    seconds: float = option("Seconds to play before the rig is written.", 10.0, ge=0)
    out: Path = option("The new rig.", Path("stage.toml"), metavar="PATH", written=True)
    force: bool = option("Overwrite an existing rig.", False)
    yes: bool = option("Ask nothing; use the default answers.", False)


class SendOptions(ReadingOptions, SecondsOption, JsonOption):
    """Options of ``send``."""

    file: Path = option("Motion file to send.", argument=True, exists=True)
    protocol: SentKind = option(
        f"What the suit speaks: {', '.join(kind for kind in SOURCES.built_in if kind != 'osc')}.",
        flag="--as",
        metavar="KIND",
    )
    to: HostPort = option("Receiver.", metavar="HOST:PORT")
    loop: bool = option("Start over at the end.", False)
    rate: Annotated[float, Field(ge=1, le=1000)] | None = option(
        "Frames per second; by default mocopi 50, msgpack the file's, others 60.", None
    )
    file_rate: Annotated[float, Field(ge=RATE_LIMITS[0], le=RATE_LIMITS[1])] | None = option(
        "Frames per second of the file, in place of its own (AMC: 120).", None
    )
    speed: float = option("Playback speed.", 1.0, ge=0.01, le=100)

    def reading(self) -> dict[str, Any]:
        """The reading options that were given; ``rate`` is not one here, but the rate of sending."""
        options = {name: value for name, value in super().reading().items() if name != "rate"}
        return options if self.file_rate is None else {**options, "file_rate": self.file_rate}


class RehearseOptions(ReadingOptions, JsonOption):
    """Options of ``rehearse``."""

    files: tuple[Path, ...] = option(
        "Recordings or motion files.", argument=True, exists=True, metavar="TAKE..."
    )
    out: Path = option("The new memory.", metavar="PATH", written=True)
    force: bool = option("Overwrite an existing memory.", False)


class DemoOptions(SecondsOption, JsonOption):
    """Options of ``demo``."""

    out: Path | None = option("Also write the sound (WAV).", None, written=True)
    osc: HostPort | None = option("OSC receiver (127.0.0.1:9000).", None, metavar="HOST:PORT")
    midi: str | None = option(
        "MIDI out: virtual, or part of a port's name.", None, metavar="PORT", min_length=1
    )
    audio: bool = option("Play the sound.", True)
    lead_ms: LeadMs = option("Lead of the second pass: auto, or 0..400 ms.", "auto", metavar="auto|MS")
    over: Annotated[dict[str, Any], Overrides(Rig, {**PRESET, "monitor": "monitor"})] = {}


class SynthOptions(RigOptions, SecondsOption, JsonOption):
    """Options of ``synth``."""

    port: int = option("UDP port to listen on.", 57140, ge=1, le=65535)
    host: str = option("Address to listen on.", "127.0.0.1")
    device: str | None = option("Number or name of the audio device.", None)
    gain: float = option("Master gain, 0..1.", 1.0, ge=0, le=1)
    wav: Path | None = option("Also write the sound to this file.", None)
    over: Annotated[dict[str, Any], Overrides(Rig, PRESET)] = {}


class ExportOptions(JsonOption):
    """Options of ``export``."""

    file: Path = option("A recording.", argument=True, exists=True)
    out: Path = option("Output folder.")


class InfoOptions(ReadingOptions, JsonOption):
    """Options of ``info``."""

    file: Path = option(
        "A motion file, recording, memory, mapping or checkpoint.", argument=True, exists=True
    )
    picture: Path | None = option(
        "Draw the source and the canonical body side by side.", None, metavar="OUT.png"
    )
    joints: str | None = option(
        "Print the joint map, to edit; with MAP: read the file with that map.",
        None,
        metavar="[MAP]",
        alone="",
    )

    def reading(self) -> dict[str, Any]:
        """The reading options that were given; ``--joints`` without a map is none."""
        return {name: value for name, value in super().reading().items() if value != ""}


class RigInitOptions(Options):
    """Options of ``rig init``."""

    file: Path = option("The new rig file.", argument=True)
    force: bool = option("Overwrite an existing file.", False)


class RigCheckOptions(JsonOption):
    """Options of ``rig check``."""

    file: Path = option("The rig file.", argument=True, exists=True)
