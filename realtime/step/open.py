"""Opens a checkpoint with a named backend, or with the fastest of a paced comparison.

Backends agree to 1e-4: ``rust`` (the Rust core on one CPU thread, without torch; only the packaged kind of
model), ``torch`` (the reference, any model of the family) and ``cuda-graph``.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pyanticip.errors import CheckpointError, DeviceError, OptionError, one_line
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.vocabulary import FEATURES, RATE
from realtime.seams import BACKENDS
from realtime.step.base import StepBackend
from realtime.step.rust import RustBackend

if TYPE_CHECKING:
    from realtime.step.torch import TorchBackend

ModelBackend: TypeAlias = "RustBackend | TorchBackend"
"""Backends that step a checkpoint on the CPU."""

CALIBRATION_STEPS = 200

_TORCH_ONLY = "positions, control field, plans, random bias, or no slow pathway: torch alone steps it"


def open_backend(kind: str = "auto", checkpoint: str | Path | None = None) -> StepBackend:
    """Open a checkpoint for stepping.

    Args:
        kind: A name of :data:`realtime.seams.BACKENDS`, or ``auto``: a CUDA graph (kernels not fused) if CUDA
            works and is faster than the CPU in a paced calibration, else :func:`open_processor`.
        checkpoint: Folder of the checkpoint; ``None`` for the packaged one.

    Raises:
        OptionError: Another kind.
        CheckpointError: Missing, damaged, or made for other features.
        DeviceError: ``cuda-graph`` without working CUDA, or a model that needs torch without torch.
    """
    if kind != "auto" and kind not in BACKENDS:
        raise OptionError(f"backend must be one of {', '.join(('auto', *BACKENDS.names()))}, got {kind!r}")
    if kind != "auto":
        return BACKENDS.load(kind)(checkpoint)
    processor = open_processor(checkpoint)
    if not cuda_present():
        return processor
    try:
        from realtime.step.torch import CudaGraphBackend

        # Compiling can take minutes, so only an explicit cuda-graph does it.
        cuda = CudaGraphBackend(checkpoint, compiled=False)
        cuda_s, processor_s = paced_p50(cuda), paced_p50(processor)
    except (DeviceError, ImportError, RuntimeError) as error:
        processor.why = f"cuda-graph: {one_line(error)}"
        return processor
    cuda_wins = cuda_s < processor_s
    processor.why = f"cuda-graph: {1e3 * cuda_s:.2f} ms a step, {processor.name} {1e3 * processor_s:.2f}"
    for backend in (processor, cuda):
        backend.reset()
    (processor if cuda_wins else cuda).close()
    return cuda if cuda_wins else processor


def open_processor(checkpoint: str | Path | None = None) -> ModelBackend:
    """Open the best backend on the CPU: the Rust core if it supports the kind of model, else torch.

    Raises:
        CheckpointError: Missing, damaged, or made for other features.
        DeviceError: A model that needs torch, without torch.
    """
    manifest = read_manifest(checkpoint)
    if manifest.config.plain:
        return RustBackend(manifest)
    if find_spec("torch") is None:
        raise DeviceError(f"checkpoint {manifest.folder}: {_TORCH_ONLY}: pip install 'pyanticip[gpu]'")
    from realtime.step.torch import TorchBackend

    return TorchBackend(checkpoint)


def open_rust(checkpoint: str | Path | None = None) -> RustBackend:
    """Open a checkpoint in the Rust core.

    Raises:
        CheckpointError: Missing, damaged, or a kind of model that the core does not support.
    """
    manifest = read_manifest(checkpoint)
    if not manifest.config.plain:
        raise CheckpointError(f"checkpoint {manifest.folder}: {_TORCH_ONLY}: --backend torch")
    return RustBackend(manifest)


def cuda_present() -> bool:
    """Whether a CUDA driver reports a device, without importing torch."""
    try:
        driver: Any = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


def paced(
    step: Callable[[Any], object],
    rows: Iterable[Any],
    prewarm: Callable[[], object] | None = None,
    lead_s: float = 0.003,
) -> list[float]:
    """Seconds of one step per row at the live rate; ``prewarm`` is called ``lead_s`` before each."""
    durations = []
    due = time.perf_counter()
    for row in rows:
        due += 1.0 / RATE
        if prewarm is not None:
            time.sleep(max(0.0, due - lead_s - time.perf_counter()))
            prewarm()
        time.sleep(max(0.0, due - time.perf_counter()))
        start = time.perf_counter()
        step(row)
        durations.append(time.perf_counter() - start)
    return durations


def paced_p50(backend: StepBackend) -> float:
    """Median seconds of 200 steps at the live rate, prewarmed as in the pipeline."""
    row = np.zeros((1, FEATURES), np.float32)
    return float(np.median(paced(backend.step, [row] * CALIBRATION_STEPS, backend.prewarm)))
