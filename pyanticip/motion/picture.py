"""Picture of a clip above its canonical body, for ``pyanticip info --picture``. Needs matplotlib."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import DeviceError
from pyanticip.motion.agreement import spread_frames
from pyanticip.motion.atomic import write_file
from pyanticip.motion.clip import Clip, forward_kinematics
from pyanticip.motion.rotations import rotate
from pyanticip.motion.skeleton import Skeleton
from pyanticip.vocabulary import CANONICAL_JOINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POSES = 6
"""Number of moments shown."""
_COLOURS = {"left": "tab:blue", "right": "tab:red", "": "0.25"}
_VIEW = np.radians(35.0)
"""Angle of the camera from the direction that the rest pose faces."""


def draw(clip: Clip, out: Path) -> None:
    """Write a PNG of six moments of a clip: above as in its file, below on the canonical body.

    Left is blue, right is red; both face the same way.

    Raises:
        SkeletonError: The body cannot be mapped.
        DeviceError: matplotlib is missing, or the picture cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DeviceError("--picture needs matplotlib: pip install 'pyanticip[train]'") from None

    mapped = clip.retargeter()
    frames = spread_frames(len(clip), POSES)
    body = clip.retarget("humanoid")
    sides = [""] * len(clip.skeleton)
    for joint, chain in zip(CANONICAL_JOINTS, mapped.sources, strict=True):
        for name in chain:
            sides[clip.skeleton.index(name)] = _side(joint)
    for index, parent in enumerate(clip.skeleton.parents.tolist()):
        sides[index] = sides[index] or (sides[parent] if parent >= 0 else "")
    figure = Figure(figsize=(2.2 * len(frames), 5.4), layout="constrained")
    axes = figure.subplots(2, len(frames), squeeze=False)
    world = np.array(mapped.world)
    for column, frame in enumerate(frames.tolist()):
        for row, (shown, colours) in enumerate(
            ((clip, sides), (body, [_side(joint) for joint in CANONICAL_JOINTS]))
        ):
            rotations, positions = forward_kinematics(
                shown.skeleton, shown.quats[frame, None], np.zeros((1, 3))
            )
            bones = _bones(shown.skeleton, rotations[0], positions[0])
            if shown is clip and clip is not body:
                bones = [(joint, rotate(world, ends)) for joint, ends in bones]
            _pose(axes[row, column], bones, colours)
        axes[0, column].set_title(f"{frame / clip.rate:.1f} s", fontsize=9)
    figure.suptitle(
        f"{Path(clip.source or clip.name).name}: above the file, below the canonical body;"
        " left blue, right red",
        fontsize=10,
        # A name such as "$1_$2" is no formula.
        parse_math=False,
    )
    picture = io.BytesIO()
    with warnings.catch_warnings():
        # The name may have letters that the font lacks.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        try:
            figure.savefig(picture, dpi=90, format=out.suffix[1:] or "png")
        except ValueError as error:
            raise DeviceError(f"{out}: cannot be written: {error}") from None
    write_file(out, picture.getvalue())


def _side(joint: str) -> str:
    return next((side for side in ("left", "right") if joint.startswith(side)), "")


def _bones(
    skeleton: Skeleton, rotations: NDArray[np.float32], positions: NDArray[np.float32]
) -> list[tuple[int, NDArray[np.float64]]]:
    """Pairs of joint and (2, 3) ends of a bone: from parent to joint, or from joint to tip."""
    bones = [
        (joint, np.array((positions[parent], positions[joint]), np.float64))
        for joint, parent in enumerate(skeleton.parents.tolist())
        if parent >= 0
    ]
    for joint, tip in skeleton.tips.items():
        end = positions[joint] + rotate(rotations[joint], np.array(tip))
        bones.append((joint, np.array((positions[joint], end), np.float64)))
    return bones


def _pose(axes: "Axes", bones: list[tuple[int, NDArray[np.float64]]], sides: list[str]) -> None:
    for joint, ends in bones:
        across = ends[:, 0] * np.cos(_VIEW) - ends[:, 2] * np.sin(_VIEW)
        axes.plot(across, ends[:, 1], color=_COLOURS[sides[joint]], linewidth=2, solid_capstyle="round")
    axes.set_aspect("equal")
    axes.set_axis_off()
    heights = [height for _, ends in bones for height in ends[:, 1]]
    middle = 0.5 * (min(heights) + max(heights))
    axes.set_xlim(-1.0, 1.0)
    axes.set_ylim(middle - 1.1, middle + 1.1)
