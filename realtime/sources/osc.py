"""Single sensors over OSC: any address with three or four floats is a joint's rotation, as the rig says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip import _core
from pyanticip.errors import OptionError, WireError
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import USUAL_RATE, datagrams
from pyanticip.motion.rotations import conjugate, from_euler, multiply
from pyanticip.motion.world import TO_Y_UP
from pyanticip.vocabulary import CANONICAL_JOINTS
from realtime.osc import read_messages
from realtime.sources.base import Source

__all__ = ["PRESETS", "Address", "Order", "OscSource", "messages", "osc", "phone", "wek"]

Order = Literal["wxyz", "xyzw", "euler"]
_PLACES = {"wxyz": [0, 1, 2, 3], "xyzw": [3, 0, 1, 2]}
_NAMES, _PARENTS, _OFFSETS = _core.standard_skeleton("humanoid")
# The skeleton is told again after so many frames, for a recording that begins in between.
_AGAIN = 150
# What stands behind so many messages in a datagram is not read; nor longer ones.
_MOST, _MOST_ARGUMENTS = 512, 1024


@dataclass(frozen=True)
class Address:
    """Where a joint's rotation is: an OSC address (``*``: anything), the floats' order and the first.

    ``euler``: degrees about x, y and z, turned about z, then x, then y, as Unity does.
    """

    pattern: str
    order: Order = "xyzw"
    first: int = 0

    def rotation(self, address: str, values: list[float]) -> npt.NDArray[np.float64] | None:
        """The rotation (4,) wxyz in a message; None where it is another's or has none: a quaternion's length
        is 0.5 to 2."""
        if not fnmatchcase(address, self.pattern):
            return None
        told = np.array(values[self.first : self.first + (3 if self.order == "euler" else 4)])
        if self.order == "euler":
            return from_euler(np.radians(told[[1, 0, 2]]), (1, 0, 2)) if len(told) == 3 else None
        # Four numbers of another meaning, such as a mouse's, are hardly ever of length 1.
        if len(told) < 4 or not 0.5 < (norm := float(np.linalg.norm(told))) < 2.0:
            return None
        return told[_PLACES[self.order]] / norm


#: ZIG SIM's quaternion, behind a name of the phone; those of other apps may begin with w.
PHONE = {"right_hand": Address("/*/quaternion")}
#: The first four inputs of Wekinator.
WEK = {"right_hand": Address("/wek/inputs")}
#: What each kind that maps addresses maps unless the rig says otherwise.
PRESETS: dict[str, dict[str, Address]] = {"phone": PHONE, "wek": WEK, "osc": {}}


class OscSource(Source):
    """Sensors on joints, as msgpack datagrams of the canonical body; joints without one are not measured.

    A sensor does not know how it is worn: its first rotation counts as the joint's rest, and what it turns
    since then, in the world, is the joint's. ``up`` is the axis of the sensors' world that is up. Every
    datagram with a known address is a frame; there are no times in it, so that arrivals place it. A sender
    that was away may have started anew, and be worn otherwise: :meth:`begin_anew` forgets it.
    """

    native = False
    wire = "msgpack"

    def __init__(self, addresses: Mapping[str, Address], up: str = "z", port: int = 50000) -> None:
        self.port = port
        self._addresses = dict(addresses)
        self._turn = np.array(TO_Y_UP[up])
        self._first: dict[str, npt.NDArray[np.float64]] = {}
        self._world: dict[str, npt.NDArray[np.float64]] = {}
        self._number = 0

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """See :class:`realtime.sources.base.Source`."""
        found = False
        for address, values in messages(datagram):
            for joint, where in self._addresses.items():
                rotation = where.rotation(address, values)
                if rotation is not None and np.isfinite(rotation).all():
                    first = self._first.setdefault(joint, rotation)
                    turned = multiply(rotation, conjugate(first))
                    self._world[joint] = multiply(multiply(self._turn, turned), conjugate(self._turn))
                    found = True
        return self._frame() if found else ()

    def begin_anew(self) -> None:
        """Take what comes next for rest."""
        self._first.clear()
        self._world.clear()

    def _frame(self) -> Iterator[bytes]:
        if self._number % _AGAIN == 0:
            yield _core.encode_native_skeleton(_NAMES, _PARENTS.tolist(), _OFFSETS)
        # What is no rotation is not measured; below it a joint turns within the next one above that is.
        pose = np.full((len(_NAMES), 4), np.nan, np.float32)
        world = [np.array([1.0, 0.0, 0.0, 0.0])] * len(_NAMES)
        above = list(world)
        for j, (name, parent) in enumerate(zip(CANONICAL_JOINTS, _PARENTS, strict=True)):
            above[j] = world[parent] if parent >= 0 else world[j]
            world[j] = self._world.get(name, above[j])
        there = [j for j, name in enumerate(CANONICAL_JOINTS) if name in self._world]
        pose[there] = multiply(conjugate(np.array(above)[there]), np.array(world)[there])
        yield _core.encode_native_frame(self._number & 0xFFFFFFFF, 0.0, pose)
        self._number += 1

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """The sensors of a stand-in: each joint's rotation in the world, z up, in messages of their own."""
        if not self._addresses:
            raise OptionError("osc: what to send where is not known; send as phone")
        body = clip.retarget("humanoid")
        decoder = _core.Decoder("msgpack")
        for t_ns, frame in datagrams(body, "msgpack", rate=USUAL_RATE if rate is None else rate, loop=loop):
            (told,) = decoder.feed(frame)
            if told["kind"] == "skeleton":
                continue
            world = np.array(told["quats"], np.float64)
            for j, parent in enumerate(_PARENTS):
                if parent >= 0:
                    world[j] = multiply(world[parent], world[j])
            for joint, where in self._addresses.items():
                turned = multiply(multiply(conjugate(self._turn), world[_NAMES.index(joint)]), self._turn)
                message = OscMessageBuilder(where.pattern.replace("*", "ZIGSIM/pyanticip"))
                for value in np.roll(turned, -1):
                    message.add_arg(float(value), OscMessageBuilder.ARG_TYPE_FLOAT)
                yield t_ns, message.build().dgram


def messages(datagram: bytes) -> Iterator[tuple[str, list[float]]]:
    """Addresses and their numbers; ZIG SIM's JSON has the same under ``sensordata``."""
    if datagram.startswith(b"{"):
        try:
            # Other sensors may be switched on without it.
            if (quaternion := json.loads(datagram)["sensordata"].get("quaternion")) is not None:
                yield "/ZIGSIM/quaternion", [float(quaternion[axis]) for axis in "xyzw"]
        except (AttributeError, LookupError, TypeError, ValueError):
            raise WireError("no sensordata with a quaternion of {x, y, z, w} in its JSON") from None
        return
    try:
        told = read_messages(datagram, _MOST, _MOST_ARGUMENTS)
    except ValueError as error:
        raise WireError(f"not OSC: {error}") from None
    for message in told:
        yield message.address, [float(value) for value in message.params if isinstance(value, int | float)]


phone = partial(OscSource, PHONE)
wek = partial(OscSource, WEK, port=6448)
osc = partial(OscSource, {})
