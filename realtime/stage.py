"""Assembles the parts of a performance, for live, replay, render, demo and bench alike."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyanticip._core import LiveFront
from pyanticip.controls import Smoothing
from pyanticip.errors import FOREIGN, OptionError
from pyanticip.teach.project import MANIFEST, MAPPING, Project
from realtime import tuning
from realtime.clock import Clock
from realtime.control.commands import Commands
from realtime.control.memory import MemoryRemote
from realtime.control.rig_remote import RigRemote
from realtime.control.server import Remote
from realtime.mapping.live_mapping import open_mapping
from realtime.mapping.mixer import Mixer
from realtime.memory.live_memory import open_memory
from realtime.monitor.feed import MonitorFeed
from realtime.monitor.health import health
from realtime.monitor.keys import Keys
from realtime.monitor.process import MonitorProcess
from realtime.monitor.terminal import Terminal
from realtime.oscquery.offer import Offer
from realtime.oscquery.process import OscQueryProcess
from realtime.pipeline import Pipeline
from realtime.recording.recorder import Recorder
from realtime.rig import Rig
from realtime.rig.checks import check_spare
from realtime.rig.mapping import smoothings
from realtime.rig.tree import ControlRig
from realtime.seams import SINKS
from realtime.show import Show
from realtime.sinks.base import Sink
from realtime.sinks.config import OscConfig
from realtime.sinks.guard import Guard
from realtime.sinks.osc import OscSink
from realtime.sources.replay import ReplaySource
from realtime.sources.shared import PerformerSource
from realtime.sources.udp import UdpSource
from realtime.sources.watch import SourceWatch
from realtime.step.base import StepBackend
from realtime.step.open import open_backend
from realtime.teaching.remote import Loader, TeachRemote
from realtime.voice.process import SynthProcess, begin_voice


def assemble(
    rig: Rig,
    clock: Clock,
    *,
    kind: str | None = None,
    sinks: Sequence[Sink] | None = None,
    backend: StepBackend | None = None,
) -> Pipeline:
    """Build the pipeline that a rig describes.

    ``kind`` replaces the wire format of the rig's source, ``sinks`` the rig's sinks, ``backend`` its model.
    Hosts are resolved and the checkpoint is loaded here, so that errors in them are known before anything
    plays. Raises a MotionError.
    """
    if rig.performers:
        raise OptionError("a rig with [[performer]] tables is for `live`; here one performer plays")
    tuning.map_large_blocks()
    source, kind = kind or rig.source.kind, kind or rig.source.wire
    opened_sinks: list[Sink] = list(sinks or ())
    try:
        if sinks is None:
            opened_sinks += (OscSink(table) for table in rig.osc)
            if rig.midi.port is not None:
                opened_sinks.append(SINKS.load("midi")(rig.midi))
            opened_sinks += (SINKS.load(table.kind)(table.config()) for table in rig.sink)
            _make_names_unique(opened_sinks)
        if backend is None and rig.model.enabled and not rig.only_records:
            backend = open_backend(rig.model.backend, rig.model.checkpoint)
        memory = None
        if rig.memory.enabled:
            memory = open_memory(rig.memory.file, rig.memory.sha256, learn=rig.memory.learn, cues=rig.cue)
    except BaseException:
        for sink in opened_sinks:
            # The first error is the one to report.
            with contextlib.suppress(*FOREIGN):
                sink.close()
        raise
    pipeline = Pipeline(
        front=LiveFront(kind, steady=rig.performer.steady, noise=rig.performer.jitter),
        mixer=build_mixer(rig),
        sinks=opened_sinks,
        clock=clock,
        backend=backend,
        kind=kind,
        budget_ms=rig.model.budget_ms,
        memory=memory,
        delay_ms=rig.source.delay_ms,
        buffer_ms=rig.source.buffer_ms,
    )
    pipeline.source = source
    if rig.source.sender is not None:
        pipeline.front.listen_to(rig.source.sender)
    if rig.mapping is not None and not rig.only_records:
        try:
            pipeline.set_mapping(open_mapping(rig.mapping, backend))
        except BaseException:
            pipeline.close()
            raise
    return pipeline


def _make_names_unique(sinks: Sequence[Sink]) -> None:
    """Append the OSC prefix to equal names of sinks, and a number where they are equal even so."""
    names = Counter(sink.name for sink in sinks)
    for sink in sinks:
        if names[sink.name] > 1 and isinstance(sink, OscSink):
            sink.name += f" {sink.config.prefix or '/'}"
    names.clear()
    for sink in sinks:
        names[sink.name] += 1
        if (number := names[sink.name]) > 1:
            sink.name += f" ({number})"


def build_mixer(rig: Rig) -> Mixer:
    """Build the mixer with a rig's settings."""
    return Mixer(
        smoothing=smoothings(rig.smoothing),
        lead_ms=rig.lead_ms,
        sound_ms=rig.latency_ms,
        delay_ms=rig.source.delay_ms,
        gain=rig.gain,
        trigger=rig.events.build(),
        presence=rig.silence,
        neutral=rig.silence.neutral_vector(),
        extra_smoothing=rig.smoothing.get("default", Smoothing()),
        performer=rig.performer.build(),
        shapes=rig.shape,
    )


