"""``pyanticip bench latency``: the real pipeline over real sockets, a suit and a synth in other processes.

Latency is the time from the kernel's receive stamp of the datagram that completes a frame to the return of
the last ``sendto`` of that frame's bundle. A bare UDP echo in a third process, pinged half a frame after
each datagram, shows in the same run what this machine's scheduler alone costs.
"""

from __future__ import annotations

import itertools
import json
import signal
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pyanticip.bench.machine import Values, machine, percentiles
from pyanticip.errors import DeviceError
from pyanticip.system import ALONE
from pyanticip.vocabulary import RATE
from realtime import tuning
from realtime.loop import run_loop
from realtime.sockets import free_port

if TYPE_CHECKING:
    from realtime.show import Show

__all__ = ["SKELETON_EVERY", "WARM_UP_SECONDS", "answer", "close_peer", "go", "peer", "play", "run"]

#: Left out at the start: sockets, caches and the adaptive timers are settling.
WARM_UP_SECONDS = 2.0
LATE_MS = 20.0
#: A suit repeats its skeleton every few seconds.
SKELETON_EVERY = 100


def run(
    seconds: float = 60.0,
    *,
    file: Path | None = None,
    backend: str = "auto",
    checkpoint: str | Path | None = None,
    model: bool = True,
    prewarm: bool = True,
    spin: bool = False,
    priority: bool = True,
    monitor: bool = False,
) -> dict[str, Any]:
    """Measure for ``seconds`` after the warm-up; the object that ``--json`` prints."""
    from realtime.clock import MonotonicClock
    from realtime.pipeline import STAGES
    from realtime.rig import load_rig
    from realtime.sources.udp import UdpSource
    from realtime.stage import assemble, stage

    frames = round((seconds + WARM_UP_SECONDS) * RATE)
    skeleton, datagrams = _datagrams(file, frames)
    source: UdpSource | None = None
    suit, echo = peer("suit"), peer("echo", *([] if priority else ["ordinary"]))
    try:
        receiver_port, echo_port = _port(suit), _port(echo)
        rig = load_rig(
            None,
            {
                "source": {"kind": "mocopi", "port": free_port()},
                "osc": [{"port": receiver_port}],
                "control": {"port": free_port()},
                "monitor": {"enabled": monitor, "port": free_port()},
                "spin": spin,
                "model": {
                    "backend": backend,
                    "checkpoint": str(checkpoint) if checkpoint else None,
                    "enabled": model,
                },
            },
        )
        source = UdpSource("mocopi", *rig.source.listen)
        pipeline = assemble(rig, MonotonicClock())
        show = stage(rig, pipeline, source, prewarm=prewarm)
        seen = array("q")
        pipeline.observer = lambda arrival, done, seq, stages: seen.extend((seq, done - arrival, *stages))
        go(
            suit,
            {
                "port": source.address[1],
                "echo": echo_port,
                "rate": RATE,
                "skeleton_every": SKELETON_EVERY,
                "pause": 0.5,
            },
            [skeleton, *datagrams],
        )
        with tuning.realtime_mode():
            # The echo does the same, so that both are judged alike.
            scheduling = tuning.raise_priority() if priority else "ordinary"
            locked = priority and tuning.lock_memory()
            begun, worked = time.perf_counter(), time.process_time()
            play(show.run(frames / RATE + 1.2), show)
            share = (time.process_time() - worked) / (time.perf_counter() - begun)
            told, echoed = answer(suit), answer(echo)
    finally:
        if source is not None:
            source.close()
        for process in (suit, echo):
            close_peer(process)
    rows = np.array(seen, dtype=np.int64).reshape(-1, 2 + len(STAGES))
    warm = round(WARM_UP_SECONDS * RATE)
    rows = rows[rows[:, 0] >= warm]
    counters = pipeline.counters()
    sink = pipeline.sinks[0].counters()
    latency = rows[:, 1] / 1e6
    echo_ms = echoed["times_ms"][warm:]
    result: dict[str, Any] = {
        "latency_ms": {**percentiles(latency, (50, 90, 99)), "max": _max(latency)},
        "jitter_ms": round(float(np.abs(np.diff(latency)).mean()), 3) if len(latency) > 1 else 0.0,
        "frames": len(rows),
        "missed": frames - warm - len(np.unique(rows[:, 0])),
        "dropped": source.dropped + sink["dropped"] + sink["failed"] + told["sent"] - counters["packets"]
        + len(range(0, frames, SKELETON_EVERY)),
        "late": int((latency > LATE_MS).sum()),
        "echo_late": sum(t > LATE_MS for t in echo_ms),
        "echo_ms": {**percentiles(echo_ms, (50, 90, 99)), "max": _max(echo_ms)},
        "bundles_received": told["bundles"],
        "bundle_gaps": told["gaps"],
        "stages_us": {
            name: percentiles(rows[:, 2 + i] / 1e3, (50, 99)) for i, name in enumerate(STAGES)
        },
        **_model(pipeline.backend),
        "core": round(share, 3),
        "prewarm": prewarm,
        "spin": spin,
        "monitor": monitor,
        "stamp": source.stamp,
        "seconds": seconds,
        "source": str(file) if file else "mocopi, synthetic motion",
        "threads": 1,
        "scheduling": scheduling,
        "memory_locked": locked,
        **machine(),
    }  # fmt: skip
    return result


