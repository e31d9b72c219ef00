"""``pyanticip demo``: a bundled dance through the real pipeline, with OSC, sound and meters.

The same passage is played twice, first without a lead and then with one. Its frames are encoded as datagrams
and fed to the pipeline in real time, so everything but the suit and its socket is the live path.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.console import Console

from pyanticip.bench.machine import percentiles
from pyanticip.controls import CANCEL
from pyanticip.errors import CheckpointError, OptionError, counted
from pyanticip.motion.atomic import check_out
from realtime import tuning
from realtime.clock import ScaledClock
from realtime.lines import threaded_say
from realtime.loop import run_loop
from realtime.monitor.terminal import Terminal, can_draw
from realtime.programs.render import render
from realtime.rig import Rig
from realtime.rig.tree import ControlRig
from realtime.show import Show
from realtime.sinks.base import ControlFrame, Sink
from realtime.sockets import free_port
from realtime.sources.replay import Command, Datagram, Item, ReplaySource, open_show
from realtime.stage import assemble, stage
from realtime.step.base import StepBackend
from realtime.step.open import open_backend
from realtime.voice.process import SynthProcess, begin_voice

PERFORMANCE = Path(__file__).parents[1] / "data" / "performance.bvh"
DANCE = PERFORMANCE.with_name("dance.bvh")
#: Silence between the two passes.
PAUSE_S = 1.2
_DEFAULT_OSC = ("127.0.0.1", 9000)
_DEFAULT_WAV = Path("demo.wav")


class _EventCounter(Sink):
    """A sink that counts announced events."""

    name = "announced"

    def __init__(self) -> None:
        self.events = 0

    def send(self, frame: ControlFrame) -> None:
        """Count a frame's events, without cancellations."""
        self.events += sum(not name.endswith(CANCEL) for name, _, _ in frame.events)

    def counters(self) -> dict[str, int]:
        """Counters of a sink; nothing is dropped here."""
        return {"sent": self.events, "dropped": 0, "refused": 0, "failed": 0}


def two_passes(path: Path, lead_ms: float | str, seconds: float | None = None) -> tuple[str, list[Item]]:
    """The wire format, and a file's datagrams twice: without a lead, then with one.

    Both passes and the pause between them take ``seconds`` at most.
    """
    kind, show = open_show(path)
    items = [item for item in show if isinstance(item, Datagram)]
    begin, longest = items[0].t_ns, items[-1].t_ns - items[0].t_ns
    length = longest if seconds is None else min(longest, max(round((seconds - PAUSE_S) * 5e8), 0))
    items = [item for item in items if item.t_ns - begin <= length]
    offset = length + round(PAUSE_S * 1e9)
    second_pass = [item._replace(t_ns=item.t_ns + offset) for item in items]
    return kind, [
        Command(begin, "lead_ms", (0.0,)),
        *items,
        Command(begin + offset, "lead_ms", (lead_ms,)),
        *second_pass,
    ]


