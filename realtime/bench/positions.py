"""``pyanticip bench positions``: what trajectory positions cost, by length of the sequence.

Beside them stand what a model with sinusoids does (its rows of a table), sinusoids computed afresh, and a
forward pass of the small token model. All take turns, so that what disturbs the machine disturbs them alike;
ratios are medians over the rounds. On a CPU the clock counts this process's time on one thread: others on the
machine do not show in it, but for what they do to caches. What would take longer than there is time for is
left out, and a line says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from rich.console import Group
from rich.table import Table

from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer, ModelConfig
from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions
from realtime.bench.device import chosen
from realtime.bench.machine import machine
from realtime.bench.memory import peak_bytes

__all__ = ["LENGTHS", "run", "table"]

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
STRENGTH = 0.2
DEVIATION = 0.1
"""Of the embeddings: their steps are then neither nothing nor all alike."""
ROUNDS, ENOUGH = 5, 200
"""Fewest and most rounds."""
LEAST = 2e-4
"""Seconds of a turn: shorter calls are repeated."""
INFLUENCE = 1024
"""Lengths from which growth is fitted: below, the calls' own cost is most of it."""

Way = Callable[[], object]


def run(
    seconds: float = 60.0,
    lengths: Sequence[int] = LENGTHS,
    *,
    width: int = 128,
    batch: int = 1,
    device: str = "auto",
) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    Args:
        seconds: about how long, all in all.
        lengths: of the sequences, 2 to 65,536 each.
        width: of the embeddings; the model is there at 128 only, its own.
        batch: sequences at a time.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Returns:
        ``rows``, one for every length and way, with microseconds a call, and ratios ``to_lookup``,
        ``to_fresh`` and ``of_forward``; ``memory``, bytes by length, and the ratio of table and peak to those
        of a look-up of as many rows (``learning_ratio``: of a call with gradients), to the peak of fresh
        sinusoids, and to one look-up that all rows share; ``step_us`` of one step of a stream; ``growth``, by
        way the exponent of the length with which time grows.

    Raises:
        OptionError: an option outside its range.
        DeviceError: no GPU.
    """
    if not 1.0 <= seconds <= 3600.0:
        raise OptionError(f"seconds: expected 1 to 3600, got {seconds:g}")
    for name, given, low, high in (("width", width, 1, 65_536), ("batch", batch, 1, 1024)):
        if not low <= given <= high:
            raise OptionError(f"{name}: expected {low} to {high}, got {given}")
    for length in lengths:
        if not 2 <= length <= 65_536:
            raise OptionError(f"length: expected 2 to 65536, got {length}")
    where = chosen(device)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    threads = torch.get_num_threads()
    end = time.monotonic() + seconds
    rows: list[dict[str, Any]] = []
    memory: list[dict[str, Any]] = []
    forward: list[tuple[int, float]] = []
    lengths = sorted(set(lengths))
    try:
        torch.set_num_threads(1)
        for i, length in enumerate(lengths):
            share = max((end - time.monotonic()) / (len(lengths) - i), 0.2)
            with torch.no_grad():
                some, held = _length(length, width, batch, where, share, forward)
            rows += some
            memory.append(held)
    finally:
        torch.set_num_threads(threads)
    return {
        "width": width,
        "batch": batch,
        "strength": STRENGTH,
        "device": torch.cuda.get_device_name() if where.type == "cuda" else "cpu",
        "rows": rows,
        "memory": memory,
        "step_us": _step(width, batch, where),
        "growth": _growth(rows),
        "load": None if load is None else round(load, 2),
        "torch": torch.__version__,
        **machine(),
    }


def _length(
    length: int, width: int, batch: int, where: torch.device, share: float, forward: list[tuple[int, float]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One length: every way there is time for, in turn; and what they hold in memory."""
    generator = torch.Generator().manual_seed(0)
    embedded = (DEVIATION * torch.randn(batch, length, width, generator=generator)).to(where)
    steps = torch.arange(length, device=where)
    standard = sinusoids(steps, width).float()
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("trajectory", {}),
        ("trajectory, linear", {"interpolation": "linear"}),
        ("trajectory, cubic", {"interpolation": "cubic"}),
        ("trajectory, rms", {"scale": "rms"}),
        *((("trajectory, cached", {"cache": 10}),) if where.type == "cpu" else ()),
    )
    made = {
        name: TrajectoryPositions(
            width, **{"length": length, "strength": STRENGTH, "cache": 0, **options}
        ).to(where)
        for name, options in kinds
    }
    ways: dict[str, Way] = {
        "look-up": lambda: standard[steps],
        "fresh": lambda: sinusoids(steps, width).float(),
        **{name: _bound(positions, embedded) for name, positions in made.items()},
    }
    left_out = []
    if width == ModelConfig.small().d_model:
        # Its slow pathway looks at everything: quadratic in the end.
        if not forward:
            short = min(length, 512)
            forward.append((short, _timed(_forward(short, batch, where), 1, where)))
        costs = forward[-1][1] * (length / forward[-1][0]) ** 2
        if costs * (ROUNDS + 3) > share:
            why = f"it would take {costs:.1f} s a call"
            left_out.append({"length": length, "way": "forward", "left_out": why})
        else:
            ways["forward"] = _forward(length, batch, where)
    times = _times(ways, where, share)
    if "forward" in times:
        forward.append((length, float(np.median(times["forward"]))))
    rows = [_row(length, batch, name, times) for name in ways] + left_out
    exact = made["trajectory"]
    held, after = sum(x.nbytes for x in exact.buffers()), peak_bytes(ways["trajectory"], where)
    # Of the same shape as ours, every row its own: what a sinusoid for each row of a batch takes.
    each = steps.expand(batch, length)
    before = peak_bytes(lambda: standard[each], where)
    shared = peak_bytes(ways["look-up"], where)
    fresh = peak_bytes(lambda: sinusoids(each, width).float(), where)
    leaf = embedded.clone().requires_grad_()
    with torch.enable_grad():
        learning = peak_bytes(lambda: exact(leaf), where)

    def ratio(table: int, peak: int | None, mine: int | None = after) -> float | None:
        return None if mine is None or not peak else (held + mine) / (table + peak)

    memory = {
        "length": length,
        "table": held,
        "standard_table": standard.nbytes,
        "peak": after,
        "learning_peak": learning,
        "standard_peak": before,
        "fresh_peak": fresh,
        "ratio": ratio(standard.nbytes, before),
        "learning_ratio": ratio(standard.nbytes, before, learning),
        "to_fresh": ratio(0, fresh),
        "to_shared": ratio(standard.nbytes, shared),
        "forward_peak": peak_bytes(ways["forward"], where) if "forward" in ways else None,
    }
    return rows, memory


