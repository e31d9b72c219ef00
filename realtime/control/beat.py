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
    def led(self) -> tuple[float, ...]:
        """Arguments for :meth:`again`: none while the body leads."""
        return self._pipeline.led or ()

    def lead(self, bpm: object = None, phase: object = 0.0) -> str:
        """Beats a minute, and the phase at this moment; nothing: the body leads again."""
        if bpm is None:
            self.again()
            return "the body leads"
        beats, at = number("tempo", rounded_float(bpm)), number("tempo: phase", phase)
        if not _SLOWEST <= beats <= _FASTEST:
            raise OptionError(f"tempo: expected {_SLOWEST:g} to {_FASTEST:g} beats a minute, got {beats:g}")
        self.again(beats, (at - self._gone(beats)) % 1.0)
        return f"{beats:g}"

    def again(self, *led: float) -> None:
        """Beats a minute, and the phase at 0 of the clock, or nothing."""
        self._pipeline.led = (float(led[0]), float(led[1])) if led else None

    def told_by_sinks(self) -> tuple[float, float] | None:
        """The beat that a sink's session keeps now, as :meth:`again` takes it, where another one is known.

        All are asked, whoever leads and in a replay too: what their processes say has to be read.
        """
        told = [beat for sink in self._pipeline.sinks if (beat := self._told_by(sink)) is not None]
        if not told:
            return None
        bpm, phase = told[0]
        begun = (phase - self._gone(bpm)) % 1.0
        if (led := self._pipeline.led) is not None and abs(led[0] - bpm) <= _OTHER_TEMPO * bpm:
            away = (phase - led[1] - self._gone(led[0]) + 0.5) % 1.0 - 0.5
            if abs(away) <= _OTHER_PHASE:
                return None
        return bpm, begun

    def follow(self, told: tuple[float, float]) -> tuple[float, float]:
        """Arguments of the command that lets such a beat lead."""
        bpm, begun = told
        return bpm, (begun + self._gone(bpm)) % 1.0

    def _told_by(self, sink: Sink) -> tuple[float, float] | None:
        try:
            told = sink.beat() if isinstance(sink, LeadingSink) else None
        except Exception:
            # It may be somebody else's.
            self._pipeline.counts["errors"] += 1
            return None
        return told if told is not None and _SLOWEST <= told[0] <= _FASTEST else None

    def _gone(self, bpm: float) -> float:
        """Beats since 0 of the clock."""
        return self._pipeline.clock.now_ns() * bpm / 60e9
