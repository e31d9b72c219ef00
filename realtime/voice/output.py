"""What the voice is heard on: an audio device, looked for again where it has gone, and a file beside it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pyanticip.errors import DeviceError, OptionError, one_line
from realtime.voice.audio import chosen, probe, quiet_stderr
from realtime.voice.wav import WavWriter, next_part

__all__ = ["BLOCK", "Sound"]

BLOCK = 480
# So many gaps in the sound within so many seconds, and the device's buffer is doubled, up to the longest.
_STALLS, _WATCH, _LONGEST_LATENCY = 5, 5.0, 0.1
# A device that does not ask for samples for so long has gone.
_UNCALLED_S = 2.0
# Pauses between two looks for a device.
_SOON_S, _LATE_S = 1.0, 8.0
# Of a file whose disk hangs, so much waits.
_WAITING_S = 60.0
# A device that is there stops within so long.
_STOPPING_S = 2.0
_FILE_ALONE = "going on into the file alone; start again to hear it"

Say = Callable[[str], None]


class Render(Protocol):
    """What makes the samples, see :meth:`realtime.voice.synth.VoicePlayer.render`."""

    def __call__(self, samples: int, now: float, latency: float = 0.0) -> npt.NDArray[np.float32]:
        """The next block, (samples, 2)."""
        ...


class Output(Protocol):
    """Something that calls the performer for samples."""

    name: str
    underruns: int
    latency: float

    def alive(self) -> bool:
        """Whether it still plays."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


class _Device:
    """An audio device, by PortAudio's callback."""

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
        #: Whether it was let go of, running as it may.
        self.left = False
        self._stream = sounddevice.OutputStream(
            samplerate=tap.rate,
            channels=2,
            dtype="float32",
            **chosen(sounddevice, device),
            latency=latency,
            callback=self._callback,
        )
        self._called = time.monotonic()
        self._stream.start()
        self.name = str(sounddevice.query_devices(self._stream.device)["name"])
        self.latency = float(self._stream.latency)

    def _callback(self, out: npt.NDArray[np.float32], samples: int, times: Any, status: Any) -> None:
        self._called = time.monotonic()
        if self.left:
            out.fill(0.0)
            return
        if status:
            self.underruns += 1
        latency = times.outputBufferDacTime - times.currentTime
        block = self._render(samples, time.monotonic(), latency if 0.0 <= latency < 1.0 else 0.0)
        out[:] = block
        self._tap.put(block)

    def alive(self) -> bool:
        # The stream of a server that has gone may be active for ever, and never call.
        return bool(self._stream.active) and time.monotonic() - self._called < _UNCALLED_S

    def leave(self) -> None:
        """Let go of a device that has gone: to stop it may take for ever."""
        self.left = True

    def close(self) -> None:
        # It may have gone just now.
        stopping = threading.Thread(target=self._stop, daemon=True)
        stopping.start()
        stopping.join(_STOPPING_S)
        if stopping.is_alive():
            self.leave()

    def _stop(self) -> None:
        with contextlib.suppress(Exception):
            self._stream.stop()
        with contextlib.suppress(Exception):
            self._stream.close()


class _Silent:
    """No device: the sound is made all the same, at its own pace, for the ``--wav`` file."""

    name = "no device"
    latency = 0.0

    def __init__(self, render: Render, tap: _Tap) -> None:
        self.underruns = 0
        self._render, self._tap = render, tap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begun = time.monotonic()
        done = 0
        while not self._stop.is_set():
            wait = begun + done / self._tap.rate - time.monotonic()
            if wait > 0:
                self._stop.wait(wait)
            self._tap.put(self._render(BLOCK, time.monotonic()))
            done += BLOCK

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2.0)


class _Tap:
    """Takes what is played, ``rate`` samples a second, to a file, off the audio thread.

    A file that is full goes on in another one, NAME.2.wav; where nothing can be written, it ends and the
    sound does not; of a disk that hangs for longer than a minute, what comes then is left out: ``say`` is
    told.
    """

    def __init__(self, path: Path | None, rate: int, say: Say) -> None:
        if path is not None and path.exists():
            raise OptionError(f"{path}: exists already; a recording is never overwritten")
        self.rate = rate
        self._path, self._say = path, say
        self._file = WavWriter(path, rate, new=True) if path is not None else None
        self._blocks: deque[npt.NDArray[np.float32]] = deque()
        # Samples: those put and lost are counted by whoever plays, those taken and told of by who writes.
        self._put = self._lost = self._taken = self._told = 0

    def put(self, block: npt.NDArray[np.float32]) -> None:
        if self._file is None:
            return
        if self._put - self._taken > _WAITING_S * self.rate:
            self._lost += len(block)
            return
        self._put += len(block)
        self._blocks.append(block)

    def flush(self) -> None:
        try:
            while self._file is not None and self._blocks:
                block = self._blocks.popleft()
                self._taken += len(block)
                if self._file.room < len(block):
                    self._file = self._next(self._file)
                self._file.write(block)
            if self._file is not None and (lost := self._lost - self._told):
                self._told += lost
                self._say(f"{self._file.path}: {lost / self.rate:.1f} s are left out, for the disk hung")
        except DeviceError as error:
            self._say(f"{error}; it ends here, the voice plays on")
            self._finish()

    def _next(self, full: WavWriter) -> WavWriter:
        """The file behind one that is full."""
        full.close()
        part = next_part(self._path or full.path)
        self._say(f"{full.path} has 4 GiB; going on in {part}")
        return WavWriter(part, self.rate, new=True)

    def _finish(self) -> None:
        file, self._file = self._file, None
        self._blocks.clear()
        if file is not None:
            wanted = file.path
            try:
                file.close()
            except DeviceError as error:
                self._say(str(error))
            if file.path != wanted:
                self._say(f"{wanted} is another's by now; the sound is in {file.path}")

    def close(self) -> None:
        self.flush()
        self._finish()


