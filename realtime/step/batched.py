"""Steps a model for many performers at once; on a GPU in few kernels, recorded as CUDA graphs."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyanticip.errors import ShapeError, one_line
from pyanticip.models.motion.transformer import MotionOutput, MotionTransformer
from realtime.step.base import F32, StepPlan, StepResult, checked_rows

Mask: TypeAlias = npt.NDArray[np.bool_]

_HEAD_SIZES = (1, 7, 40, 50)
"""Sizes of the gate, the scalars, the parameters and the hazards, with which a packed row begins."""


class BatchedStep:
    """Steps a model for ``performers`` at once, one row each, whose states do not depend on each other.

    Args:
        model: In evaluation mode; steps on its device, and its parameters no longer require gradients.
        performers: Number of performers.
    """

    def __init__(self, model: MotionTransformer, performers: int = 1) -> None:
        self.model = model.requires_grad_(False)
        self.performers = performers
        cfg, device = model.cfg, model.mean.device
        self.codes = 0 if model.planning is None else model.planning.vocab
        # Without a slow pathway every step counts as one that closes a pool.
        self._stride = cfg.slow_stride if cfg.slow_layers else 1
        self._phase = np.zeros(performers, np.int64)
        # Recorded steps read and write these tensors in place.
        self._rows = torch.zeros(performers, cfg.columns, device=device)
        # Nobody is present at first, so that compiling and recording leave the state unchanged.
        self._present = torch.zeros(performers, dtype=torch.bool, device=device)
        self._boost = torch.zeros(performers, self.codes, device=device) if self.codes else None
        self._state = model.initial_state(performers)

    def step(self, rows: F32, present: Mask | None = None) -> F32:
        """Step the performers who have a frame.

        Args:
            rows: (N, 231 or 279) feature rows; those of absent performers must be finite, too.
            present: (N,) whether each performer has a frame; None: all do. The other streams are unchanged.

        Returns:
            (N, n) packed outputs for :meth:`result`. The row of an absent performer holds what this frame
            would give.

        Raises:
            ShapeError: Another shape, or rows that are not finite; nobody is stepped.
        """
        present = np.ones(self.performers, np.bool_) if present is None else np.asarray(present, np.bool_)
        rows = checked_rows(rows, self.model.cfg.columns)
        if len(rows) != self.performers or present.shape != (self.performers,):
            got = f"{len(rows)} and {present.shape}"
            raise ShapeError(f"expected rows and presence of {self.performers} performers, got {got}")
        closes_pool = self._phase + 1 == self._stride
        # Also for absent performers: only a step that closes a pool computes the closed pool they would read.
        outputs = self._run(rows, present, bool(closes_pool.any()))
        self._phase = np.where(present, np.where(closes_pool, 0, self._phase + 1), self._phase)
        return outputs

    def imagine(self, rows: F32) -> F32:
        """What :meth:`step` would return; all streams are unchanged."""
        return self.step(rows, np.zeros(self.performers, np.bool_))

    def reset(self, rows: Mask | None = None) -> None:
        """Begin new streams for the rows selected by the mask (N,), or for all."""
        selected = slice(None) if rows is None else np.asarray(rows, np.bool_)
        self._phase[selected] = 0
        self._state.reset(None if rows is None else torch.from_numpy(selected).to(self._present.device))

    def steer(self, row: int, boost: F32) -> None:
        """Steer one performer; see :class:`realtime.step.base.StepBackend`."""
        assert self._boost is not None
        self._boost[row] = torch.from_numpy(np.array(boost))

    @torch.no_grad()
    def advance(self, due: bool, everybody: bool = False) -> Tensor:
        """Step the stored rows and mask, updating the state in place.

        Args:
            due: Whether a pool closes in some row.
            everybody: Whether all are present, so that the mask can be ignored.

        Returns:
            (N, n) packed outputs.
        """
        out, new_state = self.model.step(self._rows, self._state, due=due, boost=self._boost)
        self._state.restore(new_state, None if everybody else self._present)
        return _pack(out)

    def _run(self, rows: F32, present: Mask, due: bool) -> F32:
        # Copied, because a read-only array cannot become a tensor.
        self._rows.copy_(torch.from_numpy(np.array(rows)))
        self._present.copy_(torch.from_numpy(np.array(present)))
        return self.advance(due, bool(present.all())).cpu().numpy()

    def matches(self, other: Callable[[bool], Tensor], cases: Sequence[bool]) -> bool:
        """Whether ``other`` gives the same outputs as :meth:`advance` from the start of a stream until two
        pools have closed, of which the second has a past. The streams are reset afterwards.

        Args:
            cases: The values of ``due`` for the first frames of a pool and for its last.
        """
        count = 2 * self._stride
        frames = torch.randn(count, *self._rows.shape, device=self._rows.device)
        self._present.fill_(True)
        outputs: list[list[Tensor]] = []
        try:
            for advance in (self.advance, other):
                self.reset()
                outputs.append([])
                for frame, rows in enumerate(frames):
                    self._rows.copy_(rows)
                    outputs[-1].append(advance(cases[-1 if (frame + 1) % self._stride == 0 else 0]))
        finally:
            # Also if the other function fails, because recording must leave the state unchanged.
            self.reset()
            self._present.fill_(False)
        return all(torch.allclose(a, b, atol=1e-3) for a, b in zip(*outputs, strict=True))

    def result(self, outputs: F32) -> StepResult:
        """Unpack a copy of one row of what :meth:`step` returned."""
        cfg = self.model.cfg
        field = 0 if cfg.control_field is None else 2 * cfg.fast_layers
        sizes = (*_HEAD_SIZES, cfg.d_model, field)
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
    """Steps on a GPU with two CUDA graphs of the whole step: one for frames that close a pool in some row,
    one for all others.

    Frames and outputs pass through pinned memory; the state stays on the GPU, where a replay updates it in
    place.

    Args:
        compiled: Whether torch.compile fuses the step's kernels before it is recorded.

    Attributes:
        why: Why kernels are not fused although requested; empty otherwise.
    """

    why: str = ""

    def __init__(self, model: MotionTransformer, performers: int = 1, *, compiled: bool = True) -> None:
        super().__init__(model, performers)
        self._stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._host_rows = torch.zeros(self._rows.shape, pin_memory=True)
        self._host_present = torch.ones(performers, dtype=torch.bool, pin_memory=True)
        self._rows.normal_()
        # The tensors were filled on the default stream; wait before using them on this one.
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            cases = (False, True) if self._stride > 1 else (True,)
            advance: Callable[[bool], Tensor] = self.advance
            if compiled:
                advance, self.why = fused(self, cases)
            self._graphs = {due: self._record(advance, due) for due in cases}
        # Kept alive with the graphs, which launch its kernels.
        self._advance = advance
        example = next(iter(self._graphs.values()))[1]
        self._host_outputs = torch.zeros(example.shape, pin_memory=True)

    def _record(self, advance: Callable[[bool], Tensor], due: bool) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        # Libraries initialise themselves at first use, which cannot be recorded.
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


def fused(batch: BatchedStep, cases: Sequence[bool]) -> tuple[Callable[[bool], Tensor], str]:
    """The batch's ``advance`` with its kernels fused by torch.compile, for each value of ``due`` in
    ``cases``; the batch's streams must be new. If the compiler does not work (on a GPU it needs Triton and a
    C compiler) or gives other outputs, the plain function and the reason."""
    try:
        context: contextlib.AbstractContextManager[dict[str, Any]] = contextlib.nullcontext({})
        if torch.cuda.is_available():
            context = fusing()
        with context as options:
            compiled: Callable[[bool], Tensor] = torch.compile(
                batch.advance, fullgraph=True, dynamic=False, options=options
            )
            # Compiles at the first call.
            if not batch.matches(compiled, cases):
                raise RuntimeError("what was compiled says something else")
    # A compiler, its own compiler and a driver can raise anything; the plain step works without them.
    except Exception as error:
        return batch.advance, f"kernels not fused: {type(error).__name__}: {one_line(error)}"
    return compiled, ""


@contextlib.contextmanager
def fusing() -> Iterator[dict[str, Any]]:
    """Context for torch.compile on a GPU, with its options: independent small kernels share launches, and
    small products are fused with the operations around them. Versions that lack what one of these needs do
    the rest."""
    options: dict[str, Any] = {"combo_kernels": True}
    with contextlib.ExitStack() as stack:
        # Both use private names of the compiler, which another version may lack or call in another way.
        with contextlib.suppress(ImportError, AttributeError, TypeError):
            from realtime.step.products import SmallProducts

            options["post_grad_custom_pre_pass"] = SmallProducts()
        with contextlib.suppress(ImportError, AttributeError, TypeError):
            from realtime.step.launches import few_launches

            stack.enter_context(few_launches())
        yield options


def _pack(out: MotionOutput) -> Tensor:
    parts = [out.gate, out.scalars, out.params, torch.sigmoid(out.events), out.hidden]
    if out.field is not None:
        parts.append(out.field.live())
    if out.plan is not None:
        # Code numbers are small enough to be exact as floats.
        parts += [out.plan.codes.to(out.gate.dtype), out.plan.weights]
    return torch.cat([part[:, 0].flatten(1) if part.ndim > 2 else part for part in parts], 1)
