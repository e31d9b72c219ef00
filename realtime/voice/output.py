"""Output of the voice: an audio device, which is looked for again when it is gone, and a WAV file."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import FOREIGN, DeviceError, OptionError, one_line
from realtime.voice.audio import device_arguments, probe, quiet_stderr
from realtime.voice.wav import WavWriter, next_part

#: Samples per block without an audio device.
BLOCK = 480
# This many underruns within the interval double the device's buffer, up to the maximum latency.
_MAX_UNDERRUNS, _CHECK_INTERVAL_S, _MAX_LATENCY_S = 5, 5.0, 0.1
# A device that has not asked for samples for this long is gone.
_CALLBACK_TIMEOUT_S = 2.0
# Delay before looking for a device; doubled each time, up to the maximum.
_PROBE_DELAY_S, _MAX_PROBE_DELAY_S = 1.0, 8.0
# Most sound that waits for a disk that hangs.
_MAX_QUEUED_S = 60.0
# A working device stops within this time.
_STOP_TIMEOUT_S = 2.0
_FILE_ONLY = "continuing with the file only; start again to hear it"

Say = Callable[[str], None]


#: Renders the next block, shape (samples, 2); see :meth:`realtime.voice.synth.VoicePlayer.render`.
Render = Callable[[int, float, float], npt.NDArray[np.float32]]


class _Device:
    """An audio device, driven by PortAudio's callback."""

    def __init__(
        self,
        sounddevice: Any,
        device: str | int | None,
        latency: float | str,
        render: Render,
        tap: _Tap,
    ) -> None:
        self.underruns = 0
        self._render, self._tap = render, tap
        #: Whether it was abandoned, because it could not be stopped.
        self.is_abandoned = False
        self._stream = sounddevice.OutputStream(
            samplerate=tap.rate,
            channels=2,
            dtype="float32",
            **device_arguments(sounddevice, device),
            latency=latency,
            callback=self._callback,
        )
        self._last_callback = time.monotonic()
        self._stream.start()
        self.name = str(sounddevice.query_devices(self._stream.device)["name"])
        self.latency = float(self._stream.latency)

    def _callback(self, out: npt.NDArray[np.float32], samples: int, times: Any, status: Any) -> None:
        self._last_callback = time.monotonic()
        if self.is_abandoned:
            out.fill(0.0)
            return
        if status:
            self.underruns += 1
        latency = times.outputBufferDacTime - times.currentTime
        block = self._render(samples, time.monotonic(), latency if 0.0 <= latency < 1.0 else 0.0)
        out[:] = block
        self._tap.put(block)

    def is_alive(self) -> bool:
        # The stream of a server that is gone may stay active for ever without a callback.
        return bool(self._stream.active) and time.monotonic() - self._last_callback < _CALLBACK_TIMEOUT_S

    def abandon(self) -> None:
        """Leave the stream of a device that is gone, because stopping it may block for ever."""
        self.is_abandoned = True

    def close(self) -> None:
        # In a thread, because the device may just have gone.
        stopping = threading.Thread(target=self._stop, daemon=True)
        stopping.start()
        stopping.join(_STOP_TIMEOUT_S)
        if stopping.is_alive():
            self.abandon()

    def _stop(self) -> None:
        with contextlib.suppress(Exception):
            self._stream.stop()
        with contextlib.suppress(Exception):
            self._stream.close()


class _FileOnly:
    """No device: renders in real time for the ``--wav`` file alone."""

    name = "no device"
    latency = 0.0

    def __init__(self, render: Render, tap: _Tap) -> None:
        self.underruns = 0
        self._render, self._tap = render, tap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        start = time.monotonic()
        rendered = 0
        while not self._stop.is_set():
            wait = start + rendered / self._tap.rate - time.monotonic()
            if wait > 0:
                self._stop.wait(wait)
            self._tap.put(self._render(BLOCK, time.monotonic(), self.latency))
            rendered += BLOCK

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2.0)


