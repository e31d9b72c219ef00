"""Does the body's forecast help the parameters'? The model is asked of bodies that the ghost foresees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import SHIPPED
from pyanticip.models.forecast.forecaster import load_forecaster
from pyanticip.models.forecast.manifest import GHOST
from pyanticip.motion.rotations import multiply, rotate
from training.data.batches import HORIZONS
from training.evaluate.takes import Clip, Takes
from training.studies.engine import Line, Measure, Row, Rows, Study
from training.tasks.completion.fit import in_the_world
from training.tasks.ghost.windows import OBSERVED, STRIDE, TARGET, seen_from_now, whole
from training.teacher.kinematics import OFFSETS, PARENTS

Array = NDArray[np.float64]

AHEAD: Final = STRIDE * TARGET
PAST: Final = 320
"""Frames before the moment that the model is shown."""
FIRST: Final = 60
JUDGED: Final = (100, 200, 400)
CHILDREN: Final = [[c for c, p in enumerate(PARENTS) if p == j] for j in range(len(PARENTS))]
ARMS: Final[dict[str, tuple[float, float, float]]] = {
    "model": (1.0, 0.0, 0.0),
    "body": (0.0, 1.0, 0.0),
    "mixed": (0.7, 0.3, 0.0),
    "later": (0.5, 0.0, 0.5),
}
"""Shares of the model's own forecast, of what it says of the body that is foreseen for then, and of its
forecast from the body that is foreseen in 100 ms."""


@dataclass(frozen=True)
class BodyOptions:
    """What all runs have in common."""

    data: Path = field(default=Path("data"), compare=False)
    """A set, or a folder of takes."""
    moments: int = 12
    """Of each clip."""


def turned(places: Array, world: Array) -> Array:
    """Rotations (N, 22, 4) in the world with which bodies have their joints at places (N, 22, 3).

    Each bone goes the shortest way from where it is with the rotations ``world``; ends turn along."""
    found = np.array(world)
    for joint, children in enumerate(CHILDREN):
        parent = PARENTS[joint]
        if not children:
            back = world[:, parent] * (1.0, -1.0, -1.0, -1.0)
            found[:, joint] = multiply(found[:, parent], multiply(back, world[:, joint]))
            continue
        bones = [np.broadcast_to(OFFSETS[child], places[:, child].shape) for child in children]
        have = np.stack([rotate(world[:, joint], bone) for bone in bones], 1)
        want = places[:, children] - places[:, [joint]]
        found[:, joint] = multiply(_turn(have, want), world[:, joint])
    return found


def _turn(have: Array, want: Array) -> Array:
    """Quaternions (N, 4) that turn some vectors (N, K, 3) into others, as near as can be."""
    if have.shape[1] == 1:
        a, b = (one[:, 0] / np.linalg.norm(one[:, 0], axis=-1, keepdims=True) for one in (have, want))
        quats = np.concatenate([1.0 + (a * b).sum(-1, keepdims=True), np.cross(a, b)], -1)
    else:
        # Davenport's matrix: its largest eigenvector.
        b = np.einsum("nki,nkj->nij", want, have)
        z = np.stack([b[:, 2, 1] - b[:, 1, 2], b[:, 0, 2] - b[:, 2, 0], b[:, 1, 0] - b[:, 0, 1]], -1)
        trace = np.trace(b, axis1=1, axis2=2)[:, None, None]
        k = np.empty((len(b), 4, 4))
        k[:, :1, :1], k[:, 0, 1:], k[:, 1:, 0] = trace, z, z
        k[:, 1:, 1:] = b + b.transpose(0, 2, 1) - trace * np.eye(3)
        quats = np.linalg.eigh(k)[1][..., -1]
    return np.asarray(quats / np.linalg.norm(quats, axis=-1, keepdims=True))


class BodyGround:
    """Strangers' clips, the packaged model and the packaged ghost."""

    def __init__(self, options: BodyOptions, folder: Path) -> None:
        takes = Takes(options.data, folder)
        self.options, self.source = options, takes.digest
        long = FIRST + AHEAD + max(HORIZONS)
        self.clips = [c for c in takes.strangers("validation") if len(c.example.params) > long]
        self.model, self.ghost = load_motion_model(SHIPPED).eval(), load_forecaster(GHOST)
        self.said = lru_cache(maxsize=1)(self._said)

    @property
    def rivals(self) -> Mapping[str, Mapping[str, Any]]:
        """None: all arms are judged at the same moments."""
        return {}

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """Errors by person and kind of movement, the eight parameters added up."""
        units: dict[str, list[Array]] = {}
        for clip, (*said, true) in zip(self.clips, self.said(seed), strict=True):
            mixed = sum(share * one for share, one in zip(ARMS[arm], said, strict=True))
            wrong = np.abs(mixed - true).sum(-1)
            units.setdefault(f"{clip.kind}, {clip.person}", []).append(wrong)
        means = {name: np.concatenate(found).mean(0) for name, found in sorted(units.items())}
        return {
            "figures": {
                name: dict(zip(map(str, JUDGED), row.round(5).tolist(), strict=True))
                for name, row in means.items()
            }
        }

    def _said(self, seed: int) -> list[tuple[Array, Array, Array, Array]]:
        rng = np.random.default_rng(seed)
        return [self._of(clip, rng) for clip in self.clips]

    @torch.inference_mode()
    def _of(self, clip: Clip, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
        """Of moments of a clip (N, 3, 8): its own forecasts, what it says of the bodies foreseen, what it
        foresees from the one in 100 ms, and what the teacher says."""
        last = len(clip.example.params) - AHEAD - 1
        now = np.unique(rng.integers(FIRST, last, self.options.moments))
        places, yaw = whole(clip.piece)
        at = torch.from_numpy(now)[:, None] + STRIDE * torch.arange(1 - OBSERVED, 1)
        here = places[at[:, -1:], :1] * torch.tensor([1.0, 0.0, 1.0])
        said = self.ghost.predict(seen_from_now(places[at], yaw[at[:, -1]]))
        cos, sin = torch.cos(yaw[at[:, -1]])[:, None, None], torch.sin(yaw[at[:, -1]])[:, None, None]
        x, y, z = said.unbind(-1)
        said = torch.stack((cos * x + sin * z, y, cos * z - sin * x), -1) + here
        said = torch.cat((places[at[:, -1:]], said), 1)
        between = 0.5 * (said[:, :-1] + said[:, 1:])
        foreseen = torch.stack((between, said[:, 1:]), 2).flatten(1, 2).double().numpy()
        quats, root = np.asarray(clip.piece.quats, np.float64), np.asarray(clip.piece.root, np.float64)
        world = in_the_world(quats[now])
        bodies = np.empty((len(now), AHEAD, *quats.shape[1:]))
        for k in range(AHEAD):
            world = turned(foreseen[:, k], world)
            bodies[:, k] = _local(world)
        rows = []
        for n, moment in enumerate(now):
            first = max(0, moment + 1 - PAST)
            turns = np.concatenate([quats[first : moment + 1], bodies[n]]).astype(np.float32)
            path = np.concatenate([root[first : moment + 1], foreseen[n, :, 0]]).astype(np.float32)
            features = torch.from_numpy(_core.motion_features(turns, path, clip.piece.mask))
            rows.append(self.model(features[None]).params[0, -AHEAD - 1 :].double().numpy())
        found, steps = np.stack(rows), [HORIZONS[i] for i in (2, 3, 4)]
        soon = found[:, steps[0]]
        return (
            np.stack([found[:, 0, :, i] for i in (2, 3, 4)], 1),
            np.stack([found[:, step, :, 0] for step in steps], 1),
            np.stack([soon[..., 0], soon[..., 2], 0.5 * (soon[..., 3] + soon[..., 4])], 1),
            np.stack([np.asarray(clip.example.params, np.float64)[now + step] for step in steps], 1),
        )


def _local(world: Array) -> Array:
    found = np.array(world)
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            found[:, joint] = multiply(world[:, parent] * (1.0, -1.0, -1.0, -1.0), world[:, joint])
    return found


def units(line: Line, view: str) -> dict[str, Row]:
    """Errors by person and kind of movement."""
    return dict(line["figures"])


def mean_error(ms: int) -> Callable[[Rows, Rows], float]:
    """That of the parameters, added up, units alike."""
    return lambda rows, held: float(np.mean([row[str(ms)] for row in rows]))


STUDY: Final = Study(
    title="Does the body's forecast help the parameters'?",
    options=BodyOptions,
    arms=ARMS,
    pairs=(("body", "model"), ("mixed", "model"), ("later", "model")),
    tables=(
        (
            "Error of the eight parameters added up",
            tuple(Measure(f"{ms} ms", mean_error(ms)) for ms in JUDGED),
        ),
    ),
    ground=lambda options, case, folder: BodyGround(options, folder),
    units=units,
)
