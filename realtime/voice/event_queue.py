"""Queue of a voice's events: each waits here until it is due, so that it can be cancelled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from pyanticip.controls import CANCEL, Event
from pyanticip.errors import OptionError
from pyanticip.vocabulary import EVENTS
from realtime.voice.base import Voice

# A cancellation matches an event due within this time of the moment it names.
_CANCEL_TOLERANCE_S = 0.03
# Most events that may wait; further ones are dropped.
_MAX_PENDING = 64


class EventQueue:
    """The events that wait for a voice, with due times in samples of its position."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        # Due sample, event index, strength.
        self._pending: list[tuple[int, int, float]] = []

    def strike(self, index: int, strength: float, seconds: float) -> None:
        """Schedule event ``index`` for ``seconds`` after the last rendered sample."""
        if len(self._pending) < _MAX_PENDING:
            self._pending.append((self._sample(seconds), index, strength))

    def announce(self, events: Iterable[Event]) -> None:
        """Schedule and cancel the events of a frame (name, strength, seconds ahead)."""
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
        """Cancel the event that is due in about ``seconds``; returns whether there was one."""
        due = self._sample(seconds)
        tolerance = round(_CANCEL_TOLERANCE_S * self._voice.sample_rate)
        matches = [e for e in self._pending if e[1] == index and abs(e[0] - due) <= tolerance]
        if matches:
            self._pending.remove(min(matches, key=lambda e: abs(e[0] - due)))
        return bool(matches)

    def release(self, samples: int) -> None:
        """Pass the events of the next ``samples`` to the voice; call it before each ``render``."""
        voice, end = self._voice, self._voice.position + samples
        events = [e for e in self._pending if e[0] < end]
        if events:
            self._pending = [e for e in self._pending if e[0] >= end]
        for due, index, strength in events:
            # A voice whose own queue is full drops the event.
            with contextlib.suppress(OptionError):
                voice.event(index, strength, max(due - voice.position, 0) / voice.sample_rate)

    def _sample(self, seconds: float) -> int:
        return self._voice.position + round(seconds * self._voice.sample_rate)
