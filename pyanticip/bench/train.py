"""``pyanticip bench train``: cost of the token model compared with a plain transformer of equal size.

Forward and backward of whole sequences, memory, and decoding token by token. The two models alternate call by
call, so that disturbances of the machine affect both. Their ratio is the median over pairs; beside it is the
ratio of the plain model to itself (A/A): a difference within that spread is not significant. The scalars that
steer the anticipatory model are computed outside the timed calls, as a data loader would do; their time is
shown separately.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Group
from torch import Tensor
from torch.nn import functional as F

from pyanticip.bench.machine import machine, rich_table
from pyanticip.bridge import bridge_scalars
from pyanticip.errors import DeviceError
from pyanticip.models import AnticipatoryTransformer, BaselineTransformer, ModelConfig
from pyanticip.system import cores


def peak_bytes(call: Callable[[], object], device: torch.device) -> int | None:
    """Peak memory of torch's allocator during a call, less what was allocated before.

    Args:
        call: what to measure.
        device: on a GPU the allocator's own statistics are read; on a CPU torch's profiler adds up every
            allocation and release.

    Returns:
        Bytes; None where this torch does not report allocations.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device)) - before
    # Otherwise the profiler prints warnings about a missing GPU.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    results = getattr(getattr(profiled, "profiler", None), "kineto_results", None)
    if results is None:
        return None
    changes = [(e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]"]
    held = peak = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        peak = max(peak, held)
    return peak if changes else None


LENGTHS = (256, 1024, 2048)
TOKENS = 2048
"""Tokens of a batch, whatever the length."""
PAIRS = 5
"""Fewest pairs of calls for a ratio."""
POSITIONS = (16, 64, 256, 1024, 2040)
"""Numbers of tokens before the timed step of decoding."""
STEPS = 6
"""Consecutive steps of decoding; the first is not counted."""

Model = AnticipatoryTransformer | BaselineTransformer


def select_device(device: str) -> torch.device:
    """The device for ``auto``, ``cpu`` or ``cuda``; ``auto`` is a GPU where torch can use one.

    Raises:
        DeviceError: ``cuda`` where torch cannot use a GPU.
    """
    cuda = torch.cuda.is_available()
    if device == "cuda" and not cuda:
        raise DeviceError("option device: cuda is not available here; use cpu or auto")
    return torch.device("cuda" if cuda and device != "cpu" else "cpu")


def run(
    seconds: float = 120.0,
    *,
    size: str = "small",
    device: str = "auto",
) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    On a CPU in float32, on a GPU under bfloat16 autocast.

    Args:
        seconds: approximate total. Each measurement takes at least five pairs; if the time does not suffice,
            the longest sequences are left out, but never everything.
        size: ``"small"`` or ``"default"``, a preset of :class:`~pyanticip.models.ModelConfig`.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Returns:
        ``train`` (a list: ``ratio`` of the anticipatory to the plain model with quartiles, both in
        milliseconds, ``bridge_ms``), ``memory`` (a list: peak MiB of a training step on one sequence, fused,
        with the reference layout, and of the plain model), ``decode`` (microseconds per token by number of
        tokens before it) and ``left_out`` (a list of lines: what there was no time for).

    Raises:
        DeviceError: no GPU.
    """
    torch_device = select_device(device)
    counts = [1] if torch_device.type == "cuda" else list(range(1, min(2, cores()) + 1))
    before = torch.get_num_threads()
    left_out: list[str] = []
    end = time.perf_counter() + seconds
    try:
        torch.set_num_threads(1)
        decode = _decoding(size, torch_device, seconds * 0.1)
        rows = [(length, count) for length in LENGTHS for count in counts]
        train: list[dict[str, Any]] = []
        memory: list[dict[str, Any]] = []
        for number, (length, count) in enumerate(rows):
            remaining = end - time.perf_counter()
            if train and remaining <= 0.0:
                left_out.append(f"length {length}, {count} thread{'s' if count > 1 else ''}")
                continue
            torch.set_num_threads(count)
            train.append(_training(size, length, count, torch_device, 0.9 * remaining / (len(rows) - number)))
        torch.set_num_threads(1)
        for length in LENGTHS:
            if memory and time.perf_counter() > end:
                left_out.append(f"memory at length {length}")
            else:
                memory.append(_memory(size, length, torch_device))
    finally:
        torch.set_num_threads(before)
    train.sort(key=lambda row: (row["threads"], row["length"]))
    return {
        "left_out": left_out,
        "train": train,
        "memory": memory,
        "decode": decode,
        "size": size,
        "tokens": TOKENS,
        "device": torch.cuda.get_device_name(torch_device) if torch_device.type == "cuda" else "cpu",
        "precision": "bfloat16 autocast" if torch_device.type == "cuda" else "float32",
        "torch": torch.__version__,
        **machine(),
    }


def _pair(
    size: str, length: int, device: torch.device
) -> tuple[AnticipatoryTransformer, BaselineTransformer]:
    torch.manual_seed(0)
    preset = ModelConfig.small if size == "small" else ModelConfig.default
    cfg = preset(max_seq_len=length)
    return AnticipatoryTransformer(cfg).to(device), BaselineTransformer(cfg).to(device)


def _batch(model: Model, rows: int, length: int) -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, model.cfg.vocab, (rows, length + 1), generator=torch.Generator().manual_seed(1))
    device = model.token.weight.device
    return ids.to(device), torch.rand(rows, length, 7).to(device)


def _step(model: Model, ids: Tensor, scalars: Tensor) -> None:
    """Forward, the training loss, and backward into fresh gradients."""
    model.zero_grad(set_to_none=True)
    half = ids.device.type == "cuda"
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=half):
        targets = ids[:, 1:].flatten()
        if isinstance(model, BaselineTransformer):
            total = F.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), targets)
        else:
            out = model(ids[:, :-1], scalars)
            total = F.cross_entropy(out.logits.flatten(0, 1), targets)
            total = total + F.mse_loss(out.scalars.float(), scalars)
            total = total + F.mse_loss(out.initial.float(), scalars)
            overlap = model.orthogonality()
            total = total if overlap is None else total + 0.1 * overlap.penalty
    torch.autograd.backward(total)


def _timed(call: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - wall, time.process_time() - cpu


def _training(size: str, length: int, threads: int, device: torch.device, seconds: float) -> dict[str, Any]:
    ours, plain = _pair(size, length, device)
    rows = max(1, TOKENS // length)
    ids, scalars = _batch(ours, rows, length)
    calls: list[Callable[[], object]] = [
        lambda: _step(ours, ids, scalars),
        lambda: _step(plain, ids, scalars),
    ]
    end = time.perf_counter() + seconds
    for call in calls * 2:
        call()
    times: list[list[tuple[float, float]]] = [[], []]
    while len(times[0]) < PAIRS or time.perf_counter() < end:
        first = len(times[0]) % 2
        for which in (first, 1 - first):
            times[which].append(_timed(calls[which], device))
    a, b = (np.array(t) for t in times)
    embedded = ours.embed(ids[:, :-1]).detach()
    bridge = [_timed(lambda: bridge_scalars(embedded), device)[0] for _ in range(PAIRS + 1)][1:]
    # The plain model against itself: consecutive calls, as the two models of a pair are.
    same = b[1:] / b[:-1]
    return {
        "threads": threads,
        "length": length,
        "batch": rows,
        "pairs": len(a),
        "anticipatory_ms": _ms(a[:, 0]),
        "plain_ms": _ms(b[:, 0]),
        "ratio": _quartiles(a[:, 0] / b[:, 0]),
        "cpu_ratio": _quartiles(a[:, 1] / b[:, 1]),
        "same_ratio": _quartiles(same[:, 0]),
        "bridge_ms": _ms(np.array(bridge)),
        "parameters": [sum(p.numel() for p in m.parameters()) for m in (ours, plain)],
    }


def _memory(size: str, length: int, device: torch.device) -> dict[str, Any]:
    """Peak memory of a training step on one sequence, without the parameters; MiB."""
    ours, plain = _pair(size, length, device)
    ids, scalars = _batch(ours, 1, length)
    peaks: dict[str, Any] = {"length": length}
    for name, model, reference in (
        ("fused", ours, False),
        ("reference", ours, True),
        ("plain", plain, False),
    ):
        if isinstance(model, AnticipatoryTransformer):
            model.trunk.reference = reference
        _step(model, ids, scalars)
        model.zero_grad(set_to_none=True)
        peak = peak_bytes(lambda model=model: _step(model, ids, scalars), device)  # type: ignore[misc]
        model.zero_grad(set_to_none=True)
        peaks[name] = None if peak is None else round(peak / 2**20, 2)
    return peaks


@torch.no_grad()
def _decoding(size: str, device: torch.device, seconds: float) -> dict[str, Any]:
    """Time of a token after each number of tokens, one row; alternating, so that all see the same machine."""
    length = max(POSITIONS) + STEPS
    ours, plain = _pair(size, length, device)
    ids, scalars = _batch(ours, 1, length)
    # The state's rings are written in position: every position needs a state of its own.
    states: dict[tuple[str, int], Any] = {}
    for position in POSITIONS:
        _, states["anticipatory", position] = ours.eval()(
            ids[:, :position], scalars[:, :position], state=ours.initial_state(1)
        )
        _, states["plain", position] = plain.eval()(ids[:, :position], state=plain.initial_state(1))
    times: dict[tuple[str, int], list[float]] = {key: [] for key in states}
    end = time.perf_counter() + seconds
    turns = -2
    while turns < PAIRS or time.perf_counter() < end:
        for (name, position), state in states.items():
            durations = _steps(ours if name == "anticipatory" else plain, ids, scalars, state, device)
            if turns >= 0:
                times[name, position] += durations[1:]
        turns += 1
    medians = {
        name: {
            str(position): round(float(np.median(times[name, position])) * 1e6, 1) for position in POSITIONS
        }
        for name in ("anticipatory", "plain")
    }
    first, last = str(POSITIONS[0]), str(POSITIONS[-1])
    return {
        "us": medians,
        "last_to_first": {name: round(m[last] / m[first], 4) for name, m in medians.items()},
        "steps": turns * (STEPS - 1),
        "max_seq_len": length,
    }


def _steps(model: Model, ids: Tensor, scalars: Tensor, state: Any, device: torch.device) -> list[float]:
    """Seconds of each of a few steps from a state."""
    durations = []
    for i in range(STEPS):

        def step(i: int = i) -> None:
            nonlocal state
            if isinstance(model, BaselineTransformer):
                _, state = model.step(ids[:, i], state)
            else:
                _, state = model.step(ids[:, i], state, scalars[:, i])

        durations.append(_timed(step, device)[0])
    return durations


def _ms(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return round(float(np.median(values)) * 1e3, 3)


def _quartiles(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return {"median": round(float(middle), 4), "q25": round(float(low), 4), "q75": round(float(high), 4)}


def table(result: dict[str, Any]) -> Group:
    """The result as tables for people."""
    train = rich_table(
        f"forward and backward, {result['size']}, {result['tokens']} tokens a batch",
        ("threads", "length", "anticipatory ms", "plain ms", "ratio (quartiles)", "CPU time", "A/A", "pairs",
         "bridge ms"),
    )  # fmt: skip
    for row in result["train"]:
        ratio, cpu, same = row["ratio"], row["cpu_ratio"], row["same_ratio"]
        train.add_row(
            str(row["threads"]),
            str(row["length"]),
            f"{row['anticipatory_ms']:.1f}",
            f"{row['plain_ms']:.1f}",
            f"{ratio['median']:.3f} ({ratio['q25']:.3f} to {ratio['q75']:.3f})",
            f"{cpu['median']:.3f}",
            f"{same['q25']:.3f} to {same['q75']:.3f}",
            str(row["pairs"]),
            f"{row['bridge_ms']:.1f}",
        )
    title = "peak memory of a training step on one sequence, MiB"
    memory = rich_table(title, ("length", "fused", "reference", "plain"))
    for row in result["memory"]:
        cells = ("-" if row[n] is None else f"{row[n]:.1f}" for n in ("fused", "reference", "plain"))
        memory.add_row(str(row["length"]), *cells)
    positions = list(result["decode"]["us"]["plain"])
    title = "one token, one row, microseconds, after so many tokens"
    decode = rich_table(title, ("model", *positions), ("model",))
    for name, times in result["decode"]["us"].items():
        decode.add_row(name, *(f"{times[position]:.0f}" for position in positions))
    words = (
        f"{result['device']}, {result['precision']}, {result['cpu']}, torch {result['torch']}, "
        f"commit {result['commit']}"
    )
    if result["left_out"]:
        words += f"\nno time for: {'; '.join(result['left_out'])} (--seconds)"
    return Group(train, memory, decode, words)
