"""Ableton Link: a session that the body leads, or that leads. It needs linkpython-extern (extra `link`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from pyanticip.errors import DeviceError
from pyanticip.options import Options
from realtime.protocols import BEAT_TRUST
from realtime.sinks.base import ControlFrame, Extra, LeadingSink

__all__ = ["LinkConfig", "LinkSink"]

# The session is told so often (microseconds) at most, of a tempo that is another by this part.
_EVERY_US = 250_000
_OTHER = 0.002
# Beats that are made up for in a second by going faster or slower; what is farther off is leapt.
_PULL = 0.5
_FAR = 0.2


class LinkConfig(Options):
    """A Link session that the body leads, or that leads it.

    ``leads`` is who does. ``trust`` is the least with which the body leads: below that the session keeps its
    tempo. ``latency_ms`` is how much earlier than the beats that lead those are that follow, for what these
    take to sound.
    """

    leads: Literal["body", "session"] = "body"
    trust: Annotated[float, Field(ge=0.0, le=1.0)] = BEAT_TRUST
    latency_ms: Annotated[float, Field(ge=0.0, le=500.0)] = 0.0


class LinkSink(LeadingSink):
    """Leads a session; who else is in it follows, or changes the tempo until the body is heard again. Or is
    led by it, as soon as somebody else is in it."""

    Config = LinkConfig
    NEEDS = "sink link", "link", "link"
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
        if self._config.leads == "session":
            return
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

    def beat(self) -> tuple[float, float] | None:
        """That of the session, if it leads and is not this show alone."""
        if self._config.leads == "body" or self._link.numPeers() == 0:
            return None
        state = self._link.captureAppSessionState()
        latency = self._config.latency_ms * state.tempo() / 60_000.0
        return state.tempo(), (state.beatAtTime(self._link.clock().micros(), 1.0) + latency) % 1.0

    def counters(self) -> dict[str, int]:
        """How often the session was told; nothing where it leads."""
        return dict(self._counts) if self._config.leads == "body" else {}

    def close(self) -> None:
        """Leave the session."""
        self._link.enabled = False
