"""Independent encoders of the suits' protocols, without code of the product, and a simulated suit."""

import itertools
import json
import math
import re
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import msgpack
from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
from pythonosc.osc_message_builder import OscMessageBuilder

LEFT_UPPER_ARM = {"mocopi": 12, "vmc": "LeftUpperArm", "xsens": 13, "rokoko": "leftUpperArm"}
LEFT_UPPER_ARM |= {"axis": 37, "msgpack": 7}
UNIX = 1.7e9
_TRUNK = ["Hips", "Spine", "Chest", "UpperChest", "Neck", "Head"]
_SIDED = ["Shoulder", "UpperArm", "LowerArm", "Hand", "UpperLeg", "LowerLeg", "Foot", "Toes"]
VMC_BONES = [*_TRUNK, *(side + bone for side in ("Left", "Right") for bone in _SIDED)]


def _field(name: str, value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + name.encode() + value


def mocopi_frame(number: int, seconds: float, angle: float) -> bytes:
    """A frame with the left upper arm lowered by `angle`, everything else at rest."""
    bones = b""
    for i in range(27):
        z, w = (-math.sin(angle / 2), math.cos(angle / 2)) if i == LEFT_UPPER_ARM["mocopi"] else (0.0, 1.0)
        place = (0.0, 0.95, 0.0) if i == 0 else (0.0, 0.0, 0.0)
        bones += _field(
            "btdt",
            _field("bnid", struct.pack("<H", i)) + _field("tran", struct.pack("<7f", 0, 0, z, w, *place)),
        )
    head = _field("head", _field("ftyp", b"sony motion format") + _field("vrsn", b"\x01"))
    sender = _field("sndf", _field("ipad", bytes(8)) + _field("rcvp", struct.pack("<H", 12351)))
    times = _field("time", struct.pack("<f", seconds)) + _field("uttm", struct.pack("<d", UNIX + seconds))
    counted = _field("fnum", struct.pack("<I", number % 2**32)) + times + _field("tmcd", bytes(6))
    return head + sender + _field("fram", counted + _field("btrs", bones))


def vmc_pose(seconds: float, turns: dict[str, tuple[float, ...]], hips: tuple[float, ...]) -> bytes:
    """As Unity has it: left-handed, the avatar faces +z with its left towards -x; turns are x, y, z, w."""
    bundle = OscBundleBuilder(IMMEDIATELY)
    clock = OscMessageBuilder("/VMC/Ext/T")
    clock.add_arg(float(seconds), OscMessageBuilder.ARG_TYPE_FLOAT)
    bundle.add_content(clock.build())
    for name in VMC_BONES:
        message = OscMessageBuilder("/VMC/Ext/Bone/Pos")
        message.add_arg(name)
        place = hips if name == "Hips" else (0.0, 0.0, 0.0)
        for value in (*place, *turns.get(name, (0.0, 0.0, 0.0, 1.0))):
            message.add_arg(float(value), OscMessageBuilder.ARG_TYPE_FLOAT)
        bundle.add_content(message.build())
    return bundle.build().dgram


def vmc_frame(number: int, seconds: float, angle: float) -> bytes:
    """A turn by +angle about Unity's z lowers the left arm. VMC numbers nothing."""
    turn = (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))
    return vmc_pose(seconds, {LEFT_UPPER_ARM["vmc"]: turn}, (0.0, 0.95, 0.0))


def msgpack_skeleton(rate: float, names: list[str], parents: list[int], offsets: Any) -> bytes:
    """Declares a rate, which may be wrong."""
    header = {"rate": float(rate), "names": names, "parents": parents}
    packed = b"".join(struct.pack("<3f", *offset) for offset in offsets)
    return msgpack.packb({"v": 1, "type": "skeleton", **header, "offsets": packed})


def refused_skeleton() -> bytes:
    """The canonical body with every bone pointing up; it is refused after a second of movement."""
    parents = [-1, 0, 1, 2, 3, 4, 3, 6, 7, 8, 0, 10, 11, 12, 3, 14, 15, 16, 0, 18, 19, 20]
    return msgpack_skeleton(50.0, VMC_BONES, parents, [(0.0, 0.1, 0.0)] * 22)