class _Tap:
    """Writes what is played, ``rate`` samples per second, to a file, off the audio thread.

    A full file is continued in another one, NAME.2.wav. If the file cannot be written, it ends and the sound
    goes on; if the disk hangs for longer than a minute, further samples are discarded. ``say`` reports each.
    """

    def __init__(self, path: Path | None, rate: int, say: Say) -> None:
        if path is not None and path.exists():
            raise OptionError(f"{path}: already exists; a recording is never overwritten")
        self.rate = rate
        self._path, self._say = path, say
        self._file = WavWriter(path, rate, new=True) if path is not None else None
        self._blocks: deque[npt.NDArray[np.float32]] = deque()
        # Numbers of samples. Queued and lost are written by the audio thread only, taken and reported by the
        # writing thread only.
        self._queued = self._lost = self._taken = self._reported = 0
        self.is_complete = True

    def put(self, block: npt.NDArray[np.float32]) -> None:
        if self._file is None:
            return
        if self._queued - self._taken > _MAX_QUEUED_S * self.rate:
            self._lost += len(block)
            return
        self._queued += len(block)
        self._blocks.append(block)

    def flush(self) -> None:
        try:
            while self._file is not None and self._blocks:
                block = self._blocks.popleft()
                self._taken += len(block)
                if self._file.room < len(block):
                    self._file = self._open_next_part(self._file)
                self._file.write(block)
            if self._file is not None and (lost := self._lost - self._reported):
                self._reported += lost
                self.is_complete = False
                self._say(f"{self._file.path}: {lost / self.rate:.1f} s are missing, because the disk hung")
        except DeviceError as error:
            self.is_complete = False
            self._say(f"{error}; it ends here, the voice plays on")
            self._finish()

    def _open_next_part(self, full: WavWriter) -> WavWriter:
        """Close a full file and open the one that continues it."""
        full.close()
        part = next_part(self._path or full.path)
        self._say(f"{full.path} has 4 GiB; continuing in {part}")
        return WavWriter(part, self.rate, new=True)

    def _finish(self) -> None:
        file, self._file = self._file, None
        self._blocks.clear()
        if file is not None:
            path = file.path
            try:
                file.close()
            except DeviceError as error:
                self.is_complete = False
                self._say(str(error))
            if file.path != path:
                self._say(f"{path} was made by another program meanwhile; the sound is in {file.path}")

    def close(self) -> None:
        self.flush()
        self._finish()


