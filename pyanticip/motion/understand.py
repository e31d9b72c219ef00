"""Normalisation of a clip as read: y up, left and right as in the body, the rest pose a T-pose.

Files do not state their up axis, the handedness of their axes or the meaning of their zero pose; all three
are estimated from the motion. A clip that is already right is returned unchanged.
"""

from dataclasses import replace

import numpy as np

from pyanticip import _core
from pyanticip.errors import OptionError, SkeletonError
from pyanticip.motion import rest, tpose, world
from pyanticip.motion.agreement import spread_frames
from pyanticip.motion.canonical import canonical_skeleton, retargeter
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import Doubles, multiply, normalized, rotate
from pyanticip.motion.skeleton import Skeleton

SAMPLE_FRAMES = 48
"""Number of frames, spread over the clip, from which the estimates are made."""

_TIP_JOINTS = tuple(
    (f"{side}_{joint}", f"{side}_{end}")
    for side in ("left", "right")
    for joint, end in (("lower_arm", "hand"), ("foot", "toes"))
)
"""Joints whose tip replaces the next joint if the file lacks that."""


def understand(
    clip: Clip,
    *,
    up: str | None = None,
    rest_frame: int | None = None,
    lead_in: bool = False,
    keep: bool = False,
) -> Clip:
    """``clip`` in a world with y up, on a skeleton whose rest pose is a T-pose or near it.

    On entry, ``clip`` has the file's axes, and ``clip.up`` is the up axis usual for its format. On return
    ``up`` is the file's actual up axis, and ``warnings`` has a line for each decision.

    Args:
        up: The up axis of the file ("y", "z", "x", "-y" ...), overriding the estimate.
        rest_frame: Index of the frame whose pose is the rest pose (a T- or A-pose, or standing), overriding
            the estimate.
        lead_in: Drop a T-pose at the start from which the motion jumps away.
        keep: Keep such a T-pose and only warn of it.

    Raises:
        OptionError: An unknown axis, or a frame outside the clip.
    """
    if rest_frame is not None:
        if rest_frame not in range(len(clip)):
            raise OptionError(f"rest is a frame, 0 to {len(clip) - 1}, got {rest_frame}")
        rest_frame = int(rest_frame)
    usual = clip.up
    axis = usual if up is None else world.check_up(up)
    try:
        mapped = retargeter(clip.skeleton)
    except SkeletonError:
        # An unrecognised body: head and feet are unknown.
        clip = _turn_up(clip, axis)
        return _without_lead_in(clip, rest_frame, keep) if lead_in else clip
    if clip.skeleton.names == canonical_skeleton().names and clip.skeleton.rests_as(canonical_skeleton()):
        return _turn_up(clip, axis)
    warnings: list[str] = []
    order = canonical_skeleton().names
    looked_for = ("neck", "head", "left_foot", "right_foot")
    missing = [joint for joint in looked_for if not mapped.mask[order.index(joint)]]
    if missing not in ([], ["neck"]):
        warnings.append(
            f"no joint found for {', '.join(missing)}: if there is one, give --joints MAP (joints= in Python)"
        )
    sample = _sample(clip, mapped)
    error = rest.rest_error(clip.skeleton, mapped, sample)

    # The up axis, by the motion; the axis along which a valid rest pose stands is only a prior.
    prior = _rest_axis(mapped) if error <= 1.0 else None
    is_certain, alternative = True, "AXIS"
    if up is None:
        axis, is_certain = world.up_axis(sample.positions, prior if usual == "y" else usual)
        if usual != "y" and axis not in (usual, "y"):
            if world.stands_along(sample.positions, axis):
                alternative = f"{axis}, which has the head up"
            axis, is_certain = usual, False
    if not is_certain:
        warnings.append(
            f"head, feet and floor do not show which way is up: {axis} is assumed;"
            f" if that is wrong, give --up {alternative} (up= in Python)"
        )
    if axis != usual:
        warnings.append(
            f"{axis} is up in the file" + (f", where {usual} is usual" if axis == "y" else ": turned")
        )
    if axis == "y":
        clip = _turn_up(clip, axis)
    else:
        is_rest_axis = axis == prior and _rest_stands(mapped, axis)
        clip = _rotate_clip(clip, np.array(mapped.world), axis) if is_rest_axis else _turn_up(clip, axis)
    if axis != "y" or not _rest_stands(mapped, "y"):
        clip = replace(clip, skeleton=rest.upright(clip.skeleton, mapped))
        mapped = retargeter(clip.skeleton)
        sample = _sample(clip, mapped)

    # Left and right.
    is_mirrored = world.is_mirrored(sample.positions)
    if is_mirrored is None:
        is_mirrored = rest.elbows_bend_backward(clip.skeleton, mapped, sample)
    if is_mirrored:
        warnings.append(
            "knees or elbows bend the wrong way: left and right are exchanged in the file, and were put right"
        )
        clip = _mirror(clip)
        mapped = retargeter(clip.skeleton)
        sample = _sample(clip, mapped)
        error = rest.rest_error(clip.skeleton, mapped, sample)

    if world.is_on_all_fours(sample.positions):
        warnings.append("it is on all fours throughout: an animal would play as somebody who crawls")

    # The rest pose.
    clip = replace(clip, warnings=(*clip.warnings, *warnings)) if warnings else clip
    trimmed = _without_lead_in(clip, rest_frame, keep) if lead_in else clip
    skeleton = trimmed.skeleton
    if rest_frame is not None:
        return replace(trimmed, skeleton=rest.upright(skeleton.with_rest(clip.quats[rest_frame])))
    if skeleton is not clip.skeleton:
        error = rest.rest_error(skeleton, retargeter(skeleton), sample)
    if error > 1.0:
        return _with_better_rest(trimmed, sample, error)
    turned = rest.with_turned_feet(skeleton, retargeter(skeleton), sample)
    if turned is None:
        return trimmed
    warning = "feet or toes of the zero pose are turned: put right by how the performer stands"
    return replace(trimmed, skeleton=turned, warnings=(*trimmed.warnings, warning))


