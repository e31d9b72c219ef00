"""How far ahead the parameters are read: told, or what their way to the ear takes.

Everything here depends on frames, on what is told and on nothing else, so that a replay gives the same bits:
what was measured of the sound while playing comes as a command, which is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyanticip.controls import Smoothing
from pyanticip.errors import OptionError
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS
from realtime.config import LeadMs

__all__ = ["Lead"]

# How late the model's loudness for now is where movement does not repeat: 20 to 40 ms in the clips of
# `bench sound` (docs/latency.md), none in walking.
_MODEL_MS = 30.0
# A parameter is read as far ahead as it should be while so much of it is foreseen, and less in proportion.
_SKILLED = 0.5
# How fast a lead follows what it should be, in ms per frame; the age of frames is averaged over so many of
# them and followed when it is so many ms off, so that it rarely moves.
_EASE_MS, _FRAMES, _OFF_MS = 0.5, 100.0, 3.0
_LONGEST = float(HORIZONS_MS[-1])
_TRUSTED_MS = [float(h) for h in HORIZONS_MS if h >= 100]


class Lead:
    """The lead of each parameter, 0 to 400 ms.

    With ``ms`` "auto" it is the age of a frame when it leaves, ``sound_ms`` (how long what is sent takes to
    sound), ``delay_ms`` (how late the suit is), what the model lags, and what smoothing lags; less where the
    model has no skill so far ahead, which ``trust`` of :meth:`step` tells.
    """

    def __init__(
        self, ms: LeadMs, smoothing: Sequence[Smoothing], *, sound_ms: float = 0.0, delay_ms: float = 0.0
    ) -> None:
        self.follow(smoothing)
        self._delay_ms = delay_ms
        self._age, self._aged = 0.0, 0.0
        self.sound_ms = sound_ms
        self._now: list[float] | None = None
        self.ms = ms

    def follow(self, smoothing: Sequence[Smoothing]) -> None:
        """From now on the parameters are smoothed like this."""
        self._lags = [1000.0 * setting.lag for setting in smoothing]

    @property
    def ms(self) -> LeadMs:
        """Milliseconds, or auto."""
        return self._ms

    @ms.setter
    def ms(self, value: LeadMs) -> None:
        if value != "auto" and not HORIZONS_MS[0] <= value <= HORIZONS_MS[-1]:
            raise OptionError(f"lead_ms: expected 0 to 400 or auto, got {value:g}")
        self._ms: LeadMs = value if value == "auto" else float(value)
        if self._ms != "auto":
            self._now = [self._ms] * len(PARAMETERS)

    @property
    def sound_ms(self) -> float:
        """How long what is sent takes to sound, 0 to 1000 ms."""
        return self._sound_ms

    @sound_ms.setter
    def sound_ms(self, value: float) -> None:
        if not 0.0 <= value <= 1000.0:
            raise OptionError(f"sound_ms: expected 0 to 1000, got {value:g}")
        self._sound_ms = float(value)

    @property
    def way_ms(self) -> float:
        """From the movement to the sound, without smoothing and the model: for what is announced."""
        if self._ms != "auto":
            return self._ms
        return min(self._age + self._sound_ms + self._delay_ms, _LONGEST)

    @property
    def leads(self) -> list[float]:
        """Of the eight parameters in the coming frame, ms."""
        return self._goal(1.0, ()) if self._now is None else self._now

    def hear(self, age_ms: float) -> None:
        """A frame that left so long after its own time."""
        self._aged += (min(max(age_ms, 0.0), _LONGEST) - self._aged) / _FRAMES
        if abs(self._aged - self._age) > _OFF_MS:
            self._age = self._aged

    def learn(self, amount: float, trust: Sequence[float]) -> None:
        """Ease the leads towards what they should be: once a frame, when it has left.

        ``amount`` is the factor on smoothing; ``trust`` 24 numbers, what share of each parameter at 100, 200
        and 400 ms is foreseen; empty: nobody says.
        """
        if self._ms == "auto":
            goal = self._goal(amount, trust)
            self._now = [
                now + min(max(to - now, -_EASE_MS), _EASE_MS)
                for now, to in zip(self._now or goal, goal, strict=True)
            ]

    def _goal(self, amount: float, trust: Sequence[float]) -> list[float]:
        if self._ms != "auto":
            return [self._ms] * len(PARAMETERS)
        way = self.way_ms + _MODEL_MS
        goal = [min(way + amount * lag, _LONGEST) for lag in self._lags]
        if not trust or min(trust) >= _SKILLED:
            return goal
        return [lead * min(_skill(trust, i, lead) / _SKILLED, 1.0) for i, lead in enumerate(goal)]


def _skill(trust: Sequence[float], parameter: int, lead: float) -> float:
    """The trust of a parameter so far ahead, linear between 100, 200 and 400 ms."""
    at = 3 * parameter
    low, middle, high = _TRUSTED_MS
    if lead <= low:
        return trust[at]
    first, begin, width = (at, low, middle - low) if lead <= middle else (at + 1, middle, high - middle)
    return trust[first] + (trust[first + 1] - trust[first]) * (lead - begin) / width