def _forward(length: int, batch: int, where: torch.device) -> Way:
    """A forward pass of the small model, with sinusoids."""
    model = AnticipatoryTransformer(ModelConfig.small(max_seq_len=length)).eval().to(where)
    ids = torch.randint(model.cfg.vocab, (batch, length), generator=torch.Generator().manual_seed(0)).to(
        where
    )
    return lambda: model(ids)


def _bound(positions: TrajectoryPositions, embedded: torch.Tensor) -> Way:
    return lambda: positions(embedded)


def _times(ways: dict[str, Way], where: torch.device, share: float) -> dict[str, list[float]]:
    """Seconds a call, round by round."""
    end = time.monotonic() + share
    for way in ways.values():
        way()
    calls = {name: max(1, int(LEAST / max(_timed(way, 1, where), 1e-7))) for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(ENOUGH):
        if turn >= ROUNDS and time.monotonic() > end:
            break
        for name in names if turn % 2 else names[::-1]:
            times[name].append(_timed(ways[name], calls[name], where))
    return times


def _timed(way: Way, calls: int, where: torch.device) -> float:
    """Seconds a call: of this process on a CPU, of the clock on the wall on a GPU."""
    clock = time.perf_counter if where.type == "cuda" else time.process_time
    begin = clock()
    for _ in range(calls):
        way()
    if where.type == "cuda":
        torch.cuda.synchronize()
    return (clock() - begin) / calls


def _step(width: int, batch: int, where: torch.device) -> float:
    """Microseconds of one step of a stream without a table, as in a live model."""
    positions = TrajectoryPositions(width, strength=STRENGTH, cache=0).to(where)
    embedded = torch.randn(batch, 1, width, generator=torch.Generator().manual_seed(0)).to(where)
    state = positions.initial_state(batch, embedded)
    with torch.no_grad():
        state = positions(embedded, state)[1] or state
        times = _times({"step": lambda: positions(embedded, state)}, where, 0.2)
    return round(1e6 * float(np.median(times["step"])), 2)


def _row(length: int, batch: int, name: str, times: dict[str, list[float]]) -> dict[str, Any]:
    mine = np.array(times[name])
    row: dict[str, Any] = {
        "length": length,
        "way": name,
        "rounds": len(mine),
        "us": round(1e6 * float(np.median(mine)), 2),
        "min_us": round(1e6 * float(mine.min()), 2),
        "ns_per_step": round(1e9 * float(np.median(mine)) / (length * batch), 2),
    }
    for key, other in (("to_lookup", "look-up"), ("to_fresh", "fresh"), ("of_forward", "forward")):
        if other in times and other != name:
            row[key] = round(float(np.median(mine / np.array(times[other]))), 6)
    return row


def _growth(rows: list[dict[str, Any]]) -> dict[str, float]:
    """By way the slope of the logarithm of time over that of length, where there are three lengths."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(row["way"] for row in rows):
        points = [
            (row["length"], row["us"])
            for row in rows
            if row["way"] == name and "us" in row and row["length"] >= INFLUENCE
        ]
        if len(points) >= 3:
            x, y = np.log(np.array(points)).T
            found[name] = round(float(np.polyfit(x, y, 1)[0]), 3)
    return found


def table(result: dict[str, Any]) -> Group:
    """The result as tables for people."""
    shown = Table(
        title=f"encodings of ({result['batch']}, L, {result['width']}), {result['device']}, strength "
        f"{result['strength']:g}"
    )
    for column in ("L", "", "us a call", "ns a step", "to look-up", "to fresh", "of forward"):
        shown.add_column(column, justify="left" if not column else "right")
    lines = []
    for row in result["rows"]:
        if "left_out" in row:
            lines.append(f"left out: L {row['length']}, {row['way']}: {row['left_out']}")
            continue
        ratios = (f"{row[k]:.3g}" if k in row else "-" for k in ("to_lookup", "to_fresh"))
        share = f"{row['of_forward']:.2%}" if "of_forward" in row else "-"
        values = (f"{row['us']:.1f}", f"{row['ns_per_step']:.1f}")
        shown.add_row(str(row["length"]), row["way"], *values, *ratios, share)
    held = Table(title="memory, KiB: tables, and peaks of a call that encodes every row of the batch")
    kept = ("table", "standard_table", "peak", "learning_peak", "standard_peak", "fresh_peak", "forward_peak")
    memory_ratios = ("ratio", "learning_ratio", "to_fresh", "to_shared")
    names = ("table", "look-up's", "peak", "learning", "look-up's", "fresh", "forward's")
    for column in ("L", *names, "to look-up", "learning", "to fresh", "to one look-up"):
        held.add_column(column, justify="right")
    for row in result["memory"]:
        cells = ["-" if row[k] is None else f"{row[k] / 1024:.0f}" for k in kept]
        cells += ["-" if row[k] is None else f"{row[k]:.2f}" for k in memory_ratios]
        held.add_row(str(row["length"]), *cells)
    growth = ", ".join(f"{name} {slope:.2f}" for name, slope in result["growth"].items())
    where = f"{result['cpu']}, {result['cores']} cores, load {result['load']} at the start"
    step = f"one step of a stream: {result['step_us']:.1f} us"
    last = f"{where}, torch {result['torch']}, commit {result['commit']}"
    return Group(shown, held, *lines, f"time grows with the length to the power of: {growth}", step, last)
