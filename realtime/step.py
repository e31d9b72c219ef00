"""The model as the live pipeline sees it: feature rows in, the newest controls out, whatever computes them.

Backends share one protocol and agree to 1e-4: ``onnx`` (ONNX Runtime on one CPU thread, without torch),
``torch`` (the reference) and ``cuda-graph``. :func:`open_backend` chooses.
"""

import ctypes
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from pyanticip._core import BodyKinematics
from pyanticip.errors import CheckpointError, DeviceError, OptionError, ShapeError
from pyanticip.models.config import (
    EVENT_BINS,
    EVENT_NAMES,
    FEATURES,
    HORIZONS_MS,
    PARAMETER_NAMES,
    SCALAR_COLUMNS,
    front_width,
)
from pyanticip.models.manifest import SLOW_GRAPH, STEP_GRAPH, WEIGHTS, Manifest, read_manifest

__all__ = ["BACKENDS", "Commitment", "OnnxBackend", "StepBackend", "StepResult", "open_backend", "paced_p50"]

F32 = npt.NDArray[np.float32]

BACKENDS = ("auto", "onnx", "torch", "cuda-graph")
"""What :func:`open_backend` understands."""

CALIBRATION_STEPS = 200

_PARAMS = (len(PARAMETER_NAMES), len(HORIZONS_MS))
_HAZARDS = (len(EVENT_NAMES), EVENT_BINS)
# How many numbers the step graph says: params, hazards, scalars, gate.
_SIZES = (math.prod(_PARAMS), math.prod(_HAZARDS), 7, 1)


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
    # A sum is one pass without a temporary; it is finite only where all of it is.
    if not math.isfinite(rows.sum()):
        raise ShapeError("feature rows must be finite, got NaN or infinity")
    return rows


