"""A suit whose skeleton does not say what it means, helped as a motion file is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.clip import Clip
from pyanticip.motion.joints import read_joints, with_joints
from pyanticip.motion.rest import upright
from pyanticip.motion.rotations import multiply, rotate
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.world import TO_Y_UP
from realtime.sources.base import Source

__all__ = ["HelpedSource"]


class HelpedSource(Source):
    """One sender of a source that tells its skeleton, as msgpack datagrams of a body that says what it means.

    ``up``, ``rest`` and ``joints`` are those of :func:`pyanticip.load_motion`; ``rest`` counts the frames
    since the skeleton was told. Frames before that one, or before a skeleton, are left out. Decoding raises
    OptionError where the map does not fit the skeleton, SkeletonError where nothing is made of it.
    """

    native = False
    wire = "msgpack"

    def __init__(
        self, source: Source, *, up: str | None = None, rest: int | None = None, joints: str | None = None
    ) -> None:
        if source.wire not in ("mocopi", "msgpack"):
            raise OptionError(
                f"up, rest and joints help the skeletons that mocopi and msgpack tell, not {source.wire}'s"
            )
        self.port = source.port
        self._source = source
        self._decoder = _core.Decoder(source.wire)
        self._turn = None if up is None else np.array(TO_Y_UP[up])
        self._rest = rest
        self._joints = None if joints is None else read_joints(joints)
        self._declared: dict[str, Any] = {}
        self._skeleton: Skeleton | None = None
        self._pose: npt.NDArray[np.float64] = np.zeros((0, 4))
        self._waits = 0

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """As the suit itself."""
        return self._source.encode(clip, rate=rate, loop=loop, unix_time=unix_time)

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """See :class:`Source`."""
        for native in self._source.decode(datagram):
            (found,) = self._decoder.feed(native)
            if found["kind"] == "skeleton":
                self._tell(found)
                yield from self._skeletons()
            elif self._skeleton is not None:
                yield from self._frame(found)

    def _tell(self, found: dict[str, Any]) -> None:
        """Take a skeleton, unless it is the one that is known."""
        same = self._declared and all(np.array_equal(self._declared[key], found[key]) for key in found)
        if same:
            return
        self._declared, self._skeleton = found, None
        skeleton = Skeleton(tuple(found["names"]), found["parents"], found["offsets"], found["rest"])
        if self._joints is not None:
            still = Clip(skeleton.rest[None], np.zeros((1, 3), np.float32), 50.0, skeleton)
            skeleton = with_joints(still, self._joints).skeleton
        self._skeleton = skeleton if self._turn is None else upright(skeleton)
        self._pose = np.array(skeleton.rest, np.float64)
        self._waits = 0 if self._rest is None else self._rest + 1

    def _skeletons(self) -> Iterator[bytes]:
        body = self._skeleton
        if body is not None and not self._waits:
            yield _core.encode_native_skeleton(
                list(body.names), body.parents.tolist(), body.offsets, body.rest, rate=self._declared["rate"]
            )

    def _frame(self, found: dict[str, Any]) -> Iterator[bytes]:
        fresh = found["fresh"]
        self._pose[found["ids"][fresh]] = found["quats"][fresh]
        pose, root = self._pose.copy(), found["root"]
        if self._turn is not None:
            pose[0] = multiply(self._turn, pose[0])
            root = None if root is None else rotate(self._turn, np.asarray(root, np.float64))
        if self._waits:
            self._waits -= 1
            if self._waits:
                return
            assert self._skeleton is not None
            self._skeleton = upright(self._skeleton.with_rest(pose))
            yield from self._skeletons()
        yield _core.encode_native_frame(found["seq"] or 0, found["time"] or 0.0, pose, root)
