"""``pyanticip rig check``: find what ``live`` with this rig would refuse, or do without."""

from __future__ import annotations

import os
from pathlib import Path
from socket import SOCK_DGRAM

from pydantic import BaseModel

from pyanticip import _core
from pyanticip.errors import OptionError, reason
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_manifest
from pyanticip.teach.mapping import load_mapping
from pyanticip.teach.project import Project, check_new_project
from realtime.child import check_installed
from realtime.control.rig_keys import check_names
from realtime.mapping.live_mapping import check_model
from realtime.memory.live_memory import open_memory
from realtime.monitor.process import NEEDS as MONITOR_NEEDS
from realtime.oscquery.process import NEEDS as OSCQUERY_NEEDS
from realtime.programs.live import check_new
from realtime.rig import Rig
from realtime.rig.checks import check_ports, check_spare
from realtime.rig.load import rig_for_performer
from realtime.rig.source import ModelRig, SourceRig
from realtime.rig.tree import SynthRig
from realtime.seams import BACKENDS, SINKS
from realtime.sinks.config import OscConfig
from realtime.sinks.midi.clock import ClockConfig
from realtime.sinks.midi.config import MidiConfig
from realtime.sinks.midi.sink import check_port
from realtime.sockets import bind_udp, resolve
from realtime.sources.udp import opener
from realtime.voice.audio import probe
from realtime.voice.base import NEEDS_SAMPLES, SAMPLED
from realtime.voice.open import Instrument

_NEEDS: dict[str, tuple[str, ...]] = {"control": ("",), "monitor": MONITOR_NEEDS, "oscquery": OSCQUERY_NEEDS}


def check_show(rig: Rig) -> None:
    """Check ports, hosts and files without keeping any open.

    Raises:
        MotionError: the error that ``live`` would raise; also for missing sounds and an unusable
            ``record_spare`` folder, which ``live`` plays without.
    """
    check_ports(rig)
    check_names(one.name for one in rig.performers)
    for key, server in (("control", rig.control), ("monitor", rig.monitor), ("oscquery", rig.oscquery)):
        if server.enabled:
            check_installed(*_NEEDS[key])
            bind_udp(server.host, 0, f"{key}.host").close()
    for target in rig.osc:
        _check_sink(target)
    check_spare(rig)
    for own in [rig_for_performer(rig, one.name) for one in rig.performers] or [rig]:
        own.resolved()
        _check_source(own.source)
        for sink in own.sink:
            check_installed(*getattr(SINKS.load(sink.kind), "NEEDS", ("",)))
        for table in [own.midi] * (own.midi.port is not None) + [sink.config() for sink in own.sink]:
            _check_sink(table)
        if own.model.enabled and own.model.checkpoint is not None:
            read_manifest(own.model.checkpoint)
        if own.memory.enabled:
            open_memory(own.memory.file, own.memory.sha256, cues=own.cue)
        if own.mapping is not None:
            _check_mapping(own.mapping, own.model)
        if own.teach is not None:
            _check_project(Path(own.teach))
        if own.record is not None:
            check_new(Path(own.record))
        _check_samples(own.synth)


def device_warnings(rig: Rig) -> list[str]:
    """A line if the voice's audio device cannot be used now; ``live`` plays on and looks for it."""
    device = rig.synth.device
    if not rig.has_voice and device is None:
        return []
    if (audio := probe(device)).usable:
        return []
    which = "the default audio device" if device is None else f"{device!r}"
    return [f"synth.device: {which} cannot be used now ({audio.error}): there is no sound until it can"]


def _check_mapping(file: str, model: ModelRig) -> None:
    """Check that a mapping can be read, and was taught on the rig's model if it needs one.

    The model of a third-party backend is not known here.
    """
    mapping = load_mapping(file)
    if not model.enabled:
        check_model(mapping, None, file)
    elif mapping.needs_model and model.backend in ("auto", *BACKENDS.built_in):
        manifest = read_manifest(model.checkpoint)
        mapping.check_model(manifest.name, manifest.sha256[WEIGHTS], manifest.config.d_model)


def _check_project(folder: Path) -> None:
    """Check that the folder is a teaching project, or that one can begin there."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        Project.open(folder)
    else:
        check_new_project(folder)


def _check_source(source: SourceRig) -> None:
    """Check that a source's host is this machine's, and that its joint map and skeleton options are valid."""
    bind_udp(source.host, 0, f"source {source.kind}").close()
    options = {name: value for name, value in source.udp_options().items() if name != "server"}
    opener("msgpack" if source.kind == "auto" else source.kind, options)


def _check_sink(table: BaseModel) -> None:
    """Check that a sink's host resolves, or its MIDI port exists; third-party sinks are not checked."""
    if isinstance(table, OscConfig):
        resolve(table.host, table.port, f"OSC target {table.url}", SOCK_DGRAM)
    elif isinstance(table, MidiConfig | ClockConfig):
        check_port(table)


def _check_samples(synth: SynthRig) -> None:
    """Check that the voice's folder of sounds can be read and holds some."""
    try:
        config = synth.config()
    except ValueError as error:
        # A performer's own preset was not validated against the rig's voice options before.
        raise OptionError(f"synth.{error}") from None
    if not isinstance(config, Instrument):
        return
    if config.samples is None:
        if synth.preset == SAMPLED:
            raise OptionError(f"preset {SAMPLED}: {NEEDS_SAMPLES}")
        return
    try:
        os.scandir(config.samples).close()
    except (OSError, ValueError) as error:
        raise OptionError(f"{config.samples}: no folder that can be read ({reason(error)})") from None
    if not _core.Samples.any(config.samples):
        plays = "default" if synth.preset == SAMPLED else synth.preset
        raise OptionError(
            f"{config.samples}: holds no sound that is read (WAV, FLAC, Ogg Vorbis, MP3, AIFF); the preset"
            f" {plays} would play without"
        )
