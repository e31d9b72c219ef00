"""``pyanticip bench performers``: one process plays several suits, which a second process sends at 50 Hz.

Latency is the time from the kernel's receive timestamp of the datagram that completes a frame to the return
of the last send of that frame's bundle, over the frames of all performers.
"""

from __future__ import annotations

import asyncio
import io
import time
from array import array
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pyanticip.bench.machine import machine, percentiles
from pyanticip.errors import DeviceError
from pyanticip.motion.atomic import check_out, write_file
from pyanticip.vocabulary import RATE
from realtime import tuning
from realtime.bench.latency import (
    SKELETON_EVERY,
    WARM_UP_SECONDS,
    close_peer,
    latency_summary,
    read_reply,
    run_shows,
    send_plan,
    start_peer,
)
from realtime.bench.options import numbers
from realtime.bench.performer import mocopi_datagrams
from realtime.sockets import free_port

Phases = Literal["random", "even", "together"]
_MAX_PERFORMERS = 64
# Time for the child processes of each show to start, seconds per performer.
_START_S = 0.3
# Interval of the samples of the process's CPU time, each of which is a system call.
_SAMPLE_INTERVAL_S = 0.25


def run(
    count: str = "1,2,4,8,16,32",
    seconds: float = 20.0,
    *,
    phases: Phases = "random",
    prewarm: bool = False,
    model: bool = True,
    picture: Path | None = None,
) -> dict[str, Any]:
    """Measure each of the numbers in ``count`` for ``seconds`` after the warm-up; what ``--json`` prints.

    Args:
        phases: when the suits send within the 20 ms: at random times, evenly spaced, or all at once.
        picture: PNG file for the curve.

    Raises:
        DeviceError: matplotlib or the picture's folder is missing.
    """
    if picture is not None:
        check_out(picture, (".png",))
        if find_spec("matplotlib") is None:
            raise DeviceError("--picture needs matplotlib: pip install 'pyanticip[train]'")
    counts = numbers("count", count, _MAX_PERFORMERS)
    rows = [_measure(n, seconds, phases, prewarm, model) for n in counts]
    if picture is not None:
        draw(rows, picture)
    return {"counts": rows, "phases": phases, "prewarm": prewarm, "seconds": seconds, **machine()}


def _phases(n: int, phases: Phases) -> list[float]:
    """The times at which the suits send, as ascending shares of the 20 ms."""
    if phases == "random":
        return sorted(np.random.default_rng(n).random(n).tolist())
    return [i / n if phases == "even" else 0.0 for i in range(n)]


def _measure(n: int, seconds: float, phases: Phases, prewarm: bool, model: bool) -> dict[str, Any]:
    from realtime.clock import MonotonicClock
    from realtime.multi_show import open_multi_show
    from realtime.rig import load_rig

    frames, warm_up = round((seconds + WARM_UP_SECONDS) * RATE), round(WARM_UP_SECONDS * RATE)
    skeleton, datagrams = mocopi_datagrams(frames, RATE)
    suits = start_peer("suits", str(n))
    try:
        receiver, *senders = read_reply(suits)["ports"]
        port = free_port()
        rig = load_rig(
            None,
            {
                "source": {"kind": "mocopi", "port": port},
                "osc": [{"port": receiver}],
                "control": {"port": free_port()},
                "model": {"enabled": model},
                "performer": [
                    {"name": f"p{i}", "from": f"127.0.0.1:{sender}"} for i, sender in enumerate(senders)
                ],
            },
        )
        multi_show = open_multi_show(rig, MonotonicClock(), lambda line: None, prewarm=prewarm)
        observed, cpu_samples = array("q"), array("d")

        def observe(arrival: int, done: int, seq: int, stages: Sequence[int]) -> None:
            observed.extend((seq, arrival, done - arrival, stages[3]))

        async def run_sampled() -> None:
            show = asyncio.ensure_future(multi_show.run(pause + frames / RATE + 1.0))
            while not show.done():
                cpu_samples.extend((time.monotonic_ns(), time.process_time()))
                await asyncio.wait({show}, timeout=_SAMPLE_INTERVAL_S)
            await show

        for show in multi_show.shows.values():
            show.pipeline.observer = observe
        pause = 1.0 + _START_S * n
        plan = {
            "port": port, "rate": RATE, "skeleton_every": SKELETON_EVERY, "pause": pause,
            "phases": _phases(n, phases),
        }  # fmt: skip
        send_plan(suits, plan, [skeleton, *datagrams])
        with tuning.realtime_mode():
            scheduling = tuning.raise_priority()
            tuning.lock_memory()
            run_shows(run_sampled(), *multi_show.shows.values())
            reply = read_reply(suits)
    finally:
        close_peer(suits)
    rows = np.array(observed, np.int64).reshape(-1, 4)
    rows = rows[rows[:, 0] >= warm_up]
    # CPU time is interpolated between samples: an event loop that is behind takes few.
    wall = np.array([rows[:, 1].min(), rows[:, 1].max()] if len(rows) else cpu_samples[:3:2], float)
    cpu = np.interp(wall, cpu_samples[::2], cpu_samples[1::2])
    latency = rows[:, 2] / 1e6
    return {
        "performers": n,
        "latency_ms": latency_summary(latency),
        "step_us": percentiles(rows[:, 3] / 1e3, (50, 99)),
        "cpu": round(float(1e9 * np.ptp(cpu) / max(np.ptp(wall), 1.0)), 3),
        "frames": len(rows),
        "missed": n * (frames - warm_up) - len(rows),
        "bundles_received": reply["bundles"],
        "scheduling": scheduling,
    }


def table(result: dict[str, Any]) -> str:
    """The result as a Markdown table."""
    lines = [
        "| performers | p50 | p90 | p99 | max, ms | a core | missed |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["counts"]:
        ms = row["latency_ms"]
        numbers = " | ".join(f"{ms[name]:.2f}" for name in ("p50", "p90", "p99", "max"))
        missed = f"{row['missed']} of {row['frames'] + row['missed']}"
        lines.append(f"| {row['performers']} | {numbers} | {100 * row['cpu']:.0f} % | {missed} |")
    return "\n".join(lines)


def draw(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Write a PNG of latency, with the 20 ms of a frame, and CPU time over the number of performers.

    Raises:
        DeviceError: it cannot be written.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    counts = [row["performers"] for row in rows]
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    latency, core = figure.subplots(1, 2)
    for name, colour in (("p50", "#1f4e79"), ("p90", "#9aa5b1"), ("p99", "#b3261e")):
        latency.plot(counts, [row["latency_ms"][name] for row in rows], "o-", color=colour, label=name)
    latency.axhline(1000.0 / RATE, color="black", linewidth=0.8, linestyle=":", label="a frame")
    latency.set(yscale="log", ylabel="datagram to last OSC send, ms")
    latency.legend(frameon=False)
    core.plot(counts, [100.0 * row["cpu"] for row in rows], "o-", color="#1f4e79")
    core.axhline(100.0, color="black", linewidth=0.8, linestyle=":")
    core.set(ylim=(0, None), ylabel="CPU time, % of a core")
    for axes in (latency, core):
        axes.set(xscale="log", xlabel="performers", xticks=counts, xticklabels=counts)
        axes.minorticks_off()
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    latency.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    latency.yaxis.set_major_formatter("{x:g}")
    figure.savefig(image := io.BytesIO(), format="png", dpi=100)
    write_file(out, image.getvalue())
