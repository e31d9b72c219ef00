"""A body from optical markers: Vicon's Plug-in Gait set, and CMU's, whose names are almost the same.

Joint centres follow published rules: hips after Harrington et al. 2007 (by the width and depth of the
pelvis), shoulders after Rab et al. 2002 (17 % of their distance below the acromia); elbows, knees, ankles and
wrists half a joint's width from their markers along the hinge axis, as in Plug-in Gait. Widths are an
adult's, scaled by leg length, as motion files rarely state them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip.motion import text
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

_CENTRE_MARKERS = ("C7", "CLAV", "T10", "STRN", "SACR")
_SIDE_MARKERS = ("FHD", "BHD", "SHO", "ELB", "WRA", "WRB", "FIN", "ASI", "PSI", "KNE", "ANK", "HEE", "TOE")
_MARKER_NAMES = {name: name for name in _CENTRE_MARKERS} | {
    side + name: side + name for side in "LR" for name in _SIDE_MARKERS
}
# CMU names the pelvis markers after the waist.
_MARKER_NAMES |= {
    side + other: side + name for side in "LR" for other, name in (("FWT", "ASI"), ("BWT", "PSI"))
}
_OPTIONAL_MARKERS = ("T10", "STRN", "SACR", "LFIN", "RFIN")

_MAX_HIDDEN = 0.5
"""Share of frames above which a hidden marker counts as missing."""
_WARN_HIDDEN = 0.1
"""Share of frames above which a hidden marker is warned of."""

_KNEE, _ANKLE, _ELBOW, _WRIST, _HAND = 0.059, 0.043, 0.045, 0.027, 0.022
"""Distance in metres from a marker's centre to an adult's joint centre: half the joint's width plus 7 mm."""
_ADULT_LEG = 0.92
"""Length in metres of that adult's leg, from the front of the pelvis over the knee to the ankle."""
_PRIOR_WEIGHT = 0.3
"""Weight, as the sine of a bend, of the hinge axis that a limb has by the trunk's orientation."""

_LEFT, _UP, _ = np.eye(3)

_PARENTS = {
    "Hips": "", "Spine": "Hips", "Chest": "Spine", "Neck": "Chest", "Head": "Neck",
    **{f"{side}{name}": parent if parent in ("Chest", "Hips") else f"{side}{parent}"
       for side in ("Left", "Right")
       for name, parent in (
           ("Shoulder", "Chest"), ("UpperArm", "Shoulder"), ("LowerArm", "UpperArm"), ("Hand", "LowerArm"),
           ("UpperLeg", "Hips"), ("LowerLeg", "UpperLeg"), ("Foot", "LowerLeg"),
       )},
}  # fmt: skip
"""Joints, parents first, and their parents."""


@dataclass(frozen=True)
class Subject:
    """A performer: a name, and the file's point index of each marker."""

    name: str
    columns: dict[str, int]


@dataclass(frozen=True)
class MarkerBody:
    """A body in the world of its markers.

    Attributes:
        quats: (T, J, 4) local rotations.
        root: (T, 3) positions of the hips, metres.
        skeleton: The J joints.
        warnings: One line for each doubt about the markers.
    """

    quats: Doubles
    root: Doubles
    skeleton: Skeleton
    warnings: tuple[str, ...]


def find_subjects(labels: Sequence[str]) -> list[Subject]:
    """The performers who have all required markers among ``labels``, in order of appearance.

    Without one, those with the most known markers.
    """
    subjects: dict[str, dict[str, int]] = {"": {}}
    for column, label in enumerate(labels):
        subject, _, name = label.rpartition(":" if ":" in label else "_")
        known = _MARKER_NAMES.get(name.strip().upper())
        if known is not None:
            subjects.setdefault(subject, {}).setdefault(known, column)
    found = [Subject(name, columns) for name, columns in subjects.items()]
    most = max(len(columns) for columns in subjects.values())
    whole = [subject for subject in found if not _missing(subject.columns)]
    return whole or [subject for subject in found if len(subject.columns) == most]


