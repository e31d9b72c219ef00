"""``pyanticip evaluate sensors``: the model on bodies measured by few sensors.

Joints of whole bodies are hidden. The figure is the error of the sound parameters, 100 to 400 ms ahead,
relative to that with the whole body: mean over people and the eight parameters. The completion is compared
with simpler systems: missing joints at rest, each joint copied from the nearest measured one, and ridge
regression from the measured joints. Trackers also know their positions, from which limbs are solved before
the rest is completed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from pyanticip import _core
from pyanticip.errors import FormatError, counted
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.motion.rotations import conjugate, multiply, rotate
from pyanticip.vocabulary import CANONICAL_JOINTS
from training.data.corrupt import SUITS, dropped_joints
from training.data.examples import Example
from training.evaluate.learned import Ridge
from training.evaluate.measures import AHEAD_MS, SHORTEST
from training.evaluate.takes import Clip, Takes, heading
from training.report.tables import ProgressCallback, table
from training.tasks.completion.fit import global_rotations
from training.tasks.completion.net import JOINTS, matrices, nearest
from training.tasks.motion.people import training_overlap_warnings
from training.tasks.motion.scores import measure, run_model
from training.teacher.kinematics import MIRROR, OFFSETS, PARENTS

Array = NDArray[np.float64]

PLACED: Final = "six trackers with places"
"""Sensors that also measure their positions."""
SENSORS: Final = {
    "ten": SUITS["ten"],
    "six": SUITS["six"],
    PLACED: SUITS["six"],
    "three: head and hands": SUITS["three"],
    "hips": SUITS["phone"],
    "right hand": SUITS["hand"],
}
SYSTEMS: Final = ("at rest", "nearest", "ridge", "completed")
AHEAD: Final = slice(2, None)
"""Indices of the horizons from 100 ms on."""
BONE_SPREAD: Final = 0.2
"""Standard deviation of the logarithm of the length of each bone along each axis."""
PAST: Final = (0, 2, 5, 10, 25)
"""Lags of the inputs of the ridge regression, frames."""
ALL: Final = "all kinds"
"""Name of the row of all clips."""


@dataclass
class _RidgeFitter:
    """Fits a ridge regression for each set of sensors."""

    clips: Sequence[Clip]

    @cached_property
    def _rotations(self) -> list[Array]:
        return [global_rotations(clip.example.quats) for clip in self.clips]

    def fit(self, mask: NDArray[np.bool_]) -> Ridge:
        """Fit from the measured joints, now and before, to all joints, heading removed."""
        columns = [_without_heading(world, mask) for world in self._rotations]
        return Ridge.fit(
            [_past(one[:, mask]) for one in columns],
            [one.reshape(len(one), -1) for one in columns],
            [clip.person for clip in self.clips],
        )


def _turned(world: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Remove the heading of the first measured joint from global rotations; also returns it, (T, 4)."""
    yaw = heading(world[:, mask]) / 2.0
    facing = np.stack([np.cos(yaw), 0.0 * yaw, np.sin(yaw), 0.0 * yaw], -1)
    return multiply(np.broadcast_to(conjugate(facing)[:, None], world.shape), world), facing


def _without_heading(world: Array, mask: NDArray[np.bool_]) -> Array:
    """First two columns (T, 22, 6) of each joint's rotation matrix, heading removed."""
    turned, _ = _turned(world, mask)
    columns = matrices(torch.from_numpy(turned))[..., :2].transpose(-1, -2)
    return np.asarray(columns.reshape(*turned.shape[:2], 6).numpy())


def _past(columns: Array) -> Array:
    at = np.maximum(np.arange(len(columns))[:, None] - np.array(PAST), 0)
    return np.asarray(columns[at].reshape(len(columns), -1))


def _local(world: Array) -> Array:
    local = world.copy()
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            local[:, joint] = multiply(conjugate(world[:, parent]), world[:, joint])
    return local


