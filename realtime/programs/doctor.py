"""``pyanticip doctor``: check what works on this machine; each check is a line, with a remedy if it fails."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import MotionError, OptionError, counted
from pyanticip.system import cores_and_load
from realtime.seams import BACKENDS, SINKS, SOURCES, VOICES, Registry
from realtime.sources.arrivals import usual_ports

# For a driver that hangs while it lists its ports.
_MIDI_TIMEOUT_S = 20.0
# Ports that are listened on by default besides those of the sources, and their use.
_PORTS = ((9010, "OSC control in"), (57140, "built-in voice in"))
_PACKAGES = ("numpy", "python-osc", "sounddevice", "pydantic", "msgpack", "rich", "torch")

Check = dict[str, Any]


def _check(status: str, found: str, remedy: str = "", **more: Any) -> Check:
    """A check's result; ``status`` is ``ok``, ``warn`` (something fails) or ``broken`` (nothing works)."""
    return {"status": status, "found": found, "remedy": remedy, **more}


def _versions() -> Check:
    found, missing = {}, []
    for package in ("pyanticip", *_PACKAGES):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    needed = [name for name in missing if name not in ("pyanticip", "torch")]
    if needed:
        return _check("broken", f"{python}; missing: {', '.join(needed)}", "pip install pyanticip")
    if "torch" in missing:
        text += "; no torch (training and the torch backends need it: the extras train and gpu)"
    return _check("ok", f"{python}; {text}", versions=found)


def _core() -> Check:
    from pyanticip import _core

    version = _core.__version__
    width = _core.VECTOR_WIDTH
    text = f"{version}, {Path(_core.__file__ or '').name}, vectors of {width} floats"
    if width == 1:
        remedy = "this processor has neither AVX2 nor NEON: a step takes about five times as long"
        return _check("warn", text, remedy)
    return _check("ok", text)


def _packages() -> Check:
    home = Path(__file__).resolve().parents[2]
    for name in ("pyanticip", "realtime", "training"):
        spec = importlib.util.find_spec(name)
        location = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
        if location != home:
            return _check(
                "broken",
                f"{name} is found in {location}, expected in {home}",
                f"another project is called {name!r}: pip uninstall {name}, then install pyanticip again",
            )
    # Two projects may be installed into one folder, where some files then are the other project's.
    owners = importlib.metadata.packages_distributions()
    for name in ("realtime", "training"):
        if others := sorted(set(owners.get(name, ())) - {"pyanticip"}):
            return _check(
                "broken",
                f"{name} in {home} is of another project as well: {', '.join(others)}",
                f"pip uninstall {' '.join(others)}, then install pyanticip again",
            )
    return _check("ok", f"pyanticip, realtime and training are of this installation ({home})")


def _machine() -> Check:
    if (usage := cores_and_load()) is not None:
        cores, load = usage
        text = f"{cores} cores usable, load {load:.1f}"
        if cores < 2:
            return _check("warn", text, "two cores keep the voice and the model apart")
        if load > 1.5 * cores:
            return _check("warn", text, "other programs are busy: end them before a show")
        return _check("ok", text)
    return _check("ok", f"{os.cpu_count()} cores")


def _timer() -> Check:
    late_ms = []
    for _ in range(100):
        started = time.monotonic()
        time.sleep(0.002)
        late_ms.append(1000 * (time.monotonic() - started - 0.002))
    late_ms.sort()
    text = f"sleeps end {statistics.median(late_ms):.2f} ms late (99th percentile {late_ms[98]:.1f} ms)"
    resolution = time.get_clock_info("monotonic").resolution
    text += f", clock resolution {1e9 * resolution:.0f} ns"
    if late_ms[98] > 10.0:
        return _check("warn", text, "a busy or virtual machine: expect late frames now and then")
    return _check("ok", text)


