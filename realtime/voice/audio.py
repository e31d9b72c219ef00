"""Which audio devices there are: asked in a process of its own.

PortAudio and the libraries under it print to the terminal, and a broken driver can take the asker down;
neither must happen to the show.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Audio", "chosen", "own_stderr", "probe", "quiet_stderr"]

_SECONDS = 20.0
_WASAPI = "Windows WASAPI"


@dataclass(frozen=True)
class Audio:
    """PortAudio's version (None: it is missing), names of the outputs, the default one, what went wrong."""

    portaudio: str | None
    outputs: tuple[str, ...]
    default: str | None
    error: str | None

    @property
    def usable(self) -> bool:
        """Whether the voice can be heard."""
        return self.default is not None


def probe() -> Audio:
    """Ask PortAudio; never raises."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "realtime.voice.audio"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        return Audio(found["portaudio"], tuple(found["outputs"]), found["default"], found["error"])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        return Audio(None, (), None, f"asking for audio devices failed: {type(error).__name__}")


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Send what C libraries print about devices that are not there to nowhere."""
    try:
        saved = os.dup(2)
    except OSError:
        yield
        return
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


@contextlib.contextmanager
def own_stderr() -> Iterator[None]:
    """Keep standard error for Python alone: ALSA reports every gap in the sound there, over what is drawn."""
    try:
        saved = os.dup(2)
    except OSError:
        yield
        return
    before = sys.stderr
    with quiet_stderr(), os.fdopen(saved, "w", buffering=1, encoding="utf-8") as stream:
        sys.stderr = stream
        try:
            yield
        finally:
            sys.stderr = before


def chosen(sounddevice: Any, device: str | int | None) -> dict[str, Any]:
    """The device that is meant, as ``sounddevice`` takes it.

    Windows has each several times: left to PortAudio it is that of MME, which buffers a tenth of a second.
    """
    for api in sounddevice.query_hostapis():
        if api["name"] != _WASAPI:
            continue
        if device is None:
            device = int(api["default_output_device"])
        elif isinstance(device, str):
            # All of the words have to be there, and it may be another's.
            with contextlib.suppress(ValueError):
                device = int(sounddevice.query_devices(f"{device} {_WASAPI}", "output")["index"])
        if device in api["devices"]:
            return {"device": device, "extra_settings": sounddevice.WasapiSettings(auto_convert=True)}
    return {"device": device}


def _ask() -> Audio:
    try:
        import sounddevice as module
    except (ImportError, OSError) as error:
        return Audio(None, (), None, str(error).splitlines()[0])
    sounddevice: Any = module
    outputs = [d["name"] for d in sounddevice.query_devices() if d["max_output_channels"] >= 2]
    default, error_ = None, None
    try:
        device = chosen(sounddevice, None)
        default = sounddevice.query_devices(device["device"], "output")["name"]
        sounddevice.check_output_settings(channels=2, samplerate=48_000, dtype="float32", **device)
    except (sounddevice.PortAudioError, ValueError) as problem:
        default, error_ = None, str(problem).splitlines()[0]
    return Audio(sounddevice.get_portaudio_version()[1], tuple(outputs), default, error_)


if __name__ == "__main__":
    answer = _ask()
    print(json.dumps(answer.__dict__))
