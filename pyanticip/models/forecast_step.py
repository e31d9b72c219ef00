"""The forecaster on a live stream, through ONNX Runtime: a pose in, the next 25 out. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import ShapeError
from pyanticip.models.forecast_manifest import read_forecast_manifest

Array = npt.NDArray[np.float32]


class ForecastStream:
    """One stream of poses through the forecaster of a checkpoint folder, on one thread.

    Does what :meth:`PoseForecaster.step` does. Its state is the ring of the last observed poses: before
    enough have been seen, the first one stands for those before it.

    :raises CheckpointError: missing, damaged, or without its graph.
    """

    def __init__(self, checkpoint: str | Path) -> None:
        import onnxruntime

        runtime: Any = onnxruntime
        manifest = read_forecast_manifest(checkpoint)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        graph = str(manifest.graph())
        self._session = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.cfg = manifest.config
        self._window: Array = np.zeros((1, self.cfg.observed, self.cfg.joints, 3), np.float32)
        self._seen = False

    def reset(self) -> None:
        """Forget what was seen."""
        self._seen = False

    def step(self, pose: Array) -> Array:
        """The forecast (target, joints, 3) after this pose (joints, 3).

        :raises ShapeError: a pose of another shape.
        """
        if pose.shape != (self.cfg.joints, 3):
            raise ShapeError(f"expected a pose ({self.cfg.joints}, 3), got {pose.shape}")
        if self._seen:
            self._window[:, :-1] = self._window[:, 1:]
            self._window[:, -1] = pose
        else:
            self._window[:] = pose
            self._seen = True
        forecast: Array = self._session.run(None, {"window": self._window})[0][0]
        return forecast
