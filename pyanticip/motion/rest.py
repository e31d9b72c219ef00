"""The rest pose of a skeleton: checked by its motion, and found or estimated if it is no T-pose."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.motion.canonical import canonical_skeleton, retargeter
from pyanticip.motion.rotations import (
    Doubles,
    conjugate,
    from_axes,
    multiply,
    normalized,
    rotate,
    rotation_between,
    unit,
)
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.world import cross, locate, trunk_vector

_BENT_SINE = float(np.sin(np.radians(20.0)))
"""Sine of the bend from which a limb shows its hinge axis."""
_MIN_BENT_SHARE = 0.05
"""Share of the frames in which a limb must be bent to show its hinge axis."""

MEAN_LIMIT = 8.0
"""Maximum error of a correct rest pose's bone directions: degrees, mean of all bones."""
BONE_LIMIT = 20.0
"""Maximum error of a correct rest pose's bone directions: degrees, mean of one bone over the frames."""
HINGE_LIMIT = 75.0
"""Maximum error in degrees of the axes about which elbows and knees bend; it is 30 in the CMU database."""
FOOT_LIMIT = 60.0
"""Angle in degrees of a foot from its shin, or toes from their foot, that nine frames of ten exceed only if
the rest pose has it wrong (test data: 48 at most)."""
TRUNK_LIMIT = 45.0
"""Maximum error in degrees of the directions to the head and to the left shoulder in the trunk's joints."""

_MIN_TIP_M = 0.02
"""Distance in metres from a hand to its tip or fingers from which that shows where the hand points."""

_LIMBS = tuple(
    (f"{side}_{upper}", f"{side}_{lower}", f"{side}_{end}", straight, hinge)
    for side, x in (("left", 1.0), ("right", -1.0))
    for upper, lower, end, straight, hinge in (
        ("upper_arm", "lower_arm", "hand", (x, 0.0, 0.0), (0.0, -x, 0.0)),
        ("upper_leg", "lower_leg", "foot", (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)),
    )
)
"""Limbs of two bones: their three joints, their direction and their hinge axis in a T-pose."""

_TRUNK = ("hips", "spine", "chest", "upper_chest")

_FOOT_DIRECTION = unit(
    np.asarray(_core.CANONICAL_OFFSETS, np.float64)[canonical_skeleton().names.index("left_toes")]
)


@dataclass(frozen=True)
class MotionSample:
    """Some frames of a motion, in a world with y up.

    Attributes:
        quats: (T, J, 4) local rotations of the source.
        positions: (T, 22, 3) world positions of the canonical joints; NaN for those the source lacks.
        rotations: (T, 22, 4) world rotations of the canonical joints; NaN for those the source lacks.
    """

    quats: NDArray[np.float32]
    positions: Doubles
    rotations: Doubles


def rest_error(skeleton: Skeleton, mapped: _core.Retargeter, sample: MotionSample) -> float:
    """Error of a skeleton's rest pose, judged by the motion, relative to the limits: acceptable up to 1."""
    angles, refusal = mapped.agreement(sample.quats)
    known = np.array(angles)[np.isfinite(angles)]
    worst = max(
        float(known.mean()) / MEAN_LIMIT, float(known.max()) / BONE_LIMIT, _trunk_error(mapped, sample)
    )
    worst = max(worst, *(error / HINGE_LIMIT for error in _hinge_errors(mapped, sample).values()), 0.0)
    return worst if refusal is None else max(worst, 1.0)


def _hinge_errors(mapped: _core.Retargeter, sample: MotionSample) -> dict[str, float]:
    """Angles in degrees between the axes about which limbs bend and those in a T-pose, by upper joint.

    Limbs that show no axis are left out.
    """
    errors = {}
    for upper, _, _, _, axis in _LIMBS:
        hinge = hinge_axis(sample, upper)
        if hinge is not None:
            cosine = rotate(np.asarray(mapped.t_pose)[_index(upper)], hinge) @ axis
            errors[upper] = float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
    return errors


def elbows_bend_backward(skeleton: Skeleton, mapped: _core.Retargeter, sample: MotionSample) -> bool:
    """Whether the rest pose is a T-pose in which both elbows bend backward, as in a mirrored file."""
    errors = _hinge_errors(mapped, sample)
    return is_t_pose(skeleton) and all(
        errors.get(f"{side}_upper_arm", 0.0) > 180.0 - HINGE_LIMIT for side in ("left", "right")
    )


