"""Sends frames to the monitor's process: datagrams over loopback, sent after those of every other sink, and
dropped if they cannot be sent at once."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import msgpack
import numpy as np

from realtime.clock import Clock
from realtime.sinks.base import ControlFrame, DatagramSink, Extra
from realtime.sockets import connect_udp
from realtime.step.base import F32, StepResult

# Declared here because msgpack has no type annotations.
_packb: Callable[..., bytes] = msgpack.packb

# Most of the suit's datagrams in one frame, and the most bytes of each, so that all fit into a datagram.
_MAX_DATAGRAMS, _MAX_DATAGRAM_SIZE = 12, 4096


class MonitorFeed(DatagramSink):
    """A sink that packs frames for :mod:`realtime.monitor.server`.

    A frame is a msgpack map with the plain values of :class:`ControlFrame` under their names; ``gate``, the
    model's commitment gate 0..1 (None: no model step); ``pose`` (22, 4), ``root`` (3,) and ``forecast``
    (8, 5) as float32 bytes, empty if the frame has none; ``way_ms``, the time from its ``t_ns`` to
    :meth:`send`; and with ``suit``, ``heard``: the datagrams since the last frame, each with its sender. A
    status frame is a map with ``status`` only.

    ``every``: send about one frame of this many, and every frame with events. ``forecast`` returns a step's
    forecast as it will play; by default the model's own.
    """

    trouble = ""

    def __init__(
        self,
        port: int,
        clock: Clock,
        name: str = "monitor",
        every: int = 1,
        *,
        suit: bool = False,
        forecast: Callable[[StepResult], F32] = lambda step: step.params,
    ) -> None:
        self.name = name
        self._every = every
        self._sock = connect_udp("127.0.0.1", port, "monitor")
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self._clock = clock
        self._extras: list[str] = []
        self._suit = suit
        self._forecast = forecast
        self._last_seq = -every
        self._datagrams: list[tuple[str, bytes]] = []
        # Frames to send, and the nanoseconds from their `t_ns` to `send`.
        self._pending: list[tuple[ControlFrame, int]] = []
        self._counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}

    def announce(self, extras: Sequence[Extra]) -> None:
        """Set the names of the taught outputs."""
        self._extras = [extra.name for extra in extras]

    def send(self, frame: ControlFrame) -> None:
        """Store a frame for :meth:`run_deferred`, if it is due."""
        since = frame.seq - self._last_seq
        # Wait one frame for one with a body: with a suit at 60 Hz two of five frames have none.
        waits = self._every > 1 and frame.body is None
        is_due = since >= self._every + waits or since < 0
        if is_due and frame.seq >= 0:
            self._last_seq = frame.seq
        if is_due or frame.events or frame.seq < 0:
            self._pending.append((frame, self._clock.now_ns() - frame.t_ns))

    def on_datagram(self, sender: str, datagram: bytes) -> None:
        """Store a datagram for the next frame, unless it is too large or there are too many."""
        is_small = len(datagram) <= _MAX_DATAGRAM_SIZE
        if self._suit and len(self._datagrams) < _MAX_DATAGRAMS and is_small:
            self._datagrams.append((sender, datagram))

    def run_deferred(self) -> None:
        """Send the stored frames, or drop and count them."""
        pending, self._pending = self._pending, []
        for frame, way_ns in pending:
            try:
                self._sock.send(self._pack(frame, way_ns))
            except (BlockingIOError, InterruptedError):
                self._counts["dropped"] += 1
            except ConnectionRefusedError:
                self._counts["refused"] += 1
            except OSError:
                self._counts["failed"] += 1
            else:
                self._counts["sent"] += 1

    def _pack(self, frame: ControlFrame, way_ns: int) -> bytes:
        if frame.seq < 0:
            return _packb({"status": frame.status})
        datagrams, self._datagrams = self._datagrams, []
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
                "forecast": _bytes(None if frame.step is None else self._forecast(frame.step)),
                "way_ms": way_ns / 1e6,
                "heard": datagrams,
            }
        )

    def counters(self) -> dict[str, int]:
        """Frames sent, dropped, refused and failed."""
        return dict(self._counts)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def _bytes(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None) -> bytes:
    return b"" if values is None else np.ascontiguousarray(values, np.float32).tobytes()
