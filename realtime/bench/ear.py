"""A roll of what was sent that hears a voice play it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyanticip.controls import CANCEL
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.clock import OfflineClock
from realtime.sinks.base import ControlFrame
from realtime.sinks.capture import CaptureSink
from realtime.voice.base import Voice
from realtime.voice.strokes import Strokes

__all__ = ["Ear"]

_CLOCKED = [PARAMETERS.index("density"), PARAMETERS.index("pulse")]


class Ear(CaptureSink):
    """Writes every frame down and plays it on ``voice``; events are struck when they are due.

    ``bare`` leaves out what does not sound as long as the body moves, nor as loud: events, and the bells and
    the rhythm that go by a clock of their own (density and pulse are 0).
    """

    def __init__(self, clock: OfflineClock, voice: Voice, *, bare: bool = False) -> None:
        super().__init__(clock)
        self._bare = bare
        self._voice, self._strokes = voice, Strokes(voice)
        self._blocks: list[npt.NDArray[np.float32]] = []

    def send(self, frame: ControlFrame) -> None:
        """Write the frame down and play it."""
        super().send(frame)
        if frame.seq < 0:
            return
        voice = self._voice
        missing = round(self.times[-1] * voice.sample_rate) - voice.position
        if missing > 0:
            self._strokes.give(missing)
            self._blocks.append(voice.render(missing))
        params = np.array(frame.params, np.float32)
        if self._bare:
            params[_CLOCKED] = 0.0
        voice.params(params)
        for name, strength, ahead in () if self._bare else frame.events:
            wait = ahead - voice.latency / voice.sample_rate
            plain = name.removesuffix(CANCEL)
            if plain in EVENTS and name == plain:
                self._strokes.strike(EVENTS.index(name), strength, max(wait, 0.0))
            elif plain in EVENTS:
                self._strokes.cancel(EVENTS.index(plain), wait)

    @property
    def sound(self) -> npt.NDArray[np.float32]:
        """All that was heard, (samples, 2)."""
        return np.concatenate(self._blocks) if self._blocks else np.zeros((0, 2), np.float32)
