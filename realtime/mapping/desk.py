"""The desk between model and sinks: lead, fallback, gain, smoothing, silence, the performer's hand.

One vector of eight and a list of events goes out for every frame that comes in, and for every tick of
silence. No change of mode, no late model and no lost signal makes the output jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyanticip.controls import (
    HORIZONS_MS,
    NEUTRAL,
    PARAMETERS,
    Crossfade,
    Event,
    EventTrigger,
    Presence,
    Smoother,
    Smoothing,
    at_lead,
    scalar_mapping,
)
from pyanticip.errors import OptionError

__all__ = ["Desk", "Stepped"]

_LOUDNESS = PARAMETERS.index("loudness")
# Seconds that each change of mode takes.
_FRAME = 0.02
_SWITCH, _RELEASE, _STOP, _PANIC = 0.25, 0.4, 1.0, 0.05


class Stepped(Protocol):
    """What the desk reads of one model step."""

    @property
    def params(self) -> npt.NDArray[np.float32]:
        """(8, 5): the parameters in 0..1 at each horizon."""
        ...

    @property
    def hazards(self) -> npt.NDArray[np.float32]:
        """(2, 25): per event the probability of each 20 ms bin, given none before it."""
        ...

    @property
    def gate(self) -> float:
        """The commitment gate in 0..1."""
        ...


class Desk:
    """Control values of one performer.

    ``mode`` is one of playing, frozen, stopped, panic. While frozen the values stand still; stopped and
    panic go to neutral, slowly and at once. ``bypass`` lets the scalars play instead of the model.
    """

    def __init__(
        self,
        *,
        smoothing: Sequence[Smoothing] | None = None,
        lead_ms: float = 0.0,
        gain: float = 1.0,
        trigger: EventTrigger | None = None,
        presence: Presence | None = None,
        neutral: Sequence[float] = NEUTRAL,
    ) -> None:
        self._smoother = Smoother(smoothing or [Smoothing()] * len(PARAMETERS))
        self._trigger = trigger or EventTrigger()
        self._presence = presence or Presence(neutral=neutral)
        self._neutral = list(neutral)
        self._switch = Crossfade(_SWITCH)
        self._hand = Crossfade(_RELEASE)
        self._target = list(neutral)
        self._out = list(neutral)
        self._frozen = self._out
        self._by_model: bool | None = None
        self._ticked = False
        self.mode = "playing"
        self.bypass = False
        self.lead_ms = lead_ms
        self.gain = gain

    @property
    def lead_ms(self) -> float:
        """How far ahead the parameters speak, 0 to 400 ms."""
        return self._lead_ms

    @lead_ms.setter
    def lead_ms(self, value: float) -> None:
        if not HORIZONS_MS[0] <= value <= HORIZONS_MS[-1]:
            raise OptionError(f"lead_ms: expected 0 to 400, got {value:g}")
        self._lead_ms = float(value)

    @property
    def gain(self) -> float:
        """Factor on loudness, 0 to 4."""
        return self._gain

    @gain.setter
    def gain(self, value: float) -> None:
        if not 0.0 <= value <= 4.0:
            raise OptionError(f"gain: expected 0 to 4, got {value:g}")
        self._gain = float(value)

    @property
    def smoothing(self) -> float:
        """Factor on every smoothing time: 0 none, 1 as the rig says."""
        return self._smoother.amount

    @smoothing.setter
    def smoothing(self, value: float) -> None:
        self._smoother.amount = value

    @property
    def by_model(self) -> bool:
        """Whether the model plays, not the scalar mapping."""
        return bool(self._by_model)

    def set_mode(self, mode: str) -> None:
        """Go to playing, frozen, stopped or panic, each without a jump."""
        if mode not in ("playing", "frozen", "stopped", "panic"):
            raise OptionError(f"mode: expected playing, frozen, stopped or panic, got {mode!r}")
        if mode == self.mode:
            return
        self._hand.seconds = {"stopped": _STOP, "panic": _PANIC}.get(mode, _RELEASE)
        self._frozen = list(self._out)
        self.mode = mode
        self._hand.start(self._out)

    def leave(self, seconds: float) -> None:
        """The show is over: to neutral within ``seconds``, whatever the mode."""
        self.mode = "stopped"
        self._hand.seconds = seconds
        self._hand.start(self._out)

    def forget(self) -> None:
        """The stream begins anew: pending events are void and the values ease into what comes."""
        self._trigger.reset()
        self._presence.restart()

    def play(
        self, step: Stepped | None, scalars: Sequence[float], dt: float
    ) -> tuple[list[float], list[Event]]:
        """A frame, ``dt`` seconds of source time after the last.

        ``step`` None means that there is no model or that it is late: the scalars play.
        """
        by_model = step is not None and not self.bypass
        events: list[Event] = []
        if step is None:
            target = scalar_mapping(scalars)
        else:
            target = scalar_mapping(scalars) if self.bypass else at_lead(step.params, self._lead_ms)
            events = self._trigger.step(step.hazards, step.gate, self._lead_ms, dt)
        if self._by_model is not None and by_model is not self._by_model:
            self._switch.start(self._target)
        self._by_model = by_model
        self._target = self._switch.step(target, dt)
        goal = self._target
        if self._gain != 1.0:
            goal = list(goal)
            goal[_LOUDNESS] = min(goal[_LOUDNESS] * self._gain, 1.0)
        out = self._presence.live(self._smoother.step(goal, dt), dt)
        if self._ticked:
            # The ticks of silence have already taken the hand along.
            self._ticked, dt = False, min(dt, _FRAME)
        if self.mode != "playing" or self.bypass:
            events = []
        return self._master(out, dt), events

    def silence(self, dt: float) -> list[float]:
        """No frame for another ``dt`` seconds: hold, then fade."""
        self._ticked = True
        return self._master(self._presence.silence(dt), dt)

    @property
    def silent_seconds(self) -> float:
        """How long the source has been silent."""
        return self._presence.silent

    def _master(self, live: list[float], dt: float) -> list[float]:
        if self.mode == "frozen":
            live = self._frozen
        elif self.mode != "playing":
            live = self._neutral
        self._out = self._hand.step(live, dt)
        return list(self._out)
