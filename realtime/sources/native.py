"""The kinds of motion capture whose datagrams the Rust front-end decodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import datagrams

__all__ = ["NativeSource", "axis", "mocopi", "msgpack", "natnet", "rokoko", "vmc", "xsens"]


@dataclass(frozen=True)
class NativeSource:
    """See :class:`realtime.sources.base.Source`."""

    wire: str
    port: int
    native: bool = True
    group: str | None = None
    ask: tuple[bytes, int] | None = None
    greet: tuple[bytes, bytes] | None = None

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """As it is."""
        return (datagram,)

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """See :func:`pyanticip.motion.datagrams.datagrams`."""
        return datagrams(clip, self.wire, rate=rate, loop=loop, unix_time=unix_time)


mocopi = partial(NativeSource, "mocopi", 12351)
vmc = partial(NativeSource, "vmc", 39539)
xsens = partial(NativeSource, "xsens", 9763)
rokoko = partial(NativeSource, "rokoko", 14043)
axis = partial(NativeSource, "axis", 7012)
# Motive multicasts to this group, or sends to those alone who say hello to its command port (message 0: their
# name and the version that they understand) and again and again that they are there (message 10). Who asks
# there for model definitions (message 4) is told them.
_HELLO = b"\0\0\x0f\x01" + b"Ping".ljust(265, b"\0") + bytes((4, 1, 0, 0, 0, 0))
natnet = partial(
    NativeSource,
    "natnet",
    1511,
    group="239.255.42.99",
    ask=(b"\x04\0\0\0", 1510),
    greet=(_HELLO, b"\x0a\0\0\0"),
)
msgpack = partial(NativeSource, "msgpack", 12352)
