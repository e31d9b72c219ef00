"""The bundled performance through the real pipeline: OSC out, sound where there is a device, bars to watch.

The performance is a BVH made by ``examples/make_performance.py``. Its frames are encoded as datagrams and fed
to the pipeline at their pace, so everything but the suit and its socket is the live path.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyanticip.controls import CANCEL
from pyanticip.errors import CheckpointError, OptionError
from pyanticip.vocabulary import PARAMETERS, SCALARS
from realtime import tuning
from realtime.clock import ScaledClock
from realtime.pipeline import Pipeline
from realtime.programs.render import render
from realtime.rig import Rig
from realtime.sinks.base import ControlFrame, Extra
from realtime.sources.file import open_show
from realtime.sources.replay import ReplaySource
from realtime.stage import assemble, stage
from realtime.step.base import StepBackend
from realtime.step.open import open_backend
from realtime.voice.audio import probe

__all__ = ["PERFORMANCE", "Bars", "demo"]

PERFORMANCE = Path(__file__).parents[1] / "data" / "performance.bvh"
_OSC = ("127.0.0.1", 9000)
_WAV = Path("demo.wav")
_WIDTH = 28
_PER_SECOND = 12


class Bars:
    """A sink that remembers the newest frame; drawn as bars as often as the terminal wants it."""

    name = "bars"

    def __init__(self, title: str) -> None:
        self._title = title
        self._frame = ControlFrame(-1, 0.0, [0.0] * 7, [0.0] * 8)
        self._events: list[tuple[float, str]] = []
        self.events = 0

    def send(self, frame: ControlFrame) -> None:
        """Remember a frame."""
        if frame.seq < 0:
            return
        self._frame = frame
        said = [event for event in frame.events if not event[0].endswith(CANCEL)]
        self.events += len(said)
        for name, strength, _ in said:
            self._events = [*self._events[-3:], (frame.seconds, f"{name} {strength:.2f}")]

    def announce(self, extras: Sequence[Extra]) -> None:
        """The bars are those of the eight."""

    def counters(self) -> dict[str, int]:
        """As every sink: nothing is ever dropped here."""
        return {"sent": self._frame.seq + 1, "dropped": 0, "refused": 0, "failed": 0}

    def close(self) -> None:
        """Nothing to give back."""

    def __rich__(self) -> RenderableType:
        frame = self._frame
        grid = Table.grid(padding=(0, 1))
        for _ in range(3):
            grid.add_column()
        for name, value, low, high in zip(
            SCALARS, frame.scalars, (0, 0, -2, 0, 0, 0, 0), (1, 1, 2, 1, 1, 1, 1), strict=True
        ):
            grid.add_row(name.replace("_", " "), bar((value - low) / (high - low), "cyan"), f"{value:5.2f}")
        grid.add_row("", "", "")
        for name, value in zip(PARAMETERS, frame.params, strict=True):
            grid.add_row(f"[bold]{name}", bar(value, "magenta"), f"{value:5.2f}")
        recent = "   ".join(f"{what} at {t:.1f} s" for t, what in self._events[-3:])
        head = Text(f"{self._title}   {frame.seconds:5.1f} s", style="bold")
        return Group(head, Text(), grid, Text(recent, style="yellow"))


def bar(value: float, colour: str) -> Text:
    """A bar of eighths of a character, for a value in 0..1."""
    eighths = round(min(max(value, 0.0), 1.0) * _WIDTH * 8) if np.isfinite(value) else 0
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")
    return Text(drawn.ljust(_WIDTH), style=colour)


def demo(
    *,
    seconds: float | None = None,
    out: Path | None = None,
    osc: tuple[str, int] | None = None,
    midi: str | None = None,
    audio: bool = True,
    synth: Mapping[str, Any] = MappingProxyType({}),
    view: bool | None = None,
) -> dict[str, Any]:
    """Play the bundled performance, tell what was done and what to try next.

    ``seconds`` of it at most; ``out`` writes the sound to a WAV as well; ``osc`` is where the bundles go
    (127.0.0.1:9000), ``midi`` a port for MIDI; without ``audio`` nothing is heard. Where no audio device
    works, the sound is written to demo.wav. ``synth`` is a rig's table of what the voice plays.
    ``view`` draws bars
    (None: on a terminal). Returns what happened, in numbers.
    """
    if seconds is not None and not seconds > 0:
        raise OptionError(f"seconds: expected more than 0, got {seconds:g}")
    tuning.one_thread_each()
    host, port = osc or _OSC
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    devices = probe() if audio else None
    audible = devices is not None and devices.usable
    tree = {"osc": [{"host": host, "port": port}], "synth": {**synth, "enabled": audible}}
    rig = Rig.model_validate({**tree, "midi": {"port": midi}, "control": {"enabled": False}})
    wav = out if out is not None else (_WAV if audio and not audible else None)
    kind, show = open_show(PERFORMANCE)
    items = list(show)
    backend, trouble = _model(rig)
    if trouble:
        console.print(f"the model cannot be loaded, the seven scalars play instead: {trouble}")
        rig = rig.model_copy(update={"model": rig.model.model_copy(update={"enabled": False})})
    clock = ScaledClock(1.0)
    clock.begin(items[0].t_ns)
    pipeline = assemble(rig, clock, kind=kind, backend=backend)
    console.print(
        f"a bundled dance of {items[-1].t_ns / 1e9:.0f} s -> OSC to {host}:{port}, 50 bundles a second"
    )
    if midi is not None:
        console.print(f"MIDI notes and controllers to {pipeline.sinks[-1].name.removeprefix('midi ')}")
    if audible and devices is not None:
        console.print(f"the built-in voice plays on {devices.default}")
    elif devices is not None:
        console.print(f"no sound here ({devices.error or 'no audio device'}): it will be written to {wav}")
    bars = Bars("pyanticip demo")
    pipeline.sinks.append(bars)
    result = _play(rig, pipeline, ReplaySource(items, clock), seconds, bars, view, console)
    result |= {"events": bars.events, "audio": devices.default if devices and audible else None}
    if wav is not None and not (result["interrupted"] and out is None):
        rendered = render(PERFORMANCE, wav, rig=rig, seconds=seconds)
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
    rig: Rig,
    pipeline: Pipeline,
    source: ReplaySource,
    seconds: float | None,
    bars: Bars,
    view: bool | None,
    console: Console,
) -> dict[str, Any]:
    latencies: list[int] = []

    def observe(arrival: int, done: int, seq: int, stages: tuple[int, ...]) -> None:
        latencies.append(sum(stages))

    pipeline.observer = observe
    show = stage(rig, pipeline, source, say=lambda line: console.print(line))
    drawn = sys.stderr.isatty() if view is None else view
    with contextlib.ExitStack() as stack:
        if drawn:
            live = Live(bars, console=console, refresh_per_second=_PER_SECOND, transient=True)
            stack.enter_context(live)
        tuning.settle()
        stack.callback(tuning.unsettle)
        report = asyncio.run(show.run(seconds))
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
        "       pyanticip live --synth        plug in a mocopi (UDP 12351), or: --source vmc\n"
        "       pyanticip replay FILE.bvh     your own motion file\n"
        "       pyanticip render FILE.bvh --out FILE.wav"
    )
