"""The process that has the MIDI port: ``python -P -m realtime.sinks.midi.port PORT``; with ``--check`` behind
it, it says whether there is one and ends.

What comes through standard input is sent when it is due. When that ends, by whatever death of the show, every
note is ended, controllers are reset, and the process ends. No driver that hangs or crashes can take the show
along, and a timer of its own keeps the notes' time. A port that vanishes is looked for once a second. What
the show should know goes to standard output, a line each: ``ready NAME``, ``error TEXT``, ``gone``, ``back``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyanticip.errors import DeviceError, MotionError
from pyanticip.system import ignore_terminal, readable
from realtime.child import tell_parent
from realtime.sinks.midi.schedule import Schedule, unpack

__all__ = ["VIRTUAL", "main", "open_port"]

VIRTUAL = "virtual"
_CLIENT = "pyanticip"
_LOOK_NS = 1_000_000_000
# What was sent last has left by then: drivers take it in cycles of their own.
_LAST_S = 0.5


def _rtmidi() -> Any:
    import rtmidi as module

    return module


def _drivers(way: str = "MidiOut") -> Iterator[Any]:
    """An output of every driver that answers here (CoreMIDI; ALSA and JACK), or an input (``MidiIn``)."""
    rtmidi = _rtmidi()
    for api in rtmidi.get_compiled_api():
        if api != rtmidi.API_RTMIDI_DUMMY:
            try:
                yield getattr(rtmidi, way)(api, name=_CLIENT)
            except rtmidi.RtMidiError:
                continue


def there() -> dict[str, list[str]]:
    """The drivers that answer, and the ports that are there."""
    rtmidi = _rtmidi()
    drivers = list(_drivers())
    return {
        "drivers": [rtmidi.get_api_display_name(driver.get_current_api()) for driver in drivers],
        "ports": [name for driver in drivers for name in driver.get_ports()],
    }


def open_port(text: str, way: str = "MidiOut") -> tuple[Any, str]:
    """Find a port that is named as in the rig, or make it: who has it, and its name. Raises DeviceError."""
    driver, at, name = _find(text, way)
    if at is not None:
        driver.open_port(at, _CLIENT)
        return driver, name
    try:
        driver.open_virtual_port(name)
    except (NotImplementedError, _rtmidi().UnsupportedOperationError):
        raise DeviceError(
            f"MIDI {text}: no program has its own port on Windows; make one with a loopback driver (loopMIDI)"
            " and give its name"
        ) from None
    return driver, name


class Port:
    """One open port; ``text`` is as the rig has it."""

    def __init__(self, text: str) -> None:
        self._failures: tuple[type[Exception], ...] = (MotionError, _rtmidi().RtMidiError)
        self._text = text
        self._out: Any = None
        self._listed = False
        self.name = ""
        self.open()

    def open(self) -> None:
        """Find it, or make it. Raises DeviceError."""
        self._out, self.name = open_port(self._text)

    @property
    def is_there(self) -> bool:
        """Whether the port is open and its other end is where it was."""
        return self._out is not None and (
            self._text.partition(":")[0] == VIRTUAL or self.name in self._out.get_ports()
        )

    def again(self) -> bool:
        """Whether it could be opened anew: at the second look at which it is there.

        A program's port is listed a moment before it can be connected to, and JACK's driver does not tell.
        """
        self.close()
        listed, self._listed = self._listed, False
        try:
            if not listed and self._text.partition(":")[0] != VIRTUAL:
                _find(self._text)
                self._listed = True
                return False
            self.open()
        except self._failures:
            return False
        return True

    def send(self, messages: Iterable[bytes]) -> None:
        """Send them, to nowhere while the port is gone."""
        if self._out is None:
            return
        try:
            for message in messages:
                self._out.send_message(message)
        except self._failures:
            self.close()

    def close(self) -> None:
        """Give the port back."""
        if self._out is not None:
            self._out.delete()
            self._out = None


def _find(text: str, way: str = "MidiOut") -> tuple[Any, int | None, str]:
    """Who has the port that is meant, its number there (None: it is to be made) and its name. Raises
    DeviceError."""
    drivers = list(_drivers(way))
    kind, _, name = text.partition(":")
    if kind == VIRTUAL:
        if not drivers:
            raise DeviceError(f"MIDI {text}: no MIDI driver answers here (ALSA, JACK, CoreMIDI)")
        return drivers[0], None, name or _CLIENT
    found = [(driver, at, port) for driver in drivers for at, port in enumerate(driver.get_ports())]
    return found[_choose(text, [port for *_, port in found])]


def _choose(text: str, there: list[str]) -> int:
    """Which of these ports is meant."""
    found = [name for name in there if name == text]
    found = found or [name for name in there if text.lower() in name.lower()]
    if len(set(found)) == 1:
        return there.index(found[0])
    if found:
        raise DeviceError(f"MIDI port {text!r} may be any of: {', '.join(found)}")
    raise DeviceError(
        f"no MIDI port {text!r}; there is: {', '.join(there) or 'none'}; {VIRTUAL} makes one of its own"
    )


def serve(port: Port) -> None:
    """Send what comes through standard input until it ends, then end every note and reset the controllers."""
    schedule = Schedule()
    rest = b""
    gone, look = False, time.monotonic_ns() + _LOOK_NS
    try:
        while True:
            due = look if schedule.due_ns is None else min(look, schedule.due_ns)
            if readable((due - time.monotonic_ns()) / 1e9):
                data = os.read(0, 1 << 16)
                if not data:
                    return
                items, rest = unpack(rest + data)
                for item in items:
                    port.send(schedule.put(item))
            now = time.monotonic_ns()
            port.send(schedule.take(now))
            if now >= look:
                look = now + _LOOK_NS
                if port.is_there:
                    schedule.arrived()
                else:
                    if not gone:
                        tell_parent("gone")
                    gone = not port.again()
                    if not gone:
                        port.send(schedule.missed())
                        tell_parent("back")
    finally:
        port.send(schedule.quiet(sound_off=True) + schedule.leave())
        time.sleep(_LAST_S)
        port.close()


def main(arguments: list[str]) -> int:
    """The process; without a port it lists what is there, as JSON."""
    ignore_terminal()
    # It must not leave a note hanging.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if not arguments:
        print(json.dumps(there()))
        return 0
    text, *options = arguments
    try:
        if options == ["--check"]:
            tell_parent(f"ready {_find(text)[-1]}")
            return 0
        port = Port(text)
    except Exception as error:
        tell_parent(f"error {error}")
        return 1
    tell_parent(f"ready {port.name}")
    serve(port)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