def stage(
    rig: Rig,
    pipeline: Pipeline,
    stream: UdpSource | PerformerSource | ReplaySource,
    *,
    prewarm: bool = True,
    say: Callable[[str], None] = lambda line: None,
    terminal: Terminal | None = None,
    monitor_ports: Mapping[str, int] | None = None,
    voice: SynthProcess | None = None,
    guard: Guard | None = None,
    control: ControlRig | None = None,
) -> Show:
    """Build the show around a pipeline: voice, recorder, remote control, monitor and the watch on the suit.

    ``terminal`` draws it and takes keys. ``monitor_ports`` are those of all performers' monitors; ``voice``
    is the rig's voice if it runs already, ``guard`` the guard that several performers share; ``control``
    replaces the rig's table of the remote control.

    Recording has started if the rig says so. Raises a MotionError, with everything closed.
    """
    synth = None
    with contextlib.ExitStack() as undo:
        undo.callback(pipeline.close)
        receivers = [sink for sink in pipeline.sinks if isinstance(sink, OscSink)]
        if receivers:
            guard = guard or Guard(say)
            undo.callback(guard.close)
            pipeline.add(guard.watch(receivers, rig.silence.stopped_vector()))
        if rig.synth.enabled:
            synth = voice or begin_voice(rig.synth, say)
            undo.callback(synth.close)
            pipeline.add(OscSink(OscConfig(port=synth.port)))
        commands = Commands(pipeline, say, rig, synth)
        loader = Loader(pipeline, commands, _mapping_file(rig.mapping, rig.teach), rig.folder)
        # Memories are saved and looked for in the folder of the rig's memory, or else in that of the rig.
        memory_folder = rig.folder if rig.memory.file is None else Path(rig.memory.file).parent
        remotes: list[Remote] = [
            loader,
            MemoryRemote(lambda: pipeline.memory, memory_folder, rig.performer_name, say),
            RigRemote(pipeline, commands, rig.folder, memory_folder),
        ]
        project = None
        if rig.teach is not None:
            folder = Path(rig.teach)
            project = Project.open(folder) if (folder / MANIFEST).exists() else Project.create(folder)
            remotes.append(
                TeachRemote(project, pipeline, loader, lambda: commands.live_rig.rig.model.checkpoint, say)
            )
        try:
            check_spare(rig)
        except OptionError as error:
            # It may be there by the time it is needed.
            say(f"{error}; without it a full disk ends the recording")
        recorder = Recorder(say, None if rig.record_spare is None else Path(rig.record_spare))
        undo.callback(recorder.close)
        show = Show(
            pipeline,
            stream,
            commands,
            control=control or rig.control,
            remotes=remotes,
            prewarm=prewarm,
            spin=rig.spin,
            recorder=recorder,
            header=lambda: recording_header(commands.live_rig.rig, pipeline),
            synth=synth,
            must_listen=not isinstance(stream, ReplaySource),
            watch=(
                SourceWatch(
                    stream.kind,
                    stream.address,
                    time.monotonic(),
                    lambda: stream.trouble,
                    lambda: stream.newest,
                    lambda: commands.listens_to,
                )
                if not isinstance(stream, ReplaySource)
                else None
            ),
            say=say,
        )
        if show.control is not None:
            undo.callback(show.control.close)
        if guard is not None and receivers:
            show.children.append(guard)
        control_address = None if show.control is None else show.control.address
        offered_control = show.control if rig.offers_control else None
        command_names = None if offered_control is None else offered_control.names
        target = OscConfig(send=rig.oscquery.send)
        show.offer = Offer(target, pipeline, command_names, commands.live_rig, lambda: _output_names(project))
        if rig.oscquery.enabled:
            oscquery = OscQueryProcess(
                rig.oscquery, control_address if offered_control else None, show.offer, say
            )
            undo.callback(oscquery.close)
            show.children.append(oscquery)
            show.offer.add_receiver(oscquery.port)
        get_health = partial(health, pipeline, commands, show.control, rig.synth.preset)
        if terminal is not None:
            pipeline.add(terminal.display(pipeline.clock, get_health))
            show.children.append(terminal)
            show.keys = Keys(pipeline, show.actions(), show.interrupt, say, terminal.send_health)
        if rig.monitor.enabled:
            monitor = MonitorProcess(
                rig.monitor,
                control_address,
                get_health,
                say,
                commands.live_rig,
                rig.folder,
                pipeline.kind,
                monitor_ports,
            )
            undo.callback(monitor.close)
            show.children.append(monitor)
            forecast = pipeline.mixer.forecast
            pipeline.add(MonitorFeed(monitor.port, pipeline.clock, every=2, suit=True, forecast=forecast))
        if isinstance(stream, ReplaySource):
            stream.ended = show.end
            stream.obey = show.replay_command
        if rig.record is not None:
            show.start_recording(Path(rig.record))
        undo.pop_all()
    return show


