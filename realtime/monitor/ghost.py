"""The ghost next to the body: a forecast of the joint positions from the past poses.

It runs the forecaster of :mod:`pyanticip.models.forecast` in NumPy, because the monitor's process has no
torch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from pyanticip.errors import CheckpointError
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_verified
from pyanticip.models.forecast.manifest import GHOST, read_forecast_manifest
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rotations import place_joints

F32 = npt.NDArray[np.float32]

#: Frames of the 50 Hz grid between two input poses, and between two forecast poses.
STRIDE = 2
# After a gap of more than this many frames the past is discarded.
_MAX_GAP_FRAMES = 12
_X, _, _Z = np.eye(3, dtype=np.float32)


class Ghost:
    """Forecasts the joint positions after each pose.

    Past poses are taken every :data:`STRIDE` frames, interpolated linearly where frames are missing. Raises a
    CheckpointError if ``folder`` has no forecaster of the canonical body.
    """

    def __init__(self, folder: Path = GHOST) -> None:
        manifest = read_forecast_manifest(folder)
        self._config = manifest.config
        body = canonical_skeleton()
        if self._config.joints != len(body.names) or not self._config.mirror:
            raise CheckpointError(f"checkpoint {folder}: expected a forecaster of the canonical body")
        self._weights = safetensors.numpy.load(read_verified(folder, WEIGHTS, manifest.sha256))
        self._parents, self._offsets = body.parents.tolist(), body.offsets.tolist()
        self._bone_lengths = np.linalg.norm(body.offsets, axis=1).tolist()
        past = STRIDE * (self._config.observed - 1)
        self._past_offsets = np.arange(-past, 1, STRIDE)
        # Frame number and joint positions (22, 3) of the past poses.
        self._observed: deque[tuple[int, F32]] = deque(maxlen=past + 1)

    def forecast(
        self, seq: int, pose: npt.ArrayLike, root: npt.ArrayLike, which: Sequence[int] = range(10)
    ) -> F32:
        """Add the pose of frame ``seq``, as local rotations (22, 4) and hip position (3,), and forecast.

        Returns the joint positions (10, 22, 3) in metres, ``STRIDE``, 2 ``STRIDE`` ... frames ahead, or only
        those at the indices ``which``.
        """
        turns, hips = np.asarray(pose, np.float64).tolist(), np.asarray(root, np.float64).tolist()
        world = place_joints(self._parents, self._offsets, turns, hips)
        positions = np.array([position for _, position in world], np.float32)
        if self._observed and not 0 < seq - self._observed[-1][0] <= _MAX_GAP_FRAMES:
            self._observed.clear()
        self._observed.append((seq, positions))
        # The model's coordinates: the origin on the floor below the hips, the performer facing +z.
        yaw = 2.0 * math.atan2(turns[0][2], turns[0][0])
        cos, sin = math.cos(yaw), math.sin(yaw)
        facing = np.array([[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]], np.float32)
        origin = positions[0] * (_X + _Z)
        forecast = self.predict((self._past() - origin) @ facing)
        return self._restore_bones(forecast[which] @ facing.T + origin)

    @property
    def joint_positions(self) -> F32:
        """Joint positions of the newest pose (22, 3)."""
        return self._observed[-1][1]

    def _past(self) -> F32:
        """Past joint positions (10, 22, 3), oldest first; before the first observed pose, that pose."""
        seqs = np.array([seq for seq, _ in self._observed])
        observed = np.stack([positions for _, positions in self._observed])
        targets = np.maximum(seqs[-1] + self._past_offsets, seqs[0])
        after = np.searchsorted(seqs, targets)
        before = np.maximum(after - 1, 0)
        share = (targets - seqs[before]) / np.maximum(seqs[after] - seqs[before], 1)
        steps = observed[after] - observed[before]
        past: F32 = observed[before] + share[:, None, None].astype(np.float32) * steps
        return past

    def predict(self, observed: F32) -> F32:
        """Forecast poses (10, 22, 3) from observed poses (10, 22, 3), as ``PoseForecaster.predict`` does."""
        mirrored_joints, mirror_x = list(self._config.mirror), 1.0 - 2.0 * _X
        plain, mirrored = self._run_model(np.stack((observed, observed[:, mirrored_joints] * mirror_x)))
        mean: F32 = 0.5 * (plain + mirrored[:, mirrored_joints] * mirror_x)
        return mean

    def _run_model(self, observed: F32) -> F32:
        """Forecasts (views, 10, 22, 3) of a batch of views (views, 10, 22, 3)."""
        w, views = self._weights, len(observed)
        flat = observed.reshape(views, len(observed[0]), -1) / w["unit"]
        last = flat[:, -1]
        past = (flat - last[:, None]).transpose(0, 2, 1) @ w["past_basis"] / w["past_scale"]
        x = np.concatenate([(last - w["pose_mean"]) / w["pose_std"], past.reshape(views, -1)], 1)
        z = self._linear("inlet", x)
        for n in range(self._config.blocks):
            inner = _gelu(self._linear(f"blocks.{n}.up", self._norm(f"blocks.{n}.norm", z)))
            z = z + self._linear(f"blocks.{n}.down", inner)
        future = self._linear("outlet", self._norm("norm", z)) + self._linear("direct", x)
        future = future.reshape(views, -1, self._config.components) + past @ w["momentum.weight"].T
        scaled = (future @ w["future_basis"]).transpose(0, 2, 1) + last[:, None]
        positions: F32 = (scaled * w["unit"]).reshape(views, self._config.target, -1, 3)
        return positions

    def _linear(self, name: str, x: F32) -> F32:
        y: F32 = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return y

    def _norm(self, name: str, x: F32) -> F32:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        y: F32 = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return y

    def _restore_bones(self, positions: F32) -> F32:
        """Move the joints so that every bone has its length."""
        poses = positions.tolist()
        for pose in poses:
            for joint, parent in enumerate(self._parents):
                if parent >= 0:
                    bone = [a - b for a, b in zip(pose[joint], pose[parent], strict=True)]
                    scale = self._bone_lengths[joint] / max(math.hypot(*bone), 1e-6)
                    pose[joint] = [b + scale * v for b, v in zip(pose[parent], bone, strict=True)]
        return np.array(poses, np.float32)


def _gelu(x: F32) -> F32:
    """GELU, with the error function of Abramowitz and Stegun 7.1.26, within 2e-7."""
    y = np.abs(x) / math.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * y)
    series = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
    gelu: F32 = (0.5 * x * (1.0 + np.sign(x) * (1.0 - series * t * np.exp(-y * y)))).astype(np.float32)
    return gelu
