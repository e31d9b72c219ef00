"""MIDI clock in: the beat of a sequencer, which leads the show.

``python -P -m realtime.sinks.midi.clock PORT`` is the process that has the port. It ends with its standard
input, or with the port. It says ``ready NAME`` or ``error TEXT``, then, while a clock ticks, the time
(nanoseconds of the monotonic clock), beats a minute and the phase at 0 of that clock.
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
from pyanticip.system import ignore_terminal, readable
from realtime.child import Child, check_installed, tell_parent
from realtime.sinks.base import ControlFrame, Extra, LeadingSink, SlowClosingSink
from realtime.sinks.midi.port import VIRTUAL, open_port

__all__ = ["ClockConfig", "ClockSink", "Ticks", "main"]

_TICK, _START, _CONTINUE, _STOP, _POSITION = 0xF8, 0xFA, 0xFB, 0xFC, 0xF2
_BEAT, _SIXTEENTH = 24, 6
# The newest two beats count, once there is half a one; a tick that follows later is another clock's.
_KEPT, _LEAST = 2 * _BEAT, _BEAT // 2
_PAUSE_NS = 500_000_000
_SAID_S = 0.25
_FRESH_NS = 1_500_000_000


class Ticks:
    """What a clock's messages say; times are nanoseconds."""

    def __init__(self) -> None:
        self._came: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self._next = 0
        # Where it goes on when it has stopped, which some do with their clock ticking.
        self._goes_on = 0

    def hear(self, message: Sequence[int], t_ns: int) -> None:
        """A message has come. A start, a position and a continuation say which tick is next."""
        kind, *data = message
        if kind == _TICK:
            if self._came and t_ns - self._came[-1][1] > _PAUSE_NS:
                self._came.clear()
            self._came.append((self._next, t_ns))
            self._next += 1
        elif kind == _STOP:
            self._goes_on = self._next
        elif kind in (_START, _CONTINUE) or (kind == _POSITION and len(data) == 2):
            if kind != _CONTINUE:
                self._goes_on = _SIXTEENTH * (data[0] + 128 * data[1]) if data else 0
            self._came.clear()
            self._next = self._goes_on

    def beat(self, now_ns: int) -> tuple[float, float] | None:
        """Beats a minute, and the phase at time 0: a line through the ticks. None: none has come lately."""
        came = list(self._came)
        if len(came) < _LEAST or now_ns - (newest := came[-1][1]) > _PAUSE_NS or came[0][1] == newest:
            return None
        # Seconds from the newest on: a sum of squared nanoseconds would have no digits left.
        line = statistics.linear_regression([(t - newest) / 1e9 for _, t in came], [n for n, _ in came])
        bpm = 60.0 * line.slope / _BEAT
        return bpm, (line.intercept / _BEAT - newest * bpm / 60e9) % 1.0


class ClockConfig(Options):
    """A MIDI clock that leads.

    ``port`` is where it comes in: virtual, virtual:NAME, or part of a port's name. ``latency_ms`` is how much
    earlier than the clock's the show's beats are, for what its receivers take to sound.
    """

    port: Annotated[str, Field(min_length=1)] = VIRTUAL
    latency_ms: Annotated[float, Field(ge=0.0, le=500.0)] = 0.0


class ClockSink(LeadingSink, SlowClosingSink):
    """Sends nothing; its process hears the clock. Where that dies, or the port goes, it is started again,
    with growing pauses."""

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
        self._beat: tuple[int, float, float] | None = None
        self._has_gone = False
        self.name = f"midi-clock {self._child.opened()}"

    def announce(self, extras: Sequence[Extra]) -> None:
        """Nothing: nothing is sent."""

    def send(self, frame: ControlFrame) -> None:
        """Nothing."""

    def beat(self) -> tuple[float, float] | None:
        """The clock's; None where it stands still."""
        for line in self._child.poll():
            if line.startswith("ready "):
                self._has_gone = False
            with contextlib.suppress(ValueError):
                sent_ns, bpm, phase = line.split()
                self._beat = int(sent_ns), float(bpm), float(phase)
        self._has_gone |= self._child.pid is None
        now = time.monotonic_ns()
        if self._beat is None or now - self._beat[0] > _FRESH_NS:
            return None
        _, tempo, begun = self._beat
        return tempo, (begun + (now + 1e6 * self._latency_ms) * tempo / 60e9) % 1.0

    @property
    def trouble(self) -> str:
        """Why nothing is heard of it."""
        return "the port has gone" if self._has_gone else ""

    def counters(self) -> dict[str, int]:
        """Nothing is sent."""
        return {}

    def leave(self) -> None:
        """See :class:`realtime.sinks.base.SlowClosingSink`."""
        self._child.leave()

    def close(self) -> None:
        """Give the port back."""
        self._child.close()


def main(arguments: list[str]) -> int:
    """The process."""
    ignore_terminal()
    (text,) = arguments
    ticks = Ticks()

    def hear(event: tuple[list[int], float], _: Any) -> None:
        ticks.hear(event[0], time.monotonic_ns())

    try:
        port, name = open_port(text, "MidiIn")
        port.ignore_types(timing=False)
        port.set_callback(hear)
    except Exception as error:
        tell_parent(f"error {error}")
        return 1
    tell_parent(f"ready {name}")
    look = 0.0
    while not (readable(_SAID_S) and not os.read(0, 1)):
        if (said := ticks.beat(now_ns := time.monotonic_ns())) is not None:
            tell_parent(f"{now_ns} {said[0]!r} {said[1]!r}")
        if (now := time.monotonic()) >= look:
            look = now + 1.0
            if text.partition(":")[0] != VIRTUAL and name not in port.get_ports():
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
