"""The pose in which a skeleton would stand in a T-pose: found in the motion where the zero pose is none."""

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
    turn_between,
    unit,
)
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.world import cross, joint, trunk

_BENT = float(np.sin(np.radians(20.0)))
"""A limb bent by more than this (its sine) shows the axis of its hinge."""
_EVIDENCE = 0.05
"""... in at least this part of the frames."""

MEAN_LIMIT = 8.0
BONE_LIMIT = 20.0
"""Bones of a rest pose that is one are off by less than this (degrees, mean of all, and mean of each)."""
HINGE_LIMIT = 75.0
"""Elbows and knees bend about the axis they should, give or take this: 30 degrees in the CMU database."""
TRUNK_LIMIT = 45.0
"""The trunk's joints have the head above and the left shoulder to the left at times, give or take this."""

_TIP = 0.02
"""Metres from a hand to its end, or to its fingers, from which on that tells where it points."""

_LIMBS = tuple(
    (f"{side}_{upper}", f"{side}_{lower}", f"{side}_{end}", straight, hinge)
    for side, x in (("left", 1.0), ("right", -1.0))
    for upper, lower, end, straight, hinge in (
        ("upper_arm", "lower_arm", "hand", (x, 0.0, 0.0), (0.0, -x, 0.0)),
        ("upper_leg", "lower_leg", "foot", (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)),
    )
)
"""Limbs of two bones: their joints, where they point in a T-pose, and about which axis they bend there."""


_TRUNK = ("hips", "spine", "chest", "upper_chest")

_AHEAD = unit(np.asarray(_core.CANONICAL_OFFSETS, np.float64)[canonical_skeleton().names.index("left_toes")])


@dataclass(frozen=True)
class Watched:
    """Some frames of a motion, in a world with y up.

    Attributes:
        quats: (T, J, 4) local rotations of the source.
        places, turns: (T, 22, 3) and (T, 22, 4): where the source of each canonical joint is and how it is
            turned; NaN where there is none.
    """

    quats: NDArray[np.float32]
    places: Doubles
    turns: Doubles


def verdict(skeleton: Skeleton, mapped: _core.Retargeter, watched: Watched) -> float:
    """How wrong a skeleton's rest pose is by its motion: 1 at the limit of what is taken, less is better."""
    angles, refused = mapped.agreement(watched.quats)
    found = np.array(angles)[np.isfinite(angles)]
    worst = max(
        float(found.mean()) / MEAN_LIMIT, float(found.max()) / BONE_LIMIT, _trunk_off(mapped, watched)
    )
    if not is_t_pose(skeleton):  # one is exact as it is, whatever a puppet does with its knees
        for upper, _, _, _, axis in _LIMBS:
            hinge = hinge_axis(watched, upper)
            if hinge is not None:
                off = rotate(np.asarray(mapped.t_pose)[_index(upper)], hinge) @ axis
                worst = max(worst, float(np.degrees(np.arccos(np.clip(off, -1, 1)))) / HINGE_LIMIT)
    return worst if refused is None else max(worst, 1.0)


def _trunk_off(mapped: _core.Retargeter, watched: Watched) -> float:
    """How wrong the trunk's joints rest, as :func:`verdict`: whose bones are too short to show it.

    A joint with axes of its own among others that have none leaves all limbs where they are.
    """
    places, rest = watched.places, np.asarray(mapped.t_pose)
    left = joint(places, "left_upper_arm") - joint(places, "right_upper_arm")
    worst = 0.0
    for name in _TRUNK:
        up = joint(places, "head", "neck") - joint(places, name)
        for way, axis in ((up, 1), (left, 0)):
            local = rotate(conjugate(watched.turns[:, _index(name)]), unit(way))
            # The best moments count, for nobody is bent throughout, but not empty frames before them. What is
            # missing is not finite.
            along = np.quantile(rotate(rest[_index(name)], local)[:, axis], 0.9)
            if np.isfinite(along):
                worst = max(worst, float(np.degrees(np.arccos(np.clip(along, -1, 1)))) / TRUNK_LIMIT)
    return worst


