"""Any motion model on ONNX Runtime, without torch: one graph a frame, the state of the stream carried along.

Slower than :class:`realtime.step.onnx.OnnxBackend`, which knows the shipped kind of model and moves its state
and all small sums into the Rust core; but the same graph runs whatever the configuration puts together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import CheckpointError
from pyanticip.models.checkpoint.manifest import SLOW_GRAPH, STEP_GRAPH, Manifest
from pyanticip.models.checkpoint.runtime import open_session
from pyanticip.vocabulary import EVENT_BINS, EVENTS, HORIZONS_MS, PARAMETERS
from realtime.step.base import F32, Commitment, StepBackend, StepPlan, StepResult, checked_boost, checked_rows
from realtime.step.onnx import runner

__all__ = ["WholeBackend"]

Array = npt.NDArray[Any]

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


class _Session:
    """One graph of a checkpoint, and which of the state's tensors it changes."""

    def __init__(self, manifest: Manifest, name: str) -> None:
        self.path = manifest.graph(name)
        try:
            self.session = open_session(self.path)
        except Exception as error:
            line = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{self.path} cannot be loaded: {line}") from None
        self.inputs = {node.name: self._array(node) for node in self.session.get_inputs()}
        self.outputs = {node.name: self._array(node) for node in self.session.get_outputs()}
        self.changes = frozenset(name[5:] for name in self.outputs if name.startswith("next_"))

    def _array(self, node: Any) -> Array:
        kind = _TYPES.get(node.type)
        shape = node.shape
        if kind is None or not all(isinstance(n, int) and 0 <= n <= 1 << 24 for n in shape):
            raise CheckpointError(f"{self.path}: {node.name} {node.type} {shape} is not of a step graph")
        return np.zeros(shape, kind)