def msgpack_frame(number: int, seconds: float, angle: float) -> bytes:
    """On the canonical body, which needs no skeleton."""
    quats = [(1.0, 0.0, 0.0, 0.0)] * 22
    quats[LEFT_UPPER_ARM["msgpack"]] = (math.cos(angle / 2), 0.0, 0.0, -math.sin(angle / 2))
    values = {
        "quats": b"".join(struct.pack("<4f", *q) for q in quats),
        "root": struct.pack("<3f", 0, 0.95, 0),
    }
    return msgpack.packb({"v": 1, "type": "frame", "seq": number % 2**32, "t": seconds, **values})


# Where MVN's segments 1 to 23 are in T-pose, metres: x forward, y to the left, z up.
_SPINE = [(0, 0, 0.95), (0, 0, 1.05), (0, 0, 1.15), (0, 0, 1.25), (0, 0, 1.35), (0, 0, 1.5), (0, 0, 1.6)]
_ARM, _LEG = (0.03, 0.17, 0.45, 0.7), ((0, 0.9), (0, 0.5), (0, 0.09), (0.14, 0.02))
_XSENS = [
    *_SPINE,
    *((0, side * y, 1.45) for side in (-1, 1) for y in _ARM),
    *((x, side * 0.09, z) for side in (-1, 1) for x, z in _LEG),
]


def xsens_frame(number: int, seconds: float, angle: float) -> bytes:
    """MXTP02 of the vendor's specification. The arm is lowered about the forward axis."""
    milliseconds = round(seconds * 1000) % 2**32
    header = (b"MXTP02", number % 2**32, 0x80, 23, milliseconds, 0, 23, 0, 0, bytes(2), 23 * 32)
    out = struct.pack(">6sIBBIBBBB2sH", *header)
    shoulder = _XSENS[LEFT_UPPER_ARM["xsens"] - 1]
    for i, (x, y, z) in enumerate(_XSENS, 1):
        turn = (1.0, 0.0, 0.0, 0.0)
        if LEFT_UPPER_ARM["xsens"] <= i <= LEFT_UPPER_ARM["xsens"] + 2:
            turn = (math.cos(angle / 2), -math.sin(angle / 2), 0.0, 0.0)
            along = y - shoulder[1]
            y, z = shoulder[1] + along * math.cos(angle), z - along * math.sin(angle)
        out += struct.pack(">I7f", i, x, y, z, *turn)
    return out


_HALF = math.sqrt(0.5)
# Studio's T-pose, y up, z forward, left-handed: place, rotation w x y z (the vendor's plug-in for Blender).
_BACK, _ARMS = (0, 0, 0, -1), ((-0.5, -0.5, -0.5, 0.5), (0.5, 0.5, -0.5, 0.5))
_LEGS = ((_HALF, 0, _HALF, 0), (_HALF, 0, -_HALF, 0))
_FEET = ((0, 0, _HALF, -_HALF), (0, 0, -_HALF, _HALF))
_ROKOKO: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "hip": ((0, 0.95, 0), (-1, 0, 0, 0)),
    "spine": ((0, 1.05, 0), _BACK),
    "chest": ((0, 1.2, 0), _BACK),
    "neck": ((0, 1.45, 0), _BACK),
    "head": ((0, 1.55, 0), _BACK),
}
for _n, (_side, _sign) in enumerate((("left", -1), ("right", 1))):
    _ROKOKO[_side + "Shoulder"] = ((_sign * 0.03, 1.42, 0), ((-_HALF, _HALF)[_n], 0, 0, _HALF))
    for _x, _joint in ((0.17, "UpperArm"), (0.45, "LowerArm"), (0.7, "Hand")):
        _ROKOKO[_side + _joint] = ((_sign * _x, 1.42, 0), _ARMS[_n])
    for _y, _z, _joint in ((0.9, 0, "UpLeg"), (0.5, 0, "Leg"), (0.09, 0, "Foot"), (0.02, 0.14, "Toe")):
        _turns = _LEGS if "Leg" in _joint else _FEET
        _ROKOKO[_side + _joint] = ((_sign * 0.09, _y, _z), _turns[_n])


