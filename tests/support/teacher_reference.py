"""The parameters of teacher and causal twin straight from their formulas: whole clips, NumPy and SciPy.

Written before the Rust core's streams of them, and what those are held to.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import RATE
from training.teacher.filters import CausalLowPass, derivative, smooth
from training.teacher.kinematics import MASSES, check_quats, positions

Array = NDArray[np.float64]

FAST_HZ: Final = 3.0
"""-3 dB point of six parameters."""

SLOW_HZ: Final = 1.0
"""-3 dB point of density and pulse."""

MOTION_HZ: Final = 6.6
"""-3 dB point of the positions before they are differentiated: mocap noise stays out of the jerk."""

HANDS: Final = (9, 13)
ENDS: Final = (9, 13, 17, 21, 5)
"""The five ends of the body: hands, toes, head."""

REACH: Final = (9, 13, 16, 20)
"""Hands and ankles, whose distance from the upper chest is the extension."""

CHEST: Final = 3

PULSE_JOINTS: Final = (5, 8, 9, 12, 13, 16, 17, 20, 21)
"""Head, elbows, hands, ankles and toes: what repeats when a body keeps time."""

PULSE_LAGS: Final = tuple(range(16, 62, 2))
"""Periods looked at, in frames: 0.32 to 1.2 s, that is 50 to 188 beats a minute."""

HAND_BLEND_M: Final = 0.15
REST_SPEED: Final = 0.1
"""m/s added where a ratio would measure the noise of a still body."""
DENSITY_REST_SPEED: Final = 0.15
PAN_REST_ENERGY: Final = 0.1
PULSE_REST_ENERGY: Final = 0.09


FAST_COLUMNS: Final = 8


def raw_measures(place: Array, hips_frame: Array, velocity: Array, jerk: Array, masses: Array) -> Array:
    """Unsmoothed measures (T, 13) of joint positions and their derivatives, all (T, 22, 3).

    Columns: height of the higher hand (m), kinetic energy per kilogram x 2, squared speed of the faster
    hand, mean squared jerk and mean squared speed of the five ends, extension (m), lateral moment of the
    ends' squared speed, its sum; then the squared speeds of the five ends.
    """
    heights = place[:, HANDS, 1] / HAND_BLEND_M
    top = heights.max(axis=1)
    height = HAND_BLEND_M * (top + np.log(np.exp(heights - top[:, None]).mean(axis=1)))
    speed2 = (velocity**2).sum(axis=-1)
    ends = speed2[:, ENDS]
    reach = np.linalg.norm(place[:, REACH] - place[:, [CHEST]], axis=-1).mean(axis=1)
    lateral = hips_frame[:, ENDS, 0]
    return np.column_stack(
        [
            height,
            speed2 @ masses,
            speed2[:, HANDS].max(axis=1),
            (jerk[:, ENDS] ** 2).sum(axis=-1).mean(axis=1),
            ends.mean(axis=1),
            reach,
            (ends * lateral).sum(axis=1),
            ends.sum(axis=1),
            ends,
        ]
    )


def hill(x: Array, half: float, power: float) -> Array:
    """x^p / (x^p + half^p): 0 at rest, 1/2 at ``half``, towards 1 beyond; for x >= 0."""
    ratio = (np.maximum(x, 0.0) / half) ** power
    return np.asarray(ratio / (1.0 + ratio), dtype=np.float64)


def logistic(x: Array, centre: float, scale: float) -> Array:
    """1 / (1 + exp(-(x - centre)/scale))."""
    return np.asarray(0.5 * (1.0 + np.tanh((x - centre) / (2.0 * scale))), dtype=np.float64)


def squash(fast: Array, limbs: Array, periodicity: Array) -> Array:
    """The eight parameters (T, 8) of smoothed measures.

    Args:
        fast: (T, 8), the first columns of :func:`raw_measures`, smoothed at ``FAST_HZ``.
        limbs: (T, 5), the others, smoothed at ``SLOW_HZ``.
        periodicity: (T,), the greatest of the lagged correlations.
    """
    height, kinetic, hand2, jerk2, speed2, reach, moment, energy = fast.T
    speed = np.sqrt(np.maximum(speed2, 0.0))
    # sqrt(jerk / speed) is a frequency: what a sinusoid of that speed and jerk would have.
    trembling = np.sqrt(np.sqrt(np.maximum(jerk2, 0.0)) / (speed + REST_SPEED)) / (2.0 * np.pi)
    limb = np.sqrt(np.maximum(limbs, 0.0))
    # Participation ratio: how many of the five ends share the movement.
    taking_part = limb.sum(axis=1) ** 2 / ((limb**2).sum(axis=1) + DENSITY_REST_SPEED**2)
    side = -moment / (np.maximum(energy, 0.0) + PAN_REST_ENERGY)
    return np.column_stack(
        [
            logistic(height, 0.12, 0.18),
            hill(np.sqrt(np.maximum(kinetic, 0.0)), 0.35, 1.5),
            hill(np.sqrt(np.maximum(hand2, 0.0)), 0.8, 1.3),
            hill(trembling, 1.8, 4.0),
            hill(taking_part, 3.3, 4.0),
            logistic(reach, 0.80, 0.05),
            logistic(side, 0.0, 0.075),
            np.clip(periodicity, 0.0, 1.0),
        ]
    )


def periodicity(velocity: Array) -> Array:
    """Pulse clarity (T,) in 0..1: how well the movement repeats at its best period.

    For a lag m (even): c_m(t) = <u(t + m/2) . u(t - m/2)> / (<|u(t + m/2)|^2 + |u(t - m/2)|^2>/2 + e0),
    where u are the velocities of the pulse joints and <> is the 1 Hz smoother; pairs that reach beyond the
    clip have no weight. The result is the greatest c_m over the lags, at least 0.

    Args:
        velocity: (T, 22, 3) m/s in the hips' frame.
    """
    frames = len(velocity)
    u = velocity[:, PULSE_JOINTS].reshape(frames, -1)
    power = (u**2).sum(axis=1)
    best = np.zeros(frames)
    for lag in PULSE_LAGS:
        half = lag // 2
        if frames <= 2 * lag:
            continue
        terms = np.zeros((frames, 3))
        inside = slice(half, frames - half)
        terms[inside, 0] = (u[lag:] * u[:-lag]).sum(axis=1)
        terms[inside, 1] = 0.5 * (power[lag:] + power[:-lag])
        terms[inside, 2] = 1.0
        product, energy, weight = smooth(terms, SLOW_HZ).T
        known = weight > 0.25
        found = product[known] / (energy[known] + PULSE_REST_ENERGY * weight[known])
        best[known] = np.maximum(best[known], found)
    return best


def teach(quats):
    """The teacher's parameters (T, 8) of a clip (T, 22, 4)."""
    turns = check_quats(quats)
    place, inside = positions(turns, upright=True), positions(turns, upright=False)
    velocity = derivative(smooth(place, MOTION_HZ))
    jerk = derivative(derivative(velocity))
    raw = raw_measures(place, inside, velocity, jerk, MASSES)
    params = squash(
        smooth(raw[:, :FAST_COLUMNS], FAST_HZ),
        smooth(raw[:, FAST_COLUMNS:], SLOW_HZ),
        periodicity(derivative(smooth(inside, MOTION_HZ))),
    )
    return params.astype(np.float32)


MOTION_DELAY_S: Final = 0.04
"""Delay of the smoother before the differences: four poles of 10 ms have the variance of the Gaussian."""

MOTION_POLES: Final = 4


class Twin:
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


def twin(quats, delay_s, motion_delay_s=MOTION_DELAY_S):
    """The twin's parameters (T, 8) of a clip (T, 22, 4)."""
    return Twin(delay_s, motion_delay_s).push(quats)
