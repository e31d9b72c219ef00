"""``pyanticip bench step``: time of one model step at the live rate, cold and prewarmed, per backend.

At 50 Hz caches and clocks go cold between two frames, so a tight loop says little: here every step comes 20
ms after the one before. ``warm`` prewarms as the live pipeline does, with the backend's dummy step shortly
before; ``cold`` sleeps. Backends and modes alternate in one run, so that disturbances of the machine affect
all of them.

With ``performers``, the time of a step of several performers, at the same rate and cold: a batch with a state
per row in torch, one stream after the other in the Rust core.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from pyanticip.bench.machine import machine, percentiles, rich_table
from pyanticip.errors import DeviceError, OptionError
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED, Manifest, read_manifest
from pyanticip.vocabulary import FEATURES, RATE
from realtime.bench.options import numbers
from realtime.seams import BACKENDS
from realtime.step.base import StepBackend
from realtime.step.open import cuda_present, open_backend, paced

#: Time before a step at which it is prewarmed.
PREWARM_SECONDS = 0.0015
#: Steps in a turn, and those at its start that are not counted: the caches hold other weights then.
TURN, SETTLING = 60, 10
MODES = ("cold", "warm")
MAX_PERFORMERS = 4096


def run(
    seconds: float = 20.0,
    backends: Sequence[str] | None = None,
    checkpoint: str | Path | None = None,
    performers: str = "",
) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    Args:
        seconds: total time for all backends and modes.
        backends: names; by default all that work here.
        checkpoint: its folder; by default the packaged one, or if there is none, a random one of the same
            size (then ``random`` is true).
        performers: numbers of performers to step at once; by default one performer, cold and warm.

    Raises:
        DeviceError: a named backend does not work here; for the others, ``skipped`` has the reason.

    Returns:
        ``steps_us`` by backend and mode: ``fast`` (frames without the slow pathway), ``slow`` (frames that
        run it too) and ``all``, each with p50, p90, p99 in microseconds and the number of steps. With
        ``performers`` instead ``batch_us`` by backend and number: p50, p90, p99 of a whole batch, p50 per
        ``performer``, the number of steps, and ``why`` it is not faster, where that is known.
    """
    counts = numbers("performers", performers, MAX_PERFORMERS) if performers else []
    names = list(backends or ["rust"])
    if not backends and find_spec("torch") is not None:
        names += ["torch", *(["cuda-graph"] if cuda_present() else [])]
    for name in names:
        if name not in BACKENDS:
            raise OptionError(f"backend must be one of {', '.join(BACKENDS.names())}, got {name!r}")
    if checkpoint is None and not (SHIPPED / MANIFEST).is_file():
        with tempfile.TemporaryDirectory() as folder:
            manifest = read_manifest(_random_checkpoint(Path(folder)))
            return _measure(seconds, names, manifest, bool(backends), counts, random=True)
    return _measure(seconds, names, read_manifest(checkpoint), bool(backends), counts)


def table(result: dict[str, Any]) -> Table:
    """The result as a table."""
    model = result["checkpoint"] + (" (random weights)" if result["random"] else "")
    title = f"model step at 50 Hz, microseconds: {model}, {result['parameters']:,} parameters"
    if "batch_us" in result:
        columns = ("backend", "performers", "p50", "p90", "p99", "a performer", "steps")
        shown = rich_table(title, columns, ("backend",))
        for backend, sizes in result["batch_us"].items():
            for size, values in sizes.items():
                cells = [f"{values[p]:.0f}" for p in ("p50", "p90", "p99")]
                name = backend + (f" ({values['why']})" if values["why"] else "")
                shown.add_row(name, size, *cells, f"{values['performer']:.1f}", str(values["steps"]))
        return shown
    words = ("backend", "mode", "frames")
    shown = rich_table(title, (*words, "p50", "p90", "p99", "steps"), words)
    for backend, modes in result["steps_us"].items():
        for mode, kinds in modes.items():
            for kind, values in kinds.items():
                cells = [f"{values[p]:.0f}" if p in values else "-" for p in ("p50", "p90", "p99")]
                shown.add_row(backend, mode, kind, *cells, str(values["steps"]))
    return shown


def _random_checkpoint(folder: Path) -> Path:
    import torch

    from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint

    torch.manual_seed(0)
    model = MotionTransformer(ModelConfig())
    with torch.no_grad():
        # Away from the initial values, whose zero biases would drop out of the graph.
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return save_checkpoint(folder / "random", model)


def _measure(
    seconds: float,
    names: Sequence[str],
    manifest: Manifest,
    named: bool,
    counts: Sequence[int],
    *,
    random: bool = False,
) -> dict[str, Any]:
    skipped: dict[str, str] = {}

    def open_all(open_one: Callable[[str], Any]) -> dict[str, Any]:
        backends = {}
        for name in names:
            try:
                backends[name] = open_one(name)
            except DeviceError as error:
                if named:
                    raise
                skipped[name] = str(error)
        return backends

    measured = (
        {"batch_us": _batches(seconds, open_all, manifest, counts)}
        if counts
        else {
            "steps_us": _steps(seconds, open_all(lambda name: open_backend(name, manifest.folder)), manifest)
        }
    )
    return {
        **measured,
        "skipped": skipped,
        "seconds": seconds,
        "rate": RATE,
        "prewarm_ms": PREWARM_SECONDS * 1e3,
        "threads": 1,
        "checkpoint": manifest.name,
        "random": random,
        "parameters": manifest.parameters,
        **machine(),
    }


