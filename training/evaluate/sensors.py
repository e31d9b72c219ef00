"""``pyanticip evaluate sensors``: what the model makes of bodies that few sensors measure.

Joints of whole bodies are hidden. The figure is the error of the sound parameters, 100 to 400 ms ahead, over
that with the whole body: mean over people, all eight parameters together. Beside the completion stands what
is simpler: the joints at rest, each joint as the nearest measured one, ridge from the measured to the others.
Trackers know their places too, from which limbs are solved before the rest is completed.
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
from training.report.tables import Say, table
from training.tasks.completion.fit import in_the_world
from training.tasks.completion.net import JOINTS, matrices, nearest
from training.tasks.motion.people import not_strangers
from training.tasks.motion.scores import measure, run_model
from training.teacher.kinematics import MIRROR, OFFSETS, PARENTS

Array = NDArray[np.float64]

PLACED: Final = "six trackers with places"
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
UNLIKE: Final = 0.2
"""Standard deviation of how much longer or shorter each bone is along each axis, natural logarithm."""
PAST: Final = (0, 2, 5, 10, 25)
"""Frames back that ridge looks."""
ALL: Final = "all kinds"
"""Every clip at once."""


@dataclass
class _Ridge:
    """One ridge for each set of sensors, fitted when first asked for."""

    clips: Sequence[Clip]

    @cached_property
    def _worlds(self) -> list[Array]:
        return [in_the_world(clip.example.quats) for clip in self.clips]

    def fit(self, mask: NDArray[np.bool_]) -> Ridge:
        """From the measured joints now and before to all joints, heading removed."""
        seen = [_facing(world, mask) for world in self._worlds]
        return Ridge.fit(
            [_past(one[:, mask]) for one in seen],
            [one.reshape(len(one), -1) for one in seen],
            [clip.person for clip in self.clips],
        )


def _turned(world: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Rotations in the world less the heading of the first measured joint; the headings (T, 4)."""
    yaw = heading(world[:, mask]) / 2.0
    facing = np.stack([np.cos(yaw), 0.0 * yaw, np.sin(yaw), 0.0 * yaw], -1)
    return multiply(np.broadcast_to(conjugate(facing)[:, None], world.shape), world), facing


def _facing(world: Array, mask: NDArray[np.bool_]) -> Array:
    """Two columns (T, 22, 6) of each joint's rotation, heading removed."""
    turned, _ = _turned(world, mask)
    columns = matrices(torch.from_numpy(turned))[..., :2].transpose(-1, -2)
    return np.asarray(columns.reshape(*turned.shape[:2], 6).numpy())


def _past(columns: Array) -> Array:
    at = np.maximum(np.arange(len(columns))[:, None] - np.array(PAST), 0)
    return np.asarray(columns[at].reshape(len(columns), -1))


def _local(world: Array) -> Array:
    found = world.copy()
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            found[:, joint] = multiply(conjugate(world[:, parent]), world[:, joint])
    return found


def _of_columns(columns: Array) -> Array:
    """Rotations (..., 4) of two columns each (..., 6)."""
    a, b = columns[..., :3], columns[..., 3:]
    a = a / np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), 1e-9)
    b = b - (a * b).sum(-1, keepdims=True) * a
    b = b / np.maximum(np.linalg.norm(b, axis=-1, keepdims=True), 1e-9)
    turns = Rotation.from_matrix(np.stack([a, b, np.cross(a, b)], -1).reshape(-1, 3, 3))
    return np.asarray(turns.as_quat()[:, [3, 0, 1, 2]].reshape(*columns.shape[:-1], 4))


def _row(example: Example, quats: NDArray[np.floating], mask: NDArray[np.bool_]) -> Example:
    """The example as the model sees it; sensors that only turn do not say where the body is."""
    nowhere = np.zeros((len(quats), 3), np.float32)
    return replace(example, features=_core.motion_features(quats.astype(np.float32), nowhere, mask))


