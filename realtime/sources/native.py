"""The kinds of motion capture whose datagrams the Rust front end decodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from pyanticip import _core
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.rotations import conjugate, multiply, rotate
from pyanticip.vocabulary import CANONICAL_JOINTS
from realtime.sources.base import Source, world_poses


@dataclass(frozen=True)
class NativeSource(Source):
    """See :class:`realtime.sources.base.Source`."""

    wire: str
    port: int
    native: bool = True
    group: str | None = None
    ask: tuple[bytes, int] | None = None
    greet: tuple[bytes, bytes] | None = None

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """Return the datagram unchanged."""
        return (datagram,)

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """See :func:`pyanticip.motion.datagrams.datagrams`."""
        return datagrams(clip, self.wire, rate=rate, loop=loop, unix_time=unix_time)


class TrackerSource(NativeSource):
    """VRChat's trackers; :meth:`encode` sends all nine."""

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield one bundle per frame; the first stands in T-pose, as receivers expect of a performer."""
        joints = [CANONICAL_JOINTS.index(joint) for joint in _core.VRCHAT_TRACKERS]
        # Trackers of upper arms and thighs are placed at elbows and knees.
        places = [
            CANONICAL_JOINTS.index(re.sub("upper_(arm|leg)", r"lower_\1", joint))
            for joint in _core.VRCHAT_TRACKERS
        ]
        for t_ns, quats, positions in world_poses(clip, rate, loop):
            if t_ns == 0:
                quats, positions = np.tile((1.0, 0.0, 0.0, 0.0), (len(quats), 1)), positions[0] + _T_POSE
            # VRChat's body faces -z.
            quats = multiply(multiply(_HALF_TURN, quats[joints]), conjugate(_HALF_TURN))
            yield t_ns, _core.encode_vrchat_frame(quats, rotate(_HALF_TURN, positions[places]))


# Rotation by 180 degrees about y.
_HALF_TURN = np.array([0.0, 0.0, 1.0, 0.0])
# Places of the joints in a T-pose, from the hips.
_T_POSE = np.zeros((len(CANONICAL_JOINTS), 3))
for _joint, _parent in enumerate(_core.CANONICAL_PARENTS[1:], start=1):
    _T_POSE[_joint] = _T_POSE[_parent] + _core.CANONICAL_OFFSETS[_joint]

mocopi = partial(NativeSource, "mocopi", 12351)
vmc = partial(NativeSource, "vmc", 39539)
xsens = partial(NativeSource, "xsens", 9763)
rokoko = partial(NativeSource, "rokoko", 14043)
axis = partial(NativeSource, "axis", 7012)
# Motive multicasts to this group, or sends to clients that connect to its command port (message 0: name and
# protocol version of the client) and keep the connection alive (message 10). The same port answers requests
# for model definitions (message 4).
_CONNECT = b"\0\0\x0f\x01" + b"Ping".ljust(265, b"\0") + bytes((4, 1, 0, 0, 0, 0))
natnet = partial(
    NativeSource,
    "natnet",
    1511,
    group="239.255.42.99",
    ask=(b"\x04\0\0\0", 1510),
    greet=(_CONNECT, b"\x0a\0\0\0"),
)
msgpack = partial(NativeSource, "msgpack", 12352)
vrchat = partial(TrackerSource, "vrchat", 9000)
