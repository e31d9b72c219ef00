"""The shipped kind of model on ONNX Runtime, without torch."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from pyanticip._core import StepState
from pyanticip.errors import CheckpointError, MotionError
from pyanticip.models.checkpoint.manifest import SLOW_GRAPH, STEP_GRAPH, WEIGHTS, Manifest
from pyanticip.models.checkpoint.runtime import onnxruntime, open_session
from pyanticip.models.config import visible_columns
from realtime.step.base import F32, Commitment, StepBackend, StepResult

__all__ = ["OnnxBackend", "runner"]


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
    try:
        inner, binding = session._sess, io._iobinding
    except AttributeError:
        # Without run options: looking up an unset one costs the face a C++ exception, 100 us cold.
        return partial(session.run_with_iobinding, io)
    return partial(inner.run_with_iobinding, binding, onnxruntime().RunOptions())


class OnnxBackend(StepBackend):
    """ONNX Runtime on one CPU thread; never imports torch.

    The fast graph runs on every frame, the slow one before it on the frames that close a pool. All that
    surrounds them, from the feature row to the embedding and the bias, the rings that the graphs read, and
    what follows from their results, is the Rust core's: a few calls a frame, because every small one into
    NumPy costs some 15 us when caches are cold.
    """

    name = "onnx"
    manifest: Manifest

    def __init__(self, manifest: Manifest) -> None:
        cfg = manifest.config
        self.manifest = manifest
        self._state = _step_state(manifest)
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

    def imagine(self, row: F32) -> StepResult:
        """See :class:`StepBackend`."""
        state = self._state
        due = state.begin(row, 0)
        if due:
            self._slow.run()
        self._fast.run()
        gate = state.rehearse(due)
        params, hazards, scalars, hidden = state.said()
        return StepResult(params, hazards, scalars, gate, False, hidden)

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
        due = state.look()
        if due:
            self._slow.run()
        self._fast.run()
        self._fast.run()
        state.rehearse(due)
        params, hazards, scalars, hidden = state.said()
        StepResult(params, hazards, scalars, 0.0, False, hidden)

    def state(self) -> list[F32]:
        """Copies of everything that the next step depends on."""
        return [self._state.snapshot(), np.array([self._commitment.waited], np.float32)]


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