def hinge_axis(watched: Watched, upper: str, of: str | None = None) -> Doubles | None:
    """(3,) the axis about which a limb bends, in the frame of its upper joint (or of joint ``of``).

    None where it is never bent, or bends about no axis.
    """
    _, lower, end, _, _ = next(limb for limb in _LIMBS if limb[0] == upper)
    first = unit(joint(watched.places, lower) - joint(watched.places, upper))
    second = unit(joint(watched.places, end) - joint(watched.places, lower))
    axis = cross(first, second)
    bent = np.linalg.norm(axis, axis=-1) > _BENT
    if bent.mean() < _EVIDENCE:
        return None
    local = rotate(conjugate(watched.turns[bent, _index(of or upper)]), axis[bent])
    total = local.sum(axis=0)
    if np.linalg.norm(total) < 0.5 * np.linalg.norm(local, axis=-1).sum():
        return None
    return unit(total)


def is_t_pose(skeleton: Skeleton, pose: NDArray[np.float32] | None = None) -> bool:
    """Whether a pose (J, 4), or the rest pose, is a T-pose, give or take 25 degrees."""
    given = skeleton.rest if pose is None else pose
    off = _core.t_pose_deviation(list(skeleton.names), skeleton.parents, skeleton.offsets, given)
    return off < _core.T_POSE_TOLERANCE


