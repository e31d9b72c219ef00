"""Servers of our own that nobody hears: PulseAudio for the voice, JACK for MIDI; where they are installed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from realtime.voice.audio import quiet_stderr

__all__ = ["Notes", "Pulse", "midi_port", "pulse"]

_ALSA = Path("/usr/share/alsa/alsa.conf")
_STARTS_S = 10.0


class Pulse:
    """A PulseAudio server with a sink that nobody hears, in ``folder``; ``environment`` reaches it."""

    def __init__(self, folder: Path) -> None:
        config = folder / "asound.conf"
        config.write_text("pcm.!default { type pulse }\nctl.!default { type pulse }\n")
        self._socket = folder / "pulse" / "native"
        self.environment = {
            "XDG_RUNTIME_DIR": str(folder),
            "PULSE_SERVER": f"unix:{self._socket}",
            "PULSE_COOKIE": str(folder / "cookie"),
            "ALSA_CONFIG_PATH": f"{_ALSA}:{config}",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> bool:
        """Begin; whether it answers."""
        self._process = subprocess.Popen(
            ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "-L",
             "module-native-protocol-unix", "-L", "module-null-sink sink_name=null rate=48000"],
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + _STARTS_S
        while time.monotonic() < until and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(self._socket))
                return True
            time.sleep(0.05)
        return False

    def stop(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def pulse() -> Iterator[Pulse | None]:
    """A server that plays to nobody; None where there can be none."""
    plugin = _ALSA.parent / "alsa.conf.d" / "pulse.conf"
    if shutil.which("pulseaudio") is None or not plugin.is_file():
        yield None
        return
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        server = Pulse(Path(folder))
        try:
            yield server if server.start() else None
        finally:
            server.stop()


class Notes:
    """A MIDI port that the show plays to: which notes sound."""

    name = "listener"

    def __init__(self, port: Any) -> None:
        self._port = port
        self._sounding: set[tuple[int, int]] = set()
        self.count = 0
        port.set_callback(self._hear)

    def _hear(self, event: tuple[list[int], float], data: object = None) -> None:
        status, *rest = event[0]
        kind, channel = status & 0xF0, status & 0x0F
        if kind == 0x90 and rest[1]:
            self._sounding.add((channel, rest[0]))
            self.count += 1
        elif kind in (0x80, 0x90):
            self._sounding.discard((channel, rest[0]))
        elif kind == 0xB0 and rest[0] in (120, 123):
            self._sounding = {note for note in self._sounding if note[0] != channel}

    @property
    def sounding(self) -> int:
        """How many notes sound."""
        return len(self._sounding)


@contextlib.contextmanager
def midi_port() -> Iterator[Notes | None]:
    """A port that plays to nobody, on a JACK server of our own; None where there can be none."""
    if importlib.util.find_spec("rtmidi") is None or shutil.which("jackd") is None:
        yield None
        return
    import rtmidi

    name = f"soak{os.getpid()}"
    told = {"JACK_DEFAULT_SERVER": name, "JACK_NO_START_SERVER": "1"}
    before = {key: os.environ.get(key) for key in told}
    # Ours and the show's: it inherits what we have.
    os.environ.update(told)
    server = subprocess.Popen(
        ["jackd", "--no-realtime", "-n", name, "-d", "dummy", "-r", "48000", "-p", "1024"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    port = None
    try:
        port = _listen(rtmidi)
        yield None if port is None else Notes(port)
    finally:
        if port is not None:
            port.delete()
        server.terminate()
        server.wait()
        for key, value in before.items():
            os.environ.pop(key, None) if value is None else os.environ.update({key: value})


def _listen(rtmidi: Any) -> Any:
    """A port, once the server is there; None: it does not come."""
    until = time.monotonic() + _STARTS_S
    while time.monotonic() < until:
        with quiet_stderr(), contextlib.suppress(rtmidi.RtMidiError):
            # Without a server an output cannot be made; an input can, and nobody sees it.
            rtmidi.MidiOut(rtmidi.API_UNIX_JACK).delete()
            port = rtmidi.MidiIn(rtmidi.API_UNIX_JACK, name=Notes.name)
            port.open_virtual_port(Notes.name)
            return port
        time.sleep(0.2)
    return None
