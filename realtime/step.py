"""The model as the live pipeline sees it: feature rows in, the newest controls out, whatever computes them.

Backends share one protocol and agree to 1e-4: ``onnx`` (ONNX Runtime on one CPU thread, without torch),
``torch`` (the reference) and ``cuda-graph``. :func:`open_backend` chooses.
"""

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pyanticip.errors import CheckpointError, DeviceError, OptionError, ShapeError
from pyanticip.models.config import (
    EVENT_BINS,
    EVENT_NAMES,
    FEATURES,
    HORIZONS_MS,
    PARAMETER_NAMES,
    SCALAR_COLUMNS,
)
from pyanticip.models.manifest import SLOW_GRAPH, STEP_GRAPH, Manifest, read_manifest

__all__ = ["BACKENDS", "Commitment", "OnnxBackend", "StepBackend", "StepResult", "open_backend", "paced_p50"]

F32 = npt.NDArray[np.float32]

BACKENDS = ("auto", "onnx", "torch", "cuda-graph")
"""What :func:`open_backend` understands."""

CALIBRATION_STEPS = 200

PARAMS = (len(PARAMETER_NAMES), len(HORIZONS_MS))
HAZARDS = (len(EVENT_NAMES), EVENT_BINS)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What holds after the newest frame; the arrays are the receiver's own.

    ``params`` (8, 5) sound parameters, linear 0..1, at the horizons; ``hazards`` (2, 25) probability of each
    event in each 20 ms bin ahead, given that it has not come before; ``scalars`` (7,) of the refined head;
    ``gate`` commitment, 0..1; ``emit`` whether the inference rule lets this frame's events out now.
    """

    params: F32
    hazards: F32
    scalars: F32
    gate: float
    emit: bool


class StepBackend(Protocol):
    """A model that steps one performer, one frame of 20 ms at a time."""

    name: str

    def step(self, rows: F32) -> StepResult:
        """Step all rows (n, 231), oldest first, and return what holds after the newest.

        :raises ShapeError: another shape, no row, or values that are not finite; the state is then unchanged.
        """
        ...

    def reset(self) -> None:
        """Begin a new stream: the next row is a first frame."""
        ...

    def prewarm(self) -> None:
        """Compute a step and throw it away, to warm caches and clocks; the stream's state stays as it is."""
        ...

    def close(self) -> None:
        """Give the resources back."""
        ...


class Commitment:
    """The inference rule of the commitment gate: emit at ``g > theta (1 - 0.5 n / max_buffer)`` or n >=
    max_buffer.

    n counts the frames held back so far.
    """

    def __init__(self, theta: float, max_buffer: int) -> None:
        self._theta, self._max = theta, max_buffer
        self.waited = 0

    def decide(self, gate: float) -> bool:
        """Whether this frame may emit; counts the frames that may not."""
        n = self.waited
        emit = gate > self._theta * (1.0 - 0.5 * n / self._max) or n >= self._max
        self.waited = 0 if emit else n + 1
        return emit


