"""MIDI out: what frames become, handed over to the process that has the port."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyanticip.errors import OptionError
from realtime.child import Child, check_installed
from realtime.sinks.base import ControlFrame, Extra, SlowClosingSink
from realtime.sinks.midi.config import MidiConfig
from realtime.sinks.midi.schedule import Item, pack
from realtime.sinks.midi.translator import Translator

__all__ = ["MidiSink", "check_port"]

# Beyond what the pipe holds nothing waits here: what is older is of no use.
_WAITING = 1 << 13
# All notes off, all sound off.
_OFF = 123, 120
# From the frames' time to the monotonic clock: the shortest way of late, which may grow by this each frame;
# a clock that runs at another speed is followed when it is this far off.
_LEAK_NS, _ASTRAY_NS = 20_000, 60_000_000


def check_port(config: MidiConfig) -> None:
    """Look for the port, but open none. Raises the MotionError that a :class:`MidiSink` would."""
    child = _process(config, "--check")
    child.opened()
    child.close()


def _process(config: MidiConfig, *options: str) -> Child:
    if config.port is None:
        raise OptionError("midi.port: expected virtual, virtual:NAME, or a part of a port's name")
    check_installed("MIDI", "midi", "python-rtmidi")
    module, words = "realtime.sinks.midi.port", [config.port, *options]
    return Child(f"MIDI {config.port}", module, words, lambda line: None, quiet=True)


class MidiSink(SlowClosingSink):
    """One MIDI port. Where its process dies it is started again, with growing pauses."""

    Config = MidiConfig

    def __init__(self, config: MidiConfig) -> None:
        self._child = _process(config)
        self._translator = Translator(config)
        self._counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}
        self._offset_ns: int | None = None
        self._gone = False
        self.name = f"midi {self._child.opened()}"

    def announce(self, extras: Sequence[Extra]) -> None:
        """From the next frame on these taught outputs come beside the eight."""
        self._translator.announce(extras)

    def send(self, frame: ControlFrame) -> None:
        """Hand over what the frame says; with a status, see how the process is. Never blocks."""
        if frame.seq < 0:
            self._look()
            return
        if self._child.pid is None:
            return
        items = self._translator.frame(frame)
        offset = self._clock(frame.t_ns)
        if self._child.waiting > _WAITING:
            self._counts["dropped"] += len(items)
            self._translator.forget()
            items = []
        due = (item._replace(due_ns=item.due_ns + offset) if item.due_ns else item for item in items)
        self._child.write(pack(due))
        self._counts["refused" if self._gone else "sent"] += len(items)

    def _clock(self, t_ns: int) -> int:
        """What to add to the frames' time for that of the monotonic clock."""
        offset = time.monotonic_ns() - t_ns
        known = self._offset_ns
        if known is None or not known <= offset <= known + _ASTRAY_NS:
            known = offset
        self._offset_ns = min(known + _LEAK_NS, offset)
        return self._offset_ns

    def _look(self) -> None:
        """The port has gone, or is back; its process has died, or is a new one."""
        before = self._child.pid
        for line in self._child.poll():
            self._gone = line == "gone"
            if line == "back":
                self._translator.forget()
        if before is not None and self._child.pid is None:
            self._counts["failed"] += 1
        elif before is None and self._child.pid is not None:
            self._gone = False
            # What the one before it began, nobody else ends.
            off = (bytes((0xB0 | channel, what, 0)) for channel in range(16) for what in _OFF)
            self._child.write(pack(Item(0, 0, message) for message in off))
            self._translator.forget()

    @property
    def trouble(self) -> str:
        """Why nothing is heard of it."""
        if self._child.pid is None:
            return "its process has ended"
        return "the port has gone" if self._gone else ""

    def counters(self) -> dict[str, int]:
        """Messages sent, dropped (the port's process did not take them), refused (the port is gone); how
        often that process failed."""
        return dict(self._counts)

    def leave(self) -> None:
        """See :class:`realtime.sinks.base.SlowClosingSink`."""
        self._child.leave()

    def close(self) -> None:
        """End every note and give the port back."""
        self._child.close()
