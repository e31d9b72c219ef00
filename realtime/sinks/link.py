"""Ableton Link: the body's beat leads a session, or follows it. Needs linkpython-extern (extra `link`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pyanticip.errors import DeviceError
from pyanticip.options import Options
from realtime.protocols import BEAT_TRUST
from realtime.sinks.base import ControlFrame, LeadingSink, Sink

# Minimum time between two updates of the session.
_UPDATE_INTERVAL_US = 250_000
# Relative change of tempo below which the session keeps its own.
_TEMPO_TOLERANCE = 0.002
# Share of a phase error (beats) that a change of tempo corrects per second.
_PHASE_GAIN = 0.5
# A phase error above this many beats is corrected by a jump.
_MAX_PHASE_ERROR = 0.2


class LinkConfig(Options):
    """A Link session that leads the body's beat, or follows it.

    ``leads`` is the leading side. ``trust`` is the minimum trust with which the body leads; below it the
    session keeps its tempo. ``latency_ms`` shifts the following beats earlier than the leading ones, to
    compensate the output latency of the follower.
    """

    leads: Literal["body", "session"] = "body"
    trust: Annotated[float, Field(ge=0.0, le=1.0)] = BEAT_TRUST
    latency_ms: Annotated[float, Field(ge=0.0, le=500.0)] = 0.0


class LinkSink(LeadingSink, Sink):
    """Leads a Link session, whose other peers may change the tempo until the body's next update; or follows
    the session as soon as it has another peer."""

    Config = LinkConfig
    NEEDS = "sink link", "link", "link"
    name = "link"

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

    def send(self, frame: ControlFrame) -> None:
        """Set the session to the frame's beat, at most four times a second."""
        if self._config.leads == "session":
            return
        bpm, phase, trust = frame.tempo
        now_us = self._link.clock().micros()
        if trust < self._config.trust or bpm <= 0.0 or now_us < self._due_us:
            return
        self._due_us = now_us + _UPDATE_INTERVAL_US
        state = self._link.captureAppSessionState()
        session_beat = state.beatAtTime(now_us, 1.0)
        target_phase = phase + self._config.latency_ms * bpm / 60_000.0
        error = (target_phase - session_beat + 0.5) % 1.0 - 0.5
        if abs(error) > _MAX_PHASE_ERROR:
            state.forceBeatAtTime(session_beat + error, now_us, 1.0)
            error = 0.0
        # One more beat per minute gains a sixtieth of a beat per second.
        tempo = bpm * (1.0 + _PHASE_GAIN * error * 60.0 / bpm)
        if abs(state.tempo() - tempo) > _TEMPO_TOLERANCE * tempo:
            state.setTempo(tempo, now_us)
        self._link.commitAppSessionState(state)
        self._counts["sent"] += 1

    def beat(self) -> tuple[float, float] | None:
        """The session's beat, if the session leads and has another peer."""
        if self._config.leads == "body" or self._link.numPeers() == 0:
            return None
        state = self._link.captureAppSessionState()
        latency = self._config.latency_ms * state.tempo() / 60_000.0
        return state.tempo(), (state.beatAtTime(self._link.clock().micros(), 1.0) + latency) % 1.0

    def counters(self) -> dict[str, int]:
        """Number of session updates; empty if the session leads."""
        return dict(self._counts) if self._config.leads == "body" else {}

    def close(self) -> None:
        """Leave the session."""
        self._link.enabled = False
