"""From what a file says to what it shows: its world with y up, its sides right, its rest pose a T-pose.

Files leave the axis that is up, the hand of their axes and the meaning of their zero pose unsaid. The
motion tells all three. What is right already is left exactly as it is.
"""

from dataclasses import replace

import numpy as np

from pyanticip import _core
from pyanticip.errors import OptionError, SkeletonError
from pyanticip.motion import rest, tpose, world
from pyanticip.motion.agreement import spread
from pyanticip.motion.canonical import canonical_skeleton, retargeter
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import Doubles, multiply, normalized, rotate
from pyanticip.motion.skeleton import Skeleton

FRAMES = 48
"""So many frames, spread over the file, tell."""

_LAST = tuple(
    (f"{side}_{joint}", f"{side}_{end}")
    for side in ("left", "right")
    for joint, end in (("lower_arm", "hand"), ("foot", "toes"))
)
"""Joints whose tip stands for the next where the file has none."""


def understand(
    clip: Clip,
    *,
    up: str | None = None,
    rest_frame: int | None = None,
    lead_in: bool = False,
    keep: bool = False,
) -> Clip:
    """``clip`` in a world with y up, on a skeleton whose rest pose is a T-pose or near it.

    As read it is in the file's world, where its ``up`` is usual in files of its kind. What was decided is in
    the ``warnings`` of what is returned, the axis that was up in its ``up``.

    Args:
        up: The axis that is up ("y", "z", "x", "-y" ...), instead of what the motion says.
        rest_frame: The frame whose pose is the rest pose (a T- or A-pose, or standing), instead of what is
            found.
        lead_in: Drop a T-pose at the start from which the motion jumps away, or with ``keep`` only tell of
            it.

    Raises:
        OptionError: A frame that is not there, or an axis that is none.
    """
    if rest_frame is not None:
        if rest_frame not in range(len(clip)):
            raise OptionError(f"rest is a frame, 0 to {len(clip) - 1}, given {rest_frame}")
        rest_frame = int(rest_frame)
    usual = clip.up
    axis = usual if up is None else world.check_up(up)
    try:
        mapped = retargeter(clip.skeleton)
    except SkeletonError:
        # A body that is not recognised: nothing tells its head from its feet.
        clip = turned(clip, axis)
        return _begun(clip, rest_frame, keep) if lead_in else clip
    if clip.skeleton.names == canonical_skeleton().names and clip.skeleton.rests_as(canonical_skeleton()):
        return turned(clip, axis)
    warnings: list[str] = []
    order = canonical_skeleton().names
    missing = [joint for joint in ("neck", "head") if not mapped.mask[order.index(joint)]]
    if "head" in missing:
        warnings.append(
            f"no joint found for {', '.join(missing)}: if there is one, give --joints MAP (joints= in Python)"
        )
    watched = _watched(clip, mapped)
    wrong = rest.verdict(clip.skeleton, mapped, watched)

    # Up: by the motion. Where the rest pose stands (if it does) counts only as a habit.
    habit = _rests_along(mapped) if wrong <= 1.0 else None
    sure, other = True, "AXIS"
    if up is None:
        axis, sure = world.up_axis(watched.places, habit if usual == "y" else usual)
        if usual != "y" and axis not in (usual, "y"):
            if world.stands_along(watched.places, axis):
                other = f"{axis}, which has the head up"
            axis, sure = usual, False
    if not sure:
        warnings.append(
            f"head, feet and floor do not tell which way is up: {axis} is taken;"
            f" if that is wrong, give --up {other} (up= in Python)"
        )
    if axis != usual:
        warnings.append(
            f"{axis} is up in the file" + (f", where {usual} is usual" if axis == "y" else ": turned")
        )
    if axis == "y":
        clip = turned(clip, axis)
    else:
        told = axis == habit and _stands(mapped, axis)
        clip = _turned_by(clip, np.array(mapped.world), axis) if told else turned(clip, axis)
    if axis != "y" or not _stands(mapped, "y"):
        clip = replace(clip, skeleton=rest.upright(clip.skeleton, mapped))
        mapped = retargeter(clip.skeleton)
        watched = _watched(clip, mapped)

    # The sides.
    if world.is_mirrored(watched.places):
        warnings.append("knees bend forward: left and right are exchanged in the file, and were put right")
        clip = _mirrored(clip)
        mapped = retargeter(clip.skeleton)
        watched = _watched(clip, mapped)
        wrong = rest.verdict(clip.skeleton, mapped, watched)

    # The rest pose.
    clip = replace(clip, warnings=(*clip.warnings, *warnings)) if warnings else clip
    begun = _begun(clip, rest_frame, keep) if lead_in else clip
    skeleton = begun.skeleton
    if rest_frame is not None:
        return replace(begun, skeleton=rest.upright(skeleton.with_rest(clip.quats[rest_frame])))
    if skeleton is not clip.skeleton:
        wrong = rest.verdict(skeleton, retargeter(skeleton), watched)
    return begun if wrong <= 1.0 else _with_better_rest(begun, watched, wrong)