def _of_columns(columns: Array) -> Array:
    """Quaternions (..., 4) from the first two columns of rotation matrices (..., 6)."""
    a, b = columns[..., :3], columns[..., 3:]
    a = a / np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), 1e-9)
    b = b - (a * b).sum(-1, keepdims=True) * a
    b = b / np.maximum(np.linalg.norm(b, axis=-1, keepdims=True), 1e-9)
    turns = Rotation.from_matrix(np.stack([a, b, np.cross(a, b)], -1).reshape(-1, 3, 3))
    return np.asarray(turns.as_quat()[:, [3, 0, 1, 2]].reshape(*columns.shape[:-1], 4))


def _with_features(example: Example, quats: NDArray[np.floating], mask: NDArray[np.bool_]) -> Example:
    """The example with features from these rotations; without positions, as rotation sensors give none."""
    nowhere = np.zeros((len(quats), 3), np.float32)
    return replace(example, features=_core.motion_features(quats.astype(np.float32), nowhere, mask))


def _tracked(
    quats: NDArray[np.floating], mask: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
    """Simulate trackers on the joints of ``mask``, calibrated in T-pose, on a body of other proportions.

    Returns:
        The solved body, the measured joints, and the joints that were only solved from positions.
    """
    rest_pose = np.tile(np.array([1.0, 0.0, 0.0, 0.0]), (1, JOINTS, 1))
    rotations = global_rotations(np.concatenate([rest_pose, quats]))
    positions = np.zeros((len(rotations), JOINTS, 3))
    bone_scale = np.exp(BONE_SPREAD * np.random.default_rng(len(quats)).normal(size=(JOINTS, 3)))
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            bone = OFFSETS[joint] * bone_scale[min(joint, MIRROR[joint])]
            positions[:, joint] = positions[:, parent] + rotate(rotations[:, parent], bone)
    names = [name for name, present in zip(CANONICAL_JOINTS, mask, strict=True) if present]
    solved, measured, predicted = _core.solve_trackers(names, rotations[:, mask], positions[:, mask])
    return solved[1:], measured, predicted


def _systems(mask: NDArray[np.bool_], ridge: Ridge, *, placed: bool) -> dict[str, Callable[[Clip], Example]]:
    """The systems, by name, as functions of a clip; ``placed``: the completion also uses sensor positions."""
    whole = np.ones(JOINTS, np.bool_)

    def at_rest(clip: Clip) -> Example:
        hidden = set(np.flatnonzero(~mask).tolist())
        return _with_features(clip.example, dropped_joints(clip.example.quats, whole, hidden)[0], mask)

    def copied(clip: Clip) -> Example:
        world = global_rotations(clip.example.quats)
        return _with_features(clip.example, _local(world[:, nearest(mask)]), whole)

    def fitted(clip: Clip) -> Example:
        world = global_rotations(clip.example.quats)
        _, facing = _turned(world, mask)
        predicted = ridge(_past(_without_heading(world, mask)[:, mask])).reshape(len(world), JOINTS, 6)
        turned = _of_columns(predicted)
        completed = multiply(np.broadcast_to(facing[:, None], turned.shape), turned)
        completed[:, mask] = world[:, mask]
        return _with_features(clip.example, _local(completed), whole)

    def completed(clip: Clip) -> Example:
        if placed:
            quats, confidence = _core.complete_body(*_tracked(clip.example.quats, mask))
        else:
            hidden = set(np.flatnonzero(~mask).tolist())
            reduced, _ = dropped_joints(clip.example.quats, whole, hidden)
            quats, confidence = _core.complete_body(reduced, mask)
        return _with_features(clip.example, quats, confidence[0] > 0.0)

    return dict(zip(SYSTEMS, (at_rest, copied, fitted, completed), strict=True))


def evaluate(
    data: Path,
    split: str,
    cache: Path | None = None,
    *,
    every: int = 1,
    say: ProgressCallback = lambda what, done, of: None,
) -> dict[str, Any]:
    """Evaluate one split.

    Args:
        data: a set, or a folder of takes.
        split: train, validation or test.
        cache: cache folder for sets.
        every: evaluate every n-th clip.
        say: progress callback.

    Returns:
        ``rows``: ratios to the whole body's error by sensors, kind of movement and system; ``error`` by kind
        with the whole body; ``us``, the cost of a frame of six sensors, microseconds; ``warnings``.

    Raises:
        FormatError: no clip of the split is long enough.
    """
    takes = Takes(data, cache)
    model = load_motion_model(None)
    held_out = takes.held_out_clips(split)
    clips = [clip for clip in held_out if len(clip.example) >= SHORTEST][::every]
    if not clips:
        longest = max(len(clip.example) for clip in held_out)
        raise FormatError(
            f"{data}: nothing to evaluate: the longest clip has {longest} frames, "
            f"expected at least {SHORTEST}"
        )
    ridges = _RidgeFitter(takes.training_clips())
    groups = {ALL: clips} | {
        kind: [clip for clip in clips if clip.kind == kind] for kind in sorted({c.kind for c in clips})
    }

    def errors(examples: dict[str, Example]) -> dict[str, float]:
        predicted = {name: run_model(model, example).params for name, example in examples.items()}
        return {
            kind: float(
                measure([clip.example for clip in some], lambda e: predicted[e.name]).mean()[:, AHEAD].mean()
            )
            for kind, some in groups.items()
        }

    whole = errors({clip.name: clip.example for clip in clips})
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for number, (name, joints) in enumerate(SENSORS.items()):
        mask = np.isin(np.arange(JOINTS), joints)
        systems = _systems(mask, ridges.fit(mask), placed=name == PLACED)
        if name == PLACED:  # the other systems do not use positions
            systems = {SYSTEMS[-1]: systems[SYSTEMS[-1]]}
        results = {
            system: errors({clip.name: apply(clip) for clip in clips}) for system, apply in systems.items()
        }
        rows[name] = {kind: rows["six"][kind] if name == PLACED else {} for kind in groups}
        for kind, row in rows[name].items():
            rows[name][kind] = row | {system: one[kind] / whole[kind] for system, one in results.items()}
        say("sensors", number + 1, len(SENSORS))
    people = sorted({clip.person for clip in clips})
    return {
        "split": split,
        "people": people,
        "clips": len(clips),
        "error": whole,
        "rows": rows,
        "us": _cost(clips[0].example.quats),
        "warnings": [*takes.warnings, *training_overlap_warnings(read_manifest(None).training, people)],
    }


def _cost(quats: NDArray[np.floating]) -> float:
    """Cost of completing a frame of six sensors, microseconds, best of 20."""
    mask = np.isin(np.arange(JOINTS), SUITS["six"])
    times = []
    for _ in range(20):
        start = time.perf_counter()
        _core.complete_body(quats, mask)
        times.append(time.perf_counter() - start)
    return round(min(times) / len(quats) * 1e6, 1)


def markdown(report: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    rows = [
        [f"{name}, {kind}", *(f"{ratios[system]:.2f}" for system in SYSTEMS)]
        for name, kinds in report["rows"].items()
        for kind, ratios in kinds.items()
    ]
    about = (
        f"Side: {report['split']}. People: {', '.join(report['people'])}. "
        f"{counted(report['clips'], 'clip')}. A frame of six sensors costs {report['us']:g} us.\n\n"
    )
    about += "".join(f"Warning: {line}.\n\n" for line in report["warnings"])
    first, *_, last = AHEAD_MS
    about += (
        f"Error of the sound parameters, {first} to {last} ms ahead, over that with the whole body: "
        "1 is as good, lower is better.\n\n"
    )
    return about + table(("sensors, kind", *SYSTEMS), rows)
