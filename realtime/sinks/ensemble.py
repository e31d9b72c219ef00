"""``/anticip/ensemble``: how several performers stand to each other, once a frame for all of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pyanticip._core import Ensemble
from realtime.clock import FRAME_NS
from realtime.sinks.base import ControlFrame, Extra
from realtime.sinks.config import ENSEMBLE, OscConfig
from realtime.sinks.osc import message, open_wire
from realtime.sinks.outputs import TOGETHER
from realtime.sinks.pace import Pace
from realtime.sinks.tcp import TcpWire
from realtime.sinks.udp import UdpWire

__all__ = ["EnsembleOut", "EnsembleSink"]

_HEADER = b"#bundle\0" + struct.pack(">Q", 1)
_NUMBERS = struct.Struct(">" + TOGETHER.types)
# Behind after a standstill of the loop, so many frames at most are gone through.
_MOST = 25


class EnsembleOut:
    """Hears every performer's frames and tells the OSC receivers that are sent ``ensemble``.

    Times are cut into frames of 20 ms by the clock of the arrivals. The first frame of a new one closes the
    one before, so whoever comes last in it has been heard.
    """

    def __init__(self, targets: Sequence[OscConfig], performers: int) -> None:
        self._ensemble = Ensemble(performers)
        self._slot = -1
        self._receivers: list[tuple[bytes, UdpWire | TcpWire, Pace]] = []
        for target in targets:
            self.tell(target)
        #: What each performer's pipeline sends to.
        self.sinks = [EnsembleSink(self, who) for who in range(performers)]
        self._open = performers

    def tell(self, target: OscConfig) -> None:
        """Tell one more receiver, if it is sent ``ensemble`` and hears everybody."""
        if ENSEMBLE in target.send and target.performer is None:
            zeros = [0 if kind == "i" else 0.0 for kind in TOGETHER.types]
            dgram = message(f"{target.prefix.rstrip('/')}/{ENSEMBLE}", zeros, TOGETHER.types)
            head = _HEADER + struct.pack(">I", len(dgram)) + dgram[: -_NUMBERS.size]
            self._receivers.append((head, open_wire(target), Pace(target.max_rate)))

    def hear(self, who: int, frame: ControlFrame) -> None:
        """A frame that a performer's pipeline sent."""
        slot = frame.t_ns // FRAME_NS
        if slot > self._slot >= 0:
            for _ in range(min(slot - self._slot, _MOST)):
                found = self._ensemble.step()
            numbers = _NUMBERS.pack(*found)
            for head, wire, pace in self._receivers:
                if pace.is_due():
                    wire.send(head + numbers)
        self._slot = max(slot, self._slot)
        if frame.body is not None:
            self._ensemble.hear(who, frame.body)

    def counters(self) -> dict[str, int]:
        """What became of the packets: sent, dropped, refused, failed."""
        found = dict.fromkeys(("sent", "dropped", "refused", "failed"), 0)
        for _, wire, _ in self._receivers:
            found = {name: count + wire.counts[name] for name, count in found.items()}
        return found

    def leave(self) -> None:
        """One performer's show is over; with the last the connections are closed."""
        self._open -= 1
        if self._open == 0:
            for _, wire, _ in self._receivers:
                wire.close()


class EnsembleSink:
    """One performer's way to an :class:`EnsembleOut`."""

    name = ENSEMBLE
    trouble = ""

    def __init__(self, out: EnsembleOut, who: int) -> None:
        self._out = out
        self._performer = who

    def announce(self, extras: Sequence[Extra]) -> None:
        """What is taught does not matter here."""

    def send(self, frame: ControlFrame) -> None:
        """Hear one frame."""
        if frame.seq >= 0:
            self._out.hear(self._performer, frame)

    def counters(self) -> dict[str, int]:
        """Packets of the whole ensemble, to all who are told; the first performer's way tells them, once."""
        return {} if self._performer else self._out.counters()

    def close(self) -> None:
        """This performer has finished."""
        self._out.leave()