class WholeBackend(StepBackend):
    """The graphs of :mod:`pyanticip.models.checkpoint.export_whole` on one CPU thread; never imports torch.

    Every tensor of the state is there twice: a graph reads one and writes the other, then they change places.
    Tensors that only the frames change that close a pool change places with those alone, so there are four
    ways to bind each graph, all made beforehand.
    """

    name = "onnx"
    manifest: Manifest

    def __init__(self, manifest: Manifest) -> None:
        cfg = manifest.config
        self.manifest = manifest
        self.hidden = cfg.d_model
        self._stride = cfg.slow_stride if cfg.pooled else 1
        names = (STEP_GRAPH, SLOW_GRAPH) if cfg.pooled else (STEP_GRAPH,)
        #: By whether the frame closes a pool.
        self._sessions = {bool(i) or not cfg.pooled: _Session(manifest, n) for i, n in enumerate(names)}
        every, often = self._sessions[True], self._sessions.get(False, self._sessions[True])
        results = {name: array for name, array in every.outputs.items() if not name.startswith("next_")}
        self._check(every, often, results, d_model=cfg.d_model, columns=cfg.columns)
        self._row, self._results = every.inputs["row"], results
        self._boost = every.inputs.get("boost")
        self.codes = 0 if self._boost is None else self._boost.size
        states = {name[6:]: array for name, array in every.inputs.items() if name.startswith("state_")}
        self._state = {name: (array, np.zeros_like(array)) for name, array in states.items()}
        #: Whether a tensor changes on every frame, else only where a pool closes.
        self._often = {name: name in often.changes for name in states}
        self._now = [0, 0]
        self._runs = {
            (due, a, b): self._bind(session, a, b)
            for due, session in self._sessions.items()
            for a in (0, 1)
            for b in (0, 1)
        }
        self._frames = 0
        self._commitment = Commitment(cfg.theta, cfg.max_buffer)

    @staticmethod
    def _check(
        every: _Session, often: _Session, results: dict[str, Array], *, d_model: int, columns: int
    ) -> None:
        """Both graphs must be of one model, and say what a step says."""
        shapes = {
            "params": (len(PARAMETERS), len(HORIZONS_MS)),
            "hazards": (len(EVENTS), EVENT_BINS),
            "scalars": (7,),
            "gate": (1,),
            "hidden": (d_model,),
        }
        for name, shape in shapes.items():
            if name not in results or results[name].shape != shape or results[name].dtype != np.float32:
                raise CheckpointError(f"{every.path}: output {name} must be float32 {shape}")
        if "row" not in every.inputs or every.inputs["row"].shape != (1, columns):
            raise CheckpointError(f"{every.path}: input row must be float32 (1, {columns})")
        for one, other in ((every.inputs, often.inputs), (every.outputs, often.outputs)):
            for name, array in other.items():
                if name not in one or one[name].shape != array.shape or one[name].dtype != array.dtype:
                    raise CheckpointError(f"{often.path}: {name} is not as in {every.path.name}")
        if not often.changes <= every.changes:
            raise CheckpointError(f"{often.path}: changes what {every.path.name} leaves as it is")
        for name, array in every.outputs.items():
            if name.startswith("next_"):
                state = every.inputs.get(f"state_{name[5:]}")
                if state is None or state.shape != array.shape or state.dtype != array.dtype:
                    raise CheckpointError(f"{every.path}: {name} is not a tensor of the state")

    def _bind(self, session: _Session, often: int, rarely: int) -> Any:
        """A graph that reads the state where it lies by these two numbers, and writes beside it."""
        io = session.session.io_binding()
        for name, array in session.inputs.items():
            if name == "row":
                array = self._row
            elif name == "boost" and self._boost is not None:
                array = self._boost
            else:
                key = name[6:]
                array = self._state[key][often if self._often[key] else rarely]
            io.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in session.outputs.items():
            if name.startswith("next_"):
                key = name[5:]
                array = self._state[key][1 - (often if self._often[key] else rarely)]
            else:
                array = self._results[name]
            io.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return runner(session.session, io)

    def step(self, rows: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`."""
        emit = False
        for row in checked_rows(rows, self._row.shape[1]):
            self._row[0] = row
            self._frames += 1
            due = self._frames % self._stride == 0
            self._runs[due, self._now[0], self._now[1]]()
            self._now[0] ^= 1
            if due:
                self._now[1] ^= 1
            emit = self._commitment.decide(float(self._results["gate"][0]))
        return self._result(emit)

    def imagine(self, row: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`.

        The graphs write beside the state that the stream is at.
        """
        self._row[:] = checked_rows(row, self._row.shape[1])
        due = (self._frames + 1) % self._stride == 0
        self._runs[due, self._now[0], self._now[1]]()
        return self._result(False)

    def _result(self, emit: bool) -> StepResult:
        results = self._results
        field = results["field"].copy() if "field" in results else None
        plan = None
        if "codes" in results:
            plan = StepPlan(results["codes"].copy(), results["weights"].copy())
        return StepResult(
            results["params"].copy(),
            results["hazards"].copy(),
            results["scalars"].copy(),
            float(results["gate"][0]),
            emit,
            results["hidden"].copy(),
            field,
            plan,
        )

    def steer(self, boost: F32) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        checked = checked_boost(boost, self.codes)
        assert self._boost is not None
        self._boost[:] = checked.reshape(self._boost.shape)

    def reset(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        for pair in self._state.values():
            for array in pair:
                array[...] = 0
        self._frames = 0
        self._commitment.waited = 0

    def prewarm(self) -> None:
        """See :class:`realtime.step.base.StepBackend`.

        The graphs write beside the state that the stream is at, so they run on it as it is.
        """
        due = (self._frames + 1) % self._stride == 0
        self._runs[due, self._now[0], self._now[1]]()

    def state(self) -> list[Array]:
        """Copies of everything that the next step depends on."""
        held = [
            pair[self._now[0] if self._often[name] else self._now[1]].copy()
            for name, pair in self._state.items()
        ]
        return [*held, np.array([self._frames % self._stride, self._commitment.waited], np.float32)]

    def close(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        self._runs.clear()