def _missing(names: Collection[str]) -> list[str]:
    """The required markers that are not among ``names``."""
    unneeded = {*_OPTIONAL_MARKERS, *(("LPSI", "RPSI") if "SACR" in names else ())}
    return [
        name for name in dict.fromkeys(_MARKER_NAMES.values()) if name not in names and name not in unneeded
    ]


def body_from_markers(path: Path, markers: dict[str, NDArray[np.float64]]) -> MarkerBody:
    """The body from marker positions (T, 3) in metres, NaN where hidden; gaps are interpolated linearly.

    Raises:
        FormatError: Required markers are missing; names them.
    """
    hidden = {name: float(np.isnan(positions[:, 0]).mean()) for name, positions in markers.items()}
    seen = {
        name: _interpolated(positions) for name, positions in markers.items() if hidden[name] <= _MAX_HIDDEN
    }
    if "SACR" in seen:
        seen = {"LPSI": seen["SACR"], "RPSI": seen["SACR"]} | seen
    missing = _missing(seen)
    if missing:
        has = "it has none of Plug-in Gait's or CMU's names"
        if markers:
            has = f"it has {', '.join(seen)}" if seen else "all are hidden in more than half of the frames"
        raise text.fail(
            path, None, f"needs the markers of a whole body, missing: {', '.join(missing)}; {has}"
        )
    often = [f"{name} {hidden[name]:.0%}" for name in seen if hidden.get(name, 0.0) > _WARN_HIDDEN]
    warnings = [f"markers often hidden, bridged straight: {', '.join(often)}"] if often else []
    if _is_mirrored(seen):
        seen = {name: positions * np.array((-1.0, 1.0, 1.0)) for name, positions in seen.items()}
        warnings.append("axes of the left hand, or left and right exchanged: its markers were mirrored")
    positions, rotations, tips = _BodySolver(seen).joints()

    names = tuple(_PARENTS)
    parents = np.array([names.index(parent) if parent else -1 for parent in _PARENTS.values()], np.int32)
    quats = np.stack([rotations[name] for name in names], axis=1)
    offsets = np.zeros((len(names), 3))
    for index, (name, parent) in enumerate(_PARENTS.items()):
        if parent:
            offsets[index] = _local(rotations[parent], positions[name] - positions[parent])
            quats[:, index] = multiply(conjugate(rotations[parent]), rotations[name])
    ends = {
        names.index(name): tuple(_local(rotations[name], tip - positions[name])) for name, tip in tips.items()
    }
    skeleton = Skeleton(names, parents, offsets.astype(np.float32), tips=ends)
    return MarkerBody(normalized(quats), positions["Hips"], skeleton, tuple(warnings))


def _is_mirrored(markers: dict[str, NDArray[np.float64]]) -> bool:
    """Whether left and right are exchanged: forward x left then points down the trunk, not up."""
    left = markers["LASI"] + markers["LPSI"] - markers["RASI"] - markers["RPSI"]
    forward = markers["LASI"] + markers["RASI"] - markers["LPSI"] - markers["RPSI"]
    up = markers["C7"] + markers["CLAV"] - markers["LASI"] - markers["RPSI"]
    return float(np.median((np.cross(forward, left) * up).sum(axis=-1))) < 0.0


