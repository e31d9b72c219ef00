"""A body from the markers that it wears: Vicon's Plug-in Gait, and CMU's set, which has nearly its names.

Joint centres lie inside the body, by published rules: hips after Harrington et al. 2007 (from the width and
depth of the pelvis), shoulders after Rab et al. 2002 (17 % of their distance below the acromia); elbows,
knees, ankles and wrists half a joint's width beside their markers, as Plug-in Gait has it, along the axis
about which they bend. Widths are an adult's, scaled with the legs, for files of motion seldom have them.
"""

from collections.abc import Sequence
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
    turn_between,
    unit,
)
from pyanticip.motion.skeleton import Skeleton

_CENTRE = ("C7", "CLAV", "T10", "STRN", "SACR")
_SIDED = ("FHD", "BHD", "SHO", "ELB", "WRA", "WRB", "FIN", "ASI", "PSI", "KNE", "ANK", "HEE", "TOE")
_NAMES = {name: name for name in _CENTRE} | {side + name: side + name for side in "LR" for name in _SIDED}
# CMU calls the pelvis a waist.
_NAMES |= {side + other: side + name for side in "LR" for other, name in (("FWT", "ASI"), ("BWT", "PSI"))}
_OPTIONAL = ("T10", "STRN", "SACR", "LFIN", "RFIN")

_HIDDEN = 0.5
"""A marker that is hidden in more of the frames than this is none."""
_TOLD = 0.1
"""... and than this is told of."""

_KNEE, _ANKLE, _ELBOW, _WRIST, _HAND = 0.059, 0.043, 0.045, 0.027, 0.022
"""Metres from the middle of a marker to the middle of an adult's joint: half its width and 7 mm."""
_LEG = 0.92
"""... whose leg is as long from the front of the pelvis over the knee to the ankle."""
_USUAL = 0.3
"""So much, as the sine of a bend, the axis of a limb counts that it would have with the trunk."""

_LEFT, _UP, _ = np.eye(3)

_TREE = {
    "Hips": "", "Spine": "Hips", "Chest": "Spine", "Neck": "Chest", "Head": "Neck",
    **{f"{side}{name}": parent if parent in ("Chest", "Hips") else f"{side}{parent}"
       for side in ("Left", "Right")
       for name, parent in (
           ("Shoulder", "Chest"), ("UpperArm", "Shoulder"), ("LowerArm", "UpperArm"), ("Hand", "LowerArm"),
           ("UpperLeg", "Hips"), ("LowerLeg", "UpperLeg"), ("Foot", "LowerLeg"),
       )},
}  # fmt: skip
"""Joints and their parents."""


@dataclass(frozen=True)
class Subject:
    """Somebody who wears markers: a name, and which of the file's points they are."""

    name: str
    columns: dict[str, int]


@dataclass(frozen=True)
class MarkedBody:
    """Local rotations (T, J, 4) and the hips' path (T, 3) in metres, in the world of the markers."""

    quats: Doubles
    root: Doubles
    skeleton: Skeleton
    warnings: tuple[str, ...]


def find_subjects(labels: Sequence[str]) -> list[Subject]:
    """Who wears the markers of these labels: the first, and all who wear as many."""
    found: dict[str, dict[str, int]] = {"": {}}
    for column, label in enumerate(labels):
        subject, _, name = label.rpartition(":" if ":" in label else "_")
        known = _NAMES.get(name.strip().upper())
        if known is not None:
            found.setdefault(subject, {}).setdefault(known, column)
    most = max(len(columns) for columns in found.values())
    return [Subject(name, columns) for name, columns in found.items() if len(columns) == most]


def body_of_markers(path: Path, markers: dict[str, NDArray[np.float64]]) -> MarkedBody:
    """The body that wears markers (T, 3), in metres, NaN where they are hidden; gaps are bridged straight.

    Raises:
        FormatError: Markers are missing: which.
    """
    hidden = {name: float(np.isnan(place[:, 0]).mean()) for name, place in markers.items()}
    seen = {name: _bridged(place) for name, place in markers.items() if hidden[name] <= _HIDDEN}
    if "SACR" in seen:
        seen = {"LPSI": seen["SACR"], "RPSI": seen["SACR"]} | seen
    missing = [name for name in dict.fromkeys(_NAMES.values()) if name not in seen and name not in _OPTIONAL]
    if missing:
        has = "it has none of Plug-in Gait's or CMU's names"
        if markers:
            has = f"it has {', '.join(seen)}" if seen else "all are hidden in more than half of the frames"
        raise text.fail(
            path, None, f"markers of a whole body are wanted, missing: {', '.join(missing)}; {has}"
        )
    often = [f"{name} {hidden[name]:.0%}" for name in seen if hidden.get(name, 0.0) > _TOLD]
    warnings = [f"markers often hidden, bridged straight: {', '.join(often)}"] if often else []
    if _is_mirrored(seen):
        seen = {name: place * np.array((-1.0, 1.0, 1.0)) for name, place in seen.items()}
        warnings.append("axes of the left hand, or left and right exchanged: its markers were mirrored")
    places, turns, tips = _Wearer(seen).joints()

    names = tuple(_TREE)
    parents = np.array([names.index(parent) if parent else -1 for parent in _TREE.values()], np.int32)
    quats = np.stack([turns[name] for name in names], axis=1)
    offsets = np.zeros((len(names), 3))
    for index, (name, parent) in enumerate(_TREE.items()):
        if parent:
            offsets[index] = _local(turns[parent], places[name] - places[parent])
            quats[:, index] = multiply(conjugate(turns[parent]), turns[name])
    ends = {names.index(name): tuple(_local(turns[name], tip - places[name])) for name, tip in tips.items()}
    skeleton = Skeleton(names, parents, offsets.astype(np.float32), tips=ends)
    return MarkedBody(normalized(quats), places["Hips"], skeleton, tuple(warnings))