def _tracked(
    quats: NDArray[np.floating], mask: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
    """The body that trackers on the joints of ``mask`` give, put on in T-pose by somebody of other
    proportions; which joints they measure, and which only say where others are."""
    still = np.tile(np.array([1.0, 0.0, 0.0, 0.0]), (1, JOINTS, 1))
    rotations = in_the_world(np.concatenate([still, quats]))
    places = np.zeros((len(rotations), JOINTS, 3))
    longer = np.exp(UNLIKE * np.random.default_rng(len(quats)).normal(size=(JOINTS, 3)))
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            bone = OFFSETS[joint] * longer[min(joint, MIRROR[joint])]
            places[:, joint] = places[:, parent] + rotate(rotations[:, parent], bone)
    names = [name for name, there in zip(CANONICAL_JOINTS, mask, strict=True) if there]
    found, measured, predicted = _core.solve_trackers(names, rotations[:, mask], places[:, mask])
    return found[1:], measured, predicted


def _ways(mask: NDArray[np.bool_], ridge: Ridge, *, placed: bool) -> dict[str, Callable[[Clip], Example]]:
    """What each system makes of a clip; ``placed``: sensors know where they are, and ``completed`` too."""
    whole = np.ones(JOINTS, np.bool_)

    def at_rest(clip: Clip) -> Example:
        hidden = set(np.flatnonzero(~mask).tolist())
        return _row(clip.example, dropped_joints(clip.example.quats, whole, hidden)[0], mask)

    def copied(clip: Clip) -> Example:
        world = in_the_world(clip.example.quats)
        return _row(clip.example, _local(world[:, nearest(mask)]), whole)

    def fitted(clip: Clip) -> Example:
        world = in_the_world(clip.example.quats)
        _, facing = _turned(world, mask)
        predicted = ridge(_past(_facing(world, mask)[:, mask])).reshape(len(world), JOINTS, 6)
        turned = _of_columns(predicted)
        made = multiply(np.broadcast_to(facing[:, None], turned.shape), turned)
        made[:, mask] = world[:, mask]
        return _row(clip.example, _local(made), whole)

    def completed(clip: Clip) -> Example:
        if placed:
            quats, confidence = _core.complete_body(*_tracked(clip.example.quats, mask))
        else:
            hidden = set(np.flatnonzero(~mask).tolist())
            seen, _ = dropped_joints(clip.example.quats, whole, hidden)
            quats, confidence = _core.complete_body(seen, mask)
        return _row(clip.example, quats, confidence[0] > 0.0)

    return dict(zip(SYSTEMS, (at_rest, copied, fitted, completed), strict=True))


def evaluate(
    data: Path,
    split: str,
    cache: Path | None = None,
    *,
    every: int = 1,
    say: Say = lambda what, done, of: None,
) -> dict[str, Any]:
    """Judge the people of one side.

    Args:
        data: a set, or a folder of takes.
        split: train, validation or test.
        cache: where the set is built.
        every: of so many clips one is judged.
        say: told how far it is.

    Returns:
        ``rows``: by sensors, kind of movement and system the ratio to the whole body's error; ``error`` by
        kind with the whole body; ``us`` a frame of six sensors costs; ``warnings`` of who is no stranger.

    Raises:
        FormatError: no clip of that side is long enough.
    """
    takes = Takes(data, cache)
    model = load_motion_model(None)
    strangers = takes.strangers(split)
    clips = [clip for clip in strangers if len(clip.example) >= SHORTEST][::every]
    if not clips:
        longest = max(len(clip.example) for clip in strangers)
        raise FormatError(
            f"{data}: nothing to judge: the longest clip has {longest} frames, expected at least {SHORTEST}"
        )
    ridges = _Ridge(takes.training_clips())
    groups = {ALL: clips} | {
        kind: [clip for clip in clips if clip.kind == kind] for kind in sorted({c.kind for c in clips})
    }

    def errors(seen: dict[str, Example]) -> dict[str, float]:
        predicted = {name: run_model(model, example).params for name, example in seen.items()}
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
        ways = _ways(mask, ridges.fit(mask), placed=name == PLACED)
        if name == PLACED:  # what does not hear of places does as it did
            ways = {SYSTEMS[-1]: ways[SYSTEMS[-1]]}
        made = {system: errors({clip.name: way(clip) for clip in clips}) for system, way in ways.items()}
        rows[name] = {kind: rows["six"][kind] if name == PLACED else {} for kind in groups}
        for kind, row in rows[name].items():
            rows[name][kind] = row | {system: one[kind] / whole[kind] for system, one in made.items()}
        say("sensors", number + 1, len(SENSORS))
    people = sorted({clip.person for clip in clips})
    return {
        "split": split,
        "people": people,
        "clips": len(clips),
        "error": whole,
        "rows": rows,
        "us": _cost(clips[0].example.quats),
        "warnings": [*takes.warnings, *not_strangers(read_manifest(None).training, people)],
    }


def _cost(quats: NDArray[np.floating]) -> float:
    """Microseconds that a frame of six sensors costs, best of 20."""
    mask = np.isin(np.arange(JOINTS), SUITS["six"])
    times = []
    for _ in range(20):
        began = time.perf_counter()
        _core.complete_body(quats, mask)
        times.append(time.perf_counter() - began)
    return round(min(times) / len(quats) * 1e6, 1)


def markdown(report: dict[str, Any]) -> str:
    """The report as a table."""
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
