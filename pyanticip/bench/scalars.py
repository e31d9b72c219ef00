"""``pyanticip bench scalars``: time of one frame of the seven scalars, called from Python, on one core.

Frames are pushed in a tight loop with warm caches, unlike live (``bench latency`` measures the paced
pipeline). Medians of 2,000 frames after warm-up. *Flat* compares frames around the 10,000th of a stream with
frames around the 1,000,000th of another one: blocks of 1,000 frames of the two alternate in one process, so
that both see the same machine.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyanticip.bench.machine import machine, percentiles, rich_table
from pyanticip.geometry import ScalarStream
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE

if TYPE_CHECKING:
    from rich.console import Group

JOINTS = len(CANONICAL_JOINTS)
WINDOWS = (256, 1500)
TIMED = 2_000
#: Budget for the median time of a frame of smooth motion, microseconds, by window.
BUDGET_US = {256: 30.0, 1500: 120.0}
EARLY, LATE, BLOCK = 10_000, 1_000_000, 1_000
#: Length of the seamless loop of smooth motion that the streams run through, frames.
PERIOD = 20_000

Poses = npt.NDArray[np.float32]


def run(seconds: float = 30.0) -> dict[str, Any]:
    """Measure for about ``seconds`` (the part that compares early and late frames takes what is left).

    Args:
        seconds: 1 to 3600; below about 15 the late stream does not reach its 1,000,000th frame, and
            ``flat.late_frame`` is the frame that it reached.

    Returns:
        The object that ``--json`` prints; times in microseconds.
    """
    end = time.monotonic() + seconds
    motions = _motions(max(WINDOWS) + 500 + TIMED)
    push: dict[str, dict[str, dict[str, float]]] = {}
    for window in WINDOWS:
        push[str(window)] = {name: _time(window, poses) for name, poses in motions.items()}
    return {
        "push_us": push,
        "budget_us": {str(w): b for w, b in BUDGET_US.items()},
        "flat": _flat(max(end - time.monotonic(), 0.5)),
        "joints": JOINTS,
        "threads": 1,
        **machine(),
    }


def table(result: dict[str, Any]) -> Group:
    """The result as a table."""
    from rich.console import Group

    title = f"push, {result['joints']} joints, called from Python, one core, microseconds"
    shown = rich_table(title, ("window", "motion", "p50", "p99", "budget"), ("motion",))
    for window, motions in result["push_us"].items():
        for name, times in motions.items():
            budget = f"{result['budget_us'][window]:g}" if name == "smooth" else ""
            shown.add_row(window, name, f"{times['p50']:.1f}", f"{times['p99']:.1f}", budget)
    flat = result["flat"]
    words = (
        f"frame {flat['late_frame']:,} costs {flat['ratio']:.3f} of frame {flat['early_frame']:,}: "
        f"{flat['late_us']:.1f} and {flat['early_us']:.1f} us, {flat['blocks']} blocks of each"
    )
    return Group(shown, words, f"{result['cpu']}, one thread, commit {result['commit']}")


def _smooth(frames: int) -> Poses:
    """Oscillations of every joint with whole numbers of periods in :data:`PERIOD` frames: a seamless loop."""
    rng = np.random.default_rng(0)
    t = np.arange(frames)[:, None] / PERIOD
    axis = rng.normal(size=(JOINTS, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    turns = [round(f * PERIOD / RATE) for f in (0.31, 0.73, 1.37)]
    phases = rng.uniform(0, 2 * np.pi, (3, JOINTS))
    sizes = rng.uniform(0.1, 0.4, (3, JOINTS))
    waves = [a * np.sin(2 * np.pi * n * t + p) for n, p, a in zip(turns, phases, sizes, strict=True)]
    half = np.sum(waves, axis=0)[..., None] / 2
    return np.concatenate([np.cos(half), np.sin(half) * axis], axis=-1).astype(np.float32)


def _motions(frames: int) -> dict[str, Poses]:
    """The usual case, and the worst ones, where the core's bounds can skip nothing."""
    rng = np.random.default_rng(1)
    smooth = _smooth(frames)
    shape = smooth.shape
    still = np.broadcast_to(smooth[:1], shape)
    jitter = still + rng.normal(scale=5e-5, size=shape).astype(np.float32)
    random = rng.normal(size=shape).astype(np.float32)
    return {"smooth": smooth, "still": still.copy(), "still, 0.1 mrad of noise": jitter, "random": random}


def _time(window: int, poses: Poses) -> dict[str, float]:
    stream = ScalarStream(JOINTS, window=window)
    frames = list(poses)
    for pose in frames[:-TIMED]:
        stream.push(pose)
    times = np.empty(TIMED)
    clock, push = time.perf_counter_ns, stream.push
    for i, pose in enumerate(frames[-TIMED:]):
        begin = clock()
        push(pose)
        times[i] = clock() - begin
    return percentiles(times, (10, 50, 99), 1e-3)


def _flat(seconds: float) -> dict[str, Any]:
    """Compare early and late frames of two streams through the same loop, in alternating blocks."""
    end = time.monotonic() + seconds
    loop = _smooth(PERIOD)
    frames = list(loop)
    late = ScalarStream(JOINTS, window=256)
    # Up to the late frame in whole loops, then to the same place of the loop where the early blocks begin.
    while late.frames < LATE - EARLY and (late.frames == 0 or time.monotonic() < end - 0.3 * seconds):
        late.push_many(loop)
    late.push_many(loop[:EARLY])
    early = ScalarStream(JOINTS, window=256)
    early.push_many(loop[:EARLY])
    start, late_frame = early.frames, late.frames
    medians: dict[str, list[float]] = {"early": [], "late": []}
    clock = time.perf_counter_ns
    times = np.empty(BLOCK)
    while start + BLOCK <= PERIOD and (len(medians["late"]) < 3 or time.monotonic() < end):
        block = frames[start : start + BLOCK]
        pair = (("early", early.push), ("late", late.push))
        for name, push in pair if (start // BLOCK) % 2 else pair[::-1]:
            for i, pose in enumerate(block):
                begin = clock()
                push(pose)
                times[i] = clock() - begin
            medians[name].append(float(np.median(times)) * 1e-3)
        start += BLOCK
    ratios = np.divide(medians["late"], medians["early"])
    return {
        "early_frame": EARLY,
        "late_frame": late_frame,
        "early_us": round(float(np.median(medians["early"])), 3),
        "late_us": round(float(np.median(medians["late"])), 3),
        "ratio": round(float(np.median(ratios)), 4),
        "ratio_spread": [round(float(x), 4) for x in (ratios.min(), ratios.max())],
        "blocks": len(ratios),
    }
