"""The step of a model for many performers at once; on a GPU in few kernels, recorded as CUDA graphs."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyanticip.errors import ShapeError, one_line
from pyanticip.models.motion.transformer import MotionOutput, MotionTransformer
from realtime.step.base import F32, StepPlan, StepResult, checked_rows

__all__ = ["BatchedStep", "RecordedStep", "fused"]

Mask: TypeAlias = npt.NDArray[np.bool_]

_HEADS = (1, 7, 40, 50)
"""Numbers of the gate, the scalars, the parameters and the hazards, with which a packed row begins."""


class BatchedStep:
    """A model that steps ``performers`` at once, each in a row with a state of its own that depends on no
    other row.

    Args:
        model: in evaluation mode; its device steps it, and its parameters take no gradients any more.
        performers: how many.
    """

    def __init__(self, model: MotionTransformer, performers: int = 1) -> None:
        self.model = model.requires_grad_(False)
        self.performers = performers
        cfg, device = model.cfg, model.mean.device
        self.codes = 0 if model.planning is None else model.planning.vocab
        # Without a slow pathway no pool is ever open.
        self._stride = cfg.slow_stride if cfg.slow_layers else 1
        self._phase = np.zeros(performers, np.int64)
        # What a recorded step reads and writes stays where it is.
        self._rows = torch.zeros(performers, cfg.columns, device=device)
        # Nobody yet: what is compiled and recorded leaves the state as it is.
        self._present = torch.zeros(performers, dtype=torch.bool, device=device)
        self._boost = torch.zeros(performers, self.codes, device=device) if self.codes else None
        self._state = model.initial_state(performers)

    def step(self, rows: F32, present: Mask | None = None) -> F32:
        """Step those who have a frame.

        Args:
            rows: (N, 231 or 279) feature rows; absent ones, too, must be finite.
            present: (N,) who has a frame in this tick; None: everybody. The others' streams stand still.

        Returns:
            (N, n) what :meth:`result` reads. The row of somebody absent says what would hold if this was
            their frame.

        Raises:
            ShapeError: another shape, or rows that are not finite; nobody is stepped.
        """
        present = np.ones(self.performers, np.bool_) if present is None else np.asarray(present, np.bool_)
        rows = checked_rows(rows, self.model.cfg.columns)
        if len(rows) != self.performers or present.shape != (self.performers,):
            got = f"{len(rows)} and {present.shape}"
            raise ShapeError(f"expected rows and presence of {self.performers} performers, got {got}")
        closing = self._phase + 1 == self._stride
        # Of somebody absent, too: a closed pool is read from where only a step that closes one has it.
        outputs = self._run(rows, present, bool(closing.any()))
        self._phase = np.where(present, np.where(closing, 0, self._phase + 1), self._phase)
        return outputs

    def imagine(self, rows: F32) -> F32:
        """What :meth:`step` would return; all streams stand still."""
        return self.step(rows, np.zeros(self.performers, np.bool_))

    def reset(self, rows: Mask | None = None) -> None:
        """Begin new streams of some rows (N,), or of all."""
        where = slice(None) if rows is None else np.asarray(rows, np.bool_)
        self._phase[where] = 0
        self._state.reset(None if rows is None else torch.from_numpy(where).to(self._present.device))

    def steer(self, row: int, boost: F32) -> None:
        """See :class:`realtime.step.base.StepBackend`; of one performer."""
        assert self._boost is not None
        self._boost[row] = torch.from_numpy(np.array(boost))

    @torch.no_grad()
    def advance(self, due: bool, everybody: bool = False) -> Tensor:
        """One step of the rows and the mask as they lie: the state's own memory then holds what comes next.

        Args:
            due: whether a pool closes in some row.
            everybody: whether the mask need not be looked at.

        Returns:
            (N, n) all outputs.
        """
        out, after = self.model.step(self._rows, self._state, due=due, boost=self._boost)
        self._state.restore(after, None if everybody else self._present)
        return _pack(out)

    def _run(self, rows: F32, present: Mask, due: bool) -> F32:
        # A copy: what is read only cannot be a tensor.
        self._rows.copy_(torch.from_numpy(np.array(rows)))
        self._present.copy_(torch.from_numpy(np.array(present)))
        return self.advance(due, bool(present.all())).cpu().numpy()

    def says_the_same(self, other: Callable[[bool], Tensor], kinds: Sequence[bool]) -> bool:
        """Whether another way to :meth:`advance` gives the same from a stream's start until two pools have
        closed, of which the second has a past; the streams begin again after it.

        Args:
            kinds: whether a pool closes: of the first frames of a pool, and of its last.
        """
        count = 2 * self._stride
        frames = torch.randn(count, *self._rows.shape, device=self._rows.device)
        self._present.fill_(True)
        said: list[list[Tensor]] = []
        try:
            for advance in (self.advance, other):
                self.reset()
                said.append([])
                for frame, rows in enumerate(frames):
                    self._rows.copy_(rows)
                    said[-1].append(advance(kinds[-1 if (frame + 1) % self._stride == 0 else 0]))
        finally:
            # Where the other way fails, too: what is recorded then must leave the state as it is.
            self.reset()
            self._present.fill_(False)
        return all(torch.allclose(a, b, atol=1e-3) for a, b in zip(*said, strict=True))

    def result(self, outputs: F32) -> StepResult:
        """What :meth:`step` returned in one row, unpacked; the row is not referred to any more."""
        cfg = self.model.cfg
        field = 0 if cfg.control_field is None else 2 * cfg.fast_layers
        sizes = (*_HEADS, cfg.d_model, field)
        plan = (len(outputs) - sum(sizes)) // 2
        ends = np.cumsum((*sizes, plan))
        gate, scalars, params, hazards, hidden, trusts, codes, weights = np.split(outputs.copy(), ends)
        return StepResult(
            params.reshape(8, 5),
            hazards.reshape(2, 25),
            scalars,
            float(gate[0]),
            hidden,
            trusts.reshape(-1, 2) if field else None,
            StepPlan(codes.astype(np.int64), weights) if plan else None,
        )


class RecordedStep(BatchedStep):
    """On a GPU, with the whole step recorded as two CUDA graphs: one for frames that close a pool in some
    row, one for all others.

    Frames go in and outputs come back through pinned memory; the state never leaves the GPU, where a replay
    updates it in place.

    Args:
        compiled: whether torch.compile fuses the step's kernels before it is recorded.

    Attributes:
        why: Why kernels are not fused though they should have been; empty otherwise.
    """

    why: str = ""

    def __init__(self, model: MotionTransformer, performers: int = 1, *, compiled: bool = True) -> None:
        super().__init__(model, performers)
        self._stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._host_rows = torch.zeros(self._rows.shape, pin_memory=True)
        self._host_present = torch.ones(performers, dtype=torch.bool, pin_memory=True)
        self._rows.normal_()
        # What was filled on the stream before is there on this one.
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            kinds = (False, True) if self._stride > 1 else (True,)
            advance: Callable[[bool], Tensor] = self.advance
            if compiled:
                advance, self.why = fused(self, kinds)
            self._graphs = {due: self._record(advance, due) for due in kinds}
        # Kept as long as the graphs: they launch its kernels.
        self._advance = advance
        some = next(iter(self._graphs.values()))[1]
        self._host_outputs = torch.zeros(some.shape, pin_memory=True)

    def _record(self, advance: Callable[[bool], Tensor], due: bool) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        # What libraries set up at first use cannot be recorded.
        for _ in range(3):
            advance(due)
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            outputs = advance(due)
        return graph, outputs

    def _run(self, rows: F32, present: Mask, due: bool) -> F32:
        self._host_rows.numpy()[:] = rows
        self._host_present.numpy()[:] = present
        graph, outputs = self._graphs[due]
        with torch.cuda.stream(self._stream):
            self._rows.copy_(self._host_rows, non_blocking=True)
            self._present.copy_(self._host_present, non_blocking=True)
            graph.replay()
            self._host_outputs.copy_(outputs, non_blocking=True)
            self._stream.synchronize()
        return self._host_outputs.numpy().copy()

    def reset(self, rows: Mask | None = None) -> None:
        """See :class:`BatchedStep`."""
        with torch.cuda.stream(self._stream):
            super().reset(rows)
            self._stream.synchronize()

    def steer(self, row: int, boost: F32) -> None:
        """See :class:`BatchedStep`."""
        with torch.cuda.stream(self._stream):
            super().steer(row, boost)
            self._stream.synchronize()


def fused(batch: BatchedStep, kinds: Sequence[bool]) -> tuple[Callable[[bool], Tensor], str]:
    """The step of a batch whose streams begin, its kernels fused by torch.compile, compiled for each kind of
    frame; the step as it is, and why, where the compiler does not work (on a GPU it wants Triton and a C
    compiler) or errs."""
    try:
        options = fusing() if torch.cuda.is_available() else {}
        compiled: Callable[[bool], Tensor] = torch.compile(
            batch.advance, fullgraph=True, dynamic=False, options=options
        )
        if not batch.says_the_same(compiled, kinds):
            raise RuntimeError("what was compiled says something else")
    # Whatever a compiler, its own compiler and a driver can raise: the step plays without them.
    except Exception as error:
        return batch.advance, f"kernels not fused: {type(error).__name__}: {one_line(error)}"
    return compiled, ""


def fusing() -> dict[str, Any]:
    """The compiler's options for a GPU: small kernels that do not need each other share a launch, and small
    products are fused with what stands around them."""
    options: dict[str, Any] = {"combo_kernels": True}
    with contextlib.suppress(ImportError):  # of names that the compiler has only for itself
        from realtime.step.products import SmallProducts

        options["post_grad_custom_pre_pass"] = SmallProducts()
    return options


def _pack(out: MotionOutput) -> Tensor:
    parts = [out.gate, out.scalars, out.params, torch.sigmoid(out.events), out.hidden]
    if out.field is not None:
        parts.append(out.field.live())
    if out.plan is not None:
        # Numbers of codes are small enough to be exact.
        parts += [out.plan.codes.to(out.gate.dtype), out.plan.weights]
    return torch.cat([part[:, 0].flatten(1) if part.ndim > 2 else part for part in parts], 1)