def _audio() -> Check:
    from realtime.voice.audio import probe

    audio = probe()
    if audio.portaudio is None:
        remedy = "install PortAudio (Debian: apt-get install libportaudio2; macOS: it comes with sounddevice)"
        return _check("warn", audio.error or "PortAudio is missing", remedy, outputs=[])
    version = audio.portaudio.split(",")[0]
    if not audio.usable:
        reason = f"{version}; no output that works ({audio.error})"
        return _check("warn", reason, "plug in or start one; without, `render` still writes WAV files")
    text = f"{version}; {audio.default}, {counted(len(audio.outputs), 'output')}"
    return _check("ok", text, outputs=list(audio.outputs))


def _midi() -> Check:
    if importlib.util.find_spec("rtmidi") is None:
        return _check("ok", "no python-rtmidi: MIDI out needs the extra midi", ports=[])
    # In a child process: a broken driver must not crash the doctor.
    command = [sys.executable, "-P", "-m", "realtime.sinks.midi.port"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_MIDI_TIMEOUT_S, check=True)
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        remedy = "live --midi will fail here; without it all else works"
        return _check("warn", f"asking for ports failed: {type(error).__name__}", remedy, ports=[])
    if not found["drivers"]:
        remedy = "load the ALSA sequencer (modprobe snd-seq) or start JACK or PipeWire, if MIDI is wanted"
        return _check("ok", "no MIDI driver answers (ALSA, JACK, CoreMIDI)", remedy, ports=[])
    drivers, ports = ", ".join(found["drivers"]), found["ports"]
    text = f"{drivers}; ports: {', '.join(ports) or 'none, but --midi virtual makes one'}"
    return _check("ok", text, ports=ports)


def _gpu() -> Check:
    from realtime.step.open import cuda_present

    if cuda_present() and importlib.util.find_spec("torch") is None:
        return _check("warn", "CUDA answers, torch is not there", "pip install 'pyanticip[gpu]'")
    if cuda_present():
        return _check("ok", "CUDA answers: `--backend auto` tries it against the processor")
    return _check("ok", "no CUDA: the model runs on the processor, which is enough")


