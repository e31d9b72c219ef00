"""The teacher's zero-phase smoother, its causal counterpart, and the causal twin of the parameters."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import convolve1d
from scipy.signal import lfilter

from pyanticip._core import CausalTwins
from pyanticip.errors import OptionError
from pyanticip.vocabulary import RATE

Array = NDArray[np.float64]


def gaussian_kernel(cutoff_hz: float) -> Array:
    """Taps of a Gaussian low-pass, sum 1, with a gain of -3 dB at ``cutoff_hz``.

    A Gaussian of standard deviation s seconds has the gain exp(-2 (pi s f)^2), hence
    s = sqrt(ln 2) / (2 pi f). The taps are positive: the output keeps the input's bounds, without ringing.
    """
    sigma = np.sqrt(np.log(2.0)) / (2.0 * np.pi * cutoff_hz) * RATE
    radius = int(np.ceil(4.0 * sigma))
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return np.asarray(taps / taps.sum(), dtype=np.float64)


def smooth(x: Array, cutoff_hz: float) -> Array:
    """Zero-phase low-pass of (T, ...) along time, -3 dB at ``cutoff_hz``.

    At both ends the kernel is truncated and renormalised; there is no padding.
    """
    taps = gaussian_kernel(cutoff_hz)
    mass = convolve1d(np.ones(len(x)), taps, mode="constant")
    total = convolve1d(x, taps, axis=0, mode="constant")
    return np.asarray(total / mass.reshape(-1, *[1] * (x.ndim - 1)), dtype=np.float64)


def derivative(x: Array) -> Array:
    """Central difference of (T, ...) per second; one-sided at the two ends, zero for a single frame."""
    if len(x) < 2:
        return np.zeros_like(x)
    return np.asarray(np.gradient(x, 1.0 / RATE, axis=0), dtype=np.float64)


class CausalLowPass:
    """Identical one-pole low-passes in series, with an exact group delay at zero frequency.

    A one-pole ``y += a (x - y)`` delays slow changes by (1 - a)/a frames, so n of them with
    a = 1/(1 + d/n) delay by d frames; d = 0 passes everything through. The state is initialised from the
    first frame, so there is no transient from zero.
    """

    def __init__(self, delay_frames: float, poles: int = 2) -> None:
        if not delay_frames >= 0.0:
            raise OptionError(f"delay_frames must be at least 0, got {delay_frames}")
        self.gain = 1.0 / (1.0 + delay_frames / poles)
        self.poles = poles
        self._state: list[Array] | None = None

    def push(self, x: Array) -> Array:
        """Filter the next (T, C) frames of the stream."""
        if len(x) == 0:
            return x
        pole = 1.0 - self.gain
        if self._state is None:
            self._state = [pole * x[:1] for _ in range(self.poles)]
        out = x
        for stage in range(self.poles):
            out, self._state[stage] = lfilter([self.gain], [1.0, -pole], out, axis=0, zi=self._state[stage])
        return out


MOTION_DELAY_S: Final = 0.04
"""Delay of the smoother before differentiation: four poles of 10 ms have the variance of the Gaussian."""

MOTION_POLES: Final = 4


def causal_twin(
    quats: NDArray[np.floating], delay_s: float = 0.08, motion_delay_s: float = MOTION_DELAY_S
) -> NDArray[np.float32]:
    """Causal approximation (T, 8) of the teacher's parameters of a clip (T, 22, 4) at 50 Hz.

    It is what an instrument without a model would play, and the baseline that the model must beat: backward
    instead of central differences, low-passes instead of Gaussians, windows before instead of around now.

    Args:
        quats: canonical rotations.
        delay_s: group delay of the smoothing of the measures, seconds; 0 disables it. The two slow ones
            (density, pulse) use three times this delay, as their bandwidth is a third.
        motion_delay_s: delay of the smoother before differentiation, seconds.

    Raises:
        ShapeError: wrong shape, or values that are not finite.
        OptionError: a delay outside 0 to 10 s.
    """
    return CausalTwins([delay_s], motion_delay_s=motion_delay_s).push(quats)[:, 0]