def _output_names(project: Project | None) -> list[str]:
    return [] if project is None else [output.name for output in project.state.outputs]


def _mapping_file(mapping: str | None, teach: str | None) -> Path | None:
    """The file of the mapping that plays, or that a fit will write."""
    if mapping is not None:
        return Path(mapping)
    return None if teach is None else Path(teach) / MAPPING


def recording_header(rig: Rig, pipeline: Pipeline) -> dict[str, Any]:
    """The header of a recording that begins now: what produces it."""
    manifest = None if pipeline.backend is None else pipeline.backend.manifest
    # A mapping that was unloaded must not play in the replay.
    has_mapping = pipeline.live_mapping is not None or rig.only_records
    recorded_rig = rig if has_mapping else rig.model_copy(update={"mapping": None})
    if pipeline.memory is not None:
        memory_table = rig.memory.model_copy(update={"sha256": pipeline.memory.sha256 or None})
        recorded_rig = recorded_rig.model_copy(update={"memory": memory_table})
    if (performer := pipeline.mixer.performer) is not None:
        # Calibrated ranges are in the rig already.
        frozen = rig.performer.model_copy(update={"frozen": performer.frozen})
        recorded_rig = recorded_rig.model_copy(update={"performer": frozen})
    return {
        # Recordings are shared; the token of this monitor is not.
        "rig": recorded_rig.model_dump(mode="json", by_alias=True, exclude={"monitor": {"token"}}),
        # Paths in the rig and in commands are relative to it.
        "folder": str(Path.cwd()),
        "source": pipeline.kind,
        "model": {"name": manifest.name, "sha256": dict(manifest.sha256)} if manifest else None,
        "mapping": _mapping(pipeline),
    }


def _mapping(pipeline: Pipeline) -> dict[str, Any] | None:
    """The header's entry on the mapping that plays; its `outputs` follow the eight parameters."""
    if pipeline.live_mapping is None:
        return None
    mapping, extras = pipeline.live_mapping.mapping, pipeline.live_mapping.extras
    return {"name": mapping.name, "sha256": mapping.sha256, "outputs": [extra.name for extra in extras]}