class Sound:
    """Plays ``render`` on the device ``name`` (None: the default one) and into the file ``wav``, at ``rate``.

    If PortAudio or the device is missing, ``say`` reports it; without a file, the device is then looked for.
    """

    def __init__(self, render: Render, rate: int, name: str | int | None, wav: Path | None, say: Say) -> None:
        self._render_voice, self._name, self._say = render, name, say
        # An error of the voice, which `poll` raises: in the audio callback it would end the sound silently.
        self._error: BaseException | None = None
        self._has_file = wav is not None
        self._tap = _Tap(wav, rate, say)
        # Underruns of the device at the last check, and when that was.
        self._checked_underruns, self._checked_at = 0, time.monotonic()
        self._probe_delay, self._probe_at = _PROBE_DELAY_S, 0.0
        self._underruns = 0
        #: Whether only a new process can play: PortAudio lists devices once, and the libraries under it may
        #: hang or crash when their server is gone.
        self.needs_restart = False
        #: Whether a device is gone that could not be stopped; PortAudio cannot terminate then.
        self.lost = False
        self._output: _Device | _FileOnly | None = None
        self._open("low")

    @property
    def plays(self) -> bool:
        """Whether samples are rendered, even if only for the file."""
        return self._output is not None

    @property
    def wav_complete(self) -> bool:
        """Whether nothing is missing in the file, if there is one."""
        return self._tap.is_complete

    @property
    def device(self) -> str | None:
        """Name of the audio device; None: there is none."""
        return self._output.name if isinstance(self._output, _Device) else None

    @property
    def latency(self) -> float:
        """Seconds from rendering to hearing a sample."""
        return 0.0 if self._output is None else self._output.latency

    @property
    def underruns(self) -> int:
        """Number of gaps in the sound so far."""
        return self._underruns + (0 if self._output is None else self._output.underruns)

    def _render(self, samples: int, now: float, latency: float) -> npt.NDArray[np.float32]:
        if self._error is None:
            try:
                return self._render_voice(samples, now, latency)
            except FOREIGN as error:
                self._error = error
        return np.zeros((samples, 2), np.float32)

    def _open(self, latency: float | str) -> None:
        self._checked_underruns = 0
        consequence = _FILE_ONLY if self._has_file else "continuing without, and looking for it"
        self._output = _open_device(self._render, self._name, self._tap, self._say, latency, consequence)
        if self._output is None and self._has_file:
            # The device is not looked for any more.
            self._output = _FileOnly(self._render, self._tap)

    def _close(self, *, is_gone: bool = False) -> None:
        if self._output is not None:
            if isinstance(self._output, _Device) and is_gone:
                self._output.abandon()
            else:
                self._output.close()
            self.lost |= isinstance(self._output, _Device) and self._output.is_abandoned
            self._underruns += self._output.underruns
            self._output = None

    def poll(self) -> None:
        """Write what was played to the file and check the device; call it regularly from the main thread.

        Raises:
            DeviceError: The voice failed and is silent; a new process may play on.
        """
        self._tap.flush()
        if self._error is not None:
            raise DeviceError(str(self._error)) from self._error
        now = time.monotonic()
        if self._output is None and now >= self._probe_at:
            self._probe_at = float("inf")
            threading.Thread(target=self._probe_device, daemon=True).start()
        if not isinstance(self._output, _Device):
            return
        if not self._output.is_alive():
            consequence = _FILE_ONLY if self._has_file else "looking for it"
            self._say(f"audio device {self._output.name!r} has gone; {consequence}")
            if self._has_file:
                self._close(is_gone=True)
                self._output = _FileOnly(self._render, self._tap)
            else:
                self.needs_restart = True
        elif now - self._checked_at >= _CHECK_INTERVAL_S:
            new = self._output.underruns - self._checked_underruns
            self._checked_at, self._checked_underruns = now, self._output.underruns
            if new >= _MAX_UNDERRUNS and self._output.latency < _MAX_LATENCY_S:
                latency = max(2.0 * self._output.latency, 0.02)
                self._say(
                    f"{new} gaps in {_CHECK_INTERVAL_S:g} s: buffering {1000 * latency:.0f} ms from now on"
                )
                self._close()
                self._open(latency)

    def _probe_device(self) -> None:
        self.needs_restart = probe(self._name).usable
        self._probe_at = time.monotonic() + self._probe_delay
        self._probe_delay = min(2 * self._probe_delay, _MAX_PROBE_DELAY_S)

    def close(self) -> None:
        """Stop, and complete the file."""
        self._close()
        self._tap.close()


def _open_device(
    render: Render, device: str | int | None, tap: _Tap, say: Say, latency: float | str, consequence: str
) -> _Device | None:
    """Open the audio device; if that fails, says why in one line, with the consequence, and returns None."""
    try:
        with quiet_stderr():
            import sounddevice
    except (ImportError, OSError) as error:
        say(f"no sound: {one_line(error)}; install PortAudio (Debian: libportaudio2) to hear the voice")
        return None
    try:
        with quiet_stderr():
            return _Device(sounddevice, device, latency, render, tap)
    except (sounddevice.PortAudioError, ValueError, OSError) as error:
        which = "the default audio device" if device is None else f"audio device {device!r}"
        say(f"no sound: {which} cannot be used ({one_line(error)}); {consequence}")
        return None
