"""``pyanticip bench latency``: the real pipeline over real sockets, with suit and synth in another process.

Latency is the time from the kernel's receive timestamp of the datagram that completes a frame to the return
of the last ``sendto`` of that frame's bundle. A UDP echo in a third process, pinged half a frame after each
datagram, measures the share of this machine's scheduler in the same run.
"""

from __future__ import annotations

import itertools
import json
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
from pyanticip.system import OWN_PROCESS_GROUP
from pyanticip.vocabulary import RATE
from realtime import tuning
from realtime.loop import run_loop
from realtime.sockets import free_port

if TYPE_CHECKING:
    from realtime.show import Show

#: Time at the start that is not evaluated, while sockets, caches and adaptive timers settle.
WARM_UP_SECONDS = 2.0
#: A frame with a longer latency counts as late.
LATE_MS = 20.0
#: Frames from one skeleton datagram to the next.
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
    suit, echo = start_peer("suit"), start_peer("echo", *([] if priority else ["ordinary"]))
    try:
        receiver_port, echo_port = read_reply(suit), read_reply(echo)
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
        observed = array("q")
        pipeline.observer = lambda arrival, done, seq, stages: observed.extend((seq, done - arrival, *stages))
        send_plan(
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
            # The echo process does the same, for a fair comparison.
            scheduling = tuning.raise_priority() if priority else "ordinary"
            is_locked = priority and tuning.lock_memory()
            started, started_cpu = time.perf_counter(), time.process_time()
            run_shows(show.run(frames / RATE + 1.2), show)
            core_share = (time.process_time() - started_cpu) / (time.perf_counter() - started)
            suit_reply, echo_reply = read_reply(suit), read_reply(echo)
    finally:
        if source is not None:
            source.close()
        for process in (suit, echo):
            close_peer(process)
    rows = np.array(observed, dtype=np.int64).reshape(-1, 2 + len(STAGES))
    warm_up = round(WARM_UP_SECONDS * RATE)
    rows = rows[rows[:, 0] >= warm_up]
    counters = pipeline.counters()
    sink = pipeline.sinks[0].counters()
    latency = rows[:, 1] / 1e6
    echo_ms = echo_reply["times_ms"][warm_up:]
    result: dict[str, Any] = {
        "latency_ms": latency_summary(latency),
        "jitter_ms": round(float(np.abs(np.diff(latency)).mean()), 3) if len(latency) > 1 else 0.0,
        "frames": len(rows),
        "missed": frames - warm_up - len(np.unique(rows[:, 0])),
        "dropped": source.dropped + sink["dropped"] + sink["failed"]
        + suit_reply["sent"] - counters["packets"] + len(range(0, frames, SKELETON_EVERY)),
        "late": int((latency > LATE_MS).sum()),
        "echo_late": sum(t > LATE_MS for t in echo_ms),
        "echo_ms": latency_summary(echo_ms),
        "bundles_received": suit_reply["bundles"],
        "bundle_gaps": suit_reply["gaps"],
        "stages_us": {
            name: percentiles(rows[:, 2 + i] / 1e3, (50, 99)) for i, name in enumerate(STAGES)
        },
        **_model(pipeline.backend),
        "core": round(core_share, 3),
        "prewarm": prewarm,
        "spin": spin,
        "monitor": monitor,
        "stamp": source.stamp,
        "seconds": seconds,
        "source": str(file) if file else "mocopi, synthetic motion",
        "threads": 1,
        "scheduling": scheduling,
        "memory_locked": is_locked,
        **machine(),
    }  # fmt: skip
    return result


def latency_summary(values: Values) -> dict[str, float]:
    """p50, p90, p99 and max; only a max of 0 if there are no values."""
    return {**percentiles(values, (50, 90, 99)), "max": round(float(max(values, default=0.0)), 3)}


def _model(backend: Any) -> dict[str, Any]:
    """Device, backend, name and number of parameters of the model."""
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
    """The skeleton datagram and ``frames`` frame datagrams, of a looped motion file or synthetic motion."""
    if file is None:
        from realtime.bench.performer import mocopi_datagrams

        return mocopi_datagrams(frames, RATE)
    from pyanticip.motion.datagrams import datagrams
    from pyanticip.motion.load import load_motion

    stream = (data for _, data in datagrams(load_motion(file), "mocopi", loop=True))
    skeleton = next(stream)
    frame_data = (data for data in stream if data != skeleton)
    return skeleton, list(itertools.islice(frame_data, frames))


def start_peer(*role: str) -> subprocess.Popen[bytes]:
    """Start a child process :mod:`realtime.bench.peer` in a role."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "realtime.bench.peer", *role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **OWN_PROCESS_GROUP,
    )


def close_peer(process: subprocess.Popen[bytes]) -> None:
    """Kill a peer, which may have ended, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def run_shows(main: Coroutine[Any, Any, object], *shows: Show) -> None:
    """Run shows to their end.

    Raises:
        KeyboardInterrupt: a signal ended them early.
    """
    run_loop(main)
    if any(show.ended_early for show in shows):
        raise KeyboardInterrupt


def send_plan(process: subprocess.Popen[bytes], plan: dict[str, Any], datagrams: list[bytes]) -> None:
    """Write the plan and the datagrams to a suit's standard input, which starts it."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan).encode() + b"\n")
    for datagram in datagrams:
        process.stdin.write(struct.pack("<I", len(datagram)) + datagram)
    process.stdin.close()


def read_reply(process: subprocess.Popen[bytes]) -> Any:
    """The next JSON line of a peer; the first is its port.

    Raises:
        DeviceError: it ended without one.
    """
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise DeviceError("bench latency: its second process ended early")
    return json.loads(line)
