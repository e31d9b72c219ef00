"""What a kind of motion capture has to tell, and which kinds there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from pyanticip import _core
from pyanticip.motion.clip import Clip

__all__ = ["NATIVE", "DatagramStream", "Receive", "Source"]

#: Called for each datagram with its bytes, its arrival in nanoseconds of the monotonic clock, and its sender.
Receive = Callable[[bytes, int, str], object]

#: The wire formats that the Rust front-end decodes by itself.
NATIVE = tuple(_core.PROTOCOLS)


class Source(Protocol):
    """A kind of motion capture; made anew for each stream, so that :meth:`decode` may remember.

    Attributes:
        port: The UDP port it sends to unless told otherwise.
        wire: The format of :data:`NATIVE` that its datagrams have, or that :meth:`decode` gives.
        native: Whether its datagrams have that format already: nobody then calls :meth:`decode`.
        group: A multicast group that it sends to, which is joined; None: it has none.
        ask: A datagram and the port that it is sent to at whoever sends, now and then, so that they tell
            their skeleton; None: nobody has to be asked.
        greet: What is sent to that port of a server which sends to those alone who ask: a first datagram, and
            one that says that somebody still listens; None: no such servers are known.
    """

    port: int
    wire: str
    native: bool
    group: str | None = None
    ask: tuple[bytes, int] | None = None
    greet: tuple[bytes, bytes] | None = None

    def decode(self, datagram: bytes) -> Iterable[bytes]:
        """The same in datagrams of :attr:`wire`: none, one or several.

        It runs on the way of every frame, so it must not wait. Bytes come from the network: for what cannot
        be decoded it may raise any error; the datagram is counted as alien, and the first error told.
        """
        ...

    def begin_anew(self) -> None:
        """Seconds of silence are over: what :meth:`decode` gets next may be of a suit that started anew."""
        return

    def encode(
        self, clip: Clip, *, rate: float | None, loop: bool, unix_time: float | None
    ) -> Iterator[tuple[int, bytes]]:
        """A clip as a suit would send it, for ``pyanticip send``: nanoseconds since the start, and what.

        Args:
            rate: frames a second; None: as many as usual.
            loop: begin again at the end, for ever.
            unix_time: Unix seconds of the first frame, for formats that tell them.

        Raises:
            OptionError: it cannot be sent as this.
        """
        ...


class DatagramStream(Protocol):
    """Something that hands datagrams on: a socket, or a file."""

    @property
    def dropped(self) -> int:
        """Datagrams that nobody read in time."""
        ...

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Begin."""
        ...

    def poll(self) -> None:
        """Hand on what is there."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; True at once when a datagram is there to be read."""
        ...

    def close(self) -> None:
        """End."""
        ...
