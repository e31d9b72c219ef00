"""What the monitor's process is told: datagrams over loopback, when everybody else has theirs, dropped where
they cannot go."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import msgpack
import numpy as np

from realtime.clock import Clock
from realtime.sinks.base import ControlFrame, DatagramSink, Extra
from realtime.sockets import connect_udp

__all__ = ["MonitorFeed"]

# msgpack has no types.
_packb: Callable[..., bytes] = msgpack.packb

# Of what a suit sent, so that all of it fits into a datagram.
_MOST, _LONGEST = 12, 4096


class MonitorFeed(DatagramSink):
    """A sink that packs frames for :mod:`realtime.monitor.server`.

    A frame is a msgpack map of the plain values of :class:`ControlFrame` under their names, ``gate``, the
    model's commitment gate 0..1 (None: no model speaks), ``pose`` (22, 4)
    and ``forecast`` (8, 5) as the bytes of float32 (none where a frame did not come, or nothing is foreseen),
    ``root`` (3,) likewise, and ``way_ms``, the time from the datagram until here; a status is its words.
    ``every``: one frame of about so many, and those with events. With ``suit`` a frame comes with the
    datagrams since the last: ``heard``, each with its sender.
    """

    trouble = ""

    def __init__(
        self, port: int, clock: Clock, name: str = "monitor", every: int = 1, *, suit: bool = False
    ) -> None:
        self.name = name
        self._every = every
        self._sock = connect_udp("127.0.0.1", port, "monitor")
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self._clock = clock
        self._extras: list[str] = []
        self._suit = suit
        self._newest = -every
        self._datagrams: list[tuple[str, bytes]] = []
        self._kept: list[tuple[ControlFrame, int]] = []
        self._counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}

    def announce(self, extras: Sequence[Extra]) -> None:
        """From now on these outputs are shown as well."""
        self._extras = [extra.name for extra in extras]

    def send(self, frame: ControlFrame) -> None:
        """Keep a frame for :meth:`run_deferred`."""
        since = frame.seq - self._newest
        # One with a body is worth waiting a frame for: of a suit at 60 Hz two of five have none.
        waits = self._every > 1 and frame.body is None
        is_due = since >= self._every + waits or since < 0
        if is_due and frame.seq >= 0:
            self._newest = frame.seq
        if is_due or frame.events or frame.seq < 0:
            self._kept.append((frame, self._clock.now_ns() - frame.t_ns))

    def on_datagram(self, sender: str, datagram: bytes) -> None:
        """Keep a datagram for the next frame; what does not fit into one of ours is left out."""
        if self._suit and len(self._datagrams) < _MOST and len(datagram) <= _LONGEST:
            self._datagrams.append((sender, datagram))

    def run_deferred(self) -> None:
        """Send what was kept, or drop it."""
        kept, self._kept = self._kept, []
        for frame, way_ns in kept:
            try:
                self._sock.send(self._packed(frame, way_ns))
            except (BlockingIOError, InterruptedError):
                self._counts["dropped"] += 1
            except ConnectionRefusedError:
                self._counts["refused"] += 1
            except OSError:
                self._counts["failed"] += 1
            else:
                self._counts["sent"] += 1

    def _packed(self, frame: ControlFrame, way_ns: int) -> bytes:
        if frame.seq < 0:
            return _packb({"status": frame.status})
        heard, self._datagrams = self._datagrams, []
        return _packb(
            {
                "seq": frame.seq,
                "seconds": frame.seconds,
                "state": frame.state,
                "scalars": frame.scalars,
                "params": frame.params,
                "extras": dict(zip(self._extras, frame.extras, strict=False)),
                "events": frame.events,
                "tempo": frame.tempo,
                "trust": frame.trust,
                "place": frame.place,
                "gate": None if frame.step is None else frame.step.gate,
                "pose": _bytes(frame.pose),
                "root": _bytes(frame.root),
                "forecast": _bytes(frame.forecast),
                "way_ms": way_ns / 1e6,
                "heard": heard,
            }
        )

    def counters(self) -> dict[str, int]:
        """Frames told, and those that could not be."""
        return dict(self._counts)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def _bytes(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None) -> bytes:
    return b"" if values is None else np.ascontiguousarray(values, np.float32).tobytes()
