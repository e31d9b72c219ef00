"""The model as the live pipeline sees it: feature rows in, the newest controls out, whatever computes them.

Backends share one protocol and agree to 1e-4: ``onnx`` (ONNX Runtime on one CPU thread, without torch),
``torch`` (the reference) and ``cuda-graph``. :func:`open_backend` chooses.
"""

import ctypes
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from pyanticip._core import StepState
from pyanticip.errors import CheckpointError, DeviceError, MotionError, OptionError, ShapeError
from pyanticip.models.checkpoint.manifest import SLOW_GRAPH, STEP_GRAPH, WEIGHTS, Manifest, read_manifest
from pyanticip.models.checkpoint.runtime import onnxruntime, open_session
from pyanticip.models.config import FEATURES, visible_columns

if TYPE_CHECKING:
    from realtime.step_whole import WholeBackend

__all__ = [
    "BACKENDS",
    "Commitment",
    "OnnxBackend",
    "StepBackend",
    "StepPlan",
    "StepResult",
    "checked_rows",
    "open_backend",
    "open_onnx",
    "paced_p50",
    "runner",
]

F32 = npt.NDArray[np.float32]

BACKENDS = ("auto", "onnx", "torch", "cuda-graph")
"""What :func:`open_backend` understands."""

CALIBRATION_STEPS = 200


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a model that plans looked at in a step: ``codes`` (K,) int64 foreseen for the next second, and
    their ``weights`` (K,), which sum to 1 or are all 0. A slot without weight is empty."""

    codes: npt.NDArray[np.int64]
    weights: F32


@dataclass(frozen=True, slots=True)
class StepResult:
    """What holds after the newest frame; the arrays are the receiver's own.

    ``params`` (8, 5) sound parameters, linear 0..1, at the horizons; ``hazards`` (2, 25) probability of each
    event in each 20 ms bin ahead, given that it has not come before; ``scalars`` (7,) of the refined head;
    ``gate`` commitment, 0..1; ``emit`` whether the inference rule lets this frame's events out now;
    ``hidden`` (D,) the trunk's hidden state, on which taught outputs are read; None where a graph does not
    tell it; ``field`` (blocks, 2) trust 0..1 and curvature by the control field of each block of the fast
    pathway, and ``plan``, where the model has such.
    """

    params: F32
    hazards: F32
    scalars: F32
    gate: float
    emit: bool
    hidden: F32 | None = None
    field: F32 | None = None
    plan: StepPlan | None = None


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


class _Graph:
    """One ONNX graph with everything it reads and writes bound once.

    :param arrays: what it may read and must write, by the names it has there.
    """

    def __init__(self, path: Path, arrays: Mapping[str, F32]) -> None:
        try:
            self._session = session = open_session(path)
        except Exception as error:
            raise CheckpointError(f"{path} cannot be loaded: {' '.join(str(error).split())[:200]}") from None
        self._io = io = session.io_binding()
        # The binding holds bare addresses: the arrays must live as long.
        self._arrays = arrays
        inputs, outputs = session.get_inputs(), session.get_outputs()
        self._bind(path, "input", inputs, io.bind_input)
        self._bind(path, "output", outputs, io.bind_output)
        missing = set(arrays) - {node.name for node in (*inputs, *outputs)}
        if missing:
            raise CheckpointError(f"{path}: {min(missing)} is missing")
        #: Compute; nothing but the outputs changes.
        self.run = runner(session, io)

    def _bind(self, path: Path, what: str, nodes: Sequence[Any], bind: Any) -> None:
        """Give the graph the addresses of its inputs or outputs, once they are known to fit."""
        for node in nodes:
            array = self._arrays.get(node.name)
            if array is None or list(array.shape) != list(node.shape) or node.type != "tensor(float)":
                raise CheckpointError(
                    f"{path}: {what} {node.name} {node.shape} does not fit the configuration"
                )
            bind(node.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def runner(session: Any, io: Any) -> Callable[[], None]:
    """Run a session on its binding, by the shortest way there is.

    Cold, the session's Python face and options that the runtime makes for itself take 35 us of a step's 500.
    Where that face has another inside than expected, it is taken as it is.
    """
    inner, binding = getattr(session, "_sess", None), getattr(io, "_iobinding", None)
    if inner is None or binding is None:
        # Without run options: looking up an unset one costs the face a C++ exception, 100 us cold.
        return partial(session.run_with_iobinding, io)
    return partial(inner.run_with_iobinding, binding, onnxruntime().RunOptions())


class OnnxBackend:
    """ONNX Runtime on one CPU thread; never imports torch.

    The fast graph runs on every frame, the slow one before it on the frames that close a pool. All that
    surrounds them, from the feature row to the embedding and the bias, the rings that the graphs read, and
    what follows from their results, is the Rust core's: a few calls a frame, because every small one into
    NumPy costs some 15 us when caches are cold.
    """

    name = "onnx"

    def __init__(self, manifest: Manifest) -> None:
        cfg = manifest.config
        self.manifest = manifest
        self._state = _step_state(manifest)
        #: Width of the hidden state that a step tells.
        self.hidden = cfg.d_model
        self._fast = _Graph(manifest.graph(STEP_GRAPH), self._state.fast)
        self._slow = _Graph(manifest.graph(SLOW_GRAPH), self._state.slow)
        self._commitment = Commitment(cfg.theta, cfg.max_buffer)

    def step(self, rows: F32) -> StepResult:
        """See :class:`StepBackend`."""
        state, emit, gate = self._state, False, 0.0
        for index in range(max(1, len(rows)) if rows.ndim else 1):
            if state.begin(rows, index):
                self._slow.run()
                state.close_pool()
            self._fast.run()
            gate = state.finish()
            emit = self._commitment.decide(gate)
        params, hazards, scalars, hidden = state.said()
        return StepResult(params, hazards, scalars, gate, emit, hidden)

    def reset(self) -> None:
        """See :class:`StepBackend`."""
        self._state.reset()
        self._commitment.waited = 0

    def prewarm(self) -> None:
        """See :class:`StepBackend`.

        The graphs only read the state, so they run on the stream's own, and nothing of what they say is
        stored; the host's part is gone through as well, writing every value over itself.
        """
        state = self._state
        if state.look():
            self._slow.run()
        self._fast.run()
        self._fast.run()
        state.rehearse()
        params, hazards, scalars, hidden = state.said()
        StepResult(params, hazards, scalars, 0.0, False, hidden)

    def state(self) -> list[F32]:
        """Copies of everything that the next step depends on."""
        return [self._state.snapshot(), np.array([self._commitment.waited], np.float32)]

    def close(self) -> None:
        """See :class:`StepBackend`."""


def _step_state(manifest: Manifest) -> StepState:
    """A fresh stream of the checkpoint's model."""
    cfg = manifest.config
    try:
        tensors = safetensors.numpy.load(manifest.read(WEIGHTS))
        if cfg.strokes != any(name.startswith("control.beats.") for name in tensors):
            raise ValueError("a head that hears strokes must be there where strokes is true, and only there")
        return StepState(
            tensors,
            width=cfg.d_model,
            heads=cfg.heads,
            layers=(cfg.fast_layers, cfg.slow_layers),
            past=(cfg.fast_past, cfg.slow_past),
            stride=cfg.slow_stride,
            taps=cfg.taps,
            units=cfg.control_hidden,
            visible=visible_columns(cfg),
            distance=cfg.dist_scale,
            positive=cfg.alpha == "softplus",
            gated=cfg.gated_events,
        )
    except CheckpointError:  # missing or damaged: said already
        raise
    except (safetensors.SafetensorError, MotionError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint {manifest.folder}: {WEIGHTS} does not fit its configuration: {error}"
        ) from None


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
    onnx = open_onnx(read_manifest(checkpoint))
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


def open_onnx(manifest: Manifest) -> "OnnxBackend | WholeBackend":
    """The portable backend for the graphs that a checkpoint has.

    :raises CheckpointError: graphs that are not as its manifest says.
    """
    if manifest.config.graphs == "parts":
        return OnnxBackend(manifest)
    from realtime.step_whole import WholeBackend

    return WholeBackend(manifest)


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
