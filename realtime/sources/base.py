"""The protocols of motion-capture sources and of datagram streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import DEFAULT_RATE, datagrams
from pyanticip.motion.rotations import multiply, rotate

#: Called for each datagram with its bytes, its arrival (nanoseconds of the monotonic clock) and its sender.
Receive = Callable[[bytes, int, str], object]

#: The wire formats that the Rust front end decodes.
NATIVE = tuple(_core.PROTOCOLS)


class Source(Protocol):
    """A kind of motion capture. Each stream gets a new instance, so that :meth:`decode` may keep state.

    Attributes:
        port: The UDP port that it sends to by default.
        wire: The format of :data:`NATIVE` that its datagrams have, or that :meth:`decode` returns.
        native: Whether its datagrams have that format already; :meth:`decode` is then not called.
        group: The multicast group that it sends to, which is joined; None: no multicast.
        ask: A datagram that requests the skeleton, and the port of the sender that it is sent to from time
            to time; None: no request is needed.
        greet: Datagrams for the same port of a server that sends only to subscribers: the first one
            subscribes, the second keeps the subscription alive; None: there are no such servers.
    """

    port: int
    wire: str
    native: bool
    group: str | None = None
    ask: tuple[bytes, int] | None = None
    greet: tuple[bytes, bytes] | None = None

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """Convert a datagram into datagrams of :attr:`wire`: none, one or several.

        It is called for every frame on the live path, so it must not block. It may raise any error for bytes
        that it cannot decode; the datagram is then counted as alien, and the first error is reported.
        """
        ...

    def begin_anew(self) -> None:
        """Called after seconds of silence: the next datagram may come from a suit that was restarted."""
        return

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield a clip as a suit would send it, for ``pyanticip send``: (ns since the start, datagram).

        Args:
            rate: Frames per second; None: the usual rate.
            loop: Whether to repeat the clip for ever.
            unix_time: Unix seconds of the first frame, for formats that contain them.

        Raises:
            OptionError: The clip cannot be sent in this format.
        """
        ...


_OFFSETS = np.array(_core.standard_skeleton("humanoid")[2])
F64 = npt.NDArray[np.float64]


def world_poses(clip: Clip, rate: float | None, loop: bool) -> Iterator[tuple[int, F64, F64]]:
    """Yield the poses of a clip on the canonical body, for :meth:`Source.encode`: nanoseconds since the
    start, world rotations (22, 4) and positions (22, 3) in metres."""
    decoder = _core.Decoder("msgpack")
    body, rate = clip.retarget("humanoid"), DEFAULT_RATE if rate is None else rate
    for t_ns, frame in datagrams(body, "msgpack", rate=rate, loop=loop):
        (message,) = decoder.feed(frame)
        if message["kind"] == "skeleton":
            continue
        quats = np.array(message["quats"], np.float64)
        positions = np.tile(np.asarray(message["root"], np.float64), (len(quats), 1))
        for j, parent in enumerate(_core.CANONICAL_PARENTS):
            if parent >= 0:
                positions[j] = positions[parent] + rotate(quats[parent], _OFFSETS[j])
                quats[j] = multiply(quats[parent], quats[j])
        yield t_ns, quats, positions


class DatagramStream(Protocol):
    """A stream of datagrams: a socket or a file."""

    @property
    def dropped(self) -> int:
        """Number of datagrams that were not read in time."""
        ...

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Start calling ``receive`` from the event loop."""
        ...

    def poll(self) -> None:
        """Deliver the datagrams that are waiting."""
        ...

    def wait(self, seconds: float) -> bool:
        """Block until a datagram can be read, for at most ``seconds``; returns whether one can."""
        ...

    def close(self) -> None:
        """Stop, and release the resources."""
        ...