def _interpolated(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Marker positions (T, 3) with hidden frames interpolated linearly."""
    visible = np.flatnonzero(~np.isnan(positions[:, 0]))
    frames = np.arange(len(positions))
    return np.stack([np.interp(frames, visible, positions[visible, axis]) for axis in range(3)], axis=-1)


def _local(rotations: Doubles, vectors: Doubles) -> Doubles:
    """(3,) median of world vectors (T, 3) in a joint's frame, as bones do not stretch."""
    return np.asarray(np.median(rotate(conjugate(rotations), vectors), axis=0))


class _BodySolver:
    """Computes joints from markers. In a T-pose all rotations are the identity: x left, y up, z forward."""

    def __init__(self, markers: dict[str, NDArray[np.float64]]) -> None:
        self._markers = markers
        self.positions: dict[str, Doubles] = {}
        self.rotations: dict[str, Doubles] = {}
        self.tips: dict[str, Doubles] = {}
        thighs = [self._markers[s + "ASI"] - self._markers[s + "KNE"] for s in "LR"]
        shins = [self._markers[s + "KNE"] - self._markers[s + "ANK"] for s in "LR"]
        self.size = sum(float(np.median(np.linalg.norm(vector, axis=-1))) for vector in thighs + shins) / (
            2 * _ADULT_LEG
        )

    def joints(self) -> tuple[dict[str, Doubles], dict[str, Doubles], dict[str, Doubles]]:
        """World positions (T, 3) and rotations (T, 4) of all joints, and world positions of the tips."""
        hips = self._pelvis()
        self._trunk(hips)
        self._head()
        acromia = self._markers["LSHO"] - self._markers["RSHO"]
        drop = 0.17 * float(np.median(np.linalg.norm(acromia, axis=-1)))
        for side, sign in (("Left", 1.0), ("Right", -1.0)):
            self._arm(side, sign, drop)
            self._leg(side, sign, hips[side])
        return self.positions, self.rotations, self.tips

    def _middle(self, *names: str) -> Doubles:
        return np.asarray(np.mean([self._markers[name] for name in names], axis=0))

    def _pelvis(self) -> dict[str, Doubles]:
        """Set the pelvis; returns the hip joints' positions by side (Harrington et al. 2007)."""
        front, back = self._middle("LASI", "RASI"), self._middle("LPSI", "RPSI")
        across, forward = self._markers["LASI"] - self._markers["RASI"], front - back
        rotation = from_axes(across, np.cross(forward, across))
        width, depth = (float(np.median(np.linalg.norm(vector, axis=-1))) for vector in (across, forward))
        joints = {
            side: front
            + rotate(
                rotation,
                np.array((x * (0.33 * width + 0.0073), -0.30 * width - 0.0109, -0.24 * depth - 0.0099)),
            )
            for side, x in (("Left", 1.0), ("Right", -1.0))
        }
        self.rotations["Hips"] = rotation
        self.positions["Hips"] = 0.5 * (joints["Left"] + joints["Right"])
        self.positions["Spine"] = 0.5 * (front + back)
        return joints

    def _trunk(self, hips: dict[str, Doubles]) -> None:
        neck = self._middle("C7", "CLAV")
        spine = self.positions["Spine"]
        both = "T10" in self._markers and "STRN" in self._markers
        chest = self._middle("T10", "STRN") if both else 0.5 * (spine + neck)
        up, forward = neck - chest, self._markers["CLAV"] - self._markers["C7"]
        thorax = _upright(up, np.cross(up, forward))
        left = rotate(thorax, _LEFT) + rotate(self.rotations["Hips"], _LEFT)
        self.positions |= {"Chest": chest, "Neck": neck}
        self.rotations |= {"Spine": _upright(chest - spine, left), "Chest": thorax}

    def _head(self) -> None:
        front, back = self._middle("LFHD", "RFHD"), self._middle("LBHD", "RBHD")
        left, forward = self._middle("LFHD", "LBHD") - self._middle("RFHD", "RBHD"), front - back
        rotation = from_axes(left, np.cross(forward, left))
        middle = 0.5 * (front + back)
        head = middle - rotate(rotation, 0.09 * self.size * _UP)
        neck = head - self.positions["Neck"]
        left = rotate(rotation, _LEFT) + rotate(self.rotations["Chest"], _LEFT)
        self.positions["Head"], self.tips["Head"] = head, middle
        self.rotations |= {"Neck": _upright(neck, left), "Head": rotation}

    def _arm(self, side: str, sign: float, drop: float) -> None:
        s, thorax, size = side[0], self.rotations["Chest"], self.size
        shoulder = self._markers[s + "SHO"] - rotate(thorax, drop * _UP)
        collar = _local(thorax, shoulder - self.positions["Neck"]) * (0.2, 1.0, 1.0)
        collar = self.positions["Neck"] + rotate(thorax, collar)
        # Wrist and hand lie on the palm's side of their markers, which are on the back; the thumb is forward.
        thumb = self._markers[s + "WRA"] - self._markers[s + "WRB"]
        wrist = self._middle(s + "WRA", s + "WRB")
        palm = sign * unit(np.cross(wrist - self._markers[s + "ELB"], thumb))
        wrist = wrist + _WRIST * size * palm
        marker = self._markers[s + "ELB"]
        prior = _swung(thorax, sign * _LEFT, marker - shoulder, _UP)
        elbow, hinge = _joint(shoulder, marker, wrist, -sign, prior, _ELBOW * size)
        hand = (
            self._markers[s + "FIN"] + _HAND * size * palm
            if s + "FIN" in self._markers
            else 2 * wrist - elbow
        )
        names = (f"{side}Shoulder", f"{side}UpperArm", f"{side}LowerArm", f"{side}Hand")
        self.positions |= dict(zip(names, (collar, shoulder, elbow, wrist), strict=True))
        self.tips[names[3]] = hand
        hints = (rotate(thorax, _UP), hinge, hinge, -palm)
        bones = (shoulder - collar, elbow - shoulder, wrist - elbow, hand - wrist)
        self.rotations |= {
            n: from_axes(sign * bone, hint) for n, bone, hint in zip(names, bones, hints, strict=True)
        }

    def _leg(self, side: str, sign: float, hip: Doubles) -> None:
        s, size = side[0], self.size
        marker, ankle = self._markers[s + "KNE"], self._markers[s + "ANK"]
        foot = self._markers[s + "TOE"] - self._markers[s + "HEE"]
        # The axis by the pelvis plus that by the foot, which points forward of the shin unless stretched.
        prior = _swung(self.rotations["Hips"], -_UP, marker - hip, _LEFT) + np.cross(
            unit(marker - ankle), unit(foot)
        )
        for _ in range(2):  # the ankle depends on the knee's axis, and that on the ankle
            knee, left = _joint(hip, marker, ankle, 1.0, prior, sign * _KNEE * size)
            ankle = self._markers[s + "ANK"] - sign * _ANKLE * size * left
        sideways = _across(left, foot)
        self.positions |= {f"{side}UpperLeg": hip, f"{side}LowerLeg": knee, f"{side}Foot": ankle}
        self.tips[f"{side}Foot"] = self._markers[s + "TOE"]
        self.rotations |= {
            f"{side}UpperLeg": _upright(hip - knee, left),
            f"{side}LowerLeg": _upright(knee - ankle, left),
            f"{side}Foot": from_axes(sideways, np.cross(foot, sideways)),
        }


def _across(vectors: Doubles, along: Doubles) -> Doubles:
    """The component of vectors perpendicular to ``along``."""
    along = unit(along)
    return np.asarray(vectors - (vectors * along).sum(axis=-1, keepdims=True) * along)


def _upright(up: Doubles, left: Doubles) -> Doubles:
    """Rotations that take y to ``up`` and x as close to ``left`` as possible."""
    return from_axes(_across(left, up), up)


def _swung(parent: Doubles, rests: Doubles, bone: Doubles, axis: Doubles) -> Doubles:
    """World direction of ``axis`` after the smallest rotation of its bone from the T-pose to ``bone``."""
    return rotate(rotation_between(rotate(parent, rests), unit(bone)), rotate(parent, axis))


def _joint(
    first: Doubles, marker: Doubles, last: Doubles, sign: float, prior: Doubles, aside: float
) -> tuple[Doubles, Doubles]:
    """The position and hinge axis of the joint between ``first`` and ``last``.

    The axis is perpendicular to both bones if they are bent (times ``sign``), else close to ``prior``; the
    marker is ``aside`` metres from the joint along it.
    """
    axis = unit(_across(prior, marker - first))
    for _ in range(4):
        upper, lower = unit(marker - aside * axis - first), unit(last - marker + aside * axis)
        axis = unit(_across(sign * np.cross(upper, lower) + _PRIOR_WEIGHT * prior, upper))
    return marker - aside * axis, axis