def rokoko_frame(number: int, seconds: float, angle: float) -> bytes:
    """JSON v3 as the classes of the vendor's plug-in for Unity have it. Nothing is numbered."""
    body = {}
    x0, y0, _ = _ROKOKO["leftUpperArm"][0]
    cos, sin = math.cos(angle / 2), math.sin(angle / 2)
    for name, ((x, y, z), (qw, qx, qy, qz)) in _ROKOKO.items():
        if name in ("leftUpperArm", "leftLowerArm", "leftHand"):
            # A turn by +angle about z, from the left, lowers the arm that points to -x.
            x, y = x0 + (x - x0) * math.cos(angle), y0 + (x - x0) * math.sin(angle)
            qw, qx, qy, qz = (
                cos * qw - sin * qz,
                cos * qx - sin * qy,
                cos * qy + sin * qx,
                cos * qz + sin * qw,
            )
        place = {"x": float(x), "y": float(y), "z": float(z)}
        body[name] = {"position": place, "rotation": {"x": qx, "y": qy, "z": qz, "w": qw}}
    actor = {"name": "A", "color": [0, 0, 0], "meta": {"hasBody": True}, "body": body}
    scene = {"timestamp": seconds, "actors": [actor], "characters": [], "props": []}
    return json.dumps({"version": 3.0, "fps": 60.0, "scene": scene}).encode()


_AXIS = struct.Struct("<HIHBBI32sIIIIH")
# Hips; legs, right and left; spine, neck, head, centimetres from the bone above. Then the arms and fingers.
_AXIS_BODY = [(0, 95, 0), *((-9, 0, 0), (0, -40, 0), (0, -42, 0)), *((9, 0, 0), (0, -40, 0), (0, -42, 0))]
_AXIS_BODY += [(0, 12, 0), (0, 12, 0), (0, 14, 0), (0, 16, 0), (0, 5, 0), (0, 5, 0)]
_AXIS_ARM = [(3, 10, 0), (14, 0, 0), (28, 0, 0), (25, 0, 0), *((4, 0, 0),) * 19]


def axis_frame(number: int, seconds: float, angle: float) -> bytes:
    """The vendor's BvhDataHeader and a line of motion: x y z, then degrees about y, x and z."""
    places = [*_AXIS_BODY, *((-x, y, z) for x, y, z in _AXIS_ARM), *_AXIS_ARM]
    numbers: list[float] = []
    for bone, place in enumerate(places):
        numbers += [*place, 0.0, 0.0, -math.degrees(angle) if bone == LEFT_UPPER_ARM["axis"] else 0.0]
    header = _AXIS.pack(0xDDFF, 0x01010000, len(numbers), 1, 0, 0, b"Avatar", number % 2**32, 0, 0, 0, 0xEEFF)
    return header + struct.pack(f"<{len(numbers)}f", *numbers)


FRAMES = {
    "mocopi": mocopi_frame,
    "vmc": vmc_frame,
    "xsens": xsens_frame,
    "rokoko": rokoko_frame,
    "axis": axis_frame,
    "msgpack": msgpack_frame,
}


HEX = re.compile(r"^ {2}((?:[0-9a-f]{2} ){0,15}[0-9a-f]{2}) ")


class Suit(threading.Thread):
    """Sends 50 datagrams a second to a local port: a body that moves (while ``moves``), or the same ``data``.

    Once a second it sends the ``skeleton`` too.
    """

    moves = True

    def __init__(self, port: int, kind: str = "mocopi", data: bytes = b"", skeleton: bytes = b"") -> None:
        super().__init__(daemon=True)
        self.port, self.over = port, threading.Event()
        self._kind, self._data, self.skeleton = kind, data, skeleton

    def __enter__(self) -> "Suit":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()

    def run(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for n in itertools.count():
                if self.over.wait(0.02):
                    return
                data = self._data or FRAMES[self._kind](n, n / 50, 0.5 + 0.4 * math.sin(n / 8) * self.moves)
                if self.skeleton and n % 50 == 0:
                    sock.sendto(self.skeleton, ("127.0.0.1", self.port))
                sock.sendto(data, ("127.0.0.1", self.port))


def packets(path: Path) -> list[tuple[int, bytes]]:
    """(arrival in ns, datagram) pairs in order."""
    found: list[tuple[int, bytearray, int]] = []
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("d "):
            _, seconds, size = line.split()
            found.append((round(float(seconds) * 1e9), bytearray(), int(size)))
        elif row := HEX.match(f"{line} "):
            found[-1][1].extend(bytes.fromhex(row[1]))
    assert all(len(data) == size for _, data, size in found), path.name
    return [(t_ns, bytes(data)) for t_ns, data, _ in found]
