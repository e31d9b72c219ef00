"""``pyanticip bench field``: what the control field adds to a block, side by side with one without.

Both blocks take turns on the same input, and what is counted is their thread's time on the processor, so that
what disturbs the machine disturbs them alike; the ratio is that of the median times. Freed memory is kept.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.table import Table

from pyanticip.errors import OptionError
from realtime import tuning
from realtime.bench.machine import machine, percentiles

__all__ = ["run", "table"]

#: d_model, heads, ff, past steps, whether the trajectory bias is on; all at B 8, L 256 but the widest.
CASES: dict[str, tuple[int, int, int, int, bool]] = {
    "paper": (64, 2, 256, 255, False),
    "paper, with bias": (64, 2, 256, 255, True),
    "token model, small": (128, 4, 256, 255, True),
    "motion model": (128, 4, 512, 64, True),
    "token model, default": (512, 8, 2048, 64, True),
}
LENGTH, BATCH = 256, 8


def run(seconds: float = 40.0) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    :param seconds: about how long, all in all.
    :returns: ``cases`` by name and by ``forward`` or ``training`` (forward and backward): ``plain_ms`` and
        ``field_ms`` with p50, p90, p99, ``ratio`` of the medians, ``least`` ratio of the least times, and
        ``runs``; ``memory_kept``: whether freed memory was.
    """
    if not 1.0 <= seconds <= 3600.0:
        raise OptionError(f"seconds: expected 1 to 3600, got {seconds:g}")
    import torch

    tuning.one_thread_each()
    kept = tuning.keep_memory()
    torch.set_num_threads(1)
    share = seconds / (2 * len(CASES))
    return {
        "cases": {
            name: {mode: _measure(case, mode == "training", share) for mode in ("forward", "training")}
            for name, case in CASES.items()
        },
        "batch": BATCH,
        "length": LENGTH,
        "threads": 1,
        "memory_kept": kept,
        "seconds": seconds,
        **machine(),
    }


def table(result: dict[str, Any]) -> Table:
    """The result as a table for people."""
    title = (
        f"a block with control field beside one without, batch {result['batch']}, {result['length']} steps"
    )
    shown = Table(title=title)
    for column in ("block", "pass", "plain ms", "field ms", "ratio", "of the least", "runs"):
        shown.add_column(column, justify="left" if column in ("block", "pass") else "right")
    for name, modes in result["cases"].items():
        for mode, found in modes.items():
            plain, field = found["plain_ms"]["p50"], found["field_ms"]["p50"]
            cells = (f"{plain:.2f}", f"{field:.2f}", f"{found['ratio']:.3f}", f"{found['least']:.3f}")
            shown.add_row(name, mode, *cells, str(found["runs"]))
    return shown


def _measure(case: tuple[int, int, int, int, bool], training: bool, seconds: float) -> dict[str, Any]:
    """Both blocks in turns for so long, twelve times at least."""
    import torch

    from pyanticip.models.config import ModelConfig
    from pyanticip.models.core.fused import make_fused
    from pyanticip.models.core.steering import Steering
    from pyanticip.models.core.trunk import Block

    width, heads, ff, past, bias = case
    torch.manual_seed(0)
    blocks = [
        Block(ModelConfig(d_model=width, heads=heads, ff=ff, dropout=0.0, control_field=on), past)
        for on in (False, True)
    ]
    x = torch.randn(BATCH, LENGTH, width)
    steering = Steering()
    if bias:
        rate = torch.full((heads,), 0.02)
        steering = Steering(torch.randn(BATCH, LENGTH, heads), rate, torch.zeros(heads))
    layout = make_fused(LENGTH, past, steering, device=x.device, dtype=x.dtype)
    assert layout is not None
    took: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(took[1]) < 12:
        for block, times in zip(blocks, took, strict=True):
            begun = time.thread_time()
            if training:
                block(x.clone().requires_grad_(), layout, None)[0].sum().backward()
            else:
                with torch.no_grad():
                    block(x, layout, None)
            times.append(1e3 * (time.thread_time() - begun))
    # The first two rounds warm up.
    plain, field = (np.array(times[2:]) for times in took)
    return {
        "plain_ms": percentiles(plain, (50, 90, 99)),
        "field_ms": percentiles(field, (50, 90, 99)),
        "ratio": round(float(np.median(field) / np.median(plain)), 4),
        "least": round(float(field.min() / plain.min()), 4),
        "runs": len(plain),
    }
