"""Offline playing for the benches, a sink that plays frames on a voice, and loudness in LUFS (ITU-R
BS.1770-4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError
from pyanticip.motion.clip import Clip
from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import PARAMETERS
from realtime.clock import OfflineClock
from realtime.pipeline import Pipeline
from realtime.sinks.base import ControlFrame
from realtime.sinks.capture import CaptureSink
from realtime.sources.replay import Datagram, play_offline
from realtime.voice.base import Voice
from realtime.voice.event_queue import EventQueue

#: Sample rate of the filters below, Hz.
RATE = 48_000
#: Loudness of a sound without any block above the absolute gate, LUFS.
SILENCE = -70.0

# Numerator and denominator of the two stages of the K weighting.
_SHELF = (1.53512485958697, -2.69169618940638, 1.19839281085285), (1.0, -1.69065929318241, 0.73248077421585)
_HIGH_PASS = (1.0, -2.0, 1.0), (1.0, -1.99004745483398, 0.99007225036621)
_STEP = RATE // 10
_FFT_SIZE = 1 << 18


def load_start(path: Path, seconds: float, least_s: float) -> Clip:
    """The first ``seconds`` of a motion file; an OptionError if the file has less than ``least_s``."""
    clip = load_motion(path)
    if clip.duration < least_s:
        raise OptionError(f"{path}: expected {least_s:g} s of motion or more, has {clip.duration:.1f}")
    frames = round(seconds * clip.rate)
    return replace(clip, quats=clip.quats[:frames], root=clip.root[:frames])


def play_datagrams(pairs: Iterable[tuple[int, bytes]], clock: OfflineClock, pipeline: Pipeline) -> None:
    """Play datagrams, each with its arrival time in nanoseconds, through a pipeline on ``clock``."""
    play_offline((Datagram(*pair) for pair in pairs), clock, pipeline.feed)
    pipeline.run_until(clock.now_ns())


def integrated(sound: npt.NDArray[np.floating]) -> float:
    """Integrated loudness of ``sound`` (n, 2) at :data:`RATE`, in LUFS.

    Blocks of 400 ms, gated at -70 LUFS and at 10 LU below the mean of the rest; :data:`SILENCE` if none
    passes.
    """
    z = np.exp(-2j * np.pi * np.arange(_FFT_SIZE // 2 + 1) / _FFT_SIZE)
    response = np.ones((len(z), 1), np.complex128)
    for above, below in (_SHELF, _HIGH_PASS):
        response[:, 0] *= np.polyval(above[::-1], z) / np.polyval(below[::-1], z)
    weighted = np.zeros(sound.shape)
    # Overlap-add, each part padded with a second of zeros, in which the filters' response decays.
    for start in range(0, len(sound), _FFT_SIZE - RATE):
        part = np.fft.rfft(sound[start : start + _FFT_SIZE - RATE], _FFT_SIZE, axis=0) * response
        weighted[start : start + _FFT_SIZE] += np.fft.irfft(part, _FFT_SIZE, axis=0)[: len(sound) - start]
    energy = np.concatenate([[0.0], np.cumsum((weighted**2).sum(1))])
    starts = np.arange(0, len(sound) - 4 * _STEP + 1, _STEP)
    power = (energy[starts + 4 * _STEP] - energy[starts]) / (4 * _STEP)
    loud = power[_lufs(power) > SILENCE]
    if not len(loud):
        return SILENCE
    loud = loud[_lufs(loud) > _lufs(loud.mean()) - 10.0]
    return float(_lufs(loud.mean()))


def _lufs(power: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.asarray(-0.691 + 10.0 * np.log10(np.maximum(power, 1e-12)))


# Parameters whose sound follows a clock of the voice rather than the body.
_CLOCKED = [PARAMETERS.index("density"), PARAMETERS.index("pulse")]


class OfflineListener(CaptureSink):
    """Stores every frame and plays it on ``voice``; events are struck when they are due.

    ``bare`` omits what does not follow the body's movement in time and level: events, and the bells and the
    rhythm, which follow a clock of their own (density and pulse are set to 0).
    """

    def __init__(self, clock: OfflineClock, voice: Voice, *, bare: bool = False) -> None:
        super().__init__(clock)
        self._bare = bare
        self._voice, self._events = voice, EventQueue(voice)
        self._blocks: list[npt.NDArray[np.float32]] = []

    def send(self, frame: ControlFrame) -> None:
        """Store the frame and play it."""
        super().send(frame)
        if frame.seq < 0:
            return
        voice = self._voice
        missing = round(self.times[-1] * voice.sample_rate) - voice.position
        if missing > 0:
            self._events.release(missing)
            self._blocks.append(voice.render(missing))
        params = np.array(frame.params, np.float32)
        if self._bare:
            params[_CLOCKED] = 0.0
        voice.params(params)
        if not self._bare:
            self._events.announce(frame.events)

    @property
    def sound(self) -> npt.NDArray[np.float32]:
        """The sound so far, (samples, 2)."""
        return np.concatenate(self._blocks) if self._blocks else np.zeros((0, 2), np.float32)
