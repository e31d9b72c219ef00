"""A suit whose skeleton needs options to be understood, the same as for motion files."""

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


class HelpedSource(Source):
    """Decodes one sender of a source that sends its skeleton, into msgpack datagrams of a corrected body.

    ``up``, ``rest`` and ``joints`` are those of :func:`pyanticip.load_motion`; ``rest`` counts the frames
    since the skeleton came. Frames before that one, or before a skeleton, are skipped. Decoding raises
    OptionError if the joint map does not fit the skeleton, SkeletonError if the skeleton cannot be used.
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
        self._to_y_up = None if up is None else np.array(TO_Y_UP[up])
        self._rest = rest
        self._joints = None if joints is None else read_joints(joints)
        self._declared: dict[str, Any] = {}
        self._skeleton: Skeleton | None = None
        self._pose: npt.NDArray[np.float64] = np.zeros((0, 4))
        self._frames_to_rest = 0

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """See :class:`realtime.sources.base.Source`; the same as without options."""
        return self._source.encode(clip, rate=rate, loop=loop, unix_time=unix_time)

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """See :class:`realtime.sources.base.Source`."""
        for native in self._source.decode(datagram):
            (message,) = self._decoder.feed(native)
            if message["kind"] == "skeleton":
                self._set_skeleton(message)
                yield from self._encode_skeleton()
            elif self._skeleton is not None:
                yield from self._encode_frame(message)

    def _set_skeleton(self, declared: dict[str, Any]) -> None:
        """Correct a skeleton, unless it is the current one."""
        if self._declared and all(np.array_equal(self._declared[key], declared[key]) for key in declared):
            return
        self._declared, self._skeleton = declared, None
        skeleton = Skeleton(
            tuple(declared["names"]), declared["parents"], declared["offsets"], declared["rest"]
        )
        if self._joints is not None:
            rest_clip = Clip(skeleton.rest[None], np.zeros((1, 3), np.float32), 50.0, skeleton)
            skeleton = with_joints(rest_clip, self._joints).skeleton
        self._skeleton = skeleton if self._to_y_up is None else upright(skeleton)
        self._pose = np.array(skeleton.rest, np.float64)
        self._frames_to_rest = 0 if self._rest is None else self._rest + 1

    def _encode_skeleton(self) -> Iterator[bytes]:
        body = self._skeleton
        if body is not None and not self._frames_to_rest:
            yield _core.encode_native_skeleton(
                list(body.names), body.parents.tolist(), body.offsets, body.rest, rate=self._declared["rate"]
            )

    def _encode_frame(self, frame: dict[str, Any]) -> Iterator[bytes]:
        fresh = frame["fresh"]
        self._pose[frame["ids"][fresh]] = frame["quats"][fresh]
        pose, root = self._pose.copy(), frame["root"]
        if self._to_y_up is not None:
            pose[0] = multiply(self._to_y_up, pose[0])
            root = None if root is None else rotate(self._to_y_up, np.asarray(root, np.float64))
        if self._frames_to_rest:
            self._frames_to_rest -= 1
            if self._frames_to_rest:
                return
            assert self._skeleton is not None
            self._skeleton = upright(self._skeleton.with_rest(pose))
            yield from self._encode_skeleton()
        yield _core.encode_native_frame(frame["seq"] or 0, frame["time"] or 0.0, pose, root)
