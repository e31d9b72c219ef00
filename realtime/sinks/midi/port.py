"""The process that owns the MIDI port: ``python -P -m realtime.sinks.midi.port PORT``. With ``--check
MidiOut`` (or ``MidiIn``) it only checks that the port exists; without a port it lists the ports as JSON.

Items from standard input are sent when they are due. When the input ends, however the show died, every note
is ended, controllers are reset, and the process exits. A separate process keeps its own timing and protects
the show from a driver that hangs or crashes. A port that vanishes is looked for once a second. Lines on
standard output: ``ready NAME``, ``error TEXT``, ``gone``, ``back``.
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
from pyanticip.system import ignore_terminal, wait_readable
from realtime.child import tell_parent
from realtime.sinks.midi.schedule import Schedule, unpack

VIRTUAL = "virtual"
_CLIENT = "pyanticip"
# An open port is looked at so often that a program cannot be restarted between two looks; then the new port
# would be listed under the old name, and not be connected.
_CHECK_INTERVAL_NS = 100_000_000
_REOPEN_INTERVAL_NS = 1_000_000_000
# A program's port is listed a moment before it can be connected to, and JACK's driver does not report a
# failure then.
_SETTLE_S = 0.3
# Drivers send in cycles of their own: the last messages have left after this time.
_DRAIN_S = 0.5


def _rtmidi() -> Any:
    import rtmidi as module

    return module


def _drivers(direction: str = "MidiOut") -> Iterator[Any]:
    """Yield an output (or input, ``MidiIn``) of every driver that works here (CoreMIDI; ALSA and JACK)."""
    rtmidi = _rtmidi()
    for api in rtmidi.get_compiled_api():
        if api != rtmidi.API_RTMIDI_DUMMY:
            try:
                yield getattr(rtmidi, direction)(api, name=_CLIENT)
            except rtmidi.RtMidiError:
                continue


def list_ports() -> dict[str, list[str]]:
    """Names of the working drivers and of the output ports."""
    rtmidi = _rtmidi()
    drivers = list(_drivers())
    return {
        "drivers": [rtmidi.get_api_display_name(driver.get_current_api()) for driver in drivers],
        "ports": [name for driver in drivers for name in driver.get_ports()],
    }


def open_port(text: str, direction: str = "MidiOut") -> tuple[Any, str]:
    """Open the port that the rig's ``text`` names, or create it; returns its driver and its name.

    Raises:
        DeviceError: There is no such port, or it cannot be created.
    """
    driver, index, name = _find(text, direction)
    if index is not None:
        time.sleep(_SETTLE_S)
        driver, index, name = _find(text, direction)
        driver.open_port(index, _CLIENT)
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
    """One open output port; ``text`` names it as in the rig."""

    def __init__(self, text: str) -> None:
        self._failures: tuple[type[Exception], ...] = (MotionError, _rtmidi().RtMidiError)
        self._text = text
        self._out: Any = None
        self.name = ""
        self.open()

    def open(self) -> None:
        """Find the port, or create it. Raises DeviceError."""
        self._out, self.name = open_port(self._text)

    @property
    def is_present(self) -> bool:
        """Whether the port is open and still listed by its driver."""
        return self._out is not None and (
            self._text.partition(":")[0] == VIRTUAL or self.name in self._out.get_ports()
        )

    def reopen(self) -> bool:
        """Try to open the port again; returns whether that worked."""
        self.close()
        try:
            self.open()
        except self._failures:
            return False
        return True

    def send(self, messages: Iterable[bytes]) -> None:
        """Send the messages; they are discarded while the port is gone."""
        if self._out is None:
            return
        try:
            for message in messages:
                self._out.send_message(message)
        except self._failures:
            self.close()

    def close(self) -> None:
        """Close the port."""
        if self._out is not None:
            self._out.delete()
            self._out = None


def _find(text: str, direction: str = "MidiOut") -> tuple[Any, int | None, str]:
    """The driver of the port that ``text`` names, the port's index there (None: to be created) and its name.
    Raises DeviceError."""
    drivers = list(_drivers(direction))
    kind, _, name = text.partition(":")
    if kind == VIRTUAL:
        if not drivers:
            raise DeviceError(f"MIDI {text}: no MIDI driver answers here (ALSA, JACK, CoreMIDI)")
        return drivers[0], None, name or _CLIENT
    ports = [(driver, index, port) for driver in drivers for index, port in enumerate(driver.get_ports())]
    return ports[_choose(text, [port for *_, port in ports])]


def _choose(text: str, names: list[str]) -> int:
    """The index of the port that ``text`` names: exactly, or as the only one that contains it."""
    matches = [name for name in names if name == text]
    matches = matches or [name for name in names if text.lower() in name.lower()]
    if len(set(matches)) == 1:
        return names.index(matches[0])
    if matches:
        raise DeviceError(f"MIDI port {text!r} may be any of: {', '.join(matches)}")
    raise DeviceError(
        f"no MIDI port {text!r}; there is: {', '.join(names) or 'none'}; {VIRTUAL} makes one of its own"
    )


def serve(port: Port) -> None:
    """Send the items from standard input until it ends, then end every note and reset the controllers."""
    schedule = Schedule()
    unread = b""
    is_gone, check_at = False, time.monotonic_ns() + _CHECK_INTERVAL_NS
    try:
        while True:
            wake_at = check_at if schedule.due_ns is None else min(check_at, schedule.due_ns)
            if wait_readable((wake_at - time.monotonic_ns()) / 1e9):
                data = os.read(0, 1 << 16)
                if not data:
                    return
                items, unread = unpack(unread + data)
                for item in items:
                    port.send(schedule.put(item))
            now = time.monotonic_ns()
            port.send(schedule.take(now))
            if now >= check_at:
                if port.is_present:
                    schedule.confirm_delivery()
                else:
                    if not is_gone:
                        tell_parent("gone")
                    is_gone = not port.reopen()
                    if not is_gone:
                        port.send(schedule.missed_note_offs())
                        tell_parent("back")
                check_at = now + (_REOPEN_INTERVAL_NS if is_gone else _CHECK_INTERVAL_NS)
    finally:
        port.send(schedule.end_notes(sound_off=True) + schedule.reset_controllers())
        time.sleep(_DRAIN_S)
        port.close()


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    ignore_terminal()
    # Exit through `serve`'s cleanup, so that no note hangs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if not arguments:
        print(json.dumps(list_ports()))
        return 0
    text, *options = arguments
    try:
        if options:
            tell_parent(f"ready {_find(text, options[-1])[-1]}")
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
