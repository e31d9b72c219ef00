"""Backends on torch: the reference on the CPU, and a CUDA graph. Imported only when needed."""

import sys
from pathlib import Path

import numpy as np
import torch

from pyanticip.errors import DeviceError
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import Manifest, read_manifest
from realtime.step.base import F32, StepBackend, StepResult, checked_boost, checked_rows
from realtime.step.batched import BatchedStep, RecordedStep


class TorchBackend(StepBackend):
    """Eager torch on one CPU thread: the reference for the other backends."""

    name = "torch"
    manifest: Manifest

    def __init__(self, checkpoint: str | Path | None = None) -> None:
        # More threads stall for up to 100 ms when cores are busy, and the step is too small to gain from
        # them.
        torch.set_num_threads(1)
        self.manifest = read_manifest(checkpoint)
        self._batch = self._open_batch(checkpoint)
        cfg = self.manifest.config
        self.hidden, self.codes = cfg.d_model, self._batch.codes
        self._zero_row = np.zeros((1, cfg.columns), np.float32)

    def _open_batch(self, checkpoint: str | Path | None) -> BatchedStep:
        return BatchedStep(load_motion_model(checkpoint))

    def steer(self, boost: F32) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        self._batch.steer(0, checked_boost(boost, self.codes))

    def step(self, rows: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`."""
        for row in checked_rows(rows, self.manifest.config.columns):
            outputs = self._batch.step(row[None])[0]
        return self._batch.result(outputs)

    def imagine(self, row: F32) -> StepResult:
        """See :class:`realtime.step.base.StepBackend`."""
        return self._batch.result(self._batch.imagine(row)[0])

    def reset(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        self._batch.reset()

    def prewarm(self) -> None:
        """See :class:`realtime.step.base.StepBackend`."""
        self._batch.imagine(self._zero_row)


class CudaGraphBackend(TorchBackend):
    """torch on a GPU with the whole step recorded as CUDA graphs; see
    :class:`~realtime.step.batched.RecordedStep`.

    Args:
        compiled: Whether torch.compile fuses the step's kernels, which can take minutes the first time.

    Raises:
        DeviceError: CUDA does not work here.
    """

    name = "cuda-graph"

    def __init__(self, checkpoint: str | Path | None = None, *, compiled: bool = True) -> None:
        if not torch.cuda.is_available():
            raise DeviceError("backend cuda-graph: CUDA does not work here; use rust, or auto to choose")
        self._compiled = compiled
        super().__init__(checkpoint)

    def _open_batch(self, checkpoint: str | Path | None) -> BatchedStep:
        model = load_motion_model(checkpoint, device="cuda")
        if self._compiled:
            print("cuda-graph: compiling the step, which can take minutes the first time", file=sys.stderr)
        batch = RecordedStep(model, compiled=self._compiled)
        self.why = batch.why
        return batch
