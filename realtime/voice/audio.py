"""Lists audio devices, in a separate process.

PortAudio and the libraries under it print to the terminal, and a broken driver can crash the process; neither
may happen to the show.
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

#: Sample rate (Hz) of the voice, unless the device does not support it.
SAMPLE_RATE = 48_000

_TIMEOUT_S = 20.0
_WASAPI = "Windows WASAPI"


@dataclass(frozen=True)
class Audio:
    """Result of :func:`probe`.

    Attributes:
        portaudio: PortAudio's version; None: not installed.
        outputs: Names of the output devices with at least two channels.
        default: Name of the requested device; None: it cannot be used.
        error: What went wrong; None: nothing.
    """

    portaudio: str | None
    outputs: tuple[str, ...]
    default: str | None
    error: str | None

    @property
    def usable(self) -> bool:
        """Whether the requested device can be used."""
        return self.default is not None


def probe(device: str | int | None = None) -> Audio:
    """Ask PortAudio about its devices, and about ``device`` (None: the default one); never raises."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "realtime.voice.audio", json.dumps(device)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=True,
        )
        result = json.loads(done.stdout.splitlines()[-1])
        return Audio(result["portaudio"], tuple(result["outputs"]), result["default"], result["error"])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        return Audio(None, (), None, f"asking for audio devices failed: {type(error).__name__}")


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Discard what C libraries print to standard error about missing devices."""
    try:
        saved = os.dup(2)
    except OSError:
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


@contextlib.contextmanager
def own_stderr() -> Iterator[None]:
    """Keep standard error for Python alone, because ALSA reports every underrun there, over the display."""
    try:
        saved = os.dup(2)
    except OSError:
        yield
        return
    previous = sys.stderr
    with quiet_stderr(), os.fdopen(saved, "w", buffering=1, encoding="utf-8") as stream:
        sys.stderr = stream
        try:
            yield
        finally:
            sys.stderr = previous


def device_arguments(sounddevice: Any, device: str | int | None) -> dict[str, Any]:
    """The arguments of ``sounddevice`` streams that select ``device``.

    Windows lists each device once per API; PortAudio's default is MME, which buffers a tenth of a second, so
    this selects WASAPI.
    """
    for api in sounddevice.query_hostapis():
        if api["name"] != _WASAPI:
            continue
        if device is None:
            device = int(api["default_output_device"])
        elif isinstance(device, str):
            # Matches only if all words are in the name; else the device belongs to another API.
            with contextlib.suppress(ValueError):
                device = int(sounddevice.query_devices(f"{device} {_WASAPI}", "output")["index"])
        if device in api["devices"]:
            return {"device": device, "extra_settings": sounddevice.WasapiSettings(auto_convert=True)}
    return {"device": device}


def supported_rate(sounddevice: Any, device: str | int | None) -> int:
    """The sample rate to play at: 48 kHz, or the device's own if it supports no other (a JACK server).

    Raises ValueError or PortAudioError if the device cannot be used.
    """
    selection = device_arguments(sounddevice, device)
    settings = {"channels": 2, "dtype": "float32", **selection}
    try:
        sounddevice.check_output_settings(samplerate=SAMPLE_RATE, **settings)
    except sounddevice.PortAudioError:
        rate = int(sounddevice.query_devices(selection["device"], "output")["default_samplerate"])
        sounddevice.check_output_settings(samplerate=rate, **settings)
        return rate
    return SAMPLE_RATE


def device_rate(device: str | int | None) -> int:
    """The rate of :func:`supported_rate`; 48 kHz if there is no usable device."""
    try:
        with quiet_stderr():
            import sounddevice

            return supported_rate(sounddevice, device)
    except Exception:
        # The error is reported when the device is opened.
        return SAMPLE_RATE


def _query(device: str | int | None) -> Audio:
    try:
        import sounddevice as module
    except (ImportError, OSError) as error:
        return Audio(None, (), None, str(error).splitlines()[0])
    sounddevice: Any = module
    devices = sounddevice.query_devices()
    outputs = [d["name"] for d in devices if d["max_output_channels"] >= 2]
    default, error_ = None, None
    try:
        default = sounddevice.query_devices(device_arguments(sounddevice, device)["device"], "output")["name"]
        supported_rate(sounddevice, device)
    except (sounddevice.PortAudioError, ValueError) as problem:
        default = None
        # Where there is no device, PortAudio only says that it cannot be asked ("querying device -1").
        there = any(d["max_output_channels"] for d in devices)
        error_ = str(problem).splitlines()[0] if there else "no audio device"
    return Audio(sounddevice.get_portaudio_version()[1], tuple(outputs), default, error_)


if __name__ == "__main__":
    answer = _query(json.loads(sys.argv[1]))
    print(json.dumps(answer.__dict__))