def _bind_error(port: int) -> str:
    """Why a UDP port on the loopback interface cannot be bound; ``""``: it is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            return (error.strerror or str(error)).lower()
    return ""


def _sources() -> Check:
    return _check("ok", ", ".join(SOURCES.names()))


def _plug_ins() -> Check:
    openers: tuple[tuple[Registry[Any], Callable[[Any], object]], ...] = (
        (SOURCES, lambda source: source()),
        (SINKS, lambda sink: sink.Config),
        (BACKENDS, lambda backend: backend),
        (VOICES, lambda voice: voice.Config),
    )
    found, problems = [], []
    for registry, open_plug_in in openers:
        for point in registry.shadowed():
            entry = f"{registry.kind} {point.name!r}: {point.value}"
            problems.append(f"{entry} is not used (what is built in has that name)")
        for name in registry.names()[len(registry.built_in) :]:
            found.append(f"{registry.kind} {name}")
            try:
                opened = open_plug_in(registry.load(name))
                if registry is SOURCES and not hasattr(opened, "encode"):
                    problems.append(f"source {name!r} has no encode: pyanticip send cannot play it")
            except OptionError as error:
                problems.append(str(error))
    if problems:
        remedy = "mend or uninstall the package that it comes from; all else works"
        return _check("warn", "; ".join(problems), remedy)
    return _check("ok", ", ".join(found) or "none of other packages")


def _ports() -> Check:
    ports = ({port: f"{kind} in" for port, kind in usual_ports().items()} | dict(_PORTS)).items()
    in_use = [f"{port} ({what}): {error}" for port, what in ports if (error := _bind_error(port))]
    # The default OSC target needs no listener, but users want to know whether there is one.
    somebody = "somebody" if _bind_error(9000) else "nobody"
    if in_use:
        remedy = "end the program that has it, or choose another: --source mocopi://:PORT, rig file"
        return _check("warn", f"in use: {'; '.join(in_use)}", remedy)
    free = ", ".join(f"{port} ({what})" for port, what in ports)
    return _check("ok", f"UDP {free} are free; {somebody} listens at 9000, where OSC goes by default")


def _model() -> Check:
    from pyanticip.models.checkpoint.manifest import read_manifest
    from realtime.step.open import open_rust

    try:
        manifest = read_manifest(None)
        backend = open_rust(None)
    except MotionError as error:
        remedy = "reinstall pyanticip; without the model the seven scalars play alone"
        return _check("warn", str(error), remedy)
    try:
        from pyanticip.vocabulary import FEATURES

        row = np.zeros((1, FEATURES), np.float32)
        for _ in range(20):
            backend.step(row)
        step_ms = []
        for _ in range(40):
            time.sleep(0.01)
            backend.prewarm()
            started = time.perf_counter()
            backend.step(row)
            step_ms.append(1000 * (time.perf_counter() - started))
        median, worst = statistics.median(step_ms), max(step_ms)
    finally:
        backend.close()
    text = f"{manifest.name}, {manifest.parameters / 1e6:.2f} M parameters; on {backend.name} a step takes"
    text += f" {median:.2f} ms (slowest of {len(step_ms)}: {worst:.1f} ms)"
    if median > 10.0:
        return _check("warn", text, "a frame is 20 ms: on this machine the scalars will often stand in")
    return _check("ok", text, step_ms=round(median, 3))


def _front() -> Check:
    """The first two seconds of the bundled performance through the Rust front-end."""
    from pyanticip._core import LiveFront
    from realtime.programs.demo import PERFORMANCE
    from realtime.sources.replay import Datagram, open_show

    kind, items = open_show(PERFORMANCE)
    front = LiveFront(kind)
    frames = 0
    started = time.perf_counter()
    for item in items:
        if item.t_ns > 2_000_000_000 or not isinstance(item, Datagram):
            break
        frames += front.feed(item.data, item.t_ns) is not None
    frame_us = 1e6 * (time.perf_counter() - started) / max(frames, 1)
    if frames < 95:
        return _check("broken", f"{frames} frames of 100 came out", "reinstall pyanticip")
    return _check("ok", f"{frames} frames of the bundled performance, {frame_us:.0f} us each")


def _voice() -> Check:
    from pyanticip._core import Voice

    voice = Voice(48_000.0)
    voice.params(np.array([0.5, 0.9, 0.7, 0.4, 0.8, 0.6, 0.5, 0.4], np.float32))
    started = time.perf_counter()
    sound = voice.render(48_000)
    times = 1.0 / (time.perf_counter() - started)
    if not 0.01 < float(np.abs(sound).max()) < 0.9:
        return _check("broken", "the built-in voice is silent or too loud", "reinstall pyanticip")
    return _check("ok", f"renders {times:.0f} times as fast as it sounds")


_CHECKS: tuple[tuple[str, Callable[[], Check]], ...] = (
    ("versions", _versions),
    ("packages", _packages),
    ("core", _core),
    ("front-end", _front),
    ("model", _model),
    ("voice", _voice),
    ("audio", _audio),
    ("midi", _midi),
    ("gpu", _gpu),
    ("sources", _sources),
    ("plug-ins", _plug_ins),
    ("ports", _ports),
    ("processor", _machine),
    ("timer", _timer),
)


def doctor() -> dict[str, Any]:
    """Run all checks: ``checks`` (name, status, found, remedy), ``working`` (nothing is broken)."""
    checks = []
    for name, run in _CHECKS:
        try:
            check = run()
        except Exception as error:
            # An unexpected error is the finding of its check; the others still run.
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            check = _check("broken", text, "reinstall pyanticip, or report this line")
        checks.append({"name": name, **check})
    return {
        "working": all(check["status"] != "broken" for check in checks),
        "python": sys.executable,
        "checks": checks,
    }


def lines(report: dict[str, Any]) -> list[str]:
    """The report as text: one line for each check, one more for a remedy."""
    out = []
    for check in report["checks"]:
        out.append(f"{check['status']:6} {check['name']:10} {check['found']}")
        if check["remedy"]:
            out.append(f"{'':17} -> {check['remedy']}")
    out.append("everything needed works" if report["working"] else "something is broken: see above")
    return out
