"""MIDI clock in: the beat of a sequencer leads the show.

``python -P -m realtime.sinks.midi.clock PORT`` is the process that owns the port. It exits when its standard
input ends or the port vanishes. It prints ``ready NAME`` or ``error TEXT``, then, while a clock ticks, lines
with the time (nanoseconds of the monotonic clock), beats per minute and the phase at time 0 of that clock.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from pyanticip.options import Options
from pyanticip.system import ignore_terminal, wait_readable
from realtime.child import Child, check_installed, tell_parent
from realtime.sinks.base import ControlFrame, LeadingSink, Sink, SlowClosingSink
from realtime.sinks.midi.port import VIRTUAL, open_port

_TICK, _START, _CONTINUE, _STOP, _POSITION = 0xF8, 0xFA, 0xFB, 0xFC, 0xF2
_TICKS_PER_BEAT, _TICKS_PER_SIXTEENTH = 24, 6
# The fit uses the ticks of the newest two beats, and needs those of half a beat.
_MAX_TICKS, _MIN_TICKS = 2 * _TICKS_PER_BEAT, _TICKS_PER_BEAT // 2
# After a longer pause than this the earlier ticks are discarded.
_PAUSE_NS = 500_000_000
_REPORT_INTERVAL_S = 0.25
# A report older than this is ignored.
_MAX_AGE_NS = 1_500_000_000


class Ticks:
    """Estimates the beat from the messages of a MIDI clock; times are nanoseconds."""

    def __init__(self) -> None:
        self._ticks: deque[tuple[int, int]] = deque(maxlen=_MAX_TICKS)
        self._next = 0
        # The tick at which a Continue resumes; some clocks go on ticking while stopped.
        self._resume_at = 0

    def on_message(self, message: Sequence[int], t_ns: int) -> None:
        """Take a message. Start, Song Position and Continue set the index of the next tick."""
        kind, *data = message
        if kind == _TICK:
            if self._ticks and t_ns - self._ticks[-1][1] > _PAUSE_NS:
                self._ticks.clear()
            self._ticks.append((self._next, t_ns))
            self._next += 1
        elif kind == _STOP:
            self._resume_at = self._next
        elif kind in (_START, _CONTINUE) or (kind == _POSITION and len(data) == 2):
            if kind != _CONTINUE:
                self._resume_at = _TICKS_PER_SIXTEENTH * (data[0] + 128 * data[1]) if data else 0
            self._ticks.clear()
            self._next = self._resume_at

    def beat(self, now_ns: int) -> tuple[float, float] | None:
        """Beats per minute and the phase at time 0, by linear regression; None without recent ticks."""
        ticks = list(self._ticks)
        if len(ticks) < _MIN_TICKS or now_ns - (newest := ticks[-1][1]) > _PAUSE_NS or ticks[0][1] == newest:
            return None
        # Seconds relative to the newest tick: sums of squared nanoseconds would lose all precision.
        line = statistics.linear_regression([(t - newest) / 1e9 for _, t in ticks], [n for n, _ in ticks])
        bpm = 60.0 * line.slope / _TICKS_PER_BEAT
        return bpm, (line.intercept / _TICKS_PER_BEAT - newest * bpm / 60e9) % 1.0


class ClockConfig(Options):
    """A MIDI clock that leads the show.

    ``port`` is the input: virtual, virtual:NAME, or part of a port's name. ``latency_ms`` shifts the show's
    beats earlier than the clock's, to compensate the output latency of its receivers.
    """

    port: Annotated[str, Field(min_length=1)] = VIRTUAL
    latency_ms: Annotated[float, Field(ge=0.0, le=500.0)] = 0.0


class ClockSink(LeadingSink, SlowClosingSink, Sink):
    """Sends nothing; its process receives the clock. If the process dies or the port vanishes, it is
    restarted, with growing delays."""

    Config = ClockConfig
    NEEDS = "sink midi-clock", "midi", "python-rtmidi"

    def __init__(self, config: ClockConfig) -> None:
        check_installed(*self.NEEDS)
        self._latency_ms = config.latency_ms
        self._child = Child(
            f"MIDI clock {config.port}",
            "realtime.sinks.midi.clock",
            [config.port],
            lambda line: None,
            quiet=True,
        )
        # Time of the report (ns), beats per minute, phase at time 0.
        self._beat: tuple[int, float, float] | None = None
        self._is_port_gone = False
        self.name = f"midi-clock {self._child.wait_until_ready()}"

    def send(self, frame: ControlFrame) -> None:
        """Ignored."""

    def beat(self) -> tuple[float, float] | None:
        """The clock's beat now; None while the clock stands still."""
        for line in self._child.poll():
            if line.startswith("ready "):
                self._is_port_gone = False
            with contextlib.suppress(ValueError):
                sent_ns, bpm, phase = line.split()
                self._beat = int(sent_ns), float(bpm), float(phase)
        self._is_port_gone |= self._child.pid is None
        now = time.monotonic_ns()
        if self._beat is None or now - self._beat[0] > _MAX_AGE_NS:
            return None
        _, tempo, phase_at_zero = self._beat
        return tempo, (phase_at_zero + (now + 1e6 * self._latency_ms) * tempo / 60e9) % 1.0

    @property
    def trouble(self) -> str:
        """Why no clock can be received; empty if it can."""
        return "the port has gone" if self._is_port_gone else ""

    def begin_close(self) -> None:
        """See :class:`realtime.sinks.base.SlowClosingSink`."""
        self._child.begin_close()

    def close(self) -> None:
        """Close the port and its process."""
        self._child.close()


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    ignore_terminal()
    (port_text,) = arguments
    ticks = Ticks()

    def on_event(event: tuple[list[int], float], _: Any) -> None:
        ticks.on_message(event[0], time.monotonic_ns())

    try:
        port, name = open_port(port_text, "MidiIn")
        port.ignore_types(timing=False)
        port.set_callback(on_event)
    except Exception as error:
        tell_parent(f"error {error}")
        return 1
    tell_parent(f"ready {name}")
    while not (wait_readable(_REPORT_INTERVAL_S) and not os.read(0, 1)):
        if (beat := ticks.beat(now_ns := time.monotonic_ns())) is not None:
            tell_parent(f"{now_ns} {beat[0]!r} {beat[1]!r}")
        # As often as this, so that no sequencer is restarted between two looks.
        if port_text.partition(":")[0] != VIRTUAL and name not in port.get_ports():
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