def _without_lead_in(clip: Clip, rest_frame: int | None, keep: bool) -> Clip:
    """``clip`` without a T-pose at the start from which the motion jumps away; ``keep`` only warns of it."""
    first = clip.quats[0]
    if tpose.has_t_shape(clip.skeleton, first):
        # If the offsets form a T-pose, they are the exact rest pose: frame 0 is posed by hand or by a solver,
        # often with drooping arms.
        if not tpose.has_t_shape(clip.skeleton, clip.skeleton.rest):
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
    frames = "frame 0 is a T-pose" if lead == 1 else f"frames 0 to {lead - 1} are a T-pose or empty"
    warning = f"{frames}, {'kept' if keep else 'dropped'}: the motion begins in frame {lead}"
    return replace(clip if keep else clip[lead:], warnings=(*clip.warnings, warning))


def _turn_up(clip: Clip, up: str) -> Clip:
    """``clip`` rotated so that its axis ``up`` becomes +y."""
    if up == "y":
        return clip if clip.up == "y" else replace(clip, up="y")
    return _rotate_clip(clip, np.array(world.TO_Y_UP[up]), up)


def _rotate_clip(clip: Clip, rotation: Doubles, up: str) -> Clip:
    """``clip`` rotated as a whole, with ``up`` noted as the file's up axis."""
    quats = np.empty_like(clip.quats)
    for joint in range(quats.shape[1]):  # joint by joint, to save four times the clip's memory
        quats[:, joint] = normalized(clip.quats[:, joint])
    quats[:, 0] = normalized(multiply(rotation, clip.quats[:, 0]))
    quats.flags.writeable = False  # so that the clip does not copy them
    return replace(clip, quats=quats, root=rotate(rotation, clip.root).astype(np.float32), up=up)


def _mirror(clip: Clip) -> Clip:
    """``clip`` and its skeleton reflected in the plane x = 0."""
    signs = np.array((1.0, 1.0, -1.0, -1.0), np.float32)
    flip = np.array((-1.0, 1.0, 1.0), np.float32)
    body = clip.skeleton
    tips = {index: (-x, y, z) for index, (x, y, z) in body.tips.items()}
    skeleton = Skeleton(body.names, body.parents, body.offsets * flip, body.rest * signs, tips)
    return replace(clip, quats=clip.quats * signs, root=clip.root * flip, skeleton=skeleton)


def _sample(clip: Clip, mapped: _core.Retargeter) -> rest.MotionSample:
    frames = spread_frames(len(clip), SAMPLE_FRAMES)
    quats = clip.quats[frames]
    positions, rotations = mapped.observe(quats, clip.root[frames])
    order, ends = canonical_skeleton().names, mapped.ends
    for name, end in _TIP_JOINTS:
        carrier, joint = order.index(name), order.index(end)
        pair = ends[carrier]
        tip = None if pair is None or ends[joint] is not None else clip.skeleton.tips.get(pair[1])
        if tip is not None and np.linalg.norm(tip) > 0.02:
            positions[:, joint] = positions[:, carrier] + rotate(rotations[:, carrier], np.array(tip))
    return rest.MotionSample(quats, positions, rotations)


def _rest_axis(mapped: _core.Retargeter) -> str:
    """The axis along which the rest pose stands best."""
    to_canonical = np.array(mapped.world)
    return max(world.UPS, key=lambda name: float(rotate(to_canonical, np.array(world.UPS[name]))[1]))


def _rest_stands(mapped: _core.Retargeter, axis: str) -> bool:
    """Whether the rest pose stands exactly along ``axis``."""
    return bool(rotate(np.array(mapped.world), np.array(world.UPS[axis]))[1] > 0.9999)


def _with_better_rest(clip: Clip, sample: rest.MotionSample, error: float) -> Clip:
    """``clip`` with the best rest pose: its own, a T-pose anywhere in the motion, or an estimate.

    A T-pose whose limbs are only rolled about their own axes is its own, without these rolls.
    """
    skeleton = clip.skeleton
    unrolled = rest.without_rolls(skeleton, retargeter(skeleton), sample)
    if unrolled is not None and rest.rest_error(unrolled, retargeter(unrolled), sample) <= 1.0:
        warning = "limbs of the zero pose are rolled about their bones: put right by how they bend"
        return replace(clip, skeleton=unrolled, warnings=(*clip.warnings, warning))
    candidates = [(error, 0, skeleton, "")]
    pose = rest.find_t_pose(skeleton, sample.quats)
    if pose is not None:
        candidate = rest.upright(skeleton.with_rest(pose))
        error = rest.rest_error(candidate, retargeter(candidate), sample)
        candidates.append((error, 1, candidate, "a T-pose in the motion is used"))
    if candidates[-1][0] > 1.0:
        candidate = rest.estimate_rest(skeleton, sample)
        error = rest.rest_error(candidate, retargeter(candidate), sample)
        candidates.append((error, 2, candidate, "the rest pose is estimated from the motion"))
    _, _, best, description = min(candidates, key=lambda item: item[:2])
    if not description:
        return clip
    return replace(
        clip, skeleton=best, warnings=(*clip.warnings, f"the zero pose is no T-pose: {description}")
    )
