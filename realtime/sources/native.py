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
# Motive multicasts to this group; who asks its command port for model definitions (message 4) is told them.
natnet = partial(NativeSource, "natnet", 1511, group="239.255.42.99", ask=(b"\x04\0\0\0", 1510))
msgpack = partial(NativeSource, "msgpack", 12352)
