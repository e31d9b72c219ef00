"""One vector on its way out: smoothing, shaping, silence, and the performer's hand.

The mixer has a channel for the eight sound parameters and, where a mapping teaches outputs of its own, a
second one for these. Both obey the same modes; no change of mode and no lost signal makes a value jump.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyanticip.controls import Crossfade, Presence, Shaper, Smoother, Smoothing

__all__ = ["MODES", "Channel"]

MODES = ("playing", "frozen", "stopped", "panic")
# Seconds that each change of mode takes.
_RELEASE, _STOP, _PANIC = 0.4, 1.0, 0.05
_FRAME = 0.02


class Channel:
    """A vector of any length; ``neutral`` is where it goes when nobody is there.

    ``shapers`` (None: as it is) come behind the smoothing, so that a gate stays sharp, and before silence and
    the hand, which go to ``neutral`` whatever the shape.
    """

    def __init__(
        self,
        smoothing: Sequence[Smoothing],
        presence: Presence | None,
        neutral: Sequence[float],
        shapers: Sequence[Shaper | None] = (),
    ) -> None:
        self.smoother = Smoother(smoothing)
        self.shape(shapers)
        self.presence = presence or Presence(neutral=neutral)
        self._neutral = list(neutral)
        self._hand = Crossfade(_RELEASE)
        self._out = list(neutral)
        self._frozen = self._out
        self._ticked = False
        self.mode = "playing"

    def shape(self, shapers: Sequence[Shaper | None]) -> None:
        """Shape by these from the next value on."""
        self._shapers = [(i, shaper) for i, shaper in enumerate(shapers) if shaper is not None]

    @property
    def out(self) -> list[float]:
        """The vector given last."""
        return list(self._out)

    def begin(self, values: Sequence[float]) -> None:
        """Go on from these values."""
        self._out = list(values)
        self.presence.begin(self._out)
        self.presence.restart()

    def set_mode(self, mode: str) -> None:
        """Go to another mode without a jump."""
        self._hand.seconds = {"stopped": _STOP, "panic": _PANIC}.get(mode, _RELEASE)
        self._frozen = list(self._out)
        self.mode = mode
        self._hand.start(self._out)

    def leave(self, seconds: float) -> None:
        """To neutral within ``seconds``, whatever the mode."""
        self.mode = "stopped"
        self._hand.seconds = seconds
        self._hand.start(self._out)

    def play(self, goal: list[float], dt: float) -> list[float]:
        """The vector of a frame, ``dt`` seconds of source time after the last."""
        shaped = self.smoother.step(goal, dt)
        for i, shaper in self._shapers:
            shaped[i] = shaper(shaped[i])
        live = self.presence.live(shaped, dt)
        if self._ticked:
            # The ticks of silence have already taken the hand along.
            self._ticked, dt = False, min(dt, _FRAME)
        return self._master(live, dt)

    def silence(self, dt: float) -> list[float]:
        """No frame for another ``dt`` seconds: hold, then fade."""
        self._ticked = True
        return self._master(self.presence.silence(dt), dt)

    def _master(self, live: list[float], dt: float) -> list[float]:
        if self.mode == "frozen":
            live = self._frozen
        elif self.mode != "playing":
            live = self._neutral
        self._out = self._hand.step(live, dt)
        return list(self._out)