def checked_rows(rows: F32) -> F32:
    """Feature rows as float32 (n, 231), n >= 1, finite.

    :raises ShapeError: anything else.
    """
    rows = np.asarray(rows, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != FEATURES or rows.shape[0] < 1:
        raise ShapeError(f"feature rows must be (n, {FEATURES}) with n >= 1, got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ShapeError("feature rows must be finite, got NaN or infinity")
    return rows


class _Pathway:
    """One ONNX graph with everything it reads and writes bound once, and the rings of its blocks.

    A ring has as many slots as past steps are seen; a step's keys and values go to slot ``count % past``
    after the graph has run, over those of the step that has just left the context.
    """

    def __init__(
        self,
        path: Path,
        layers: int,
        past: int,
        heads: int,
        width: int,
        feed: dict[str, F32],
        outputs: Sequence[str],
    ) -> None:
        import onnxruntime

        ort: Any = onnxruntime
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise CheckpointError(f"{path} cannot be loaded: {' '.join(str(error).split())[:200]}") from None
        self._past = past
        self.count = 0
        self.keys = [np.zeros((1, heads, past, width // heads), np.float32) for _ in range(layers)]
        self.values = [np.zeros_like(k) for k in self.keys]
        self._slot = np.zeros(1, np.int64)
        self._mask = np.zeros(past + 1, np.float32)
        inputs: dict[str, npt.NDArray[Any]] = {**feed, "slot": self._slot, "mask": self._mask}
        inputs |= {f"keys_{i}": k for i, k in enumerate(self.keys)}
        inputs |= {f"values_{i}": v for i, v in enumerate(self.values)}
        self._io = self._session.io_binding()
        for known in self._session.get_inputs():
            array = inputs.get(known.name)
            if array is None or list(array.shape) != list(known.shape):
                raise CheckpointError(
                    f"{path}: input {known.name} {known.shape} does not fit the configuration"
                )
            self._io.bind_input(known.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self._inputs = inputs
        self.out: dict[str, F32] = {}
        for known in self._session.get_outputs():
            if not all(isinstance(size, int) for size in known.shape):
                raise CheckpointError(f"{path}: output {known.name} has no fixed shape")
            array = np.zeros(known.shape, np.float32)
            self.out[known.name] = array
            self._io.bind_output(known.name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        for name in (*outputs, *(f"qkv_{i}" for i in range(layers))):
            if name not in self.out:
                raise CheckpointError(f"{path}: output {name} is missing")
        # (ring, new row) pairs: views, so that storing a step is one small copy each.
        self._store = [
            (ring[i][0], self.out[f"qkv_{i}"][part, :, 0])
            for i in range(layers)
            for part, ring in ((1, self.keys), (2, self.values))
        ]
        self.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self.count = 0
        for ring in (*self.keys, *self.values):
            ring.fill(0.0)
        self._aim()

    def _aim(self) -> None:
        """Say which slot is next and, until the ring is full, which ones are still empty."""
        if self._past:
            self._slot[0] = self.count % self._past
            if self.count <= self._past:
                self._mask[: self._past] = np.where(np.arange(self._past) < self.count, 0.0, -np.inf)

    def run(self) -> None:
        """Compute; nothing but the outputs changes."""
        # Without run options: looking one up that is not set costs a C++ exception, 25 us hot and 100 us cold.
        self._session.run_with_iobinding(self._io)

    def advance(self) -> None:
        """Store what :meth:`run` computed."""
        if self._past:
            slot = self._slot[0]
            for ring, row in self._store:
                ring[:, slot] = row
        self.count += 1
        self._aim()


class OnnxBackend:
    """ONNX Runtime on one CPU thread; never imports torch.

    The fast graph runs on every frame, the slow one before it on the frames that close a pool. Graphs only
    read the rings, which are written here, so that a frame copies a few kilobytes.
    """

    name = "onnx"

    def __init__(self, manifest: Manifest) -> None:
        cfg = manifest.config
        self.manifest = manifest
        self._stride = cfg.slow_stride
        self._features = np.zeros((1, FEATURES), np.float32)
        self._taps = np.zeros((cfg.taps - 1, cfg.d_model), np.float32)
        self._held = np.zeros((1, cfg.d_model), np.float32)
        self._pool = np.zeros((1, cfg.d_model), np.float32)
        given = self._features[:, slice(*SCALAR_COLUMNS)]
        shared = {"features": self._features, "taps": self._taps, "given": given}
        size = cfg.heads, cfg.d_model
        self._fast = _Pathway(
            manifest.graph(STEP_GRAPH),
            cfg.fast_layers,
            cfg.fast_past,
            *size,
            {**shared, "held": self._held},
            ("params", "hazards", "scalars", "gate", "raw", "embedded"),
        )
        self._slow = _Pathway(
            manifest.graph(SLOW_GRAPH),
            cfg.slow_layers,
            cfg.slow_past,
            *size,
            {**shared, "pool": self._pool},
            ("slow",),
        )
        self._commitment = Commitment(cfg.theta, cfg.max_buffer)
        self._phase = 0

    def step(self, rows: F32) -> StepResult:
        """See :class:`StepBackend`."""
        emit = False
        fast, out = self._fast, self._fast.out
        for row in checked_rows(rows):
            self._features[0] = row
            self._phase += 1
            due = self._phase == self._stride
            if due:
                self._slow.run()
                np.copyto(self._held, self._slow.out["slow"])
                self._slow.advance()
            fast.run()
            fast.advance()
            if due:
                self._phase = 0
                self._pool.fill(0.0)
            else:
                self._pool += out["embedded"]
            if len(self._taps):
                self._taps[:-1] = self._taps[1:]
                self._taps[-1:] = out["raw"]
            emit = self._commitment.decide(float(out["gate"][0, 0]))
        return StepResult(
            out["params"].reshape(PARAMS).copy(),
            out["hazards"].reshape(HAZARDS).copy(),
            out["scalars"][0].copy(),
            float(out["gate"][0, 0]),
            emit,
        )

    def reset(self) -> None:
        """See :class:`StepBackend`."""
        self._fast.reset()
        self._slow.reset()
        for array in (self._taps, self._held, self._pool):
            array.fill(0.0)
        self._commitment.waited = 0
        self._phase = 0

    def prewarm(self) -> None:
        """See :class:`StepBackend`: the graphs only read the state, so running them without storing changes
        nothing."""
        if self._phase + 1 == self._stride:
            self._slow.run()
        self._fast.run()
        self._fast.run()

    def state(self) -> list[F32]:
        """Copies of everything that the next step depends on."""
        counts = np.array([self._phase, self._fast.count, self._slow.count, self._commitment.waited])
        rings = [ring for p in (self._fast, self._slow) for ring in (*p.keys, *p.values)]
        return [a.copy() for a in (self._taps, self._held, self._pool, *rings, counts.astype(np.float32))]

    def close(self) -> None:
        """See :class:`StepBackend`."""


def open_backend(kind: str = "auto", checkpoint: str | Path | None = None) -> StepBackend:
    """Open a checkpoint for stepping.

    :param kind: ``onnx``, ``torch``, ``cuda-graph``, or ``auto``: a CUDA graph where CUDA works and wins a
        paced calibration against ONNX Runtime, else ONNX Runtime.
    :param checkpoint: its folder; ``None`` for the one that comes with the package.
    :raises OptionError: another kind.
    :raises CheckpointError: missing, damaged, or made for other features.
    :raises DeviceError: ``cuda-graph`` where CUDA does not work.
    """
    if kind not in BACKENDS:
        raise OptionError(f"backend must be one of {', '.join(BACKENDS)}, got {kind!r}")
    if kind in ("torch", "cuda-graph"):
        from realtime.step_torch import CudaGraphBackend, TorchBackend

        return TorchBackend(checkpoint) if kind == "torch" else CudaGraphBackend(checkpoint)
    onnx = OnnxBackend(read_manifest(checkpoint))
    if kind == "onnx" or not cuda_present():
        return onnx
    try:
        from realtime.step_torch import CudaGraphBackend

        cuda = CudaGraphBackend(checkpoint)
        faster = paced_p50(cuda) < paced_p50(onnx)
    except (DeviceError, ImportError, RuntimeError):
        return onnx
    for backend in (onnx, cuda):
        backend.reset()
    (onnx if faster else cuda).close()
    return cuda if faster else onnx


def cuda_present() -> bool:
    """Whether a CUDA driver reports a device; asked without importing torch."""
    try:
        driver: Any = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


def paced_p50(backend: StepBackend, steps: int = CALIBRATION_STEPS, *, rate: float = 50.0) -> float:
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
