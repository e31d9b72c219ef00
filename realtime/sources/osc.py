"""Single sensors over OSC: the rig maps addresses with three or four floats to rotations of joints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError, WireError
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import conjugate, from_euler, multiply
from pyanticip.motion.world import TO_Y_UP
from pyanticip.vocabulary import CANONICAL_JOINTS
from realtime.osc import message, read_messages
from realtime.sources.base import Source, world_poses

Order = Literal["wxyz", "xyzw", "euler"]
# Indices that bring a quaternion of this order to wxyz.
_TO_WXYZ = {"wxyz": [0, 1, 2, 3], "xyzw": [3, 0, 1, 2]}
_NAMES, _PARENTS, _OFFSETS = _core.standard_skeleton("humanoid")
# The skeleton is repeated after this many frames, for a recording that starts in between.
_SKELETON_INTERVAL = 150
# Limits for one datagram.
_MAX_MESSAGES, _MAX_ARGUMENTS = 512, 1024


@dataclass(frozen=True)
class Address:
    """Where to find a joint's rotation: an OSC address (``*`` matches anything), the order of the floats and
    the index of the first.

    ``euler``: degrees about x, y and z, applied in the order z, x, y, as in Unity.
    """

    pattern: str
    order: Order = "xyzw"
    first: int = 0

    def rotation(self, address: str, values: list[float]) -> npt.NDArray[np.float64] | None:
        """The rotation (4,) wxyz in a message; None if the address does not match or the values are no
        rotation (a quaternion has length 0.5 to 2)."""
        if not fnmatchcase(address, self.pattern):
            return None
        numbers = np.array(values[self.first : self.first + (3 if self.order == "euler" else 4)])
        if self.order == "euler":
            return from_euler(np.radians(numbers[[1, 0, 2]]), (1, 0, 2)) if len(numbers) == 3 else None
        # Four numbers of another meaning, such as a mouse's, hardly ever have length 1.
        if len(numbers) < 4 or not 0.5 < (norm := float(np.linalg.norm(numbers))) < 2.0:
            return None
        return numbers[_TO_WXYZ[self.order]] / norm


#: ZIG SIM's quaternion, after the phone's name; other apps may put w first.
PHONE = {"right_hand": Address("/*/quaternion")}
#: The first four inputs of Wekinator.
WEK = {"right_hand": Address("/wek/inputs")}
#: The default mapping of each kind that maps addresses.
PRESETS: dict[str, dict[str, Address]] = {"phone": PHONE, "wek": WEK, "osc": {}}


class OscSource(Source):
    """Sensors on joints, as msgpack datagrams of the canonical body; other joints are unmeasured.

    A sensor does not know how it is worn: its first rotation counts as the joint's rest pose, and its
    rotation in the world since then is the joint's. ``up`` is the up axis of the sensors' world. Every
    datagram with a mapped address is a frame; it has no timestamp, so its arrival time counts. After a pause
    the sensor may have been restarted, or be worn differently: :meth:`begin_anew` resets the rest pose.
    """

    native = False
    wire = "msgpack"

    def __init__(self, addresses: Mapping[str, Address], up: str = "z", port: int = 50000) -> None:
        self.port = port
        self._addresses = dict(addresses)
        self._to_y_up = np.array(TO_Y_UP[up])
        self._rest: dict[str, npt.NDArray[np.float64]] = {}
        self._world: dict[str, npt.NDArray[np.float64]] = {}
        self._seq = 0

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """See :class:`realtime.sources.base.Source`."""
        has_rotation = False
        for address, values in messages(datagram):
            for joint, mapped in self._addresses.items():
                rotation = mapped.rotation(address, values)
                if rotation is not None and np.isfinite(rotation).all():
                    rest = self._rest.setdefault(joint, rotation)
                    since_rest = multiply(rotation, conjugate(rest))
                    self._world[joint] = multiply(
                        multiply(self._to_y_up, since_rest), conjugate(self._to_y_up)
                    )
                    has_rotation = True
        return self._frame() if has_rotation else ()

    def begin_anew(self) -> None:
        """Take each sensor's next rotation as its rest pose."""
        self._rest.clear()
        self._world.clear()

    def _frame(self) -> Iterator[bytes]:
        if self._seq % _SKELETON_INTERVAL == 0:
            yield _core.encode_native_skeleton(_NAMES, _PARENTS.tolist(), _OFFSETS)
        # NaN marks an unmeasured joint; a measured one is relative to its nearest measured ancestor.
        pose = np.full((len(_NAMES), 4), np.nan, np.float32)
        world = [np.array([1.0, 0.0, 0.0, 0.0])] * len(_NAMES)
        parent_world = list(world)
        for j, (name, parent) in enumerate(zip(CANONICAL_JOINTS, _PARENTS, strict=True)):
            parent_world[j] = world[parent] if parent >= 0 else world[j]
            world[j] = self._world.get(name, parent_world[j])
        measured = [j for j, name in enumerate(CANONICAL_JOINTS) if name in self._world]
        pose[measured] = multiply(conjugate(np.array(parent_world)[measured]), np.array(world)[measured])
        yield _core.encode_native_frame(self._seq & 0xFFFFFFFF, 0.0, pose)
        self._seq += 1

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the messages of simulated sensors: the world rotation of each mapped joint,
        with the sensors' up axis, one message each."""
        if not self._addresses:
            raise OptionError("osc: what to send where is not known; send as phone")
        for t_ns, world, _ in world_poses(clip, rate, loop):
            for joint, mapped in self._addresses.items():
                rotation = multiply(
                    multiply(conjugate(self._to_y_up), world[_NAMES.index(joint)]), self._to_y_up
                )
                address = mapped.pattern.replace("*", "ZIGSIM/pyanticip")
                yield t_ns, message(address, np.roll(rotation, -1).tolist(), "ffff")


def messages(datagram: bytes) -> Iterator[tuple[str, list[float]]]:
    """Yield addresses and their numbers from OSC, or from ZIG SIM's JSON (under ``sensordata``).

    Raises:
        WireError: The datagram is neither.
    """
    if datagram.startswith(b"{"):
        try:
            # The quaternion may be off while other sensors are on.
            if (quaternion := json.loads(datagram)["sensordata"].get("quaternion")) is not None:
                yield "/ZIGSIM/quaternion", [float(quaternion[axis]) for axis in "xyzw"]
        except (AttributeError, LookupError, TypeError, ValueError):
            raise WireError("no sensordata with a quaternion of {x, y, z, w} in its JSON") from None
        return
    try:
        parsed = read_messages(datagram, _MAX_MESSAGES, _MAX_ARGUMENTS)
    except ValueError as error:
        raise WireError(f"not OSC: {error}") from None
    for one in parsed:
        yield one.address, [float(value) for value in one.params if isinstance(value, int | float)]


phone = partial(OscSource, PHONE)
wek = partial(OscSource, WEK, port=6448)
osc = partial(OscSource, {})
