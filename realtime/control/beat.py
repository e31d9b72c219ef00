"""A beat that leads instead of the body's: told by hand, or kept by the session of a sink."""

from __future__ import annotations

from pyanticip.errors import OptionError
from realtime.control.server import number, rounded_float
from realtime.pipeline import Pipeline
from realtime.sinks.base import LeadingSink, Sink

__all__ = ["BeatControl"]

_SLOWEST, _FASTEST = 20.0, 400.0
# What the clocks of two machines, and the digits of OSC, make of one beat: part of the tempo, beats.
_OTHER_TEMPO = 5e-3
_OTHER_PHASE = 0.02


class BeatControl:
    """The remote control's ``tempo``, and what it does again in a replay."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def leading_beat(self) -> tuple[float, ...]:
        """Arguments for :meth:`again`: none while the body leads."""
        return self._pipeline.leading_beat or ()

    def lead(self, bpm: object = None, phase: object = 0.0) -> str:
        """Beats a minute (20 to 400), and the phase (0 to 1) at this moment; nothing: the body leads again.

        Raises:
            OptionError: a tempo out of range, or what is no number.
        """
        if bpm is None:
            self.again()
            return "the body leads"
        beats, at = number("tempo", rounded_float(bpm)), number("tempo: phase", phase)
        if not _SLOWEST <= beats <= _FASTEST:
            raise OptionError(f"tempo: expected {_SLOWEST:g} to {_FASTEST:g} beats a minute, got {beats:g}")
        self.again(beats, (at - self._elapsed(beats)) % 1.0)
        return f"{beats:g}"

    def again(self, bpm: float | None = None, phase: float = 0.0) -> None:
        """Beats a minute, and the phase at 0 of the clock, or nothing."""
        self._pipeline.leading_beat = None if bpm is None else (float(bpm), float(phase))

    def session_beat(self) -> tuple[float, float] | None:
        """Beats a minute and phase now of a sink's session, where they are not those that lead already.

        All sinks are asked, whoever leads and in a replay too: what their processes say has to be read.
        """
        found = [beat for sink in self._pipeline.sinks if (beat := self._beat_of(sink)) is not None]
        if not found:
            return None
        bpm, phase = found[0]
        if (led := self._pipeline.leading_beat) is not None and abs(led[0] - bpm) <= _OTHER_TEMPO * bpm:
            away = (phase - led[1] - self._elapsed(led[0]) + 0.5) % 1.0 - 0.5
            if abs(away) <= _OTHER_PHASE:
                return None
        return bpm, phase

    def _beat_of(self, sink: Sink) -> tuple[float, float] | None:
        try:
            beat = sink.beat() if isinstance(sink, LeadingSink) else None
        except Exception:
            # It may be somebody else's.
            self._pipeline.counts["errors"] += 1
            return None
        return beat if beat is not None and _SLOWEST <= beat[0] <= _FASTEST else None

    def _elapsed(self, bpm: float) -> float:
        """Beats since 0 of the clock."""
        return self._pipeline.clock.now_ns() * bpm / 60e9