def _max(values: Values) -> float:
    return round(float(max(values)), 3) if len(values) else 0.0


def _model(backend: Any) -> dict[str, Any]:
    """What steps: device, name, number of parameters."""
    if backend is None:
        return {"device": "cpu", "backend": None, "model": None, "parameters": 0}
    manifest = backend.manifest
    return {
        "device": "gpu" if backend.name == "cuda-graph" else "cpu",
        "backend": backend.name,
        "model": manifest.name if manifest else backend.name,
        "parameters": manifest.parameters if manifest else 0,
    }


def _datagrams(file: Path | None, frames: int) -> tuple[bytes, list[bytes]]:
    """The skeleton datagram and so many frame datagrams: of a motion file, looped, or made up."""
    if file is None:
        from realtime.bench.performer import mocopi_datagrams

        return mocopi_datagrams(frames, RATE)
    from pyanticip.motion.datagrams import datagrams
    from pyanticip.motion.load import load_motion

    stream = (data for _, data in datagrams(load_motion(file), "mocopi", loop=True))
    skeleton = next(stream)
    found = (data for data in stream if data != skeleton)
    return skeleton, list(itertools.islice(found, frames))


def peer(*role: str) -> subprocess.Popen[bytes]:
    """The other side, :mod:`realtime.bench.peer`, in a role."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "realtime.bench.peer", *role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **ALONE,
    )


def close_peer(process: subprocess.Popen[bytes]) -> None:
    """End a peer that may have ended."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def play(main: Coroutine[Any, Any, object], *shows: Show) -> None:
    """Run shows to their end. Raises a KeyboardInterrupt where they were told to end before it."""
    before = signal.getsignal(signal.SIGTERM)
    run_loop(main)
    signal.signal(signal.SIGTERM, before)  # a loop that closes takes away what it obeyed
    if any(show.ended_early for show in shows):
        raise KeyboardInterrupt


def _port(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise DeviceError("bench latency: its second process did not start")
    return int(line)


def go(process: subprocess.Popen[bytes], plan: dict[str, Any], datagrams: list[bytes]) -> None:
    """Tell a suit what to send, and how."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan).encode() + b"\n")
    for datagram in datagrams:
        process.stdin.write(struct.pack("<I", len(datagram)) + datagram)
    process.stdin.close()


def answer(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a peer says next. Raises a DeviceError where it says nothing."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise DeviceError("bench latency: its second process ended early")
    found: dict[str, Any] = json.loads(line)
    return found