class Sound:
    """The device ``name`` (None: the default one), or silence while there is none, and the file, at ``rate``.

    Without PortAudio or without a device ``say`` is told so; unless there is a file, it is looked for from
    then on.
    """

    def __init__(self, render: Render, rate: int, name: str | int | None, wav: Path | None, say: Say) -> None:
        self._make, self._name, self._say = render, name, say
        # What the voice raised: whoever asks for samples could only end without a word.
        self._failed: Exception | None = None
        self._has_file = wav is not None
        self._tap = _Tap(wav, rate, say)
        self._stalls, self._watched = 0, time.monotonic()
        self._pause, self._again = _SOON_S, 0.0
        self._underruns = 0
        #: Whether it takes a new process to be heard: PortAudio asks once which devices there are, and what
        #: lies under it may hang, or crash, where its server has gone.
        self.begin_anew = False
        #: Whether a device has gone that could not be stopped: PortAudio cannot end then.
        self.lost = False
        self._output: Output | None = None
        self._open("low")

    @property
    def plays(self) -> bool:
        """Whether samples are asked for, be it for the file alone."""
        return self._output is not None

    @property
    def device(self) -> str | None:
        """The device's name; None: there is none."""
        return self._output.name if isinstance(self._output, _Device) else None

    @property
    def latency(self) -> float:
        """How much later than rendered a sample is heard, seconds."""
        return 0.0 if self._output is None else self._output.latency

    @property
    def underruns(self) -> int:
        """Gaps in the sound so far."""
        return self._underruns + (0 if self._output is None else self._output.underruns)

    def _render(self, samples: int, now: float, latency: float = 0.0) -> npt.NDArray[np.float32]:
        if self._failed is None:
            try:
                return self._make(samples, now, latency)
            except Exception as error:
                self._failed = error
        return np.zeros((samples, 2), np.float32)

    def _open(self, latency: float | str) -> None:
        self._stalls = 0
        goes_on = _FILE_ALONE if self._has_file else "going on without, and looking for it"
        self._output = _open_device(self._render, self._name, self._tap, self._say, latency, goes_on)
        if self._output is None and self._has_file:
            # It goes on at its own pace, and nothing is looked for any more.
            self._output = _Silent(self._render, self._tap)

    def _close(self, *, gone: bool = False) -> None:
        if self._output is not None:
            if isinstance(self._output, _Device) and gone:
                self._output.leave()
            else:
                self._output.close()
            self.lost |= isinstance(self._output, _Device) and self._output.left
            self._underruns += self._output.underruns
            self._output = None

    def poll(self) -> None:
        """Now and then, from the main thread: write what was played, look after the device.

        Raises:
            DeviceError: the voice failed, and is silent; a new process may play on.
        """
        self._tap.flush()
        if self._failed is not None:
            raise DeviceError(str(self._failed)) from self._failed
        now = time.monotonic()
        if self._output is None and now >= self._again:
            self._again = float("inf")
            threading.Thread(target=self._look, daemon=True).start()
        if not isinstance(self._output, _Device):
            return
        if not self._output.alive():
            goes_on = _FILE_ALONE if self._has_file else "looking for it"
            self._say(f"audio device {self._output.name!r} has gone; {goes_on}")
            if self._has_file:
                self._close(gone=True)
                self._output = _Silent(self._render, self._tap)
            else:
                self.begin_anew = True
        elif now - self._watched >= _WATCH:
            stalls = self._output.underruns - self._stalls
            self._watched, self._stalls = now, self._output.underruns
            if stalls >= _STALLS and self._output.latency < _LONGEST_LATENCY:
                latency = max(2.0 * self._output.latency, 0.02)
                self._say(f"{stalls} gaps in {_WATCH:g} s: buffering {1000 * latency:.0f} ms from now on")
                self._close()
                self._open(latency)

    def _look(self) -> None:
        self.begin_anew = probe(self._name).usable
        self._again = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LATE_S)

    def close(self) -> None:
        """Stop, and finish the file."""
        self._close()
        self._tap.close()


def _open_device(
    render: Render, device: str | int | None, tap: _Tap, say: Say, latency: float | str, goes_on: str
) -> _Device | None:
    """The audio device; where there is none, says why in one line and returns None."""
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
        say(f"no sound: {which} cannot be used ({one_line(error)}); {goes_on}")
        return None
