"""Backends on torch: the reference on the CPU, and a CUDA graph. Imported only when asked for."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pyanticip._core import Commitment
from pyanticip.errors import DeviceError
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import Manifest, read_manifest
from pyanticip.models.motion.transformer import MotionOutput, MotionState
from realtime.step.base import F32, StepBackend, StepPlan, StepResult, checked_boost, checked_rows

__all__ = ["CudaGraphBackend", "TorchBackend"]


def _result(
    params: Tensor,
    hazards: Tensor,
    scalars: Tensor,
    gate: float,
    emit: bool,
    hidden: Tensor,
    field: Tensor | None,
    plan: StepPlan | None,
) -> StepResult:
    trusts = None if field is None else _own(field)
    return StepResult(_own(params), _own(hazards), _own(scalars), gate, emit, _own(hidden), trusts, plan)


def _plan(codes: Tensor, weights: Tensor) -> StepPlan:
    return StepPlan(np.array(codes.cpu().numpy(), dtype=np.int64), _own(weights))


def _own(tensor: Tensor) -> F32:
    """A copy that outlives the tensor's memory."""
    return np.array(tensor.cpu().numpy(), dtype=np.float32)


class TorchBackend(StepBackend):
    """Eager torch on one CPU thread: the reference the others are held to."""

    name = "torch"
    manifest: Manifest

    def __init__(self, checkpoint: str | Path | None = None) -> None:
        # More threads stall for up to 100 ms when cores are busy; the step is too small to gain from them.
        torch.set_num_threads(1)
        self.manifest = read_manifest(checkpoint)
        self._model = load_motion_model(checkpoint)
        self.hidden = self._model.cfg.d_model
        self._state = self._model.initial_state(1)
        self._scratch = self._model.initial_state(1)
        cfg = self._model.cfg
        self._commitment = Commitment(cfg.theta, cfg.max_buffer)
        self.codes = 0 if self._model.planning is None else self._model.planning.vocab
        self._boost: Tensor | None = None

    def steer(self, boost: F32) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        self._boost = torch.from_numpy(checked_boost(boost, self.codes).copy())

    @torch.no_grad()
    def step(self, rows: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`."""
        emit = False
        gate = 0.0
        for row in torch.from_numpy(checked_rows(rows, self._model.cfg.columns).copy()):
            out, self._state = self._model.step(row[None], self._state, boost=self._boost)
            gate = float(out.gate[0, 0])
            emit = self._commitment.decide(gate)
        return _result(
            out.params[0, 0],
            torch.sigmoid(out.events[0, 0]),
            out.scalars[0, 0],
            gate,
            emit,
            out.hidden[0, 0],
            None if out.field is None else out.field.live()[0, 0],
            None if out.plan is None else _plan(out.plan.codes[0, 0], out.plan.weights[0, 0]),
        )

    def imagine(self, row: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`."""
        before, waited = self._state.clone(), self._commitment.waited
        result = self.step(row)
        self._state, self._commitment.waited = before, waited
        return result

    def reset(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        self._state.reset()
        self._commitment.waited = 0

    @torch.no_grad()
    def prewarm(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        row = torch.zeros(1, self._model.mean.shape[0])
        for _ in range(2):
            _, self._scratch = self._model.step(row, self._scratch)

    def state(self) -> list[F32]:
        """Copies of everything that the next step depends on."""
        waited = np.array([self._commitment.waited], np.float32)
        return [*map(_own, self._state.tensors()), waited]


class _Captured:
    """A step recorded as a CUDA graph on a state of its own, which it updates in place."""

    def __init__(self, backend: "CudaGraphBackend", state: MotionState, due: bool) -> None:
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = backend.advance(state, due)


class CudaGraphBackend(StepBackend):
    """torch on a GPU with the whole step recorded as a CUDA graph: one with the slow pathway, one without.

    The frame goes in and the outputs come back through pinned memory; state never leaves the GPU.

    Raises:
        DeviceError: CUDA does not work here.
    """

    name = "cuda-graph"

    def __init__(self, checkpoint: str | Path | None = None) -> None:
        if not torch.cuda.is_available():
            raise DeviceError("backend cuda-graph: CUDA does not work here; use rust, or auto to choose")
        torch.set_num_threads(1)
        self.manifest = read_manifest(checkpoint)
        self._model = load_motion_model(checkpoint, device="cuda")
        self.hidden = self._model.cfg.d_model
        for parameter in self._model.parameters():
            parameter.requires_grad_(False)
        cfg = self._model.cfg
        self._stride = cfg.slow_stride
        self._commitment = Commitment(cfg.theta, cfg.max_buffer)
        self._phase = 0
        features = self._model.mean.shape[0]
        self._host_in = torch.zeros(1, features, pin_memory=True)
        self._device_in = torch.zeros(1, features, device="cuda")
        self._state = self._model.initial_state(1)
        self._scratch = self._model.initial_state(1)
        self._stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream), torch.no_grad():
            for _ in range(3):
                for due in (False, True):
                    self.advance(self._scratch, due)
            self._stream.synchronize()
            self._graphs = {due: _Captured(self, self._state, due) for due in (False, True)}
            self._warm = _Captured(self, self._scratch, True)
        packed = self._warm.out
        self._host_out = torch.zeros(packed.shape, pin_memory=True)
        self.reset()

    @torch.no_grad()
    def advance(self, state: MotionState, due: bool) -> Tensor:
        """One step that leaves ``state``'s tensors holding what comes next; returns all outputs in one
        row."""
        out, after = self._model.step(self._device_in, state, due=due)
        state.restore(after)
        return _pack(out)

    def step(self, rows: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`."""
        gate, emit = 0.0, False
        with torch.cuda.stream(self._stream):
            for row in torch.from_numpy(checked_rows(rows, self._model.cfg.columns).copy()):
                self._host_in[0] = row
                self._device_in.copy_(self._host_in, non_blocking=True)
                self._phase += 1
                due = self._phase == self._stride
                self._phase = 0 if due else self._phase
                captured = self._graphs[due]
                captured.graph.replay()
                self._host_out.copy_(captured.out, non_blocking=True)
                self._stream.synchronize()
                gate = float(self._host_out[0])
                emit = self._commitment.decide(gate)
        cfg = self._model.cfg
        field_size, plan_size = 0 if cfg.control_field is None else 2 * cfg.fast_layers, 0
        if self._model.planning is not None:
            plan_size = (len(self._host_out) - 98 - self.hidden - field_size) // 2
        sizes = [1, 7, 40, 50, self.hidden, field_size, plan_size, plan_size]
        _, scalars, params, hazards, hidden, field, codes, weights = torch.split(self._host_out, sizes)
        return _result(
            params.view(8, 5),
            hazards.view(2, 25),
            scalars,
            gate,
            emit,
            hidden,
            field.view(-1, 2) if field_size else None,
            _plan(codes, weights) if plan_size else None,
        )

    def imagine(self, row: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`."""
        with torch.cuda.stream(self._stream):
            before, waited, phase = self._state.clone(), self._commitment.waited, self._phase
            result = self.step(row)
            self._state.restore(before)
            self._stream.synchronize()
        self._commitment.waited, self._phase = waited, phase
        return result

    def reset(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        with torch.cuda.stream(self._stream):
            self._state.reset()
            self._stream.synchronize()
        self._commitment.waited = 0
        self._phase = 0

    def prewarm(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        with torch.cuda.stream(self._stream):
            self._warm.graph.replay()
            self._stream.synchronize()

    def state(self) -> list[F32]:
        """Copies of everything that the next step depends on."""
        counts = np.array([self._phase, self._commitment.waited], np.float32)
        return [*map(_own, self._state.tensors()), counts]

    def close(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        self._graphs.clear()


def _pack(out: MotionOutput) -> Tensor:
    parts = [out.gate, out.scalars, out.params, torch.sigmoid(out.events), out.hidden]
    if out.field is not None:
        parts.append(out.field.live())
    if out.plan is not None:
        # Numbers of codes are small enough to be exact.
        parts += [out.plan.codes.to(out.gate.dtype), out.plan.weights]
    return torch.cat([part[0, 0].reshape(-1) for part in parts])
