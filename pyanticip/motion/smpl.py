"""The body of SMPL and AMASS files, which hold rotations but no bones."""

import numpy as np

from pyanticip.motion.skeleton import Skeleton

# Names and tree as in SMPL (Loper et al. 2015), the 22 joints that SMPL, SMPL+H and SMPL-X share.
# The offsets are those of a plain adult of 1.7 m in T-pose facing +z, rounded to centimetres: the
# files have no bones, and retargeting looks only at their directions.
_BODY: tuple[tuple[str, int, tuple[float, float, float]], ...] = (
    ("pelvis", -1, (0.0, 0.0, 0.0)),
    ("left_hip", 0, (0.08, -0.08, 0.0)),
    ("right_hip", 0, (-0.08, -0.08, 0.0)),
    ("spine1", 0, (0.0, 0.11, 0.0)),
    ("left_knee", 1, (0.0, -0.39, 0.0)),
    ("right_knee", 2, (0.0, -0.39, 0.0)),
    ("spine2", 3, (0.0, 0.13, 0.0)),
    ("left_ankle", 4, (0.0, -0.40, 0.0)),
    ("right_ankle", 5, (0.0, -0.40, 0.0)),
    ("spine3", 6, (0.0, 0.06, 0.0)),
    ("left_foot", 7, (0.0, -0.06, 0.13)),
    ("right_foot", 8, (0.0, -0.06, 0.13)),
    ("neck", 9, (0.0, 0.21, 0.0)),
    ("left_collar", 9, (0.07, 0.12, 0.0)),
    ("right_collar", 9, (-0.07, 0.12, 0.0)),
    ("head", 12, (0.0, 0.09, 0.0)),
    ("left_shoulder", 13, (0.11, 0.0, 0.0)),
    ("right_shoulder", 14, (-0.11, 0.0, 0.0)),
    ("left_elbow", 16, (0.26, 0.0, 0.0)),
    ("right_elbow", 17, (-0.26, 0.0, 0.0)),
    ("left_wrist", 18, (0.25, 0.0, 0.0)),
    ("right_wrist", 19, (-0.25, 0.0, 0.0)),
)

JOINTS = len(_BODY)


def smpl_skeleton() -> Skeleton:
    """The 22 body joints of SMPL, in its order, with the proportions of a plain adult."""
    return Skeleton(
        tuple(name for name, _, _ in _BODY),
        np.array([parent for _, parent, _ in _BODY], np.int32),
        np.array([offset for _, _, offset in _BODY], np.float32),
    )