def _is_mirrored(at: dict[str, NDArray[np.float64]]) -> bool:
    """Whether the trunk is below the pelvis of somebody whose left is left and whose front is ahead."""
    left = at["LASI"] + at["LPSI"] - at["RASI"] - at["RPSI"]
    ahead = at["LASI"] + at["RASI"] - at["LPSI"] - at["RPSI"]
    up = at["C7"] + at["CLAV"] - at["LASI"] - at["RPSI"]
    return float(np.median((np.cross(ahead, left) * up).sum(axis=-1))) < 0.0


def _bridged(place: NDArray[np.float64]) -> NDArray[np.float64]:
    seen = np.flatnonzero(~np.isnan(place[:, 0]))
    at = np.arange(len(place))
    return np.stack([np.interp(at, seen, place[seen, axis]) for axis in range(3)], axis=-1)


def _local(turns: Doubles, ways: Doubles) -> Doubles:
    """What is constant of ways (T, 3) in the frame of a joint: bones do not stretch."""
    return np.asarray(np.median(rotate(conjugate(turns), ways), axis=0))


class _Wearer:
    """Joints from markers. In a T-pose all rotations are the identity: x is left, y up, z ahead."""

    def __init__(self, markers: dict[str, NDArray[np.float64]]) -> None:
        self.at = markers
        self.places: dict[str, Doubles] = {}
        self.turns: dict[str, Doubles] = {}
        self.tips: dict[str, Doubles] = {}
        thighs = [self.at[s + "ASI"] - self.at[s + "KNE"] for s in "LR"]
        shins = [self.at[s + "KNE"] - self.at[s + "ANK"] for s in "LR"]
        self.size = sum(float(np.median(np.linalg.norm(way, axis=-1))) for way in thighs + shins) / (2 * _LEG)

    def joints(self) -> tuple[dict[str, Doubles], dict[str, Doubles], dict[str, Doubles]]:
        """Places (T, 3) and rotations (T, 4) of all joints in the world, and places of the tips."""
        hips = self._pelvis()
        self._trunk(hips)
        self._head()
        acromia = self.at["LSHO"] - self.at["RSHO"]
        below = 0.17 * float(np.median(np.linalg.norm(acromia, axis=-1)))
        for side, sign in (("Left", 1.0), ("Right", -1.0)):
            self._arm(side, sign, below)
            self._leg(side, sign, hips[side])
        return self.places, self.turns, self.tips

    def _middle(self, *names: str) -> Doubles:
        return np.asarray(np.mean([self.at[name] for name in names], axis=0))

    def _pelvis(self) -> dict[str, Doubles]:
        """The pelvis, and where the hip joints are (Harrington et al. 2007: by width and depth alone)."""
        front, back = self._middle("LASI", "RASI"), self._middle("LPSI", "RPSI")
        across, ahead = self.at["LASI"] - self.at["RASI"], front - back
        turn = from_axes(across, np.cross(ahead, across))
        width, depth = (float(np.median(np.linalg.norm(way, axis=-1))) for way in (across, ahead))
        joints = {
            side: front
            + rotate(
                turn, np.array((x * (0.33 * width + 0.0073), -0.30 * width - 0.0109, -0.24 * depth - 0.0099))
            )
            for side, x in (("Left", 1.0), ("Right", -1.0))
        }
        self.turns["Hips"] = turn
        self.places["Hips"] = 0.5 * (joints["Left"] + joints["Right"])
        self.places["Spine"] = 0.5 * (front + back)
        return joints

    def _trunk(self, hips: dict[str, Doubles]) -> None:
        neck = self._middle("C7", "CLAV")
        spine = self.places["Spine"]
        both = "T10" in self.at and "STRN" in self.at
        chest = self._middle("T10", "STRN") if both else 0.5 * (spine + neck)
        up, ahead = neck - chest, self.at["CLAV"] - self.at["C7"]
        thorax = _upright(up, np.cross(up, ahead))
        left = rotate(thorax, _LEFT) + rotate(self.turns["Hips"], _LEFT)
        self.places |= {"Chest": chest, "Neck": neck}
        self.turns |= {"Spine": _upright(chest - spine, left), "Chest": thorax}

    def _head(self) -> None:
        front, back = self._middle("LFHD", "RFHD"), self._middle("LBHD", "RBHD")
        left, ahead = self._middle("LFHD", "LBHD") - self._middle("RFHD", "RBHD"), front - back
        turn = from_axes(left, np.cross(ahead, left))
        middle = 0.5 * (front + back)
        head = middle - rotate(turn, 0.09 * self.size * _UP)
        neck = head - self.places["Neck"]
        left = rotate(turn, _LEFT) + rotate(self.turns["Chest"], _LEFT)
        self.places["Head"], self.tips["Head"] = head, middle
        self.turns |= {"Neck": _upright(neck, left), "Head": turn}

    def _arm(self, side: str, sign: float, below: float) -> None:
        s, thorax, size = side[0], self.turns["Chest"], self.size
        shoulder = self.at[s + "SHO"] - rotate(thorax, below * _UP)
        collar = _local(thorax, shoulder - self.places["Neck"]) * (0.2, 1.0, 1.0)
        collar = self.places["Neck"] + rotate(thorax, collar)
        # From the back of the wrist and of the hand inwards: where the palm is, the thumb being ahead.
        thumb = self.at[s + "WRA"] - self.at[s + "WRB"]
        wrist = self._middle(s + "WRA", s + "WRB")
        palm = sign * unit(np.cross(wrist - self.at[s + "ELB"], thumb))
        wrist = wrist + _WRIST * size * palm
        marker = self.at[s + "ELB"]
        usual = _swung(thorax, sign * _LEFT, marker - shoulder, _UP)
        elbow, hinge = _joint(shoulder, marker, wrist, -sign, usual, _ELBOW * size)
        hand = self.at[s + "FIN"] + _HAND * size * palm if s + "FIN" in self.at else 2 * wrist - elbow
        names = (f"{side}Shoulder", f"{side}UpperArm", f"{side}LowerArm", f"{side}Hand")
        self.places |= dict(zip(names, (collar, shoulder, elbow, wrist), strict=True))
        self.tips[names[3]] = hand
        hints = (rotate(thorax, _UP), hinge, hinge, -palm)
        ways = (shoulder - collar, elbow - shoulder, wrist - elbow, hand - wrist)
        self.turns |= {
            n: from_axes(sign * way, hint) for n, way, hint in zip(names, ways, hints, strict=True)
        }

    def _leg(self, side: str, sign: float, hip: Doubles) -> None:
        s, size = side[0], self.size
        marker, ankle, foot = self.at[s + "KNE"], self.at[s + "ANK"], self.at[s + "TOE"] - self.at[s + "HEE"]
        # The foot is before the shin, unless it is stretched; then the pelvis says where left is.
        usual = _swung(self.turns["Hips"], -_UP, marker - hip, _LEFT) + np.cross(
            unit(marker - ankle), unit(foot)
        )
        for _ in range(2):  # the ankle lies beside its marker along the knee's axis, which its place tells
            knee, left = _joint(hip, marker, ankle, 1.0, usual, sign * _KNEE * size)
            ankle = self.at[s + "ANK"] - sign * _ANKLE * size * left
        sideways = _across(left, foot)
        self.places |= {f"{side}UpperLeg": hip, f"{side}LowerLeg": knee, f"{side}Foot": ankle}
        self.tips[f"{side}Foot"] = self.at[s + "TOE"]
        self.turns |= {
            f"{side}UpperLeg": _upright(hip - knee, left),
            f"{side}LowerLeg": _upright(knee - ankle, left),
            f"{side}Foot": from_axes(sideways, np.cross(foot, sideways)),
        }


