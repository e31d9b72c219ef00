"""``pyanticip bench bridge``: the scalars of a batch of embeddings, all implementations compared.

Batches of shape (8, L, 128), float32, scalar defaults. The implementations alternate call by call, so that
all see the same machine; those that would take too long are left out and listed. The largest difference of
each from the Rust core is printed beside its time. Outputs stay on their device; the timing waits for the
device.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyanticip.bench.machine import machine, percentiles, rich_table
from pyanticip.geometry import vector_scalars

if TYPE_CHECKING:
    from rich.console import Group

BATCH, DIM = 8, 128
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
#: Estimated compilation time per block of 256 queries, seconds; the first compilation corrects it.
COMPILE_BLOCK_S = 15.0
#: Most rounds for a length.
MAX_ROUNDS = 200
#: Pause before each call: the last call's thread pools spin for a while, and would slow the next one down.
PAUSE_S = 0.03

Single = npt.NDArray[np.float32]
Implementation = Callable[[], Any]


def run(
    seconds: float = 120.0,
    lengths: Sequence[int] = LENGTHS,
    data: str = "noise",
    compiled: bool = True,
) -> dict[str, Any]:
    """Measure for about ``seconds``; each length gets its share of the remaining time.

    Args:
        seconds: 1 to 3600.
        lengths: lengths of the sequences, 1 to 65536 each.
        data: ``"noise"`` (independent normal vectors: nothing can be skipped), ``"tokens"`` (rows of a
            table of 1,000 with the frequencies of text) or ``"walk"`` (a random walk).
        compiled: measure ``torch.compile`` as well.

    Returns:
        The object that ``--json`` prints; times in milliseconds.
    """
    import torch

    end = time.monotonic() + seconds
    rows: list[dict[str, Any]] = []
    last: dict[str, tuple[int, float]] = {}
    compile_block_s = [COMPILE_BLOCK_S]
    lengths = sorted(set(lengths))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    for i, length in enumerate(lengths):
        share = max((end - time.monotonic()) / (len(lengths) - i), 0.0)
        rows += _length(make(data, length), share, last, compiled, compile_block_s)
    return {
        "batch": BATCH,
        "dim": DIM,
        "data": data,
        "rows": rows,
        "threads": torch.get_num_threads(),
        "load": None if load is None else round(load, 2),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        **machine(),
    }


def make(data: str, length: int) -> Single:
    """The batch, (8, L, 128) float32."""
    rng = np.random.default_rng(0)
    shape = (BATCH, length, DIM)
    if data == "tokens":
        weights = 1 / (1 + np.arange(1000))
        ids = rng.choice(1000, shape[:2], p=weights / weights.sum())
        return rng.normal(size=(1000, DIM)).astype(np.float32)[ids]
    x = rng.normal(size=shape)
    return (np.cumsum(x, axis=1) if data == "walk" else x).astype(np.float32)


def _length(
    x: Single, share: float, last: dict[str, tuple[int, float]], compiled: bool, compile_block_s: list[float]
) -> list[dict[str, Any]]:
    """Measure the implementations for one length; ``compile_block_s`` holds the estimate, and is updated."""
    length = x.shape[1]
    end = time.monotonic() + share
    expected = vector_scalars(x)
    left_out: dict[str, str] = {}
    implementations: dict[str, Implementation] = {}
    differences: dict[str, float] = {}
    for name, call in _implementations(x, compiled, share, compile_block_s, left_out):
        estimate = _predicted_seconds(last.get(name), length)
        if estimate > share / 4:
            left_out[name] = (
                f"one call would take about {estimate:.2g} s, and there are {share:.2g} s for all"
            )
            continue
        begin = time.perf_counter()
        with _without_warnings():
            scalars = call()
        elapsed = time.perf_counter() - begin
        if name.startswith("torch.compile"):
            compile_block_s[0] = elapsed / _blocks(length)
        implementations[name] = call
        differences[name] = float(np.abs(_array(scalars) - expected).max())
    times: dict[str, list[float]] = {name: [] for name in implementations}
    names = list(implementations)
    for turn in range(MAX_ROUNDS):
        if turn and time.monotonic() > end:
            break
        # Every other round in reverse, so that none always follows the same one.
        for name in names if turn % 2 else names[::-1]:
            time.sleep(PAUSE_S)
            begin = time.perf_counter()
            implementations[name]()
            times[name].append(time.perf_counter() - begin)
    rows: list[dict[str, Any]] = []
    for name, durations in times.items():
        last[name] = (length, float(np.median(durations)))
        ms = percentiles(durations, (0, 10, 50, 90), 1e3)
        rows.append(
            {
                "length": length,
                "way": name,
                "rounds": len(durations),
                "min": ms["p0"],
                **{p: ms[p] for p in ("p10", "p50", "p90")},
                "difference": differences[name],
            }
        )
    return rows + [{"length": length, "way": name, "left_out": why} for name, why in left_out.items()]


def _implementations(
    x: Single, compiled: bool, share: float, compile_block_s: list[float], left_out: dict[str, str]
) -> Iterator[tuple[str, Implementation]]:
    """Every implementation by name, bound to the batch; those that cannot run are added to ``left_out``."""
    import torch

    from pyanticip.bridge import torch_scalars

    yield "rust", lambda: vector_scalars(x)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        suffix = "" if device == "cpu" else ", GPU"
        batch = torch.from_numpy(x).to(device)
        yield f"torch{suffix}", _synchronized(torch_scalars, batch)
        name = f"torch.compile{suffix}"
        estimate = compile_block_s[0] * _blocks(x.shape[1])
        if not compiled:
            left_out[name] = "not asked for"
        elif device == "cpu" and not (sys.platform == "linux" and shutil.which("g++")):
            left_out[name] = "no C++ compiler"
        elif estimate > share / 2:
            left_out[name] = (
                f"to compile would take about {estimate:.2g} s, and there are {share:.2g} s for all"
            )
        else:
            torch.compiler.reset()
            yield name, _synchronized(torch.compile(torch_scalars, fullgraph=True, dynamic=False), batch)


def _synchronized(scalars: Callable[[Any], Any], x: Any) -> Implementation:
    """A call that returns when the device has finished."""
    import torch

    def call() -> Any:
        out = scalars(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        return out

    return call


def _blocks(length: int) -> int:
    """Number of blocks of queries, with which the compilation time grows."""
    return -(-length // 256)


def _predicted_seconds(measured: tuple[int, float] | None, length: int) -> float:
    """Time of a call from the length and time of a shorter one: quadratic up to the window, then linear."""
    if measured is None:
        return 0.0
    shorter, seconds = measured
    growth = length / shorter
    return seconds * growth * min(max(256 / shorter, 1.0), growth)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress the compiler's warnings."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _array(values: Any) -> npt.NDArray[Any]:
    return values if isinstance(values, np.ndarray) else np.asarray(values.cpu())


def table(result: dict[str, Any]) -> Group:
    """The result as a table."""
    from rich.console import Group

    title = f"seven scalars of ({result['batch']}, L, {result['dim']}), {result['data']}, ms a call"
    columns = ("L", "implementation", "median", "min", "p10", "p90", "calls", "from Rust")
    shown = rich_table(title, columns, ("implementation",))
    lines = []
    for row in result["rows"]:
        if "left_out" in row:
            lines.append(f"left out: L {row['length']}, {row['way']}: {row['left_out']}")
            continue
        times = (f"{row[p]:.2f}" for p in ("p50", "min", "p10", "p90"))
        shown.add_row(str(row["length"]), row["way"], *times, str(row["rounds"]), f"{row['difference']:.0e}")
    host = f"{result['cpu']}, {result['cores']} cores, load {result['load']} at the start"
    gpu = f", {result['gpu']}" if result["gpu"] else ""
    return Group(shown, *lines, f"{host}{gpu}, torch {result['torch']}, commit {result['commit']}")
