"""Ableton Link: a session whose tempo and beat are the body's. It needs linkpython-extern (extra `link`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from pyanticip.errors import DeviceError
from pyanticip.options import Options
from realtime.protocols import BEAT_TRUST
from realtime.sinks.base import ControlFrame, Extra

__all__ = ["LinkConfig", "LinkSink"]

# The session is told so often (microseconds) at most, of a tempo that is another by this part.
_EVERY_US = 250_000
_OTHER = 0.002
# Beats that are made up for in a second by going faster or slower; what is farther off is leapt.
_PULL = 0.5
_FAR = 0.2


class LinkConfig(Options):
    """A Link session that the body leads.

    ``trust`` is the least with which it leads: below that the session keeps its tempo. ``latency_ms`` is how
    much earlier than the body's the session's beats are, for what its members take to sound.
    """

    trust: Annotated[float, Field(ge=0.0, le=1.0)] = BEAT_TRUST
    latency_ms: Annotated[float, Field(ge=0.0, le=500.0)] = 0.0


class LinkSink:
    """Leads a session; who else is in it follows, or changes the tempo until the body is heard again."""

    Config = LinkConfig
    name = "link"
    trouble = ""

    def __init__(self, config: LinkConfig) -> None:
        try:
            import link
        except ImportError:
            raise DeviceError("sink link needs link: pip install 'pyanticip[link]'") from None
        self._config = config
        self._link: Any = link.Link(120.0)
        self._link.enabled = True
        self._due_us = 0
        self._counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}

    def announce(self, extras: Sequence[Extra]) -> None:
        """Nothing: a session has a tempo alone."""

    def send(self, frame: ControlFrame) -> None:
        """Lead the session to the beat of the frame, four times a second."""
        bpm, phase, trust = frame.tempo
        now = self._link.clock().micros()
        if trust < self._config.trust or bpm <= 0.0 or now < self._due_us:
            return
        self._due_us = now + _EVERY_US
        state = self._link.captureAppSessionState()
        here = state.beatAtTime(now, 1.0)
        wanted = phase + self._config.latency_ms * bpm / 60_000.0
        away = (wanted - here + 0.5) % 1.0 - 0.5
        if abs(away) > _FAR:
            state.forceBeatAtTime(here + away, now, 1.0)
            away = 0.0
        # A beat a minute more for a second makes up for a sixtieth of a beat.
        tempo = bpm * (1.0 + _PULL * away * 60.0 / bpm)
        if abs(state.tempo() - tempo) > _OTHER * tempo:
            state.setTempo(tempo, now)
        self._link.commitAppSessionState(state)
        self._counts["sent"] += 1

    def counters(self) -> dict[str, int]:
        """How often the session was told."""
        return dict(self._counts)

    def close(self) -> None:
        """Leave the session."""
        self._link.enabled = False