class _Pathway:
    """One ONNX graph with everything it reads and writes bound once, and the rings of its blocks.

    A ring has as many slots as past steps are seen; a step's keys and values go to slot ``count % past``
    after the graph has run, over those of the step that has just left the context. All rings are one array,
    and so are all new keys and values: every NumPy call costs some 15 us when caches are cold.

    :param given: the arrays of the inputs that are not the pathway's own.
    :param results: the arrays of the outputs that are not its own.
    """

    def __init__(
        self,
        path: Path,
        layers: int,
        past: int,
        heads: int,
        width: int,
        given: Mapping[str, F32],
        results: Mapping[str, F32],
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
        self.rings = np.zeros((2 * layers, heads, past, width // heads), np.float32)
        self._new = np.zeros((2 * layers, heads, width // heads), np.float32)
        self._slot = np.zeros(1, np.int64)
        self._mask = np.zeros(past + 1, np.float32)
        inputs: dict[str, npt.NDArray[Any]] = {**given, "slot": self._slot, "mask": self._mask}
        outputs = dict(results)
        for i in range(layers):
            for part, ring in enumerate(("key", "value")):
                inputs[f"{ring}s_{i}"] = self.rings[2 * i + part][None]
                outputs[f"{ring}_{i}"] = self._new[2 * i + part][None, :, None]
        self._io = self._session.io_binding()
        self._bind(path, "input", inputs, self._session.get_inputs(), self._io.bind_input)
        self._bind(path, "output", outputs, self._session.get_outputs(), self._io.bind_output)
        # The binding holds bare addresses: the arrays must live as long.
        self._bound = (inputs, outputs)
        self.reset()

    @staticmethod
    def _bind(
        path: Path, what: str, arrays: Mapping[str, npt.NDArray[Any]], nodes: Sequence[Any], bind: Any
    ) -> None:
        """Give the graph the addresses of its inputs or outputs, once they are known to fit."""
        for node in nodes:
            array = arrays.get(node.name)
            kind = "tensor(int64)" if array is not None and array.dtype == np.int64 else "tensor(float)"
            if array is None or list(array.shape) != list(node.shape) or node.type != kind:
                raise CheckpointError(
                    f"{path}: {what} {node.name} {node.shape} does not fit the configuration"
                )
            bind(node.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        missing = set(arrays) - {node.name for node in nodes}
        if what == "output" and missing:
            raise CheckpointError(f"{path}: output {min(missing)} is missing")

    def reset(self) -> None:
        """Forget the stream."""
        self.count = 0
        self.rings.fill(0.0)
        self._aim()

    def _aim(self) -> None:
        """Say which slot is next and, until the ring is full, which ones are still empty."""
        self._slot[0] = self.count % self._past
        if self.count <= self._past:
            self._mask[:-1] = np.where(np.arange(self._past) < self.count, 0.0, -np.inf)

    def run(self) -> None:
        """Compute; nothing but the outputs changes."""
        # Without run options: looking up an unset one costs a C++ exception, 25 us hot and 100 us cold.
        self._session.run_with_iobinding(self._io)

    def advance(self) -> None:
        """Store what :meth:`run` computed."""
        self.rings[:, :, self.count % self._past] = self._new
        self.count += 1
        self._aim()

    def rehearse(self) -> None:
        """Go through what :meth:`advance` does and change nothing."""
        slot = self.count % self._past
        self.rings[:, :, slot] = self.rings[:, :, slot]
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
        self._seen = np.zeros((1, front_width(cfg)), np.float32)
        # A feature row and its kinematics lie side by side; the graph reads both at once.
        self._row, self._body = self._seen[:, :FEATURES], self._seen[:, FEATURES:]
        self._kinematics = _kinematics(manifest) if cfg.kinematics else None
        self._held = np.zeros((1, cfg.d_model), np.float32)
        # The filter's taps and, last, the open pool: what goes in, and what the graph makes of it.
        self._front = np.zeros((cfg.taps, cfg.d_model), np.float32)
        self._front_next = np.zeros_like(self._front)
        self._out = np.zeros((1, sum(_SIZES)), np.float32)
        self._slow_out = np.zeros_like(self._held)
        shared = {
            "features": self._seen,
            "given": self._seen[:, slice(*SCALAR_COLUMNS)],
            "taps": self._front[:-1],
            "pool": self._front[-1:],
        }
        edges = np.cumsum((0, *_SIZES))
        results = {
            name: self._out[:, low:high]
            for name, low, high in zip(
                ("params", "hazards", "scalars", "gate"), edges[:-1], edges[1:], strict=True
            )
        }
        results |= {"taps_next": self._front_next[:-1], "pool_next": self._front_next[-1:]}
        size = cfg.heads, cfg.d_model
        self._fast = _Pathway(
            manifest.graph(STEP_GRAPH),
            cfg.fast_layers,
            cfg.fast_past,
            *size,
            {**shared, "held": self._held},
            results,
        )
        self._slow = _Pathway(
            manifest.graph(SLOW_GRAPH),
            cfg.slow_layers,
            cfg.slow_past,
            *size,
            shared,
            {"slow": self._slow_out},
        )
        self._commitment = Commitment(cfg.theta, cfg.max_buffer)
        self._phase = 0

    def step(self, rows: F32) -> StepResult:
        """See :class:`StepBackend`."""
        emit = False
        for row in checked_rows(rows):
            self._row[0] = row
            if self._kinematics is not None:
                self._kinematics.compute(self._row, self._body)
            self._phase += 1
            if self._phase == self._stride:
                self._slow.run()
                self._held[:] = self._slow_out
                self._slow.advance()
            self._fast.run()
            self._fast.advance()
            self._front[:] = self._front_next
            if self._phase == self._stride:
                self._phase = 0
                self._front[-1] = 0.0
            emit = self._commitment.decide(float(self._out[0, -1]))
        return self._result(emit)

    def _result(self, emit: bool) -> StepResult:
        out = self._out[0].copy()
        params, hazards = out[: _SIZES[0]], out[_SIZES[0] : _SIZES[0] + _SIZES[1]]
        return StepResult(
            params.reshape(_PARAMS), hazards.reshape(_HAZARDS), out[-8:-1], float(out[-1]), emit
        )

    def reset(self) -> None:
        """See :class:`StepBackend`."""
        self._fast.reset()
        self._slow.reset()
        self._front.fill(0.0)
        self._held.fill(0.0)
        self._commitment.waited = 0
        self._phase = 0

    def prewarm(self) -> None:
        """See :class:`StepBackend`.

        The graphs only read the state, so they run on the stream's own, and nothing of what they say is
        stored; the host's part is gone through as well, writing every value over itself.
        """
        checked_rows(self._row)
        if self._kinematics is not None:
            self._kinematics.compute(self._row, self._body)
        if self._phase + 1 == self._stride:
            self._slow.run()
            self._slow.rehearse()
        self._fast.run()
        self._fast.run()
        self._fast.rehearse()
        self._front[:] = self._front
        self._result(False)

    def state(self) -> list[F32]:
        """Copies of everything that the next step depends on."""
        counts = [self._phase, self._fast.count, self._slow.count, self._commitment.waited]
        arrays = (self._front, self._held, self._fast.rings, self._slow.rings)
        return [*(array.copy() for array in arrays), np.array(counts, np.float32)]

    def close(self) -> None:
        """See :class:`StepBackend`."""


def _kinematics(manifest: Manifest) -> BodyKinematics:
    """The body that the checkpoint was trained on."""
    try:
        return BodyKinematics(safetensors.numpy.load(manifest.read(WEIGHTS))["kinematics.offsets"])
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"checkpoint {manifest.folder}: no body in {WEIGHTS}: {error}") from None


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
