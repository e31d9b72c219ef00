"""The forecaster on a live stream, through ONNX Runtime: a pose in, the next 25 out. No torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyanticip.errors import ShapeError
from pyanticip.models.checkpoint.runtime import open_session
from pyanticip.models.forecast.manifest import read_forecast_manifest

Array = npt.NDArray[np.float32]


class ForecastStream:
    """One stream of poses through the forecaster of a checkpoint folder, on one thread.

    Does what ``PoseForecaster.step`` does. Its state is the ring of the last observed poses: before
    enough have been seen, the first one stands for those before it.

    :raises CheckpointError: missing, damaged, or without its graph.
    """

    def __init__(self, checkpoint: str | Path) -> None:
        manifest = read_forecast_manifest(checkpoint)
        self._session = open_session(manifest.graph())
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
