"""A roll of what was sent that hears a voice play it, and how loud that is: LUFS by ITU-R BS.1770-4."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyanticip.vocabulary import PARAMETERS
from realtime.clock import OfflineClock
from realtime.sinks.base import ControlFrame
from realtime.sinks.capture import CaptureSink
from realtime.voice.base import Voice
from realtime.voice.strokes import Strokes

__all__ = ["RATE", "SILENCE", "OfflineListener", "integrated"]

#: The filters below are given for this sample rate.
RATE = 48_000
#: What a sound without a block above the absolute gate is said to have.
SILENCE = -70.0

# Numerator and denominator of the two stages of the K weighting.
_SHELF = (1.53512485958697, -2.69169618940638, 1.19839281085285), (1.0, -1.69065929318241, 0.73248077421585)
_HIGH_PASS = (1.0, -2.0, 1.0), (1.0, -1.99004745483398, 0.99007225036621)
_STEP = RATE // 10
_SIZE = 1 << 18


def integrated(sound: npt.NDArray[np.floating]) -> float:
    """The integrated loudness in LUFS of ``sound`` (n, 2), at :data:`RATE`: blocks of 400 ms, gated at
    -70 LUFS and at 10 LU below the mean of the rest; :data:`SILENCE` where nothing passes."""
    z = np.exp(-2j * np.pi * np.arange(_SIZE // 2 + 1) / _SIZE)
    response = np.ones((len(z), 1), np.complex128)
    for above, below in (_SHELF, _HIGH_PASS):
        response[:, 0] *= np.polyval(above[::-1], z) / np.polyval(below[::-1], z)
    weighted = np.zeros(sound.shape)
    # Part after part, each with a second of zeros: the filters' response has died away before the ends meet.
    for at in range(0, len(sound), _SIZE - RATE):
        part = np.fft.rfft(sound[at : at + _SIZE - RATE], _SIZE, axis=0) * response
        weighted[at : at + _SIZE] += np.fft.irfft(part, _SIZE, axis=0)[: len(sound) - at]
    energy = np.concatenate([[0.0], np.cumsum((weighted**2).sum(1))])
    begins = np.arange(0, len(sound) - 4 * _STEP + 1, _STEP)
    power = (energy[begins + 4 * _STEP] - energy[begins]) / (4 * _STEP)
    loud = power[_lufs(power) > SILENCE]
    if not len(loud):
        return SILENCE
    loud = loud[_lufs(loud) > _lufs(loud.mean()) - 10.0]
    return float(_lufs(loud.mean()))


def _lufs(power: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.asarray(-0.691 + 10.0 * np.log10(np.maximum(power, 1e-12)))


_CLOCKED = [PARAMETERS.index("density"), PARAMETERS.index("pulse")]


class OfflineListener(CaptureSink):
    """Writes every frame down and plays it on ``voice``; events are struck when they are due.

    ``bare`` leaves out what does not sound as long as the body moves, nor as loud: events, and the bells and
    the rhythm that go by a clock of their own (density and pulse are 0).
    """

    def __init__(self, clock: OfflineClock, voice: Voice, *, bare: bool = False) -> None:
        super().__init__(clock)
        self._bare = bare
        self._voice, self._strokes = voice, Strokes(voice)
        self._blocks: list[npt.NDArray[np.float32]] = []

    def send(self, frame: ControlFrame) -> None:
        """Write the frame down and play it."""
        super().send(frame)
        if frame.seq < 0:
            return
        voice = self._voice
        missing = round(self.times[-1] * voice.sample_rate) - voice.position
        if missing > 0:
            self._strokes.give(missing)
            self._blocks.append(voice.render(missing))
        params = np.array(frame.params, np.float32)
        if self._bare:
            params[_CLOCKED] = 0.0
        voice.params(params)
        if not self._bare:
            self._strokes.announce(frame.events)

    @property
    def sound(self) -> npt.NDArray[np.float32]:
        """All that was heard, (samples, 2)."""
        return np.concatenate(self._blocks) if self._blocks else np.zeros((0, 2), np.float32)