def _trunk_error(mapped: _core.Retargeter, sample: MotionSample) -> float:
    """Error of the trunk's rest rotations, as :func:`rest_error`; their bones are too short to show it.

    A wrong rotation of a single trunk joint leaves all limbs in place.
    """
    positions, rest = sample.positions, np.asarray(mapped.t_pose)
    left = locate(positions, "left_upper_arm") - locate(positions, "right_upper_arm")
    worst = 0.0
    for name in _TRUNK:
        up = locate(positions, "head", "neck") - locate(positions, name)
        for direction, axis in ((up, 1), (left, 0)):
            local = rotate(conjugate(sample.rotations[:, _index(name)]), unit(direction))
            # A high quantile, as nobody is bent throughout, but not the maximum, for there may be empty
            # frames. It is not finite for missing joints.
            cosine = np.quantile(rotate(rest[_index(name)], local)[:, axis], 0.9)
            if np.isfinite(cosine):
                worst = max(worst, float(np.degrees(np.arccos(np.clip(cosine, -1, 1)))) / TRUNK_LIMIT)
    return worst


def hinge_axis(sample: MotionSample, upper: str, of: str | None = None) -> Doubles | None:
    """(3,) axis about which a limb bends, in the frame of its upper joint (or of the joint ``of``).

    None if the limb is hardly ever bent, or about no constant axis.
    """
    _, lower, end, _, _ = next(limb for limb in _LIMBS if limb[0] == upper)
    first = unit(locate(sample.positions, lower) - locate(sample.positions, upper))
    second = unit(locate(sample.positions, end) - locate(sample.positions, lower))
    axis = cross(first, second)
    is_bent = np.linalg.norm(axis, axis=-1) > _BENT_SINE
    if is_bent.mean() < _MIN_BENT_SHARE:
        return None
    local = rotate(conjugate(sample.rotations[is_bent, _index(of or upper)]), axis[is_bent])
    total = local.sum(axis=0)
    if np.linalg.norm(total) < 0.5 * np.linalg.norm(local, axis=-1).sum():
        return None
    return unit(total)


def is_t_pose(skeleton: Skeleton, pose: NDArray[np.float32] | None = None) -> bool:
    """Whether ``pose`` (J, 4), by default the rest pose, is a T-pose within 25 degrees."""
    return _deviation(skeleton, skeleton.rest if pose is None else pose) < _core.T_POSE_TOLERANCE


