"""Write a clip as a BVH file that any program reads."""

import os
import re
from pathlib import Path

import numpy as np

from pyanticip.motion.atomic import write_atomic
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import to_euler_zyx
from pyanticip.motion.skeleton import Skeleton

_UNSAFE = re.compile(r"[\s{}]+")
_CENTIMETRES = 100.0


def save_bvh(clip: Clip, path: str | os.PathLike[str]) -> None:
    """Write ``clip`` to ``path``: centimetres, rotation order ZYX, atomic.

    The root has six channels, every other joint three. Joints come depth first, as BVH demands; blanks
    and braces in names become underscores. Angles are written to a millionth of a degree. The rest
    rotations of the skeleton have no place in a BVH: they are lost, unless frame 0 holds that pose.
    """
    order = _depth_first(clip.skeleton)
    degrees = np.degrees(to_euler_zyx(clip.quats[:, order])).reshape(len(clip), -1)
    rows = np.concatenate((clip.root.astype(np.float64) * _CENTIMETRES, degrees), axis=1)
    line = " ".join(["%.6f"] * rows.shape[1])
    text = [
        *_hierarchy(clip.skeleton),
        "MOTION",
        f"Frames: {len(clip)}",
        f"Frame Time: {1.0 / clip.rate:.10f}",
        *(line % tuple(row) for row in rows.tolist()),
        "",
    ]
    write_atomic(Path(path), "\n".join(text).encode())


def _depth_first(skeleton: Skeleton) -> list[int]:
    """Joints in the order in which the hierarchy names them."""
    order: list[int] = []
    stack = [0]
    while stack:
        joint = stack.pop()
        order.append(joint)
        stack.extend(reversed(_children(skeleton, joint)))
    return order


def _children(skeleton: Skeleton, joint: int) -> list[int]:
    return [int(child) for child in np.flatnonzero(skeleton.parents == joint)]


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value * _CENTIMETRES:.6f}" for value in values)


def _hierarchy(skeleton: Skeleton) -> list[str]:
    """The lines of the HIERARCHY part."""
    lines = ["HIERARCHY"]
    depth_of = {-1: -1}
    open_joints: list[int] = []

    def close_down_to(parent: int) -> None:
        while open_joints and open_joints[-1] != parent:
            lines.append("\t" * depth_of[open_joints.pop()] + "}")

    for joint in _depth_first(skeleton):
        parent = int(skeleton.parents[joint])
        close_down_to(parent)
        depth = depth_of[joint] = depth_of[parent] + 1
        pad = "\t" * depth
        name = _UNSAFE.sub("_", skeleton.names[joint])
        offset = tuple(float(value) for value in skeleton.offsets[joint]) if parent >= 0 else (0.0, 0.0, 0.0)
        place = "6 Xposition Yposition Zposition" if parent < 0 else "3"
        lines += [
            f"{pad}{'JOINT' if parent >= 0 else 'ROOT'} {name}",
            f"{pad}{{",
            f"{pad}\tOFFSET {_numbers(offset)}",
            f"{pad}\tCHANNELS {place} Zrotation Yrotation Xrotation",
        ]
        open_joints.append(joint)
        if not _children(skeleton, joint):
            tip = skeleton.tips.get(joint, (0.0, 0.0, 0.0))
            lines += [f"{pad}\tEnd Site", f"{pad}\t{{", f"{pad}\t\tOFFSET {_numbers(tip)}", f"{pad}\t}}"]
    close_down_to(-1)
    return lines