def _across(vectors: Doubles, along: Doubles) -> Doubles:
    """What of vectors is across a direction."""
    along = unit(along)
    return np.asarray(vectors - (vectors * along).sum(axis=-1, keepdims=True) * along)


def _upright(up: Doubles, left: Doubles) -> Doubles:
    """Rotations that take y along ``up`` and x as near to ``left`` as can be."""
    return from_axes(_across(left, up), up)


def _swung(parent: Doubles, rests: Doubles, bone: Doubles, axis: Doubles) -> Doubles:
    """Where an axis of the T-pose is when its bone has gone from ``rests`` to ``bone`` the shortest way."""
    return rotate(turn_between(rotate(parent, rests), unit(bone)), rotate(parent, axis))


def _joint(
    first: Doubles, marker: Doubles, last: Doubles, sign: float, usual: Doubles, aside: float
) -> tuple[Doubles, Doubles]:
    """A joint beside its marker, and its axis: across both bones where they are bent (times ``sign``), else
    as usual. The marker is ``aside`` metres along it.
    """
    axis = unit(_across(usual, marker - first))
    for _ in range(4):
        upper, lower = unit(marker - aside * axis - first), unit(last - marker + aside * axis)
        axis = unit(_across(sign * np.cross(upper, lower) + _USUAL * usual, upper))
    return marker - aside * axis, axis
