"""MIDI out: translates frames into messages and passes them to the process that owns the port."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyanticip.errors import OptionError
from realtime.child import Child, check_installed
from realtime.sinks.base import ControlFrame, Extra, SlowClosingSink
from realtime.sinks.midi.clock import ClockConfig
from realtime.sinks.midi.config import MidiConfig
from realtime.sinks.midi.schedule import Item, pack
from realtime.sinks.midi.translator import Translator

# Bytes that may wait for a process that does not read; beyond that items are dropped, as they would be stale.
_MAX_UNREAD = 1 << 13
# Controllers: all notes off, all sound off.
_OFF_CONTROLLERS = 123, 120
# The offset from frame time to the monotonic clock is the smallest recent one; it may grow by this per frame.
_OFFSET_GROWTH_NS = 20_000
# An offset larger than the smallest by more than this replaces it (a clock that runs at another speed).
_MAX_OFFSET_ERROR_NS = 60_000_000


def check_port(config: MidiConfig | ClockConfig) -> None:
    """Check that the port exists, without opening it. Raises the same MotionError as the sink."""
    child = _process(config, "--check", "MidiIn" if isinstance(config, ClockConfig) else "MidiOut")
    child.wait_until_ready()
    child.close()


def _process(config: MidiConfig | ClockConfig, *options: str) -> Child:
    if config.port is None:
        raise OptionError("sink midi: port: expected virtual, virtual:NAME, or a part of a port's name")
    check_installed("MIDI", "midi", "python-rtmidi")
    module, words = "realtime.sinks.midi.port", [config.port, *options]
    return Child(f"MIDI {config.port}", module, words, lambda line: None, quiet=True)


class MidiSink(SlowClosingSink):
    """One MIDI port. If its process dies, it is restarted, with growing delays."""

    Config = MidiConfig

    def __init__(self, config: MidiConfig) -> None:
        self._child = _process(config)
        self._translator = Translator(config)
        self._counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}
        # Channel and number of every note so far.
        self._played: set[tuple[int, int]] = set()
        self._offset_ns: int | None = None
        self._is_port_gone = False
        self.name = f"midi {self._child.wait_until_ready()}"

    def announce(self, extras: Sequence[Extra]) -> None:
        """Set the taught outputs that ``ControlFrame.extras`` holds from the next frame on."""
        self._translator.announce(extras)

    def send(self, frame: ControlFrame) -> None:
        """Pass on the messages of a frame; on a status frame, check the process. Never blocks."""
        if frame.seq < 0:
            self._check_process()
            return
        if self._child.pid is None:
            return
        items = self._translator.frame(frame)
        offset = self._update_offset(frame.t_ns)
        if self._child.unsent_bytes > _MAX_UNREAD:
            self._counts["dropped"] += len(items)
            self._translator.forget()
            items = []
        self._played |= {(item.message[0] & 15, item.message[1]) for item in items if item.hold_ns > 0}
        due = (item._replace(due_ns=item.due_ns + offset) if item.due_ns else item for item in items)
        self._child.write(pack(due))
        self._counts["refused" if self._is_port_gone else "sent"] += len(items)

    def _update_offset(self, t_ns: int) -> int:
        """The offset (ns) that turns frame time into time of the monotonic clock."""
        offset = time.monotonic_ns() - t_ns
        smallest = self._offset_ns
        if smallest is None or not smallest <= offset <= smallest + _MAX_OFFSET_ERROR_NS:
            smallest = offset
        self._offset_ns = min(smallest + _OFFSET_GROWTH_NS, offset)
        return self._offset_ns

    def _check_process(self) -> None:
        """Read the process's lines, restart it if it died, and silence the notes of a dead one."""
        old_pid = self._child.pid
        for line in self._child.poll():
            self._is_port_gone = line == "gone"
            if line == "back":
                self._translator.forget()
        if old_pid is not None and self._child.pid is None:
            self._counts["failed"] += 1
        elif old_pid is None and self._child.pid is not None:
            self._is_port_gone = False
            # Nobody else ends the notes that the dead process started; other channels may be other players'.
            off = [bytes((0x80 | channel, number, 64)) for channel, number in sorted(self._played)]
            for channel in sorted({channel for channel, _ in self._played}):
                off += [bytes((0xB0 | channel, controller, 0)) for controller in _OFF_CONTROLLERS]
            self._child.write(pack(Item(0, 0, message) for message in off))
            self._translator.forget()

    @property
    def trouble(self) -> str:
        """Why the port is not reached; empty if it is."""
        if self._child.pid is None:
            return "its process has ended"
        return "the port has gone" if self._is_port_gone else ""

    def counters(self) -> dict[str, int]:
        """Messages sent, dropped (the port's process did not read them) and refused (the port is gone);
        ``failed``: how often that process died."""
        return dict(self._counts)

    def begin_close(self) -> None:
        """See :class:`realtime.sinks.base.SlowClosingSink`."""
        self._child.begin_close()

    def close(self) -> None:
        """End every note and close the port."""
        self._child.close()
