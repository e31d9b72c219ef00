"""An external beat that replaces the body's: set by a command, or by the session of a sink."""

from __future__ import annotations

import math

from pyanticip.errors import OptionError
from realtime.control.server import number, rounded_float
from realtime.pipeline import Pipeline
from realtime.sinks.base import LeadingSink, Sink

_MIN_BPM, _MAX_BPM = 20.0, 400.0
# Differences due to the clocks of two machines and to the digits of OSC: relative to the tempo, and in beats.
_TEMPO_TOLERANCE = 5e-3
_PHASE_TOLERANCE = 0.02


class BeatControl:
    """The ``tempo`` command and its replay."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def leading_beat(self) -> tuple[float, ...]:
        """Arguments for :meth:`set_beat`; empty while the body leads."""
        return self._pipeline.leading_beat or ()

    def lead(self, bpm: object = None, phase: object = 0.0) -> str:
        """Set beats per minute (20 to 400) and the current phase (0 to 1); without them the body leads again.

        Raises:
            OptionError: A tempo or a phase out of range, or not a number.
        """
        if bpm is None:
            self.set_beat()
            return "the body leads"
        tempo, start_phase = number("tempo", rounded_float(bpm)), number("tempo: phase", rounded_float(phase))
        if not _MIN_BPM <= tempo <= _MAX_BPM:
            raise OptionError(f"tempo: expected {_MIN_BPM:g} to {_MAX_BPM:g} beats a minute, got {tempo:g}")
        if not 0.0 <= start_phase <= 1.0:
            raise OptionError(f"tempo: phase: expected 0 to 1, got {start_phase:g}")
        self.set_beat(tempo, (start_phase - self._elapsed_beats(tempo)) % 1.0)
        return f"{tempo:g}"

    def set_beat(self, bpm: float | None = None, phase: float = 0.0) -> None:
        """Set beats per minute and the phase at time 0 of the clock; without them the body leads."""
        self._pipeline.leading_beat = None if bpm is None else (float(bpm), float(phase))

    def session_beat(self) -> tuple[float, float] | None:
        """Beats per minute and current phase of a sink's session, if they differ from the current beat.

        All sinks are asked, always and in replays too, because the output of their processes has to be read.
        """
        beats = [beat for sink in self._pipeline.sinks if (beat := self._beat_of(sink)) is not None]
        if not beats:
            return None
        bpm, phase = beats[0]
        if (current := self._pipeline.leading_beat) is not None and abs(
            current[0] - bpm
        ) <= _TEMPO_TOLERANCE * bpm:
            difference = (phase - current[1] - self._elapsed_beats(current[0]) + 0.5) % 1.0 - 0.5
            if abs(difference) <= _PHASE_TOLERANCE:
                return None
        return bpm, phase

    def _beat_of(self, sink: Sink) -> tuple[float, float] | None:
        try:
            beat = sink.beat() if isinstance(sink, LeadingSink) else None
        except Exception:
            # A third-party sink must not stop the show.
            self._pipeline.counts["errors"] += 1
            return None
        if beat is None or not (_MIN_BPM <= beat[0] <= _MAX_BPM and math.isfinite(beat[1])):
            return None
        return beat[0], beat[1] % 1.0

    def _elapsed_beats(self, bpm: float) -> float:
        """Beats since time 0 of the clock."""
        return self._pipeline.clock.now_ns() * bpm / 60e9
