"""From what a file says to what it shows: its world with y up, its sides right, its rest pose a T-pose.

Files leave the axis that is up, the hand of their axes and the meaning of their zero pose unsaid. The
motion tells all three. What is right already is left exactly as it is.
"""

from dataclasses import replace

import numpy as np

from pyanticip import _core
from pyanticip.errors import OptionError, SkeletonError
from pyanticip.motion import rest, tpose, world
from pyanticip.motion.canonical import retargeter
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import multiply, normalized, rotate
from pyanticip.motion.skeleton import Skeleton

FRAMES = 48
"""So many frames, spread over the file, tell."""


def understand(
    clip: Clip, *, up: str | None = None, rest_frame: int | None = None, lead_in: bool = False, keep: bool = False
) -> Clip:
    """``clip`` in a world with y up, on a skeleton whose rest pose is one; what was decided is in its warnings.

    Parameters
    ----------
    up
        The axis that is up ("y", "z", "x", "-y" ...), instead of what the motion says.
    rest_frame
        The frame whose pose is the rest pose (a T- or A-pose, or standing straight), instead of what is found.
    lead_in
        Drop a T-pose at the start from which the motion jumps away, or with ``keep`` only tell of it.

    Raises
    ------
    OptionError
        A frame that is not there, or an axis that is none.
    """
    if rest_frame is not None and not 0 <= rest_frame < len(clip):
        raise OptionError(f"rest is a frame, 0 to {len(clip) - 1}, given {rest_frame}")
    try:
        mapped = retargeter(clip.skeleton)
    except SkeletonError:
        # A body that is not recognised: nothing tells its head from its feet.
        return clip if up is None else turned(clip, world.check_up(up))
    warnings: list[str] = []
    watched = _watched(clip, mapped)
    wrong = rest.verdict(mapped, watched)

    # Up: by the motion. Where the rest pose stands (if it does) counts only as a habit.
    habit = _rests_along(mapped) if wrong <= 1.0 else "y"
    sure = True
    if up is None:
        axis, sure = world.up_axis(watched.places, habit)
    else:
        axis = world.check_up(up)
    if not sure:
        warnings.append(f"the body stands too little to tell which way is up: {axis} is taken, give up= if wrong")
    if axis != "y":
        warnings.append(f"{axis} is up in the file: turned")
        clip = _turned_by(clip, np.array(mapped.world)) if axis == habit else turned(clip, axis)
    if axis != "y" or _rests_along(mapped) != "y":
        clip = replace(clip, skeleton=rest.upright(clip.skeleton, mapped))
        mapped = retargeter(clip.skeleton)
        watched = _watched(clip, mapped)

    # The sides.
    if world.is_mirrored(watched.places):
        warnings.append("knees bend forward: left and right are exchanged in the file, and were put right")
        clip = _mirrored(clip)
        mapped = retargeter(clip.skeleton)
        watched = _watched(clip, mapped)
        wrong = rest.verdict(mapped, watched)

    # The rest pose.
    skeleton, first = clip.skeleton, clip.quats[0]
    begins = False
    if rest_frame is not None:
        skeleton = rest.upright(skeleton.with_rest(clip.quats[rest_frame]))
    elif lead_in:
        # The offsets are the exact rest pose wherever they make a T-pose themselves; frame 0 is posed
        # by hand or by a solver, often with drooping arms.
        begins = tpose.is_t_pose(skeleton, first)
        if begins and not tpose.is_t_pose(skeleton, skeleton.rest):
            skeleton = skeleton.with_rest(first)
            wrong = rest.verdict(retargeter(skeleton), watched)
        begins = begins or rest.t_pose_of(skeleton, first[None]) is not None
    if rest_frame is None and wrong > 1.0:
        skeleton = _better_rest(skeleton, watched, wrong, warnings)
    if begins:
        clip = _without_lead_in(clip, keep, warnings)
    if skeleton is clip.skeleton and not warnings:
        return clip
    return replace(clip, skeleton=skeleton, warnings=(*clip.warnings, *warnings))


def turned(clip: Clip, up: str) -> Clip:
    """``clip`` with the axis ``up`` turned to +y."""
    return _turned_by(clip, np.array(world.TO_Y_UP[up]))


def _turned_by(clip: Clip, turn: world.Doubles) -> Clip:
    quats = clip.quats.astype(np.float64)
    quats[:, 0] = multiply(turn, quats[:, 0])
    return replace(
        clip, quats=normalized(quats).astype(np.float32), root=rotate(turn, clip.root).astype(np.float32)
    )


def _mirrored(clip: Clip) -> Clip:
    """The reflection of everything in the plane x = 0."""
    signs = np.array((1.0, 1.0, -1.0, -1.0), np.float32)
    across = np.array((-1.0, 1.0, 1.0), np.float32)
    body = clip.skeleton
    tips = {index: (-x, y, z) for index, (x, y, z) in body.tips.items()}
    skeleton = Skeleton(body.names, body.parents, body.offsets * across, body.rest * signs, tips)
    return replace(clip, quats=clip.quats * signs, root=clip.root * across, skeleton=skeleton)


def _watched(clip: Clip, mapped: _core.Retargeter) -> rest.Watched:
    frames = np.unique(np.linspace(0, len(clip) - 1, FRAMES).astype(int))
    quats = clip.quats[frames]
    return rest.Watched(quats, *mapped.observe(quats, clip.root[frames]))


def _rests_along(mapped: _core.Retargeter) -> str:
    """The axis along which the rest pose stands."""
    turn = np.array(mapped.world)
    return max(world.UPS, key=lambda name: float(rotate(turn, np.array(world.UPS[name]))[1]))


def _better_rest(
    skeleton: Skeleton, watched: rest.Watched, wrong: float, warnings: list[str]
) -> Skeleton:
    """The best of what else may be the rest pose: a T-pose anywhere in the motion, what the motion tells."""
    told = [(wrong, 0, skeleton, "")]
    pose = rest.t_pose_of(skeleton, watched.quats)
    if pose is not None:
        found = rest.upright(skeleton.with_rest(pose))
        told.append((rest.verdict(retargeter(found), watched), 1, found, "a T-pose in it is taken instead"))
    if told[-1][0] > 1.0:
        found = rest.standing_rest(skeleton, watched)
        told.append((rest.verdict(retargeter(found), watched), 2, found, "its rest pose is told by its motion"))
    _, _, best, what = min(told, key=lambda each: each[:2])
    if what:
        warnings.append(f"the zero pose is no T-pose: {what}")
    return best


def _without_lead_in(clip: Clip, keep: bool, warnings: list[str]) -> Clip:
    lead = tpose.lead_in(clip.quats)
    if not lead:
        return clip
    what = "frame 0 is a T-pose" if lead == 1 else f"frames 0 to {lead - 1} are a T-pose or empty"
    warnings.append(f"{what}, {'kept' if keep else 'dropped'}: the motion begins in frame {lead}")
    return clip if keep else clip[lead:]