def find_t_pose(skeleton: Skeleton, quats: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """The pose (J, 4) among ``quats`` (T, J, 4) that is closest to a T-pose, or None if none is one."""
    best = min(quats, key=lambda pose: _deviation(skeleton, pose))
    return best if is_t_pose(skeleton, best) else None


def _deviation(skeleton: Skeleton, pose: NDArray[np.float32]) -> float:
    """The largest angle of an arm or leg from its direction in a T-pose, radians."""
    return _core.t_pose_deviation(list(skeleton.names), skeleton.parents, skeleton.offsets, pose)


def upright(skeleton: Skeleton, mapped: _core.Retargeter | None = None) -> Skeleton:
    """``skeleton`` with its rest pose rotated as a whole to stand with y up, facing +z."""
    rest = skeleton.rest.astype(np.float64)
    rest[0] = multiply(np.array((mapped or retargeter(skeleton)).world), rest[0])
    return skeleton.with_rest(normalized(rest))


def estimate_rest(skeleton: Skeleton, sample: MotionSample) -> Skeleton:
    """``skeleton`` with a T-pose estimated from its motion.

    The trunk is taken from the frames in which the performer stands straightest. Arms and legs are
    straightened by the directions of their bones, and rolled so that elbows bend forward and knees backward.
    """
    heading, straightest = _stance(sample.positions)
    mean = {
        name: _mean(multiply(conjugate(heading[straightest]), sample.rotations[straightest, index]))
        for index, name in enumerate(canonical_skeleton().names)
        if np.isfinite(sample.rotations[:, index]).all()
    }
    # Trunk and head: the mean of those frames, without its lean.
    lean = _mean_direction(
        rotate(conjugate(heading[straightest]), trunk_vector(sample.positions)[straightest])
    )
    raise_up = rotation_between(lean, np.array((0.0, 1.0, 0.0)))
    rest = {name: multiply(raise_up, rotation) for name, rotation in mean.items()}
    # Hips and shoulders: squared, without the twist of those frames.
    chest = next((name for name in ("upper_chest", "chest", "spine") if name in rest), "")
    for limb, names in (
        ("upper_leg", ("hips",)),
        ("upper_arm", (chest, "left_shoulder", "right_shoulder")),
    ):
        across = locate(sample.positions, f"left_{limb}") - locate(sample.positions, f"right_{limb}")
        side = rotate(raise_up, _mean_direction(rotate(conjugate(heading[straightest]), across[straightest])))
        untwist = rotation_between(side, np.array((1.0, 0.0, 0.0)))
        rest.update({name: multiply(untwist, rest[name]) for name in names if name in rest})
    ends = dict(zip(canonical_skeleton().names, retargeter(skeleton).ends, strict=True))
    for upper, lower, end, straight, axis in _LIMBS:
        for name, to in ((upper, lower), (lower, end)):
            rest[name] = _limb(sample, mean, name, to, upper, np.array(straight), np.array(axis))
        toes = end.replace("foot", "toes")
        if end != toes and end in mean:
            rest[end] = _limb(sample, mean, end, toes, upper, _FOOT_DIRECTION, np.array(axis))
            end_pair = (toes, end)
        else:
            end_pair = (end, lower)
        if set(end_pair) <= mean.keys():
            last, carrier = end_pair
            rest[last] = multiply(rest[carrier], multiply(conjugate(mean[carrier]), mean[last]))
            pair = ends[last] if last == end else None
            tip = None if pair is None else _hand_tip(skeleton, pair[1])
            if tip is not None:
                rest[last] = multiply(
                    rotation_between(rotate(rest[last], tip), np.array(straight)), rest[last]
                )
    locals_ = _mean(sample.quats[straightest])
    target = {}
    for name, pair in ends.items():
        if pair is None or name not in rest:
            continue
        joint, target[pair[1]] = pair[1], rest[name]
        # The joints of a chain, such as a thigh and its twist, keep how they stand to each other.
        while joint != pair[0]:
            parent = int(skeleton.parents[joint])
            target[parent] = multiply(target[joint], conjugate(locals_[joint]))
            joint = parent
    return _with_global_rest(skeleton, target, locals_)


def without_rolls(skeleton: Skeleton, mapped: _core.Retargeter, sample: MotionSample) -> Skeleton | None:
    """``skeleton`` with the limbs of its T-pose rolled so that they bend as limbs do.

    Only limbs whose axis is more than ``HINGE_LIMIT`` off are rolled, and hands with their forearms. None if
    there are none, or if the rest pose is no T-pose.
    """
    rolled = [upper for upper, error in _hinge_errors(mapped, sample).items() if error > HINGE_LIMIT]
    if not rolled or not is_t_pose(skeleton):
        return None
    rest = dict(zip(canonical_skeleton().names, np.asarray(mapped.t_pose), strict=True))
    for upper, lower, end, straight, axis in _LIMBS:
        if upper not in rolled:
            continue
        frame = from_axes(np.array(straight), np.array(axis))
        for name in (upper, lower):
            hinge = hinge_axis(sample, upper, of=name)
            if hinge is not None:
                side = rotate(rest[name], hinge)
                roll = multiply(frame, conjugate(from_axes(np.array(straight), side)))
                rest[name] = multiply(roll, rest[name])
                if name == lower and end.endswith("hand"):
                    rest[end] = multiply(roll, rest[end])
    pairs = zip(rest, mapped.ends, strict=True)
    target = {pair[1]: rest[name] for name, pair in pairs if pair is not None}
    return _with_global_rest(skeleton, target, skeleton.rest.astype(np.float64))


def with_turned_feet(skeleton: Skeleton, mapped: _core.Retargeter, sample: MotionSample) -> Skeleton | None:
    """``skeleton`` with feet and toes at rest as they are when the performer stands straight.

    Only those are changed that are nearly always turned far from the bone above: their bones have axes of
    their own, which nothing else shows. None if there are none.
    """
    rest = dict(zip(canonical_skeleton().names, np.asarray(mapped.t_pose), strict=True))
    pairs = dict(zip(rest, mapped.ends, strict=True))
    is_turned = False
    for side in ("left", "right"):
        for name, above in ((f"{side}_foot", f"{side}_lower_leg"), (f"{side}_toes", f"{side}_foot")):
            if pairs[name] is None or pairs[above] is None:
                continue
            local = multiply(conjugate(sample.rotations[:, _index(above)]), sample.rotations[:, _index(name)])
            cosine = np.abs(multiply(multiply(rest[above], local), conjugate(rest[name]))[:, 0])
            if np.degrees(2.0 * np.arccos(min(np.quantile(cosine, 0.9), 1.0))) > FOOT_LIMIT:
                straightest = _stance(sample.positions)[1]
                rest[name] = multiply(rest[above], _mean(local[straightest]))
                is_turned = True
    if not is_turned:
        return None
    target = {pair[1]: rest[name] for name, pair in pairs.items() if pair is not None}
    return _with_global_rest(skeleton, target, skeleton.rest.astype(np.float64))


def _with_global_rest(skeleton: Skeleton, target: dict[int, Doubles], locals_: Doubles) -> Skeleton:
    """``skeleton`` with a rest pose in which the joints of ``target`` have these world rotations, and the
    others their local rotations of ``locals_`` (J, 4)."""
    world: list[Doubles] = []
    for index, parent in enumerate(skeleton.parents.tolist()):
        parent_rotation = world[parent] if parent >= 0 else np.array((1.0, 0.0, 0.0, 0.0))
        world.append(target.get(index, multiply(parent_rotation, locals_[index])))
        locals_[index] = multiply(conjugate(parent_rotation), world[index])
    return upright(skeleton.with_rest(normalized(locals_)))


def _hand_tip(skeleton: Skeleton, index: int) -> Doubles | None:
    """(3,) direction of a hand in its own frame: to its fingers' centre, else to its tip; None if unknown."""
    fingers = [
        skeleton.offsets[child]
        for child in np.flatnonzero(skeleton.parents == index)
        if "thumb" not in skeleton.names[child].lower()
    ]
    direction = np.mean(fingers, axis=0) if fingers else np.array(skeleton.tips.get(index, (0.0, 0.0, 0.0)))
    return unit(direction.astype(np.float64)) if np.linalg.norm(direction) > _MIN_TIP_M else None


def _limb(
    sample: MotionSample,
    mean: dict[str, Doubles],
    name: str,
    to: str,
    upper: str,
    straight: Doubles,
    axis: Doubles,
) -> Doubles:
    """World rotation in the T-pose of the limb's joint ``name``, whose bone ends at ``to``."""
    rotations = sample.rotations[:, _index(name)]
    bone = locate(sample.positions, to) - locate(sample.positions, name)
    if not np.isfinite(bone).all():
        return mean[name]
    along = _mean_direction(rotate(conjugate(rotations), bone))
    hinge = hinge_axis(sample, upper, of=name)
    if hinge is None:
        return multiply(rotation_between(rotate(mean[name], along), straight), mean[name])
    return multiply(from_axes(straight, axis), conjugate(from_axes(along, hinge)))


def _stance(positions: Doubles) -> tuple[Doubles, NDArray[np.intp]]:
    """(T, 4) rotation from +z to where the body faces, and the eighth of frames where it is straightest."""
    up = np.array((0.0, 1.0, 0.0))
    across = locate(positions, "left_upper_leg") - locate(positions, "right_upper_leg")
    shoulders = locate(positions, "left_upper_arm") - locate(positions, "right_upper_arm")
    left = unit((unit(across) + unit(shoulders)) * (1.0, 0.0, 1.0))
    half = 0.5 * np.arctan2(-left[:, 2], left[:, 0])
    zero = np.zeros(len(half))
    heading = np.stack((np.cos(half), zero, np.sin(half), zero), axis=-1)

    costs = [_angle(trunk_vector(positions), up), _angle(across, left), _angle(shoulders, left)]
    for name, lower, end, straight, _ in _LIMBS:
        first = locate(positions, lower) - locate(positions, name)
        second = locate(positions, end) - locate(positions, lower)
        bend = np.nan_to_num(_angle(first, second))
        costs.append(0.5 * bend)
        if straight[1]:
            costs.append(_angle(first, -up))
    total = np.sqrt(np.square(costs).sum(axis=0))
    return heading, np.argsort(total, kind="stable")[: max(len(total) // 8, 1)]


def _index(name: str) -> int:
    return canonical_skeleton().names.index(name)


def _angle(a: Doubles, b: Doubles) -> Doubles:
    across = np.linalg.norm(cross(a, np.asarray(b)), axis=-1)
    return np.asarray(np.arctan2(across, (a * b).sum(axis=-1)))


def _mean_direction(vectors: Doubles) -> Doubles:
    return unit(unit(vectors).mean(axis=0))


def _mean(quats: NDArray[np.floating]) -> Doubles:
    """Mean over the first axis of (T, ..., 4), for rotations that are close to each other."""
    q = np.asarray(quats, np.float64)
    signs = np.where((q * q[:1]).sum(axis=-1, keepdims=True) < 0.0, -1.0, 1.0)
    return normalized((q * signs).sum(axis=0))