def _begun(clip: Clip, rest_frame: int | None, keep: bool) -> Clip:
    """``clip`` without a T-pose at the start from which it jumps away (with ``keep`` only told of)."""
    first = clip.quats[0]
    if tpose.is_t_pose(clip.skeleton, first):
        # The offsets are the exact rest pose wherever they make a T-pose themselves; frame 0 is posed
        # by hand or by a solver, often with drooping arms.
        if not tpose.is_t_pose(clip.skeleton, clip.skeleton.rest):
            clip = replace(clip, skeleton=clip.skeleton.with_rest(first))
    elif rest_frame != 0:
        try:
            if not rest.is_t_pose(clip.skeleton, first):
                return clip
        except SkeletonError:
            return clip
    lead = tpose.lead_in(clip.quats)
    if not lead:
        return clip
    what = "frame 0 is a T-pose" if lead == 1 else f"frames 0 to {lead - 1} are a T-pose or empty"
    told = f"{what}, {'kept' if keep else 'dropped'}: the motion begins in frame {lead}"
    return replace(clip if keep else clip[lead:], warnings=(*clip.warnings, told))


def turned(clip: Clip, up: str) -> Clip:
    """``clip`` with the axis ``up`` turned to +y."""
    if up == "y":
        return clip if clip.up == "y" else replace(clip, up="y")
    return _turned_by(clip, np.array(world.TO_Y_UP[up]), up)


def _turned_by(clip: Clip, turn: Doubles, up: str) -> Clip:
    quats = np.empty_like(clip.quats)
    for joint in range(quats.shape[1]):  # all at once are four times the memory of the clip
        quats[:, joint] = normalized(clip.quats[:, joint])
    quats[:, 0] = normalized(multiply(turn, clip.quats[:, 0]))
    quats.flags.writeable = False  # or a clip copies them
    return replace(clip, quats=quats, root=rotate(turn, clip.root).astype(np.float32), up=up)


def _mirrored(clip: Clip) -> Clip:
    """The reflection of everything in the plane x = 0."""
    signs = np.array((1.0, 1.0, -1.0, -1.0), np.float32)
    across = np.array((-1.0, 1.0, 1.0), np.float32)
    body = clip.skeleton
    tips = {index: (-x, y, z) for index, (x, y, z) in body.tips.items()}
    skeleton = Skeleton(body.names, body.parents, body.offsets * across, body.rest * signs, tips)
    return replace(clip, quats=clip.quats * signs, root=clip.root * across, skeleton=skeleton)


def _watched(clip: Clip, mapped: _core.Retargeter) -> rest.Watched:
    frames = spread(len(clip), FRAMES)
    quats = clip.quats[frames]
    places, turns = mapped.observe(quats, clip.root[frames])
    order, ends = canonical_skeleton().names, mapped.ends
    for name, end in _LAST:
        carrier, joint = order.index(name), order.index(end)
        pair = ends[carrier]
        tip = None if pair is None or ends[joint] is not None else clip.skeleton.tips.get(pair[1])
        if tip is not None and np.linalg.norm(tip) > 0.02:
            places[:, joint] = places[:, carrier] + rotate(turns[:, carrier], np.array(tip))
    return rest.Watched(quats, places, turns)


def _rests_along(mapped: _core.Retargeter) -> str:
    """The axis along which the rest pose stands."""
    turn = np.array(mapped.world)
    return max(world.UPS, key=lambda name: float(rotate(turn, np.array(world.UPS[name]))[1]))


def _stands(mapped: _core.Retargeter, axis: str) -> bool:
    """Whether the rest pose stands along an axis exactly."""
    return bool(rotate(np.array(mapped.world), np.array(world.UPS[axis]))[1] > 0.9999)


def _with_better_rest(clip: Clip, watched: rest.Watched, wrong: float) -> Clip:
    """With what is best of the rest: a T-pose anywhere in the motion, or what the motion tells."""
    skeleton = clip.skeleton
    told = [(wrong, 0, skeleton, "")]
    pose = rest.t_pose_of(skeleton, watched.quats)
    if pose is not None:
        found = rest.upright(skeleton.with_rest(pose))
        told.append((rest.verdict(found, retargeter(found), watched), 1, found, "a T-pose in it is taken"))
    if told[-1][0] > 1.0:
        found = rest.standing_rest(skeleton, watched)
        told.append(
            (rest.verdict(found, retargeter(found), watched), 2, found, "its motion tells the rest pose")
        )
    _, _, best, what = min(told, key=lambda each: each[:2])
    if not what:
        return clip
    return replace(clip, skeleton=best, warnings=(*clip.warnings, f"the zero pose is no T-pose: {what}"))
