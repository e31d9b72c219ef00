"""A sink that records the frames instead of sending them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.controls import CANCEL
from pyanticip.vocabulary import PARAMETERS
from realtime.clock import OfflineClock
from realtime.sinks.base import ControlFrame, Extra, Sink


class CaptureSink(Sink):
    """Records the values of every frame, which ``play`` may turn into sound: it gets seconds and frame."""

    name = "capture"

    def __init__(
        self, clock: OfflineClock, play: Callable[[float, ControlFrame], None] | None = None
    ) -> None:
        self._origin = clock.start_ns
        self._play = play
        self._gate = math.nan
        self.times: list[float] = []
        self.params: list[list[float]] = []
        #: Taught outputs of each frame, by name; a mapping may be loaded or unloaded on the way.
        self.taught: list[dict[str, float]] = []
        self._extras: tuple[Extra, ...] = ()
        self._outputs: dict[str, None] = {}
        self.scalars: list[list[float]] = []
        self.limbs: list[list[float]] = []
        self.gates: list[float] = []
        self.events: list[tuple[float, str, float, float]] = []

    def announce(self, extras: Sequence[Extra]) -> None:
        """Set the taught outputs to record, each in its own unit."""
        self._extras = tuple(extras)
        # A dict, for it keeps the order and holds each name once.
        self._outputs |= dict.fromkeys(extra.name for extra in extras)

    @property
    def outputs(self) -> list[str]:
        """Names of the taught outputs beyond the eight parameters."""
        return list(self._outputs)

    def send(self, frame: ControlFrame) -> None:
        """Record the frame, and play it."""
        if frame.seq < 0:
            return
        now = (frame.t_ns - self._origin) / 1e9
        self.times.append(now)
        self.params.append(list(frame.params))
        values = zip(self._extras, frame.extras, strict=True)
        self.taught.append({extra.name: extra.range(value) for extra, value in values})
        self.scalars.append(list(frame.scalars))
        self.limbs.append(list(frame.limbs) or [math.nan] * 12)
        if frame.step is not None:
            self._gate = frame.step.gate
        self.gates.append(self._gate)
        self.events.extend((now, name, strength, ahead) for name, strength, ahead in frame.events)
        if self._play is not None:
            self._play(now, frame)

    def due(self, name: str) -> list[float]:
        """Due times of the events of this name that were not cancelled, in seconds, ascending."""
        times: list[float] = []
        for now, event, _, ahead in self.events:
            if event == name:
                times.append(now + ahead)
            elif event == name + CANCEL and times:
                times.remove(min(times, key=lambda t: abs(t - now - ahead)))
        return sorted(times)

    def counters(self) -> dict[str, int]:
        """Number of frames recorded, as ``sent``."""
        return {"sent": len(self.times), "dropped": 0, "refused": 0, "failed": 0}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The recording: ``t`` (T,) seconds, ``params`` (T, 8), ``taught`` (T, E), ``scalars`` (T, 7),
        ``gate`` (T,) and ``limbs`` (T, 12), NaN where a frame has none; the events as four columns."""
        count = len(self.times)
        return {
            "t": np.array(self.times, np.float64),
            "params": np.array(self.params, np.float32).reshape(count, len(PARAMETERS)),
            "taught": np.array(
                [[row.get(name, math.nan) for name in self._outputs] for row in self.taught], np.float32
            ).reshape(count, len(self._outputs)),
            "scalars": np.array(self.scalars, np.float32).reshape(count, 7),
            "limbs": np.array(self.limbs, np.float32).reshape(count, 12),
            "gate": np.array(self.gates, np.float32),
            "event_t": np.array([e[0] for e in self.events], np.float64),
            "event_name": np.array([e[1] for e in self.events] or np.empty(0, "U48"), np.str_),
            "event_strength": np.array([e[2] for e in self.events], np.float32),
            "event_ahead": np.array([e[3] for e in self.events], np.float32),
        }
