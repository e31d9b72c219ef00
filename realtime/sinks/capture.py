"""A receiver that writes down what would have been sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pyanticip.controls import CANCEL
from pyanticip.vocabulary import PARAMETERS
from realtime.clock import OfflineClock
from realtime.sinks.base import ControlFrame, Extra

__all__ = ["CaptureSink", "Player"]


class Player(Protocol):
    """Something that turns frames into sound."""

    def play(self, seconds: float, frame: ControlFrame) -> None:
        """What a frame says at a moment, in seconds since the beginning."""
        ...


class CaptureSink:
    """A sink that keeps every frame; with a ``player`` it plays them, too."""

    name = "capture"
    trouble = ""

    def __init__(self, clock: OfflineClock, player: Player | None = None) -> None:
        self._origin = clock.start_ns
        self._player = player
        self._gate = math.nan
        self.times: list[float] = []
        self.params: list[list[float]] = []
        self.taught: list[list[float]] = []
        self._extras: tuple[Extra, ...] = ()
        self._maps: list[Callable[[float], float]] = []
        self.scalars: list[list[float]] = []
        self.limbs: list[list[float]] = []
        self.gates: list[float] = []
        self.events: list[tuple[float, str, float, float]] = []

    def announce(self, extras: Sequence[Extra]) -> None:
        """Write these taught outputs down as well, each in its own unit."""
        self._extras = tuple(extras)
        self._maps = [extra.range for extra in extras]

    @property
    def outputs(self) -> list[str]:
        """Names of the taught outputs that are none of the eight."""
        return [extra.name for extra in self._extras]

    def send(self, frame: ControlFrame) -> None:
        """Write the frame down, and play it."""
        if frame.seq < 0:
            return
        now = (frame.t_ns - self._origin) / 1e9
        self.times.append(now)
        self.params.append(list(frame.params))
        self.taught.append([into(v) for into, v in zip(self._maps, frame.extras, strict=True)])
        self.scalars.append(list(frame.scalars))
        self.limbs.append(list(frame.limbs) or [math.nan] * 12)
        if frame.step is not None:
            self._gate = frame.step.gate
        self.gates.append(self._gate)
        self.events.extend((now, name, strength, ahead) for name, strength, ahead in frame.events)
        if self._player is not None:
            self._player.play(now, frame)

    def due(self, name: str) -> list[float]:
        """When the events of a name were due that were announced and not called off, seconds, ascending."""
        times: list[float] = []
        for now, said, _, ahead in self.events:
            if said == name:
                times.append(now + ahead)
            elif said == name + CANCEL and times:
                times.remove(min(times, key=lambda t: abs(t - now - ahead)))
        return sorted(times)

    def counters(self) -> dict[str, int]:
        """How many frames were kept."""
        return {"sent": len(self.times), "dropped": 0, "refused": 0, "failed": 0}

    def close(self) -> None:
        """Nothing to give back: the file belongs to whoever opened it."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """``t`` (T,) s, ``params`` (T, 8), ``taught`` (T, E), ``scalars`` (T, 7), ``gate`` (T,),
        ``limbs`` (T, 12), NaN where a frame has none; the events as four columns."""
        count = len(self.times)
        return {
            "t": np.array(self.times, np.float64),
            "params": np.array(self.params, np.float32).reshape(count, len(PARAMETERS)),
            "taught": np.array(self.taught, np.float32).reshape(count, len(self._extras)),
            "scalars": np.array(self.scalars, np.float32).reshape(count, 7),
            "limbs": np.array(self.limbs, np.float32).reshape(count, 12),
            "gate": np.array(self.gates, np.float32),
            "event_t": np.array([e[0] for e in self.events], np.float64),
            "event_name": np.array([e[1] for e in self.events] or np.empty(0, "U48"), np.str_),
            "event_strength": np.array([e[2] for e in self.events], np.float32),
            "event_ahead": np.array([e[3] for e in self.events], np.float32),
        }
