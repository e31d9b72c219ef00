"""VRChat's OSC trackers: places and turns of a few parts of a body, solved into one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip import _core
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.rotations import conjugate, multiply, rotate
from realtime.sources.osc import OscSource, messages

__all__ = ["TRACKERS", "TrackerSource", "vrchat"]

F64 = npt.NDArray[np.float64]

_ADDRESS = re.compile(r"/tracking/trackers/([1-8]|head)/(position|rotation)")
#: The joint of each tracker. VRChat numbers none; these are SlimeVR's numbers, which other senders follow.
TRACKERS = {
    "1": "hips",
    "2": "left_foot",
    "3": "right_foot",
    "4": "left_upper_leg",
    "5": "right_upper_leg",
    "6": "upper_chest",
    "7": "left_upper_arm",
    "8": "right_upper_arm",
    "head": "head",
}
_NAMES, _PARENTS, _OFFSETS = _core.standard_skeleton("humanoid")
_FORWARD, _STILL = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 0.0])
_HIP_JOINTS = np.array([_OFFSETS[_NAMES.index(f"{side}_upper_leg")] for side in ("left", "right")])
# Who stands straight has legs as long as from hip to ankle, and a little more: no knee locks.
_STRETCHED = 1.01


class TrackerSource(OscSource):
    """Trackers as msgpack datagrams of the canonical body; what none of them tells is not measured.

    Unity's axes become right-handed. The first rotation of each tracker counts as its joint's rest, and where
    the hips (else the head) face then is forward: begin standing straight. Hips and a foot give the leg
    between them by inverse kinematics, its length from that first frame, the knee towards where thigh or foot
    point. A frame is what the trackers sent before have sent again; there are no times in it.
    """

    def __init__(self) -> None:
        super().__init__({}, up="y", port=9000)
        self._told: dict[tuple[str, str], F64] = {}
        self._sweep: set[tuple[str, str]] = set()
        self._usual: set[tuple[str, str]] = set()
        self._facing: F64 | None = None
        self._legs: dict[str, float] = {}

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """See :class:`realtime.sources.base.Source`."""
        for address, values in messages(datagram):
            found = _ADDRESS.fullmatch(address)
            if found is None or len(values) < 3 or not np.isfinite(values[:3]).all():
                continue
            key = (TRACKERS[found[1]], found[2])
            if key in self._sweep:
                yield from self._solved()
            self._sweep.add(key)
            self._told[key] = _place(values) if key[1] == "position" else _turn(values)
        if self._usual and self._sweep >= self._usual:
            yield from self._solved()

    def _solved(self) -> Iterator[bytes]:
        """The body as it is told now."""
        self._usual, self._sweep = self._sweep, set()
        turns = {joint: turn for (joint, what), turn in self._told.items() if what == "rotation"}
        places = {joint: place for (joint, what), place in self._told.items() if what == "position"}
        if not turns:
            return
        if self._facing is None:
            x, _, z = rotate(turns.get("hips", turns.get("head", _STILL)), -_FORWARD)
            half = -0.5 * math.atan2(x, z)
            self._facing = np.array([math.cos(half), 0.0, math.sin(half), 0.0])
        firsts = np.array([self._first.setdefault(joint, turn) for joint, turn in turns.items()])
        turned = multiply(np.array(list(turns.values())), conjugate(firsts))
        turned = multiply(multiply(self._facing, turned), conjugate(self._facing))
        self._world = dict(zip(turns, turned, strict=True))
        if places:
            moved = rotate(self._facing, np.array(list(places.values())))
            places = dict(zip(places, moved, strict=True))
        if "hips" in places and "hips" in turns:
            self._solve_legs(places)
        yield from self._frame(places.get("hips"))

    def _solve_legs(self, places: dict[str, F64]) -> None:
        """Add thigh and shin of each leg whose foot is known."""
        hips = self._world["hips"]
        joints = places["hips"] + rotate(hips, _HIP_JOINTS)
        for side, hip in zip(("left", "right"), joints, strict=True):
            thigh, foot = f"{side}_upper_leg", f"{side}_foot"
            if foot not in places:
                continue
            ankle = places[foot]
            length = self._legs.setdefault(side, _STRETCHED * math.dist(ankle, hip) / 2.0)
            # A thigh that was told knows where its knee points; else hips and foot do.
            telling = [self._world[joint] for joint in (thigh,) if joint in self._world]
            telling = telling or [hips, self._world.get(foot, hips)]
            ahead = rotate(np.array(telling), _FORWARD).sum(axis=0)
            leg = _core.solve_leg(hip.tolist(), ankle.tolist(), ahead.tolist(), (length, length))
            if leg is not None:
                self._world[thigh], self._world[f"{side}_lower_leg"] = map(np.array, leg)

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """All nine trackers, a bundle a frame."""
        for t_ns, frame in datagrams(clip.retarget("humanoid"), "msgpack", rate=rate, loop=loop):
            told = _core.decode_native(frame)
            if told["kind"] == "skeleton":
                continue
            world, places = np.array(told["quats"], np.float64), np.zeros((len(_NAMES), 3))
            places[0] = told["root"]
            for j, parent in enumerate(_PARENTS):
                if parent >= 0:
                    places[j] = places[parent] + rotate(world[parent], np.array(_OFFSETS[j]))
                    world[j] = multiply(world[parent], world[j])
            bundle = OscBundleBuilder(IMMEDIATELY)
            for number, joint in TRACKERS.items():
                at = _NAMES.index(joint)
                x, y, z = places[at]
                for what, values in (("position", (-x, y, z)), ("rotation", _degrees(world[at]))):
                    message = OscMessageBuilder(f"/tracking/trackers/{number}/{what}")
                    for value in values:
                        message.add_arg(float(value), OscMessageBuilder.ARG_TYPE_FLOAT)
                    bundle.add_content(message.build())
            yield t_ns, bundle.build().dgram


def _place(values: list[float]) -> F64:
    x, y, z = values[:3]
    return np.array([x, y, -z])


def _turn(values: list[float]) -> F64:
    """Of Unity's degrees about x, y, z, which turns about z, then x, then y; right-handed."""
    x, y, z = (math.radians(value) / 2.0 for value in values[:3])
    (cx, cy, cz), (sx, sy, sz) = map(math.cos, (x, y, z)), map(math.sin, (x, y, z))
    w, i, j, k = (
        cy * cx * cz + sy * sx * sz,
        cy * sx * cz + sy * cx * sz,
        sy * cx * cz - cy * sx * sz,
        cy * cx * sz - sy * sx * cz,
    )
    return np.array([w, -i, -j, k])


def _degrees(q: Any) -> tuple[float, float, float]:
    """The way back, of a body that faces +z: Unity's faces +z with its left towards -x."""
    w, x, y, z = q * np.array([1.0, 1.0, -1.0, -1.0])
    about_x = math.asin(min(max(2.0 * (w * x - y * z), -1.0), 1.0))
    about_y = math.atan2(2.0 * (x * z + w * y), 1.0 - 2.0 * (x * x + y * y))
    about_z = math.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z))
    return math.degrees(about_x), math.degrees(about_y), math.degrees(about_z)


vrchat = TrackerSource