@contextmanager
def _without_gc() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _steps(seconds: float, backends: dict[str, StepBackend], manifest: Manifest) -> dict[str, Any]:
    """Times of single performers, cold and warm."""
    stride = manifest.config.slow_stride
    turns = max(1, round(seconds * RATE / TURN / max(1, len(backends) * len(MODES))))
    times: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    rows = _performance(TURN + stride)
    try:
        with _without_gc():
            for _ in range(turns):
                for name, backend in backends.items():
                    for mode in MODES:
                        turn = _turn(backend, rows, stride, mode == "warm")
                        times.setdefault((name, mode), []).extend(turn)
    finally:
        for backend in backends.values():
            backend.close()
    return {
        name: {mode: _summary(times[name, mode]) for mode in MODES if (name, mode) in times}
        for name in backends
    }


def _batches(
    seconds: float,
    open_all: Callable[[Callable[[str], Any]], dict[str, Any]],
    manifest: Manifest,
    counts: Sequence[int],
) -> dict[str, Any]:
    """Times of several performers at once; the backends alternate for each number of performers."""
    stride = manifest.config.slow_stride
    results: dict[str, dict[str, Any]] = {}
    for count in counts:
        batches = open_all(partial(_batch, manifest=manifest, count=count))
        turns = max(1, round(seconds * RATE / TURN / max(1, len(counts) * len(batches))))
        durations: dict[str, list[float]] = {name: [] for name in batches}
        # The performers move differently, and run the slow pathway in different frames.
        rows = np.stack([np.roll(_performance(TURN), 7 * i, 0) for i in range(count)], 1)
        first_frame = np.arange(count) % stride
        for batch in batches.values():
            for frame in range(8 * stride):
                batch.step(rows[frame % TURN], first_frame <= frame)
        with _without_gc():
            for _ in range(turns):
                for name, batch in batches.items():
                    durations[name] += paced(batch.step, rows)[SETTLING:]
        for name, values in durations.items():
            times = percentiles(values, (50, 90, 99), 1e6)
            per_performer = round(times["p50"] / count, 3)
            why = getattr(batches[name], "why", "")
            results.setdefault(name, {})[str(count)] = {
                **times, "performer": per_performer, "steps": len(values), "why": why
            }  # fmt: skip
    return results


class _Streams:
    """Several performers on the Rust backend, stepped one after the other."""

    def __init__(self, checkpoint: Path, count: int) -> None:
        self._streams = [open_backend("rust", checkpoint) for _ in range(count)]

    def step(self, rows: Any, present: Any = None) -> None:
        for i, stream in enumerate(self._streams):
            if present is None or present[i]:
                stream.step(rows[i : i + 1])


def _batch(name: str, manifest: Manifest, count: int) -> Any:
    """Several performers on a backend, whose ``step(rows, present)`` steps them at once."""
    if name == "rust":
        return _Streams(manifest.folder, count)
    import torch

    from pyanticip.models import load_motion_model
    from realtime.step.batched import BatchedStep, RecordedStep

    torch.set_num_threads(1)
    if name == "torch":
        return BatchedStep(load_motion_model(manifest.folder), count)
    if not torch.cuda.is_available():
        raise DeviceError("backend cuda-graph: CUDA does not work here")
    return RecordedStep(load_motion_model(manifest.folder, device="cuda"), count)


def _turn(backend: StepBackend, rows: Any, stride: int, warm: bool) -> list[tuple[bool, float]]:
    """A turn of paced steps from a reset state: whether each ran the slow pathway, and its seconds."""
    backend.reset()
    # Fill the state's rings, so that the steady state is timed.
    backend.step(np.tile(rows[:stride], (8, 1)))
    prewarm = backend.prewarm if warm else None
    durations = paced(backend.step, rows[:TURN, None], prewarm, PREWARM_SECONDS)[SETTLING:]
    return [(n % stride == 0, duration) for n, duration in enumerate(durations, SETTLING + 1)]


def _summary(steps: Sequence[tuple[bool, float]]) -> dict[str, dict[str, float]]:
    kinds = {
        "fast": [s for slow, s in steps if not slow],
        "slow": [s for slow, s in steps if slow],
        "all": [s for _, s in steps],
    }
    return {
        kind: {**percentiles(values, (50, 90, 99), 1e6), "steps": len(values)}
        for kind, values in kinds.items()
    }


def _performance(length: int) -> Any:
    """Smooth synthetic feature rows (length, 279) float32; only that they vary matters."""
    t = np.arange(length)[:, None] / RATE
    rng = np.random.default_rng(0)
    frequency, phase = rng.uniform(0.2, 2.0, FEATURES), rng.uniform(0, 2 * np.pi, FEATURES)
    rows = np.sin(2 * np.pi * frequency * t + phase)
    rows[:, 220:227] = 0.5 + 0.4 * rows[:, 220:227]
    return rows.astype(np.float32)
