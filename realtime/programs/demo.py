"""A bundled dance through the real pipeline: OSC out, sound where there is a device, meters to watch.

The same passage comes twice, first as it is and then with a lead. Its frames are encoded as datagrams and fed
to the pipeline at their pace, so everything but the suit and its socket is the live path.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.console import Console

from pyanticip.controls import CANCEL
from pyanticip.errors import CheckpointError, OptionError
from pyanticip.motion.atomic import check_out
from realtime import tuning
from realtime.clock import ScaledClock
from realtime.lines import beside
from realtime.loop import run_loop
from realtime.monitor.terminal import Terminal, can_draw
from realtime.programs.render import render
from realtime.rig import Rig
from realtime.rig.tree import ControlRig
from realtime.rig.voice import begin_voice
from realtime.show import Show
from realtime.sinks.base import ControlFrame, Extra
from realtime.sockets import free_port
from realtime.sources.replay import Command, Datagram, Item, ReplaySource, open_show
from realtime.stage import assemble, stage
from realtime.step.base import StepBackend
from realtime.step.open import open_backend
from realtime.voice.process import SynthProcess

__all__ = ["DANCE", "PERFORMANCE", "demo", "twice"]

PERFORMANCE = Path(__file__).parents[1] / "data" / "performance.bvh"
DANCE = PERFORMANCE.with_name("dance.bvh")
#: Silence between its two passes, seconds.
PAUSE = 1.2
_OSC = ("127.0.0.1", 9000)
_WAV = Path("demo.wav")


class _Announced:
    """A sink that counts the events which were announced."""

    name = "announced"
    trouble = ""

    def __init__(self) -> None:
        self.events = 0

    def send(self, frame: ControlFrame) -> None:
        """Count those of a frame."""
        self.events += sum(not name.endswith(CANCEL) for name, _, _ in frame.events)

    def announce(self, extras: Sequence[Extra]) -> None:
        """Taught outputs are no events."""

    def counters(self) -> dict[str, int]:
        """As every sink: nothing is ever dropped here."""
        return {"sent": self.events, "dropped": 0, "refused": 0, "failed": 0}

    def close(self) -> None:
        """Nothing to give back."""


def twice(path: Path, lead_ms: float | str, seconds: float | None = None) -> tuple[str, list[Item]]:
    """The wire format, and a file's datagrams twice: without a lead, then with one.

    Each pass is as long as two and the pause between them fill ``seconds``.
    """
    kind, show = open_show(path)
    items = [item for item in show if isinstance(item, Datagram)]
    begin, longest = items[0].t_ns, items[-1].t_ns - items[0].t_ns
    length = longest if seconds is None else min(longest, max(round((seconds - PAUSE) * 5e8), 0))
    items = [item for item in items if item.t_ns - begin <= length]
    later = length + round(PAUSE * 1e9)
    again = [item._replace(t_ns=item.t_ns + later) for item in items]
    return kind, [
        Command(begin, "lead_ms", (0.0,)),
        *items,
        Command(begin + later, "lead_ms", (lead_ms,)),
        *again,
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
    """Play the bundled dance twice, without a lead and with ``lead_ms``; tell what to try next.

    ``seconds`` in all at most; ``out`` writes the sound to a WAV as well; ``osc`` is where the bundles go
    (127.0.0.1:9000), ``midi`` a port for MIDI; without ``audio`` nothing is heard. Where no audio device
    works, the sound is written to demo.wav. ``synth`` is a rig's table of what the voice plays, ``monitor``
    that of the monitor, or its address; ``voice`` is one that has begun already.
    In a terminal there are meters and keys as of ``live``. Returns what happened, in numbers.
    """
    if seconds is not None and not seconds > 0:
        raise OptionError(f"seconds: expected more than 0, got {seconds:g}")
    if out is not None:
        check_out(out, (".wav",))
    host, port = osc or _OSC
    tree = {"osc": [{"host": host, "port": port}], "synth": {**synth, "enabled": audio}}
    rig = Rig.model_validate({**tree, "midi": {"port": midi}, "monitor": monitor})
    # What is pressed on the monitor's page is a command; a show that plays may have the usual port.
    control = ControlRig(enabled=rig.monitor.enabled, port=free_port())
    rig = rig.model_copy(update={"control": control})
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with contextlib.ExitStack() as stack:
        say: Callable[[str], None] = stack.enter_context(beside(console.print))
        if audio and voice is None:
            voice = begin_voice(rig.synth, say)
        if voice is not None:
            stack.callback(voice.close)
        kind, items = twice(DANCE, lead_ms, seconds)
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
        announced = _Announced()
        pipeline.add(announced)
        source = ReplaySource(items, clock)
        show = stage(rig, pipeline, source, say=say, terminal=terminal, voice=voice)
        result = _play(show, source, seconds, say)
    device = None if voice is None else voice.device
    result |= {"events": announced.events, "audio": device}
    wav = out if out is not None else (_WAV if audio and device is None else None)
    if wav is not None and not (result["interrupted"] and out is None):
        rendered = render(DANCE, wav, rig=rig, seconds=seconds, show=(kind, items))
        result["wav"] = {k: rendered[k] for k in ("out", "sound_seconds", "times_real_time")}
    _tell(result, host, port, console)
    return result


def _model(rig: Rig) -> tuple[StepBackend | None, str]:
    """The model's backend, or why there is none."""
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
            ahead = "automatic" if lead == "auto" else f"{lead:g} ms"
            say(f"second pass, lead {ahead}: the same passage, predicted")

    pipeline.observer, source.obey = observe, obey
    with tuning.realtime_mode():
        report = run_loop(show.run(seconds))
    own = next(counts for name, counts in report["sinks"].items() if name.startswith("osc"))
    milliseconds = np.array(latencies[25:] or latencies or [0]) / 1e6
    return {
        "seconds": report["seconds"],
        "frames": report["counters"]["frames"],
        "bundles": own["sent"],
        "refused": own["refused"],
        "model": pipeline.backend.name if pipeline.backend is not None else "none",
        "latency_ms": {
            name: round(float(np.percentile(milliseconds, q)), 3) for name, q in (("p50", 50), ("p99", 99))
        },
        "interrupted": show.interrupted,
    }


def _tell(result: dict[str, Any], host: str, port: int, console: Console) -> None:
    ms = result["latency_ms"]
    nobody = " (nobody listened there)" if result["refused"] > result["bundles"] // 4 else ""
    console.print(
        f"{result['frames']} frames in {result['seconds']:.1f} s, {result['bundles']} OSC bundles to"
        f" {host}:{port}{nobody}, {result['events']} events, model: {result['model']}"
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
