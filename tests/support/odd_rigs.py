"""A BVH reader and forward kinematics that share no code with the project, as an independent check.

And unusual files: another axis up, other units, another zero pose, mirrored axes.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pyanticip as pa
from pyanticip import _core
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rotations import conjugate, multiply, normalized, rotate
from pyanticip.motion.skeleton import Skeleton

Doubles = NDArray[np.float64]

NAMES = {
    "upper_arm": ("LeftArm", "l_up_arm", "upper_arm.L", "LeftUpperArm"),
    "lower_arm": ("LeftForeArm", "l_low_arm", "forearm.L", "LeftLowerArm"),
    "hand": ("LeftHand", "l_hand"),
    "upper_leg": ("LeftUpLeg", "l_up_leg", "thigh.L", "LeftUpperLeg"),
    "lower_leg": ("LeftLeg", "l_low_leg", "shin.L", "LeftLowerLeg"),
    "foot": ("LeftFoot", "l_foot", "foot.L"),
}
"""Names of left limbs in the files of several makers; the right ones differ in one place."""
LIMBS = (("upper_arm", "lower_arm"), ("lower_arm", "hand"), ("upper_leg", "lower_leg"), ("lower_leg", "foot"))


def read_places(path: Path) -> tuple[list[str], Doubles]:
    """Joint names of a BVH file and where they are, (T, J, 3), in its own units and axes."""
    head, _, tail = path.read_text(encoding="latin-1").partition("MOTION")
    names, parents, offsets, channels, open_joints = [], [], [], [], []
    for line in re.sub(r"([{}])", r"\n\1\n", head).splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] in ("ROOT", "JOINT", "End"):
            names.append(" ".join(words[1:]))
            parents.append(open_joints[-1] if open_joints else -1)
            offsets.append(np.zeros(3))
            channels.append([])
        elif words[0] == "{":
            open_joints.append(len(names) - 1)
        elif words[0] == "}":
            open_joints.pop()
        elif words[0] == "OFFSET":
            offsets[-1] = np.array(words[1:4], float)
        elif words[0] == "CHANNELS":
            channels[-1] = words[2:]
    _, numbers = tail.split("Time:")[1].split(None, 1)
    rows = np.fromstring(numbers, sep=" ").reshape(-1, sum(map(len, channels)))
    turns, places, column = [], [], 0
    for joint, parent in enumerate(parents):
        turn = np.tile(np.eye(3), (len(rows), 1, 1))
        offset = np.tile(offsets[joint], (len(rows), 1))
        for channel in channels[joint]:
            values = rows[:, column]
            column += 1
            axis = "XYZ".index(channel[0].upper())
            if channel.lower().endswith("position"):
                offset[:, axis] = values
                continue
            one = np.zeros((len(rows), 3, 3))
            i, j, k = axis, (axis + 1) % 3, (axis + 2) % 3
            one[:, i, i] = 1.0
            one[:, j, j] = one[:, k, k] = np.cos(np.radians(values))
            one[:, k, j] = np.sin(np.radians(values))
            one[:, j, k] = -one[:, k, j]
            turn = turn @ one
        if parent < 0:
            places.append(offset)
            turns.append(turn)
        else:
            places.append(places[parent] + (turns[parent] @ offset[..., None])[..., 0])
            turns.append(turns[parent] @ turn)
    return names, np.stack(places, axis=1)


def limb_errors(path: Path, clip: pa.Clip, up: str = "y") -> dict[str, float]:
    """Mean angle in degrees between each limb in a BVH file and on a canonical clip made of it.

    ``up`` is the axis that is up in the file. Only one rotation about the vertical, common to all limbs and
    frames, is removed.
    """
    names, places = read_places(path)
    to_y = {"y": np.eye(3), "z": np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])}[up]
    places = places[-len(clip) :] @ to_y.T
    body = clip.positions()[-len(places) :].astype(np.float64)
    joints = clip.skeleton.names
    theirs, ours, labels = [], [], []
    for side in ("left", "right"):
        for first, second in LIMBS:
            try:
                a, b = (names.index(_named(names, role, side)) for role in (first, second))
            except KeyError:
                continue
            theirs.append(places[:, b] - places[:, a])
            ours.append(body[:, joints.index(f"{side}_{second}")] - body[:, joints.index(f"{side}_{first}")])
            labels.append(f"{side} {first}")
    a, b = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (np.stack(theirs), np.stack(ours)))
    angles = _apart(a, b).mean(axis=1)
    assert len(labels) >= 6
    return dict(zip(labels, angles.tolist(), strict=True))


def _apart(a: Doubles, b: Doubles) -> Doubles:
    """Degrees between directions (..., 3), one yaw taken out of them all."""
    yaw = np.arctan2(
        (a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]).sum(),
        (a[..., 0] * b[..., 0] + a[..., 2] * b[..., 2]).sum(),
    )
    c, s = np.cos(yaw), np.sin(yaw)
    a = a @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]).T
    return np.asarray(np.degrees(np.arccos(np.clip((a * b).sum(axis=-1), -1.0, 1.0))))


def _named(names: list[str], role: str, side: str) -> str:
    for name in NAMES[role]:
        if side == "right":
            name = name.replace("Left", "Right").replace(".L", ".R")
            name = "r" + name[1:] if name.startswith("l_") else name
        if name in names:
            return name
    raise KeyError(role)


def walker(seconds: float = 4.0, rate: float = 60.0) -> pa.Clip:
    """A person who stands, walks and gestures: knees bend backward, elbows forward, feet on the floor.

    In a T-pose when at zero, facing +z.
    """
    t = np.arange(round(seconds * rate)) / rate
    go = np.clip(t - 0.5, 0.0, 1.0)
    quats = np.zeros((len(t), 22, 4))
    quats[..., 0] = 1.0
    joints = list(_core.CANONICAL_JOINTS)

    def turn(name: str, axis: tuple[float, float, float], degrees: Doubles) -> None:
        half = np.radians(degrees) / 2.0
        step = np.concatenate((np.cos(half)[:, None], np.sin(half)[:, None] * np.array(axis)), axis=1)
        quats[:, joints.index(name)] = multiply(quats[:, joints.index(name)], step)

    for side, sign in (("left", 1.0), ("right", -1.0)):
        swing = go * np.sin(2.0 * np.pi * t) * sign
        turn(f"{side}_upper_arm", (0.0, 0.0, 1.0), np.full(len(t), -70.0 * sign))
        turn(f"{side}_upper_arm", (1.0, 0.0, 0.0), 20.0 * swing)
        turn(f"{side}_lower_arm", (0.0, 1.0, 0.0), -sign * (15.0 + go * (30.0 + 25.0 * np.sin(3.0 * t))))
        turn(f"{side}_upper_leg", (1.0, 0.0, 0.0), -25.0 * swing)
        turn(f"{side}_lower_leg", (1.0, 0.0, 0.0), go * (25.0 - 25.0 * np.cos(2 * np.pi * t + 0.4 * sign)))
    turn("spine", (0.0, 1.0, 0.0), 8.0 * go * np.sin(2.0 * np.pi * t))
    turn("hips", (0.0, 1.0, 0.0), 20.0 * go * np.sin(t))
    root = np.stack((0.2 * np.sin(t), np.full(len(t), 0.95), 1.2 * np.cumsum(go) / rate), axis=1)
    flat = pa.Clip(quats, root, rate, canonical_skeleton())
    root[:, 1] -= flat.positions()[..., 1].min(axis=1)
    names = tuple("".join(word.capitalize() for word in joint.split("_")) for joint in joints)
    skeleton = Skeleton(names, flat.skeleton.parents, flat.skeleton.offsets)
    return pa.Clip(quats, root, rate, skeleton, name="walker")


def about(axis: tuple[float, float, float], degrees: float) -> Doubles:
    """A rotation, (4,)."""
    half = np.radians(degrees) / 2.0
    return np.array((np.cos(half), *(np.sin(half) * np.asarray(axis))))


def made(
    clip: pa.Clip, quats: Doubles, root: Doubles, offsets: Doubles, tips: Callable[[int, Doubles], Doubles]
) -> pa.Clip:
    body = clip.skeleton
    ends = {j: tuple(tips(j, np.array(tip)).tolist()) for j, tip in body.tips.items()}
    skeleton = Skeleton(body.names, body.parents, offsets, tips=ends)
    return replace(clip, quats=normalized(quats), root=root, skeleton=skeleton)


def turned_world(clip: pa.Clip, turn: Doubles) -> pa.Clip:
    """The motion in other axes; the zero pose stays as it was."""
    quats = clip.quats.astype(np.float64)
    quats[:, 0] = multiply(turn, quats[:, 0])
    return made(clip, quats, rotate(turn, clip.root), clip.skeleton.offsets, lambda _, tip: tip)


def turned_file(clip: pa.Clip, turn: Doubles) -> pa.Clip:
    """Motion and zero pose in other axes."""
    quats = multiply(multiply(turn, clip.quats), conjugate(turn))
    offsets = rotate(turn, clip.skeleton.offsets)
    return made(clip, quats, rotate(turn, clip.root), offsets, lambda _, tip: rotate(turn, tip))


def local_axes(clip: pa.Clip, seed: int) -> pa.Clip:
    """The same motion on bones with axes of their own: a zero pose that means nothing."""
    return with_axes(clip, normalized(np.random.default_rng(seed).normal(size=(len(clip.skeleton), 4))))


def with_axes(clip: pa.Clip, own: np.ndarray) -> pa.Clip:
    """The same motion on bones whose axes are turned by ``own`` (J, 4)."""
    above = np.concatenate((np.array([[1.0, 0.0, 0.0, 0.0]]), own[clip.skeleton.parents[1:]]))
    quats = multiply(multiply(conjugate(above), clip.quats), own)
    offsets = rotate(conjugate(above), clip.skeleton.offsets)
    return made(clip, quats, clip.root, offsets, lambda j, tip: rotate(conjugate(own[j]), tip))


def mirrored(clip: pa.Clip) -> pa.Clip:
    """The motion as read with axes of the wrong handedness."""
    across = np.array((-1.0, 1.0, 1.0))
    quats = clip.quats * np.array((1.0, 1.0, -1.0, -1.0))
    return made(clip, quats, clip.root * across, clip.skeleton.offsets * across, lambda _, tip: tip * across)


def lying_first(clip: pa.Clip, seconds: float = 1.5) -> pa.Clip:
    """The performer lies on the floor at first."""
    count = round(seconds * clip.rate)
    quats, root = clip.quats[:1].repeat(count, 0).astype(np.float64), clip.root[:1].repeat(count, 0)
    quats[:, 0] = multiply(about((1.0, 0.0, 0.0), -88.0), quats[:, 0])
    root = root * np.array((1.0, 0.0, 1.0)) + np.array((0.0, 0.12, 0.0))
    return made(
        clip,
        np.concatenate((quats, clip.quats)),
        np.concatenate((root, clip.root)),
        clip.skeleton.offsets,
        lambda _, tip: tip,
    )


def sitting(clip: pa.Clip) -> pa.Clip:
    """The walker on a chair, gesturing."""
    names = clip.skeleton.names
    quats = clip.quats.astype(np.float64)
    for side in ("Left", "Right"):
        quats[:, names.index(f"{side}UpperLeg")] = about((1.0, 0.0, 0.0), -85.0)
        quats[:, names.index(f"{side}LowerLeg")] = about((1.0, 0.0, 0.0), 88.0)
    root = clip.root[:1].repeat(len(clip), 0) * np.array((1.0, 0.0, 1.0)) + np.array((0.0, 0.5, 0.0))
    return made(clip, quats, root, clip.skeleton.offsets, lambda _, tip: tip)


def on_hands(clip: pa.Clip) -> pa.Clip:
    """The walker on the hands for most of the time, wrists at the floor."""
    names = clip.skeleton.names
    quats, turned = clip.quats.astype(np.float64), slice(len(clip) // 8, None)
    quats[turned, 0] = multiply(about((1.0, 0.0, 0.0), 180.0), quats[turned, 0])
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        quats[turned, names.index(f"{side}UpperArm")] = about((0.0, 0.0, 1.0), 80.0 * sign)
        quats[turned, names.index(f"{side}LowerArm")] = (1.0, 0.0, 0.0, 0.0)
    flat = made(clip, quats, clip.root * 0.0, clip.skeleton.offsets, lambda _, tip: tip)
    ends = [names.index(name) for name in ("LeftHand", "RightHand", "LeftToes", "RightToes")]
    root = clip.root.astype(np.float64)
    root[:, 1] = 0.05 - flat.positions()[:, ends, 1].min(axis=1)
    return made(clip, quats, root, clip.skeleton.offsets, lambda _, tip: tip)


def on_the_floor(clip: pa.Clip, turn: Doubles) -> pa.Clip:
    """The performer turned by (4,) or (T, 4), the lowest joint of every frame just above the floor."""
    quats = clip.quats.astype(np.float64)
    quats[:, 0] = multiply(turn, quats[:, 0])
    flat = made(clip, quats, clip.root[:1].repeat(len(clip), 0), clip.skeleton.offsets, lambda _, tip: tip)
    root = flat.root.astype(np.float64)
    root[:, 1] += 0.04 - flat.positions()[..., 1].min(axis=1)
    return replace(flat, root=root)


def difference(a: pa.Clip, b: pa.Clip) -> Doubles:
    """Mean angle in degrees of each bone between two canonical clips (their last frames), a yaw taken out."""
    count = min(len(a), len(b))
    parents = a.skeleton.parents[1:]
    there = a.mask[1:] & b.mask[1:]
    bones = []
    for clip in (a, b):
        places = clip.positions()[-count:].astype(np.float64)
        bone = places[:, 1:][:, there] - places[:, parents][:, there]
        bones.append(bone / np.linalg.norm(bone, axis=-1, keepdims=True))
    return np.asarray(_apart(*bones).mean(axis=0))