def demo(
    *,
    seconds: float | None = None,
    out: Path | None = None,
    osc: tuple[str, int] | None = None,
    midi: str | None = None,
    audio: bool = True,
    lead_ms: float | str = "auto",
    synth: Mapping[str, Any] = MappingProxyType({}),
    monitor: Mapping[str, Any] | str = MappingProxyType({}),
    voice: SynthProcess | None = None,
) -> dict[str, Any]:
    """Play the bundled dance twice, without a lead and with ``lead_ms``, and print what to try next.

    In a terminal it shows the meters and takes the keys of ``live``. If no audio device works, the sound is
    written to demo.wav.

    Args:
        seconds: longest duration of both passes.
        out: also write the sound to this WAV file.
        osc: receiver of the bundles; None: 127.0.0.1:9000.
        midi: a MIDI port, as of ``live``.
        audio: play the sound.
        lead_ms: lead of the second pass, milliseconds or ``auto``.
        synth: a rig's table ``synth``.
        monitor: a rig's table ``monitor``, or its address.
        voice: a voice process that was started already.

    Returns:
        The summary that ``--json`` prints.
    """
    if seconds is not None and not seconds > 0:
        raise OptionError(f"seconds: expected more than 0, got {seconds:g}")
    if out is not None:
        check_out(out, (".wav",))
    host, port = osc or _DEFAULT_OSC
    tree = {"osc": [{"host": host, "port": port}], "synth": {**synth, "enabled": audio}}
    rig = Rig.model_validate({**tree, "midi": {"port": midi}, "monitor": monitor})
    # The monitor's page sends commands. A running show may use the default port, so any free one is taken.
    control = ControlRig(enabled=rig.monitor.enabled, port=free_port())
    rig = rig.model_copy(update={"control": control})
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with contextlib.ExitStack() as stack:
        say: Callable[[str], None] = stack.enter_context(threaded_say(console.print))
        if audio and voice is None:
            voice = begin_voice(rig.synth, say)
        if voice is not None:
            stack.callback(voice.close)
        kind, items = two_passes(DANCE, lead_ms, seconds)
        backend, trouble = _model(rig)
        terminal = Terminal("pyanticip demo", say) if can_draw() else None
        if terminal is not None:
            stack.callback(terminal.close)
            say = terminal.say
        if voice is not None:
            voice.report_to(say)
        if trouble:
            say(f"the model cannot be loaded, the seven scalars play instead: {trouble}")
            rig = rig.model_copy(update={"model": rig.model.model_copy(update={"enabled": False})})
        clock = ScaledClock(1.0)
        clock.begin(items[0].t_ns)
        pipeline = assemble(rig, clock, kind=kind, backend=backend)
        say(
            f"a dance by Jasmine Coro (G1 Moves, CC BY 4.0), {items[-1].t_ns / 1e9:.0f} s"
            f" -> OSC to {host}:{port}, 50 bundles a second"
        )
        if midi is not None:
            say(f"MIDI notes and controllers to {pipeline.sinks[-1].name.removeprefix('midi ')}")
        event_counter = _EventCounter()
        pipeline.add(event_counter)
        source = ReplaySource(items, clock)
        show = stage(rig, pipeline, source, say=say, terminal=terminal, voice=voice)
        result = _play(show, source, seconds, say)
    device = None if voice is None else voice.device
    result |= {"events": event_counter.events, "audio": device}
    wav = out if out is not None else (_DEFAULT_WAV if audio and device is None else None)
    if wav is not None and not (result["interrupted"] and out is None):
        rendered = render(DANCE, wav, rig=rig, seconds=seconds, show=(kind, items))
        result["wav"] = {k: rendered[k] for k in ("out", "sound_seconds", "times_real_time")}
    _print_summary(result, host, port, console)
    return result


def _model(rig: Rig) -> tuple[StepBackend | None, str]:
    """The model's backend, or None and the reason why it cannot be loaded."""
    try:
        return open_backend(rig.model.backend, rig.model.checkpoint), ""
    except CheckpointError as error:
        return None, str(error)


def _play(
    show: Show, source: ReplaySource, seconds: float | None, say: Callable[[str], None]
) -> dict[str, Any]:
    latencies: list[int] = []
    pipeline = show.pipeline

    def observe(arrival: int, done: int, seq: int, stages: tuple[int, ...]) -> None:
        latencies.append(sum(stages))

    def obey(command: Command) -> None:
        show.replay_command(command)
        (lead,) = command.arguments
        if not lead:
            say("first pass, lead 0: the sound follows the movement")
        else:
            text = "automatic" if lead == "auto" else f"{lead:g} ms"
            say(f"second pass, lead {text}: the same passage, predicted")

    pipeline.observer, source.obey = observe, obey
    with tuning.realtime_mode():
        report = run_loop(show.run(seconds))
    osc_counts = next(counts for name, counts in report["sinks"].items() if name.startswith("osc"))
    milliseconds = np.array(latencies[25:] or latencies or [0]) / 1e6
    return {
        "seconds": report["seconds"],
        "frames": report["counters"]["frames"],
        "bundles": osc_counts["sent"],
        "refused": osc_counts["refused"],
        "model": pipeline.backend.name if pipeline.backend is not None else "none",
        "latency_ms": percentiles(milliseconds, (50, 99)),
        "interrupted": show.interrupted,
    }


def _print_summary(result: dict[str, Any], host: str, port: int, console: Console) -> None:
    ms = result["latency_ms"]
    hint = " (nobody listened there)" if result["refused"] > result["bundles"] // 4 else ""
    console.print(
        f"{result['frames']} frames in {result['seconds']:.1f} s, {counted(result['bundles'], 'OSC bundle')}"
        f" to {host}:{port}{hint}, {counted(result['events'], 'event')}, model: {result['model']}"
    )
    console.print(f"from datagram to OSC: p50 {ms['p50']:.2f} ms, p99 {ms['p99']:.2f} ms")
    if "wav" in result:
        wav = result["wav"]
        console.print(f"wrote {wav['out']}: {wav['sound_seconds']:.0f} s of sound")
    console.print(
        "next:  pyanticip doctor              what works on this machine\n"
        "       pyanticip demo --monitor      see it in a browser, and where the body goes next\n"
        "       pyanticip setup               your suit and your synth, guided\n"
        "       pyanticip live --source mocopi://0.0.0.0 --synth\n"
        "       pyanticip replay FILE.bvh     your own motion file\n"
        "       pyanticip render FILE.bvh --out FILE.wav"
    )
