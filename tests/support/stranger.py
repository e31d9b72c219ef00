"""A suit by somebody else: encoders that share no code with the project (struct, msgpack, python-osc)."""

import math
import struct
from typing import Any

import msgpack
from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
from pythonosc.osc_message_builder import OscMessageBuilder

LEFT_UPPER_ARM = {"mocopi": 12, "vmc": "LeftUpperArm", "msgpack": 7}
UNIX = 1.7e9
_TRUNK = ["Hips", "Spine", "Chest", "UpperChest", "Neck", "Head"]
_SIDED = ["Shoulder", "UpperArm", "LowerArm", "Hand", "UpperLeg", "LowerLeg", "Foot", "Toes"]
VMC_BONES = [*_TRUNK, *(side + bone for side in ("Left", "Right") for bone in _SIDED)]


def _field(name: str, value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + name.encode() + value


def mocopi_frame(number: int, seconds: float, angle: float) -> bytes:
    """The left upper arm is lowered by `angle`, everything else at rest."""
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
    told = {"rate": float(rate), "names": names, "parents": parents}
    packed = b"".join(struct.pack("<3f", *offset) for offset in offsets)
    return msgpack.packb({"v": 1, "type": "skeleton", **told, "offsets": packed})


def msgpack_frame(number: int, seconds: float, angle: float) -> bytes:
    """On the canonical body, which needs no skeleton."""
    quats = [(1.0, 0.0, 0.0, 0.0)] * 22
    quats[LEFT_UPPER_ARM["msgpack"]] = (math.cos(angle / 2), 0.0, 0.0, -math.sin(angle / 2))
    values = {
        "quats": b"".join(struct.pack("<4f", *q) for q in quats),
        "root": struct.pack("<3f", 0, 0.95, 0),
    }
    return msgpack.packb({"v": 1, "type": "frame", "seq": number % 2**32, "t": seconds, **values})


FRAMES = {"mocopi": mocopi_frame, "vmc": vmc_frame, "msgpack": msgpack_frame}
