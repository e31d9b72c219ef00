"""The ghost beside the body: where every joint will be, from the poses that came.

It steps the forecaster of :mod:`pyanticip.models.forecast` in NumPy: the monitor's process has no torch.
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
from pyanticip.motion.rotations import below

__all__ = ["STRIDE", "Ghost"]

F32 = npt.NDArray[np.float32]

#: Frames of the grid between two that it looks at, and so between two that it says.
STRIDE = 2
# Who was not seen for so many frames is seen anew.
_LOST = 12
_X, _, _Z = np.eye(3, dtype=np.float32)


class Ghost:
    """Takes poses in and says where the joints will be after each.

    It looks back in steps of :data:`STRIDE` frames; between two poses that came the joints went straight.
    Raises a CheckpointError where ``folder`` has no forecaster of the canonical body.
    """

    def __init__(self, folder: Path = GHOST) -> None:
        manifest = read_forecast_manifest(folder)
        self._config = manifest.config
        body = canonical_skeleton()
        if self._config.joints != len(body.names) or not self._config.mirror:
            raise CheckpointError(f"checkpoint {folder}: expected a forecaster of the canonical body")
        self._weights = safetensors.numpy.load(read_verified(folder, WEIGHTS, manifest.sha256))
        self._parents, self._offsets = body.parents.tolist(), body.offsets.tolist()
        self._bones = np.linalg.norm(body.offsets, axis=1).tolist()
        past = STRIDE * (self._config.observed - 1)
        self._ago = np.arange(-past, 1, STRIDE)
        self._seen: deque[tuple[int, F32]] = deque(maxlen=past + 1)

    def hear(
        self, seq: int, pose: npt.ArrayLike, root: npt.ArrayLike, which: Sequence[int] = range(10)
    ) -> F32:
        """Where the joints will be ``STRIDE``, 2 ``STRIDE`` ... frames (10, 22, 3), or at ``which`` of these,
        after the pose of frame ``seq``: local rotations (22, 4), and where the hips are (3,).
        """
        turns, hips = np.asarray(pose, np.float64).tolist(), np.asarray(root, np.float64).tolist()
        world: list[tuple[Sequence[float], Sequence[float]]] = [(turns[0], hips)]
        for turn, place, parent in zip(turns[1:], self._offsets[1:], self._parents[1:], strict=True):
            above, there = world[parent]
            world.append(below(above, there, turn, place))
        places = np.array([place for _, place in world], np.float32)
        if self._seen and not 0 < seq - self._seen[-1][0] <= _LOST:
            self._seen.clear()
        self._seen.append((seq, places))
        # From the floor below the hips, turned so that the performer faces +z.
        yaw = 2.0 * math.atan2(turns[0][2], turns[0][0])
        cos, sin = math.cos(yaw), math.sin(yaw)
        facing = np.array([[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]], np.float32)
        here = places[0] * (_X + _Z)
        said = self.predict((self._past() - here) @ facing)
        return self._jointed(said[which] @ facing.T + here)

    @property
    def joint_positions(self) -> F32:
        """Where the joints of the newest pose are (22, 3)."""
        return self._seen[-1][1]

    def _past(self) -> F32:
        """Where the joints were (10, 22, 3), oldest first; before they were seen, where that was."""
        seqs = np.array([seq for seq, _ in self._seen])
        known = np.stack([places for _, places in self._seen])
        wanted = np.maximum(seqs[-1] + self._ago, seqs[0])
        after = np.searchsorted(seqs, wanted)
        before = np.maximum(after - 1, 0)
        share = (wanted - seqs[before]) / np.maximum(seqs[after] - seqs[before], 1)
        found: F32 = known[before] + share[:, None, None].astype(np.float32) * (known[after] - known[before])
        return found

    def predict(self, seen: F32) -> F32:
        """What follows (10, 22, 3) on poses (10, 22, 3), as ``PoseForecaster.predict`` has it."""
        sides, across = list(self._config.mirror), 1.0 - 2.0 * _X
        plain, other = self._views(np.stack((seen, seen[:, sides] * across)))
        mean: F32 = 0.5 * (plain + other[:, sides] * across)
        return mean

    def _views(self, seen: F32) -> F32:
        w, views = self._weights, len(seen)
        flat = seen.reshape(views, len(seen[0]), -1) / w["unit"]
        last = flat[:, -1]
        past = (flat - last[:, None]).transpose(0, 2, 1) @ w["past_basis"] / w["past_scale"]
        x = np.concatenate([(last - w["pose_mean"]) / w["pose_std"], past.reshape(views, -1)], 1)
        z = self._linear("inlet", x)
        for n in range(self._config.blocks):
            inner = _gelu(self._linear(f"blocks.{n}.up", self._norm(f"blocks.{n}.norm", z)))
            z = z + self._linear(f"blocks.{n}.down", inner)
        said = self._linear("outlet", self._norm("norm", z)) + self._linear("direct", x)
        said = said.reshape(views, -1, self._config.components) + past @ w["momentum.weight"].T
        moves = (said @ w["future_basis"]).transpose(0, 2, 1) + last[:, None]
        found: F32 = (moves * w["unit"]).reshape(views, self._config.target, -1, 3)
        return found

    def _linear(self, name: str, x: F32) -> F32:
        found: F32 = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return found

    def _norm(self, name: str, x: F32) -> F32:
        apart = x - x.mean(-1, keepdims=True)
        scaled = apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + 1e-5)
        found: F32 = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return found

    def _jointed(self, places: F32) -> F32:
        """The same with bones as long as they are."""
        poses = places.tolist()
        for at in poses:
            for joint, parent in enumerate(self._parents):
                if parent >= 0:
                    bone = [a - b for a, b in zip(at[joint], at[parent], strict=True)]
                    share = self._bones[joint] / max(math.hypot(*bone), 1e-6)
                    at[joint] = [b + share * v for b, v in zip(at[parent], bone, strict=True)]
        return np.array(poses, np.float32)


def _gelu(x: F32) -> F32:
    """With the error function by Abramowitz and Stegun 7.1.26, within 2e-7."""
    y = np.abs(x) / math.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * y)
    series = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
    found: F32 = (0.5 * x * (1.0 + np.sign(x) * (1.0 - series * t * np.exp(-y * y)))).astype(np.float32)
    return found
