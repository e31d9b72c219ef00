"""Which backend steps a checkpoint: named, or chosen by a paced race.

Backends agree to 1e-4: ``rust`` (the Rust core on one CPU thread, without torch; the shipped kind of model
alone), ``torch`` (the reference, any model of the family) and ``cuda-graph``.
"""

from __future__ import annotations

import ctypes
import time
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

__all__ = ["ModelBackend", "cuda_present", "open_backend", "open_processor", "open_rust", "paced_p50"]

ModelBackend: TypeAlias = "RustBackend | TorchBackend"
"""What steps a checkpoint on the processor."""

CALIBRATION_STEPS = 200

_BEYOND = "positions, control field, plans, random bias, or no slow pathway: torch alone steps it"


def open_backend(kind: str = "auto", checkpoint: str | Path | None = None) -> StepBackend:
    """Open a checkpoint for stepping.

    Args:
        kind: a name of :data:`realtime.seams.BACKENDS`, or ``auto``: a CUDA graph, its kernels not fused,
            where CUDA works and wins a paced calibration against the processor, else :func:`open_processor`.
        checkpoint: its folder; ``None`` for the one that comes with the package.

    Raises:
        OptionError: another kind.
        CheckpointError: missing, damaged, or made for other features.
        DeviceError: ``cuda-graph`` where CUDA does not work; a model that only torch steps, without it.
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

        # A show does not wait minutes for a compiler that nobody asked for.
        cuda = CudaGraphBackend(checkpoint, compiled=False)
        took, takes = paced_p50(cuda), paced_p50(processor)
    except (DeviceError, ImportError, RuntimeError) as error:
        processor.why = f"cuda-graph: {one_line(error)}"
        return processor
    faster = took < takes
    processor.why = f"cuda-graph: {1e3 * took:.2f} ms a step, {processor.name} {1e3 * takes:.2f}"
    for backend in (processor, cuda):
        backend.reset()
    (processor if faster else cuda).close()
    return cuda if faster else processor


def open_processor(checkpoint: str | Path | None = None) -> ModelBackend:
    """The best backend on the processor: the Rust core where it knows the kind of model, else torch.

    Raises:
        CheckpointError: missing, damaged, or made for other features.
        DeviceError: a model that only torch steps, without it.
    """
    manifest = read_manifest(checkpoint)
    if manifest.config.plain:
        return RustBackend(manifest)
    if find_spec("torch") is None:
        raise DeviceError(f"checkpoint {manifest.folder}: {_BEYOND}: pip install 'pyanticip[gpu]'")
    from realtime.step.torch import TorchBackend

    return TorchBackend(checkpoint)


def open_rust(checkpoint: str | Path | None = None) -> RustBackend:
    """The Rust core, for the kind of model that it knows.

    Raises:
        CheckpointError: missing, damaged, or a model of another kind.
    """
    manifest = read_manifest(checkpoint)
    if not manifest.config.plain:
        raise CheckpointError(f"checkpoint {manifest.folder}: {_BEYOND}: --backend torch")
    return RustBackend(manifest)


def cuda_present() -> bool:
    """Whether a CUDA driver reports a device; asked without importing torch."""
    try:
        driver: Any = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


def paced_p50(backend: StepBackend, steps: int = CALIBRATION_STEPS, *, rate: float = RATE) -> float:
    """Median seconds of ``steps`` steps at the live pace, prewarmed as the pipeline does."""
    row = np.zeros((1, FEATURES), np.float32)
    took = []
    due = time.perf_counter()
    for _ in range(steps):
        due += 1.0 / rate
        time.sleep(max(0.0, due - 0.003 - time.perf_counter()))
        backend.prewarm()
        time.sleep(max(0.0, due - time.perf_counter()))
        start = time.perf_counter()
        backend.step(row)
        took.append(time.perf_counter() - start)
    return float(np.median(took))
