"""``pyanticip bench family``: what each part of the model family costs in a live step, side by side.

Motion models of the shipped size with random weights, each with one part more, step in turns on the same
frames, and what is counted is their thread's time on the processor: both so that what else runs on the
machine disturbs the comparison little. ``plain`` is the shipped kind of model, whose
blocks alone are graphs on ONNX Runtime; all others run as whole-step graphs there, of which ``alibi`` (one
addition more than ``plain``) shows the price. In torch all go the same way.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from pyanticip.errors import OptionError
from pyanticip.vocabulary import FEATURES
from realtime import tuning
from realtime.bench.machine import machine, percentiles
from realtime.step.open import open_backend

__all__ = ["VARIANTS", "run", "table"]

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "alibi": {"positions": "alibi"},
    "random": {"bias": "random"},
    "rope": {"positions": "rope"},
    "sinusoidal": {"positions": "sinusoidal"},
    "trajectory": {"positions": "trajectory"},
    "prism": {"positions": "prism"},
    "control field": {"control_field": True},
    "planning": {"planning": True},
    "all": {"positions": "prism", "control_field": True, "planning": True},
}
BACKENDS = ("onnx", "torch")
TURN = 20


def run(
    seconds: float = 60.0,
    backends: Sequence[str] = BACKENDS,
    variants: Sequence[str] = (),
    sizes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    :param seconds: about how long to step, all in all; the graphs are written before that.
    :param backends: ``onnx``, which takes minutes to export, ``torch``, or both.
    :param variants: beside ``plain``; all of them where none is named.
    :param sizes: changes to the configuration of all variants.
    :returns: ``steps_us`` (processor time) by variant and backend with p50, p90, p99, and ``ratio`` to
        ``plain`` on the same backend, of the medians; ``parameters`` and ``export_seconds`` by variant.
    """
    if not 1.0 <= seconds <= 3600.0:
        raise OptionError(f"seconds: expected 1 to 3600, got {seconds:g}")
    for name in (*backends, *variants):
        if name not in BACKENDS and name not in VARIANTS:
            raise OptionError(f"expected one of {', '.join((*BACKENDS, *VARIANTS))}, got {name!r}")
    tuning.one_thread_each()
    names = [name for name in VARIANTS if name == "plain" or not variants or name in variants]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        return _measure(seconds, Path(folder), names, tuple(backends) or BACKENDS, sizes or {}, closing)


def table(result: dict[str, Any]) -> Table:
    """The result as a table for people."""
    shown = Table(
        title="a live step of the shipped size with one part more, microseconds of processor time, hot"
    )
    shown.add_column("model")
    backends = list(result["steps_us"]["plain"])
    for column in ("parameters", *(f"{b} {c}" for b in backends for c in ("p50", "p99", "ratio"))):
        shown.add_column(column, justify="right")
    for name, found in result["steps_us"].items():
        cells = [f"{result['parameters'][name]:,}"]
        for backend in backends:
            values = found[backend]
            cells += [f"{values['p50']:.0f}", f"{values['p99']:.0f}", f"{values['ratio']:.2f}"]
        shown.add_row(name, *cells)
    return shown


def _measure(
    seconds: float,
    folder: Path,
    names: list[str],
    backends: tuple[str, ...],
    sizes: dict[str, Any],
    closing: ExitStack,
) -> dict[str, Any]:
    import torch

    from pyanticip.models import ModelConfig, MotionTransformer, save_checkpoint

    opened: dict[tuple[str, str], Callable[[Any], object]] = {}
    parameters: dict[str, int] = {}
    export: dict[str, float] = {}
    torch.set_num_threads(1)
    for name in names:
        torch.manual_seed(0)
        model = MotionTransformer(ModelConfig(**{**sizes, **VARIANTS[name]})).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                # Away from the start, where zeros would drop out of the graph.
                parameter.add_(0.02 * torch.randn_like(parameter))
        if model.codebook is not None:
            model.codebook.fit(torch.randn(2 * len(model.codebook.centres), FEATURES), rounds=1)
        parameters[name] = sum(p.numel() for p in model.parameters())
        if "torch" in backends:
            opened[name, "torch"] = _stepper(model)
        if "onnx" in backends:
            begun = time.perf_counter()
            path = save_checkpoint(folder / name.replace(" ", "-"), model)
            export[name] = round(time.perf_counter() - begun, 1)
            backend = open_backend("onnx", path)
            closing.callback(backend.close)
            opened[name, "onnx"] = backend.step
    rows = np.random.default_rng(0).normal(size=(TURN, FEATURES)).astype(np.float32)
    took: dict[tuple[str, str], list[float]] = {key: [] for key in opened}
    end = time.perf_counter() + seconds
    turns = 0
    while time.perf_counter() < end or turns < 3:
        for key, step in opened.items():
            for row in rows:
                begun = time.thread_time()
                step(row[None])
                took[key].append(1e6 * (time.thread_time() - begun))
        turns += 1
    steps: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        steps[name] = {}
        for kind in backends:
            # The first turn warms up.
            values, plain = (np.array(took[key][TURN:]) for key in ((name, kind), ("plain", kind)))
            ratio = round(float(np.median(values) / np.median(plain)), 3)
            steps[name][kind] = {**percentiles(values, (50, 90, 99)), "ratio": ratio}
    return {
        "steps_us": steps,
        "parameters": parameters,
        "export_seconds": export,
        "turns": turns,
        "threads": 1,
        **machine(),
    }


def _stepper(model: Any) -> Callable[[Any], object]:
    """Eager steps of a model on a stream of its own."""
    import torch

    state = model.initial_state(1)

    @torch.no_grad()
    def step(row: Any) -> object:
        nonlocal state
        out, state = model.step(torch.from_numpy(row), state)
        return out.params.numpy()

    return step
