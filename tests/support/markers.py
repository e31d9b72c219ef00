"""Optical markers on the body of a clip, and C3D files of them."""

import io
import warnings

import c3d
import numpy as np

import pyanticip as pa
from pyanticip.motion.rotations import conjugate, from_axes, multiply, rotate

# Metres from a joint in the frame of a segment: x left, y up, z ahead in the T-pose, of the left side.
PLACES = {
    "C7": ("neck", "upper_chest", (0.0, 0.01, -0.07)),
    "CLAV": ("neck", "upper_chest", (0.0, -0.05, 0.07)),
    "T10": ("neck", "upper_chest", (0.0, -0.22, -0.12)),
    "STRN": ("neck", "upper_chest", (0.0, -0.19, 0.11)),
    "LFHD": ("head", "head", (0.075, 0.12, 0.10)),
    "LBHD": ("head", "head", (0.065, 0.10, -0.08)),
    "LSHO": ("left_upper_arm", "upper_chest", (0.0, 0.06, -0.01)),
    "LELB": ("left_lower_arm", "left_elbow", (0.0, 0.045, 0.0)),
    "LWRA": ("left_hand", "left_wrist", (0.0, 0.02, 0.035)),
    "LWRB": ("left_hand", "left_wrist", (0.0, 0.02, -0.035)),
    "LFIN": ("left_hand", "left_hand", (0.08, 0.02, 0.0)),
    "LASI": ("hips", "hips", (0.12, 0.07, 0.06)),
    "LPSI": ("hips", "hips", (0.045, 0.09, -0.11)),
    "LKNE": ("left_lower_leg", "left_upper_leg", (0.055, 0.0, 0.0)),
    "LANK": ("left_foot", "left_lower_leg", (0.04, 0.0, 0.0)),
    "LHEE": ("left_foot", "left_foot", (0.0, -0.04, -0.06)),
    "LTOE": ("left_foot", "left_foot", (0.0, -0.04, 0.15)),
}


def markers_of(clip: pa.Clip, seed: int = 0, misplaced: float = 0.01) -> dict[str, np.ndarray]:
    """Markers (T, 3), metres; each has a random offset of ``misplaced`` rms and noise of a millimetre."""
    rng = np.random.default_rng(seed)
    mapped = clip.retargeter()
    joints, _ = mapped.observe(clip.quats, clip.root)
    body = clip.retarget("humanoid")
    turns = body.global_rotations()
    names = list(body.skeleton.names)
    turned = dict(zip(names, np.moveaxis(turns, 1, 0), strict=True))
    up = np.array((0.0, 1.0, 0.0))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        arm = [joints[:, names.index(f"{side}_{name}")] for name in ("upper_arm", "lower_arm", "hand")]
        # The wrist turns with the hand about the forearm, and does not bend with it.
        turned[f"{side}_wrist"] = from_axes(sign * (arm[2] - arm[1]), rotate(turned[f"{side}_hand"], up))
        # The elbow's marker is on the axis about which it bends, which is not quite the body's.
        upper = turned[f"{side}_upper_arm"]
        bends = -sign * rotate(conjugate(upper), np.cross(arm[1] - arm[0], arm[2] - arm[1])).sum(axis=0)
        turned[f"{side}_elbow"] = multiply(upper, from_axes(np.array((1.0, 0.0, 0.0)), bends))
    hips = [names.index(f"{side}_upper_leg") for side in ("left", "right")]
    joints[:, names.index("hips")] = joints[:, hips].mean(axis=1)
    out = {}
    for marker, (joint, segment, offset) in PLACES.items():
        for side, sign in (("left", 1.0), ("right", -1.0)) if marker[0] == "L" else (("", 1.0),):
            label = {"right": "R" + marker[1:]}.get(side, marker)
            at, turn = (name.replace("left", side or "left") for name in (joint, segment))
            way = np.array(offset) * (sign, 1.0, 1.0) + misplaced * rng.normal(size=3) / 3**0.5
            out[label] = (
                joints[:, names.index(at)]
                + rotate(turned[turn], way)
                + 0.001 * rng.normal(size=(len(clip), 3))
            )
    return out


def c3d_bytes(
    markers: dict[str, np.ndarray],
    rate: float = 120.0,
    unit: str = "mm",
    scale: float = -1.0,
    analog: int = 0,
) -> bytes:
    """A C3D file of these markers, z up as in laboratories; NaN is hidden. ``scale`` > 0: whole numbers.

    ``analog`` is how many samples of two channels each frame has.
    """
    places = np.stack(list(markers.values()), axis=1) / {"mm": 0.001, "m": 1.0, "cm": 0.01}.get(unit, 0.001)
    places = np.stack((places[..., 0], -places[..., 2], places[..., 1]), axis=-1)
    writer = c3d.Writer(rate, rate * analog, point_scale=scale, point_units=unit)
    writer.set_point_labels(list(markers))
    for frame in places:
        points = np.zeros((len(frame), 5), np.float32)
        hidden = np.isnan(frame[:, 0])
        points[:, :3] = np.where(hidden[:, None], 0.0, frame)
        points[hidden, 3] = -1.0
        writer.add_frames((points, np.zeros((2 * bool(analog), analog), np.float32)))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.write(file)
    return file.getvalue()
