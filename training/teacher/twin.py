"""The teacher's causal twin: the same descriptors from the past alone, frame by frame.

It is what an instrument without a model would play, and the rival that the model must beat: backward
differences for central ones, :class:`training.teacher.filters.CausalLowPass` for the Gaussians, the stretch
before now for the one around it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import RATE
from training.teacher.descriptors import (
    FAST_COLUMNS,
    PULSE_JOINTS,
    PULSE_LAGS,
    PULSE_REST_ENERGY,
    raw_measures,
    squash,
)
from training.teacher.filters import CausalLowPass
from training.teacher.kinematics import MASSES, Array, check_quats, positions

MOTION_DELAY_S: Final = 0.04
"""Delay of the smoother before the differences: four poles of 10 ms have the variance of the Gaussian."""

MOTION_POLES: Final = 4


class CausalTwin:
    """The eight parameters of a stream, each from frames that have arrived.

    Args:
        delay_s: group delay of the smoothing of the measures, seconds; 0 smooths nothing. The slow two
            (density, pulse) are smoothed with three times that, as their bandwidth is a third.
        motion_delay_s: delay of the smoother before the differences, seconds.

    Pushing a clip whole or in pieces gives the same numbers.
    """

    def __init__(self, delay_s: float, motion_delay_s: float = MOTION_DELAY_S) -> None:
        frames = delay_s * RATE
        self._motion = CausalLowPass(motion_delay_s * RATE, MOTION_POLES)
        self._fast = CausalLowPass(frames)
        self._slow = CausalLowPass(3.0 * frames)
        self._pulse = CausalLowPass(3.0 * frames)
        self._tail: Array | None = None
        self._past: Array | None = None

    def _differences(self, place: Array) -> tuple[Array, Array, Array]:
        """Velocity of both stacked positions and jerk of the first, zero before the start.

        Each difference spans two frames, (x(t) - x(t-2)) / 2 dt: the gain of the central one, a frame late.
        """
        if self._tail is None:
            self._tail = np.repeat(place[:1], 6, axis=0)
        whole = np.concatenate([self._tail, place])
        self._tail = whole[-6:].copy()
        first = (whole[2:] - whole[:-2]) * (RATE / 2.0)
        second = (first[2:, :22] - first[:-2, :22]) * (RATE / 2.0)
        third = (second[2:] - second[:-2]) * (RATE / 2.0)
        return first[4:, :22], first[4:, 22:], third

    def _periodicity(self, velocity: Array) -> Array:
        frames = len(velocity)
        u = velocity[:, PULSE_JOINTS].reshape(frames, -1)
        longest = PULSE_LAGS[-1]
        past = np.zeros((longest, u.shape[1])) if self._past is None else self._past
        whole = np.concatenate([past, u])
        self._past = whole[-longest:].copy()
        power = (whole**2).sum(axis=1)
        now = slice(longest, longest + frames)
        columns = []
        for lag in PULSE_LAGS:
            then = slice(longest - lag, longest - lag + frames)
            columns.append((whole[now] * whole[then]).sum(axis=1))
            columns.append(0.5 * (power[now] + power[then]))
        smoothed = self._pulse.push(np.column_stack(columns))
        found = smoothed[:, 0::2] / (smoothed[:, 1::2] + PULSE_REST_ENERGY)
        return np.asarray(np.maximum(found.max(axis=1), 0.0), dtype=np.float64)

    def push(self, quats: NDArray[np.floating]) -> NDArray[np.float32]:
        """The parameters (T, 8) of the next T frames, given as canonical rotations (T, 22, 4).

        Raises:
            ShapeError: another shape, or values that are not finite.
        """
        turns = check_quats(quats)
        if len(turns) == 0:
            return np.zeros((0, 8), dtype=np.float32)
        place = positions(turns, upright=True)
        inside = positions(turns, upright=False)
        both = np.concatenate([place, inside], axis=1)
        calm = self._motion.push(both.reshape(len(both), -1)).reshape(both.shape)
        velocity, within, jerk = self._differences(calm)
        raw = raw_measures(place, inside, velocity, jerk, MASSES)
        params = squash(
            self._fast.push(raw[:, :FAST_COLUMNS]),
            self._slow.push(raw[:, FAST_COLUMNS:]),
            self._periodicity(within),
        )
        return params.astype(np.float32)


def causal_twin(
    quats: NDArray[np.floating], delay_s: float = 0.08, motion_delay_s: float = MOTION_DELAY_S
) -> NDArray[np.float32]:
    """The twin's parameters (T, 8) over a whole clip (T, 22, 4); see :class:`CausalTwin`."""
    return CausalTwin(delay_s, motion_delay_s).push(quats)