def t_pose_of(skeleton: Skeleton, quats: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """The pose (J, 4) of some (T, J, 4) that is most nearly a T-pose, if one is."""
    best, least = None, float(_core.T_POSE_TOLERANCE)
    for pose in quats:
        off = _core.t_pose_deviation(list(skeleton.names), skeleton.parents, skeleton.offsets, pose)
        if off < least:
            best, least = pose, off
    return best


def upright(skeleton: Skeleton, mapped: _core.Retargeter | None = None) -> Skeleton:
    """``skeleton`` with its rest pose turned as a whole so that it stands in a world with y up, facing +z."""
    rest = skeleton.rest.astype(np.float64)
    rest[0] = multiply(np.array((mapped or retargeter(skeleton)).world), rest[0])
    return skeleton.with_rest(normalized(rest))


def standing_rest(skeleton: Skeleton, watched: Watched) -> Skeleton:
    """``skeleton`` with the T-pose that its motion tells.

    The trunk rests as it does where the performer stands straightest. Arms and legs are straight, by the
    directions of their bones, and rolled so that elbows bend forward and knees backward as in the motion.
    """
    heading, straightest = _stance(watched.places)
    mean = {
        name: _mean(multiply(conjugate(heading[straightest]), watched.turns[straightest, index]))
        for index, name in enumerate(canonical_skeleton().names)
        if np.isfinite(watched.turns[:, index]).all()
    }
    # Trunk and head: as they are when standing, less the lean of those moments.
    lean = _mean_direction(rotate(conjugate(heading[straightest]), trunk(watched.places)[straightest]))
    raise_up = turn_between(lean, np.array((0.0, 1.0, 0.0)))
    rest = {name: multiply(raise_up, turn) for name, turn in mean.items()}
    # Hips and shoulders: square, whatever the twist of those moments.
    chest = next((name for name in ("upper_chest", "chest", "spine") if name in rest), "")
    for limb, carried in (
        ("upper_leg", ("hips",)),
        ("upper_arm", (chest, "left_shoulder", "right_shoulder")),
    ):
        across = joint(watched.places, f"left_{limb}") - joint(watched.places, f"right_{limb}")
        side = rotate(raise_up, _mean_direction(rotate(conjugate(heading[straightest]), across[straightest])))
        square = turn_between(side, np.array((1.0, 0.0, 0.0)))
        rest.update({name: multiply(square, rest[name]) for name in carried if name in rest})
    ends = dict(zip(canonical_skeleton().names, retargeter(skeleton).ends, strict=True))
    for upper, lower, end, straight, axis in _LIMBS:
        for name, to in ((upper, lower), (lower, end)):
            rest[name] = _limb(watched, mean, name, to, upper, np.array(straight), np.array(axis))
        toes = end.replace("foot", "toes")
        if end != toes and end in mean:
            rest[end] = _limb(watched, mean, end, toes, upper, _AHEAD, np.array(axis))
            follows = (toes, end)
        else:
            follows = (end, lower)
        if set(follows) <= mean.keys():
            last, carrier = follows
            rest[last] = multiply(rest[carrier], multiply(conjugate(mean[carrier]), mean[last]))
            pair = ends[last] if last == end else None
            tip = None if pair is None else _hand_tip(skeleton, pair[1])
            if tip is not None:
                rest[last] = multiply(turn_between(rotate(rest[last], tip), np.array(straight)), rest[last])
    locals_ = _mean(watched.quats[straightest])
    target = {pair[1]: rest[name] for name, pair in ends.items() if pair is not None and name in rest}
    world: list[Doubles] = []
    for index, parent in enumerate(skeleton.parents.tolist()):
        above = world[parent] if parent >= 0 else np.array((1.0, 0.0, 0.0, 0.0))
        world.append(target.get(index, multiply(above, locals_[index])))
        locals_[index] = multiply(conjugate(above), world[index])
    return upright(skeleton.with_rest(normalized(locals_)))


def _hand_tip(skeleton: Skeleton, index: int) -> Doubles | None:
    """(3,) where a hand points in its own frame: to its end, or to the middle of its fingers; else None."""
    fingers = [
        skeleton.offsets[child]
        for child in np.flatnonzero(skeleton.parents == index)
        if "thumb" not in skeleton.names[child].lower()
    ]
    way = np.mean(fingers, axis=0) if fingers else np.array(skeleton.tips.get(index, (0.0, 0.0, 0.0)))
    return unit(way.astype(np.float64)) if np.linalg.norm(way) > _TIP else None


def _limb(
    watched: Watched,
    mean: dict[str, Doubles],
    name: str,
    to: str,
    upper: str,
    straight: Doubles,
    axis: Doubles,
) -> Doubles:
    """World rotation of a limb's joint in the T-pose."""
    turns = watched.turns[:, _index(name)]
    bone = joint(watched.places, to) - joint(watched.places, name)
    if not np.isfinite(bone).all():
        return mean[name]
    along = _mean_direction(rotate(conjugate(turns), bone))
    hinge = hinge_axis(watched, upper, of=name)
    if hinge is None:
        return multiply(turn_between(rotate(mean[name], along), straight), mean[name])
    return multiply(from_axes(straight, axis), conjugate(from_axes(along, hinge)))


def _stance(places: Doubles) -> tuple[Doubles, NDArray[np.intp]]:
    """(T, 4) the turn from +z to where the body faces, and the frames in which it stands straightest."""
    up = np.array((0.0, 1.0, 0.0))
    across = joint(places, "left_upper_leg") - joint(places, "right_upper_leg")
    shoulders = joint(places, "left_upper_arm") - joint(places, "right_upper_arm")
    left = unit((unit(across) + unit(shoulders)) * (1.0, 0.0, 1.0))
    half = 0.5 * np.arctan2(-left[:, 2], left[:, 0])
    zero = np.zeros(len(half))
    heading = np.stack((np.cos(half), zero, np.sin(half), zero), axis=-1)

    costs = [_angle(trunk(places), up), _angle(across, left), _angle(shoulders, left)]
    for name, lower, end, straight, _ in _LIMBS:
        first = joint(places, lower) - joint(places, name)
        second = joint(places, end) - joint(places, lower)
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
    """The mean rotation over the first axis of (T, ..., 4), of rotations that lie near each other."""
    q = np.asarray(quats, np.float64)
    signs = np.where((q * q[:1]).sum(axis=-1, keepdims=True) < 0.0, -1.0, 1.0)
    return normalized((q * signs).sum(axis=0))
