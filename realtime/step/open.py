"""Which backend steps a checkpoint: named, or chosen by a paced race.

Backends agree to 1e-4: ``onnx`` (ONNX Runtime on one CPU thread, without torch), ``torch`` (the reference)
and ``cuda-graph``.
"""

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import DeviceError, OptionError
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.vocabulary import FEATURES, RATE
from realtime.seams import BACKENDS
from realtime.step.base import StepBackend
from realtime.step.onnx import OnnxBackend
from realtime.step.whole import WholeBackend

__all__ = ["cuda_present", "open_backend", "open_onnx", "paced_p50"]

CALIBRATION_STEPS = 200


def open_backend(kind: str = "auto", checkpoint: str | Path | None = None) -> StepBackend:
    """Open a checkpoint for stepping.

    :param kind: a name of :data:`realtime.seams.BACKENDS`, or ``auto``: a CUDA graph where CUDA works and
        wins a paced calibration against ONNX Runtime, else ONNX Runtime.
    :param checkpoint: its folder; ``None`` for the one that comes with the package.
    :raises OptionError: another kind.
    :raises CheckpointError: missing, damaged, or made for other features.
    :raises DeviceError: ``cuda-graph`` where CUDA does not work.
    """
    if kind != "auto" and kind not in BACKENDS:
        raise OptionError(f"backend must be one of {', '.join(('auto', *BACKENDS.names()))}, got {kind!r}")
    if kind != "auto":
        return BACKENDS.load(kind)(checkpoint)
    onnx = open_onnx(checkpoint)
    if not cuda_present():
        return onnx
    try:
        cuda = BACKENDS.load("cuda-graph")(checkpoint)
        faster = paced_p50(cuda) < paced_p50(onnx)
    except (DeviceError, ImportError, RuntimeError):
        return onnx
    for backend in (onnx, cuda):
        backend.reset()
    (onnx if faster else cuda).close()
    return cuda if faster else onnx


def open_onnx(checkpoint: str | Path | None = None) -> OnnxBackend | WholeBackend:
    """The portable backend for the graphs that a checkpoint has.

    :raises CheckpointError: missing, damaged, or with graphs that are not as its manifest says.
    """
    manifest = read_manifest(checkpoint)
    return OnnxBackend(manifest) if manifest.config.graphs == "parts" else WholeBackend(manifest)


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
