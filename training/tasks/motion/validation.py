"""What a model is worth on people it does not learn from, while it is trained."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from pyanticip.models.motion.heads import PoseHead, six_of, to_matrix, turns_of
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, RATE, SCALAR_COLUMNS
from training.data.batches import event_targets
from training.data.examples import Example
from training.tasks.motion.data import LITTLE, PREDICTED_FROM
from training.tasks.motion.losses import JOINT_MASK
from training.tasks.motion.scores import Errors, Predictions, measure, run_model
from training.teacher.kinematics import OFFSETS, PARENTS

Array = NDArray[np.float64]

COLUMNS: Final = (
    "valid_error",
    "valid_score",
    "valid_events",
    "valid_scalars",
    "valid_pose",
    "valid_pose_mm",
)
"""Mean absolute error of the parameters from 100 ms on; the same as a share of how far they move, at least
0.01 (what chooses the weights); negative log-likelihood of the next events in nats a frame; squared error of
the refined scalars; angle of the forecast joints in degrees and their distance in millimetres."""


def in_memory(example: Example) -> Example:
    """The same clip with arrays of its own: tensors share memory only with what may be written."""
    return replace(
        example,
        quats=np.array(example.quats),
        features=np.array(example.features),
        params=np.array(example.params),
    )


def clip_figures(output: Predictions, example: Example) -> Array:
    """Sums over the frames of one clip: events, scalars, and how many frames there are."""
    nll = np.zeros(len(output.gate))
    for kind, events in enumerate((example.onsets, example.phrases)):
        bins, seen = event_targets(events, len(example))
        which = np.arange(output.hazards.shape[2])
        hit, alive = which == bins[:, None], (which <= bins[:, None]) & (which < seen[:, None])
        hazard = np.clip(output.hazards[:, kind].astype(np.float64), 1e-7, 1.0 - 1e-7)
        nll -= (np.log(np.where(hit, hazard, 1.0 - hazard)) * alive).sum(axis=1)
    given = np.asarray(example.features[:, slice(*SCALAR_COLUMNS)], dtype=np.float64)
    wrong = ((output.scalars - given) ** 2).mean(axis=1)
    return np.array([nll.sum(), wrong.sum(), len(nll)])


def pose_figures(model: MotionTransformer, example: Example) -> Array:
    """What :func:`pose_sums` says of a model on one clip."""
    if model.pose is None:
        return _no_pose(model)
    with torch.no_grad():
        out = model(torch.from_numpy(np.asarray(example.features))[None])
    return pose_sums(example, model.cfg.pose_horizons, model.pose, out.hidden[0])


@torch.no_grad()
def pose_sums(
    example: Example, horizons: Sequence[int], head: PoseHead | None, hidden: torch.Tensor | None
) -> Array:
    """Of one clip, per horizon, sums over frames: (H, 2, 3) of a head and hold: degrees, millimetres, frames.

    Degrees: angle between forecast and true turn, mean over the joints the body has. Millimetres: distance of
    the joints with the hips in place, by the canonical body, mean over 21 joints.

    Args:
        example: the clip.
        horizons: milliseconds ahead.
        head: of the model; None leaves its sums at 0.
        hidden: (T, D) what the head reads.
    """
    sums = np.zeros((len(horizons), 2, 3))
    quats = torch.from_numpy(np.ascontiguousarray(example.quats))
    has = torch.from_numpy(np.asarray(example.features[:, JOINT_MASK])) > 0.5
    turns = None if head is None or hidden is None else to_matrix(head(hidden))
    now = to_matrix(six_of(quats))
    for i, ms in enumerate(horizons):
        h = round(ms * RATE / 1000)
        if len(quats) <= h:
            continue
        wanted = to_matrix(six_of(turns_of(quats[:-h], quats[h:])))
        places = positions(now[h:])
        output = None if turns is None else turns[:-h, i]
        for row, forecast in enumerate((output, torch.eye(3).expand_as(wanted))):
            if forecast is None:
                continue
            cosine = ((forecast * wanted).sum((-1, -2)) - 1.0) / 2.0
            degrees = torch.rad2deg(torch.arccos(cosine.clamp(-1.0, 1.0)))
            joints = has[:-h].sum(-1).clamp(min=1)
            far = (positions(now[:-h] @ forecast) - places).norm(dim=-1)[:, 1:].mean(-1) * 1000.0
            angle = (degrees * has[:-h]).sum(-1) / joints
            sums[i, row] = float(angle.sum()), float(far.sum()), len(wanted)
    return sums


def positions(turns: torch.Tensor) -> torch.Tensor:
    """Joints (T, 22, 3) in metres, hips at the origin, of local rotation matrices (T, 22, 3, 3)."""
    places, spins = [torch.zeros(len(turns), 3)], [turns[:, 0]]
    offsets = torch.from_numpy(np.asarray(OFFSETS, dtype=np.float32))
    for joint in range(1, len(PARENTS)):
        parent = PARENTS[joint]
        places.append(places[parent] + spins[parent] @ offsets[joint])
        spins.append(spins[parent] @ turns[:, joint])
    return torch.stack(places, 1)


def validate(
    model: MotionTransformer, examples: Sequence[Example], scale: Array, *, rank: int = 0, world: int = 1
) -> dict[str, Any]:
    """The figures of a model on held-out clips.

    Args:
        model: in evaluation mode, on the CPU.
        examples: the clips.
        scale: (8, 5) how far the parameters move; see :func:`training.tasks.motion.data.change_scale`.
        rank: number of this process.
        world: how many share the clips; all of them get the figures.

    Returns:
        ``error``, ``score``, ``events``, ``scalars`` as in :data:`COLUMNS`; ``params`` those by parameter
        and horizon; ``subjects`` the same ``error`` by subject; and ``pose`` by horizon, where the model has
        such a head, beside what holding the pose gives.
    """
    mine = [in_memory(examples[i]) for i in range(rank, len(examples), world)]
    sums = np.zeros(3)

    def predict(example: Example) -> NDArray[np.float32]:
        nonlocal sums
        output = run_model(model, example)
        sums = sums + clip_figures(output, example)
        return output.params

    errors = measure(mine, predict)
    pose = sum((pose_figures(model, example) for example in mine), _no_pose(model))
    if world > 1:
        gathered: list[Any] = [None] * world
        torch.distributed.all_gather_object(gathered, (errors, sums, pose))
        errors = Errors(
            *(np.concatenate([getattr(g[0], n) for g in gathered if len(g[0].subjects)]) for n in _ERRORS)
        )
        sums = sum((g[1] for g in gathered), np.zeros(3))
        pose = sum((g[2] for g in gathered), _no_pose(model))
    table = errors.mean()
    found: dict[str, Any] = {
        "error": float(table[:, PREDICTED_FROM:].mean()),
        "score": float((table / np.maximum(scale, LITTLE))[:, PREDICTED_FROM:].mean()),
        "events": float(sums[0] / max(sums[2], 1.0)),
        "scalars": float(sums[1] / max(sums[2], 1.0)),
        "params": {
            name: {str(ms): float(v) for ms, v in zip(HORIZONS_MS, row, strict=True)}
            for name, row in zip(PARAMETERS, table, strict=True)
        },
        "subjects": {
            str(name): float(errors.mean(np.flatnonzero(errors.subjects == name))[:, PREDICTED_FROM:].mean())
            for name in np.unique(errors.subjects)
        },
    }
    if model.pose is not None:
        means = pose / np.maximum(pose[..., 2:], 1.0)
        found["pose"] = {
            str(ms): {
                "degrees": float(row[0, 0]),
                "millimetres": float(row[0, 1]),
                "hold_degrees": float(row[1, 0]),
                "hold_millimetres": float(row[1, 1]),
            }
            for ms, row in zip(model.cfg.pose_horizons, means, strict=True)
        }
    return found


_ERRORS: Final = ("sums", "counts", "subjects")


def _no_pose(model: MotionTransformer) -> Array:
    return np.zeros((len(model.cfg.pose_horizons), 2, 3))


def row(found: dict[str, Any]) -> dict[str, float]:
    """The figures that stand in a row of the metrics."""
    cells = {f"valid_{name}": found[name] for name in ("error", "score", "events", "scalars")}
    if "pose" in found:
        each = list(found["pose"].values())
        cells["valid_pose"] = float(np.mean([one["degrees"] for one in each]))
        cells["valid_pose_mm"] = float(np.mean([one["millimetres"] for one in each]))
    return cells
