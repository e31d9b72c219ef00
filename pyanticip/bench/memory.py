"""How much memory a call needs at its peak, beyond what is allocated when it begins."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

__all__ = ["peak_bytes"]


def peak_bytes(call: Callable[[], object], device: torch.device) -> int | None:
    """The peak of what torch's allocator holds during a call, less what it held before.

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
    # Else it looks for a GPU aloud.
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
