"""``/anticip/ensemble``: relations between several performers, one message per frame for all of them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

from pyanticip._core import Ensemble
from realtime.clock import FRAME_NS
from realtime.sinks.base import ControlFrame, Pace, Sink
from realtime.sinks.config import ENSEMBLE, OscConfig
from realtime.sinks.osc import HEADER, Wire, element, open_wire, zeros
from realtime.sinks.outputs import ENSEMBLE_MESSAGE

_VALUES = struct.Struct(">" + ENSEMBLE_MESSAGE.types)
# Most frames stepped at once after the loop stood still.
_MAX_CATCH_UP_FRAMES = 25


class EnsembleOut:
    """Collects the frames of every performer and sends ``ensemble`` to the OSC receivers that want it.

    Time is divided into slots of 20 ms on the clock of the arrivals. The first frame of a new slot completes
    the previous one, so that the last performer of a slot is included.
    """

    def __init__(self, targets: Sequence[OscConfig], performers: int) -> None:
        self._ensemble = Ensemble(performers)
        self._slot = -1
        self._receivers: list[tuple[bytes, Wire, Pace]] = []
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for target in targets:
                self.add_target(target)
            undo.pop_all()
        #: One sink for each performer's pipeline.
        self.sinks = [EnsembleSink(self, performer) for performer in range(performers)]
        self._open_sinks = performers

    def add_target(self, target: OscConfig) -> None:
        """Add a receiver, if ``ensemble`` is among its parts and it is not limited to one performer."""
        if ENSEMBLE in target.send and target.performer is None:
            data = element((f"{target.prefix.rstrip('/')}/{ENSEMBLE}",), zeros(ENSEMBLE_MESSAGE.types))
            head = HEADER + data[: -_VALUES.size]
            self._receivers.append((head, open_wire(target), Pace(target.max_rate)))

    def on_frame(self, performer: int, frame: ControlFrame) -> None:
        """Take a frame of one performer (index); the first of a new slot sends the ensemble's values."""
        slot = frame.t_ns // FRAME_NS
        if slot > self._slot >= 0:
            for _ in range(min(slot - self._slot, _MAX_CATCH_UP_FRAMES)):
                values = self._ensemble.step()
            packed = _VALUES.pack(*values)
            for head, wire, pace in self._receivers:
                if pace.is_due():
                    wire.send(head + packed)
        self._slot = max(slot, self._slot)
        if frame.body is not None:
            self._ensemble.push(performer, frame.body)

    def counters(self) -> dict[str, int]:
        """Packets sent, dropped, refused and failed, over all receivers."""
        totals = dict.fromkeys(("sent", "dropped", "refused", "failed"), 0)
        for _, wire, _ in self._receivers:
            totals = {name: count + wire.counts[name] for name, count in totals.items()}
        return totals

    @property
    def trouble(self) -> str:
        """Why one of the receivers is not reached; empty while all are."""
        return next((wire.trouble for _, wire, _ in self._receivers if wire.trouble), "")

    def on_sink_closed(self) -> None:
        """Close the connections once the last performer's sink is closed."""
        self._open_sinks -= 1
        if self._open_sinks == 0:
            self.close()

    def close(self) -> None:
        """Close the connections now, as where a show cannot be opened; may be called again."""
        for _, wire, _ in self._receivers:
            wire.close()


class EnsembleSink(Sink):
    """Passes one performer's frames to an :class:`EnsembleOut`."""

    name = ENSEMBLE

    def __init__(self, out: EnsembleOut, performer: int) -> None:
        self._out = out
        self._performer = performer

    def send(self, frame: ControlFrame) -> None:
        """Pass the frame on."""
        if frame.seq >= 0:
            self._out.on_frame(self._performer, frame)

    def counters(self) -> dict[str, int]:
        """Packets of the whole ensemble; reported by the first performer's sink only, so that they count
        once."""
        return {} if self._performer else self._out.counters()

    @property
    def trouble(self) -> str:
        """That of the whole ensemble, reported once as well."""
        return "" if self._performer else self._out.trouble

    def close(self) -> None:
        """Close the connections, if this is the last performer's sink."""
        self._out.on_sink_closed()
