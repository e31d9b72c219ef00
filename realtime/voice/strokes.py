"""Events on their way to a voice: each waits here for its moment, so that it can be called off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from pyanticip.controls import CANCEL, Event
from pyanticip.errors import OptionError
from pyanticip.vocabulary import EVENTS
from realtime.voice.base import Voice

__all__ = ["Strokes"]

# What is called off was announced for a moment no farther from the one that is said, seconds.
_NEAR = 0.03
# So many may wait; what comes then is dropped.
_MOST = 64


class Strokes:
    """Strokes of a voice, in samples of its own position."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._waiting: list[tuple[int, int, float]] = []

    def strike(self, index: int, strength: float, seconds: float) -> None:
        """Strike event ``index`` so many seconds after the last sample that was rendered."""
        if len(self._waiting) < _MOST:
            self._waiting.append((self._sample(seconds), index, strength))

    def announce(self, events: Iterable[Event]) -> None:
        """Strike, or call off, what a frame announces for so many seconds ahead of now."""
        lag = self._voice.latency / self._voice.sample_rate
        for name, strength, ahead in events:
            plain = name.removesuffix(CANCEL)
            if plain not in EVENTS:
                continue
            if name != plain:
                self.cancel(EVENTS.index(plain), ahead - lag)
            else:
                self.strike(EVENTS.index(plain), strength, max(ahead - lag, 0.0))

    def cancel(self, index: int, seconds: float) -> bool:
        """Call off the stroke that waits for about that moment; False where none does."""
        at = self._sample(seconds)
        near = round(_NEAR * self._voice.sample_rate)
        found = [one for one in self._waiting if one[1] == index and abs(one[0] - at) <= near]
        if found:
            self._waiting.remove(min(found, key=lambda one: abs(one[0] - at)))
        return bool(found)

    def give(self, samples: int) -> None:
        """Hand the voice what is due within the next ``samples``; before each call of its ``render``."""
        voice, end = self._voice, self._voice.position + samples
        due = [one for one in self._waiting if one[0] < end]
        if due:
            self._waiting = [one for one in self._waiting if one[0] >= end]
        for at, index, strength in due:
            # A voice whose queue is full drops the stroke.
            with contextlib.suppress(OptionError):
                voice.event(index, strength, max(at - voice.position, 0) / voice.sample_rate)

    def _sample(self, seconds: float) -> int:
        return self._voice.position + round(seconds * self._voice.sample_rate)
