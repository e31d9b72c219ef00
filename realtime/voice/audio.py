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

__all__ = ["SAMPLE_RATE", "Audio", "chosen", "own_stderr", "playable", "probe", "quiet_stderr", "rate_of"]

#: What is played at wherever a device takes it.
SAMPLE_RATE = 48_000

_SECONDS = 20.0
_WASAPI = "Windows WASAPI"


@dataclass(frozen=True)
class Audio:
    """PortAudio's version (None: it is missing), names of the outputs, the one that was asked for (None: it
    cannot be used), what went wrong."""

    portaudio: str | None
    outputs: tuple[str, ...]
    default: str | None
    error: str | None

    @property
    def usable(self) -> bool:
        """Whether the voice can be heard."""
        return self.default is not None


def probe(device: str | int | None = None) -> Audio:
    """Ask PortAudio, for a device (None: the default one); never raises."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "realtime.voice.audio", json.dumps(device)],
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


def playable(sounddevice: Any, device: str | int | None) -> int:
    """The rate to play at: 48 kHz, or the device's own where it takes no other (a JACK server has one).

    Raises ValueError or PortAudioError where it cannot be used.
    """
    found = chosen(sounddevice, device)
    told = {"channels": 2, "dtype": "float32", **found}
    try:
        sounddevice.check_output_settings(samplerate=SAMPLE_RATE, **told)
    except sounddevice.PortAudioError:
        rate = int(sounddevice.query_devices(found["device"], "output")["default_samplerate"])
        sounddevice.check_output_settings(samplerate=rate, **told)
        return rate
    return SAMPLE_RATE


def rate_of(device: str | int | None) -> int:
    """As :func:`playable`; 48 kHz where there is no device."""
    try:
        with quiet_stderr():
            import sounddevice

            return playable(sounddevice, device)
    except Exception:
        # Of many kinds; what is wrong is told when it is opened.
        return SAMPLE_RATE


def _ask(device: str | int | None) -> Audio:
    try:
        import sounddevice as module
    except (ImportError, OSError) as error:
        return Audio(None, (), None, str(error).splitlines()[0])
    sounddevice: Any = module
    outputs = [d["name"] for d in sounddevice.query_devices() if d["max_output_channels"] >= 2]
    default, error_ = None, None
    try:
        default = sounddevice.query_devices(chosen(sounddevice, device)["device"], "output")["name"]
        playable(sounddevice, device)
    except (sounddevice.PortAudioError, ValueError) as problem:
        default, error_ = None, str(problem).splitlines()[0]
    return Audio(sounddevice.get_portaudio_version()[1], tuple(outputs), default, error_)


if __name__ == "__main__":
    answer = _ask(json.loads(sys.argv[1]))
    print(json.dumps(answer.__dict__))
