"""Loudness of a sound in LUFS: ITU-R BS.1770-4, integrated, two channels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError

__all__ = ["RATE", "SILENCE", "integrated"]

#: The filters below are given for this sample rate.
RATE = 48_000
#: What a sound without a block above the absolute gate is said to have.
SILENCE = -70.0

# Numerator and denominator of the two stages of the K weighting.
_SHELF = (1.53512485958697, -2.69169618940638, 1.19839281085285), (1.0, -1.69065929318241, 0.73248077421585)
_HIGH_PASS = (1.0, -2.0, 1.0), (1.0, -1.99004745483398, 0.99007225036621)
_STEP = RATE // 10


def integrated(sound: npt.NDArray[np.floating], rate: int = RATE) -> float:
    """The integrated loudness of ``sound`` (n, 2) in LUFS: blocks of 400 ms, gated at -70 LUFS and at 10 LU
    below the mean of the rest; :data:`SILENCE` where nothing passes."""
    if rate != RATE or sound.ndim != 2:
        raise OptionError(f"loudness: expected (n, channels) at {RATE} Hz, got {sound.shape} at {rate}")
    # A second of zeros: the filters' response has died away before the ends meet.
    size = 1 << (len(sound) + RATE).bit_length()
    z = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    response = np.ones(len(z), np.complex128)
    for above, below in (_SHELF, _HIGH_PASS):
        response *= np.polyval(above[::-1], z) / np.polyval(below[::-1], z)
    weighted = np.fft.irfft(np.fft.rfft(sound, size, axis=0) * response[:, None], size, axis=0)[: len(sound)]
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
