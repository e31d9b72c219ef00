"""``pyanticip bench bridge``: the scalars of a batch of embeddings, every implementation side by side.

Batches of shape (8, L, 128), float32, scalar defaults. All implementations take turns, call by call, so that
all see the same machine; what would take longer than there is time for is left out, and a line says so. Each
one's largest difference from the Rust core is printed beside its time. Outputs stay where they are computed;
a device is waited for.
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

from pyanticip.bench.machine import machine, percentiles
from pyanticip.geometry import vector_scalars

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["LENGTHS", "run", "table"]

BATCH, DIM = 8, 128
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
#: Seconds a compilation may take on a slow machine, per block of 256 queries; corrected by the first one.
COMPILATION = 15.0
#: Rounds are enough after this many, and time is better spent on the next length.
ROUNDS = 200

#: Seconds before each call: thread pools go on spinning for a while, at the cost of whoever comes next.
PAUSE = 0.03

Single = npt.NDArray[np.float32]
Way = Callable[[], Any]


def run(
    seconds: float = 120.0,
    lengths: Sequence[int] = LENGTHS,
    data: str = "noise",
    compiled: bool = True,
) -> dict[str, Any]:
    """Measure for about ``seconds``; each length takes its share of what is left.

    Args:
        seconds: 1 to 3600.
        lengths: lengths of the sequences, 1 to 65536 each.
        data: ``"noise"`` (independent normal vectors: nothing can be left out), ``"tokens"`` (rows of a
            table of 1,000, common ones often, as in text) or ``"walk"`` (a random walk).
        compiled: measure ``torch.compile`` as well.

    Returns:
        The object that ``--json`` prints; times in milliseconds.
    """
    import torch

    end = time.monotonic() + seconds
    rows: list[dict[str, Any]] = []
    last: dict[str, tuple[int, float]] = {}
    patience = [COMPILATION]
    lengths = sorted(set(lengths))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    for i, length in enumerate(lengths):
        share = max((end - time.monotonic()) / (len(lengths) - i), 0.0)
        rows += _length(make(data, length), share, last, compiled, patience)
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
    x: Single, share: float, last: dict[str, tuple[int, float]], compiled: bool, patience: list[float]
) -> list[dict[str, Any]]:
    """One length: the ways that there is time for, in turn."""
    length = x.shape[1]
    end = time.monotonic() + share
    expected = vector_scalars(x)
    left_out: dict[str, str] = {}
    ways: dict[str, Way] = {}
    differences: dict[str, float] = {}
    for name, way in _ways(x, compiled, share, patience, left_out):
        costs = _predicted(last.get(name), length)
        if costs > share / 4:
            left_out[name] = f"one call would take about {costs:.2g} s, and there are {share:.2g} s for all"
            continue
        begin = time.perf_counter()
        with _quiet():
            found = way()
        taken = time.perf_counter() - begin
        if name.startswith("torch.compile"):
            patience[0] = taken / _blocks(length)
        ways[name] = way
        differences[name] = float(np.abs(_array(found) - expected).max())
    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(ROUNDS):
        if turn and time.monotonic() > end:
            break
        # Every other round backwards: nobody always follows the same neighbour.
        for name in names if turn % 2 else names[::-1]:
            time.sleep(PAUSE)
            begin = time.perf_counter()
            ways[name]()
            times[name].append(time.perf_counter() - begin)
    rows: list[dict[str, Any]] = []
    for name, taken_all in times.items():
        last[name] = (length, float(np.median(taken_all)))
        ms = percentiles(taken_all, (0, 10, 50, 90), 1e3)
        rows.append(
            {
                "length": length,
                "way": name,
                "rounds": len(taken_all),
                "min": ms["p0"],
                **{p: ms[p] for p in ("p10", "p50", "p90")},
                "difference": differences[name],
            }
        )
    return rows + [{"length": length, "way": name, "left_out": why} for name, why in left_out.items()]


def _ways(
    x: Single, compiled: bool, share: float, patience: list[float], left_out: dict[str, str]
) -> Iterator[tuple[str, Way]]:
    """Every implementation by name, bound to the batch; those that cannot run go to ``left_out``."""
    import torch

    from pyanticip.bridge import torch_scalars

    yield "rust", lambda: vector_scalars(x)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        where = "" if device == "cpu" else ", GPU"
        there = torch.from_numpy(x).to(device)
        yield f"torch{where}", _waited(torch_scalars, there)
        name = f"torch.compile{where}"
        costs = patience[0] * _blocks(x.shape[1])
        if not compiled:
            left_out[name] = "not asked for"
        elif device == "cpu" and not (sys.platform == "linux" and shutil.which("g++")):
            left_out[name] = "no C++ compiler"
        elif costs > share / 2:
            left_out[name] = f"to compile would take about {costs:.2g} s, and there are {share:.2g} s for all"
        else:
            torch.compiler.reset()
            yield name, _waited(torch.compile(torch_scalars, fullgraph=True, dynamic=False), there)


def _waited(scalars: Callable[[Any], Any], x: Any) -> Way:
    """A call that returns when the device is done."""
    import torch

    def call() -> Any:
        out = scalars(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        return out

    return call


def _blocks(length: int) -> int:
    """What a compilation grows with: blocks of queries."""
    return -(-length // 256)


def _predicted(known: tuple[int, float] | None, length: int) -> float:
    """Seconds of a call from those of a shorter one: quadratic up to the window, linear from there on."""
    if known is None:
        return 0.0
    shorter, seconds = known
    growth = length / shorter
    return seconds * growth * min(max(256 / shorter, 1.0), growth)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings a compiler gives about itself."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _array(found: Any) -> npt.NDArray[Any]:
    return found if isinstance(found, np.ndarray) else np.asarray(found.cpu())


def table(result: dict[str, Any]) -> Group:
    """The result as a table for people."""
    from rich.console import Group
    from rich.table import Table

    shown = Table(
        title=f"seven scalars of ({result['batch']}, L, {result['dim']}), {result['data']}, ms a call"
    )
    for column in ("L", "implementation", "median", "min", "p10", "p90", "calls", "from Rust"):
        shown.add_column(column, justify="left" if column == "implementation" else "right")
    lines = []
    for row in result["rows"]:
        if "left_out" in row:
            lines.append(f"left out: L {row['length']}, {row['way']}: {row['left_out']}")
            continue
        times = (f"{row[p]:.2f}" for p in ("p50", "min", "p10", "p90"))
        shown.add_row(str(row["length"]), row["way"], *times, str(row["rounds"]), f"{row['difference']:.0e}")
    where = f"{result['cpu']}, {result['cores']} cores, load {result['load']} at the start"
    gpu = f", {result['gpu']}" if result["gpu"] else ""
    return Group(shown, *lines, f"{where}{gpu}, torch {result['torch']}, commit {result['commit']}")
