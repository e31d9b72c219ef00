"""``pyanticip bench forecast``: one step of the pose forecaster, in a hot loop and at its own pace.

The benchmark's frames come at 60 Hz. Between two of them caches go cold, so a hot loop says little: the paced
steps come 16.7 ms after one another. A step is a whole one, from the new pose to all 25 forecast poses, on
one thread. Backends and modes take turns, so that what disturbs the machine disturbs them alike.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from pyanticip.errors import OptionError
from realtime import tuning
from realtime.bench.machine import machine, percentiles

__all__ = ["run", "table"]

RATE = 60.0
#: Steps in a turn, hot or paced, of which the first are left out.
TURN, SETTLING = 60, 10

Step = Callable[[npt.NDArray[np.float32]], object]


def run(seconds: float = 20.0, checkpoint: str | Path | None = None) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    :param seconds: how long to measure, about.
    :param checkpoint: a run or folder of a forecaster; by default one of random weights and default sizes.
    :returns: ``steps_us`` by backend and mode (``hot``, ``paced``): p50, p90, p99 in microseconds, ``steps``.
    """
    if not 1.0 <= seconds <= 3600.0:
        raise OptionError(f"seconds: expected 1 to 3600, got {seconds:g}")
    tuning.one_thread_each()
    with tempfile.TemporaryDirectory() as folder:
        if checkpoint is None:
            chosen = _random_checkpoint(Path(folder))
        else:
            inner = Path(checkpoint) / "checkpoint"
            chosen = inner if inner.is_dir() else Path(checkpoint)
        backends, joints, parameters = _open(chosen)
        took = _measure(seconds, backends, joints)
    return {
        "steps_us": {
            name: {
                mode: {**percentiles(values, (50, 90, 99), 1e6), "steps": len(values)}
                for mode, values in modes.items()
            }
            for name, modes in took.items()
        },
        "seconds": seconds,
        "rate": RATE,
        "threads": 1,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "parameters": parameters,
        **machine(),
    }


def table(result: dict[str, Any]) -> Table:
    """The result as a table for people."""
    shown = Table(
        title=f"forecaster step, microseconds: {result['checkpoint'] or 'random weights'},"
        f" {result['parameters']:,} parameters"
    )
    for column in ("backend", "mode", "p50", "p90", "p99", "steps"):
        shown.add_column(column, justify="left" if column in ("backend", "mode") else "right")
    for name, modes in result["steps_us"].items():
        for mode, values in modes.items():
            cells = [f"{values[p]:.0f}" for p in ("p50", "p90", "p99")]
            shown.add_row(name, mode, *cells, str(values["steps"]))
    return shown


def _random_checkpoint(folder: Path) -> Path:
    import torch

    from pyanticip.models.forecast.checkpoint import save_forecaster
    from pyanticip.models.forecast.forecaster import PoseForecaster
    from pyanticip.models.forecast.manifest import ForecastConfig

    torch.manual_seed(0)
    model = PoseForecaster(ForecastConfig(mirror=tuple(range(ForecastConfig.joints))))
    with torch.no_grad():
        # Away from the start, where zeros would drop out of the graph.
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return save_forecaster(folder / "random", model, graph=True)


def _open(checkpoint: Path) -> tuple[dict[str, Step], int, int]:
    """The backends by name, the joints of a pose, and how many parameters there are."""
    import torch

    from pyanticip.models.forecast.checkpoint import load_forecaster
    from pyanticip.models.forecast.stream import ForecastStream

    torch.set_num_threads(1)
    model = load_forecaster(checkpoint)
    state = model.initial_state()

    def torch_step(pose: npt.NDArray[np.float32]) -> object:
        nonlocal state
        with torch.inference_mode():
            said, state = model.step(torch.from_numpy(pose)[None], state)
        return said

    steps: dict[str, Step] = {"onnx": ForecastStream(checkpoint).step, "torch": torch_step}
    return steps, model.cfg.joints, sum(p.numel() for p in model.parameters())


def _measure(seconds: float, backends: dict[str, Step], joints: int) -> dict[str, dict[str, list[float]]]:
    poses = 100.0 * np.random.default_rng(0).standard_normal((TURN, joints, 3)).astype(np.float32)
    took: dict[str, dict[str, list[float]]] = {name: {"hot": [], "paced": []} for name in backends}
    until = time.perf_counter() + seconds
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        while True:
            for name, step in backends.items():
                for mode, values in took[name].items():
                    values += _turn(step, poses, 1.0 / RATE if mode == "paced" else 0.0)
            if time.perf_counter() >= until:
                return took
    finally:
        if was_enabled:
            gc.enable()


def _turn(step: Step, poses: npt.NDArray[np.float32], pace: float) -> list[float]:
    """Seconds of the steps of one turn."""
    took = []
    due = time.perf_counter()
    for pose in poses:
        due = max(due + pace, time.perf_counter())
        if pace:
            time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        step(pose)
        took.append(time.perf_counter() - began)
    return took[SETTLING:]
