"""The rival in foreseeing events: the causal twin's speed curve, carried on.

The extrapolator follows the curve of speed whose falls are beats and whose troughs are phrases, and says when
the next one comes, by either or both of two means:

* *period*: the lag at which the last stretch of the curve best correlates with what came before it; what the
  last period had is expected again one period later;
* *line*: linear prediction of the curve from its own past (least squares over the training subjects, for
  every frame ahead by itself); a fall or a trough of what is predicted is expected.

Settings are chosen on the training subjects for each kind of event and each lead.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import RATE
from training.evaluate.events import Announcements, Array
from training.teacher.filters import MOTION_POLES, CausalLowPass
from training.teacher.kinematic_targets import (
    ONSET_FLOOR,
    ONSET_GAP,
    ONSET_SPEED,
    PHRASE_FLOOR,
    PHRASE_GAP,
    arrivals,
)
from training.teacher.kinematics import check_quats, positions, speeds

FLOORS: Final = (ONSET_FLOOR, PHRASE_FLOOR)
GAPS: Final = (ONSET_GAP, PHRASE_GAP)

LAGS: Final = tuple(range(12, 76))
"""Periods the extrapolator looks for, frames: 0.24 to 1.5 s."""

TAPS: Final = 24
STRIDES: Final = (2, 6)
"""Frames between the taps of the linear prediction, for each kind of event."""
AHEAD: Final = (28, 72)
"""Frames that are predicted."""
BEHIND: Final = 40
"""Frames of the past that an event is looked for in, along with the prediction."""
SPAN: Final = 12
"""Frames to either side of a trough within which the curve must rise."""
STROKE: Final = 20
"""Frames before an arrival within which its stroke's highest speed is looked for, in what is predicted."""
SLACK: Final = 6
"""Frames that the lowest frame of a trough may lie from its middle."""

FAR: Final = 0.0005
"""Correlation that a frame of lag costs: of equals, the shortest period."""


@dataclass(frozen=True)
class Extrapolator:
    """Settings of an extrapolator for one kind of event at one lead."""

    delay_s: float
    """Smoothing of the squared speed."""
    motion_delay_s: float
    """Smoothing before the differences."""
    lag_frames: float
    """How late the curve's events are, the median over the training clips."""
    agreement: float = 2.0
    """Least correlation for the period to be believed; above 1: never."""
    window: int = 50
    """Frames that are correlated."""
    depth: float = 0.3
    """Octaves of a beat's fall, or that a trough must lie below what follows it, in the past."""
    fall: float = 0.3
    """Octaves that the predicted curve must have fallen."""
    rise: float = 0.1
    """Octaves that it must rise from a trough again, within what is predicted; beats ask for none."""
    weights: tuple[tuple[float, ...], ...] = ()
    """Of the linear prediction, a row per input and a column per frame ahead; none: the period alone."""
    aim_frames: float = 2.0
    """How long before the lead an announcement may be decided."""


def speed_curve(place: Array, kind: int, delay_s: float, motion_delay_s: float) -> Array:
    """The causal counterpart (T,) of the curve in which the teacher looks for events, in octaves.

    Args:
        place: (T, 22, 3) joint positions, upright.
        kind: index of the event.
        delay_s: delay of the smoothing of the squared speed.
        motion_delay_s: delay of the smoothing of the positions.
    """
    calm = CausalLowPass(motion_delay_s * RATE, MOTION_POLES).push(place.reshape(len(place), -1))
    calm = calm.reshape(place.shape)
    velocity = np.diff(calm, axis=0, prepend=calm[:1]) * RATE
    power = CausalLowPass(delay_s * RATE).push(speeds(velocity)[kind][:, None])[:, 0]
    return np.asarray(np.log2(np.sqrt(np.maximum(power, 0.0)) + FLOORS[kind]), dtype=np.float64)


def joint_positions(quats: NDArray[np.floating]) -> Array:
    """Joint positions (T, 22, 3) that the curves are made from."""
    return positions(check_quats(quats), upright=True)


def valleys(curve: Array, depth: float, gap: int) -> tuple[Array, NDArray[np.int64]]:
    """Troughs of a curve and the frames that confirm them, when it has risen ``depth`` above the lowest.

    Billauer's online peak detection. A trough is where its middle is, half of ``depth`` above its lowest
    frame; of two less than ``gap`` frames apart the later is left out.
    """
    at: list[float] = []
    confirmed: list[int] = []
    lowest, where, highest, falling = np.inf, 0, -np.inf, True
    values = curve.tolist()
    for frame, value in enumerate(values):
        if falling:
            if value < lowest:
                lowest, where = value, frame
            elif value > lowest + depth:
                falling, highest = False, value
                left, right = where, where
                while left > 0 and values[left - 1] < lowest + 0.5 * depth:
                    left -= 1
                while values[right + 1] < lowest + 0.5 * depth:
                    right += 1
                middle = 0.5 * (left + right)
                if not at or middle - at[-1] >= gap:
                    at.append(middle)
                    confirmed.append(frame)
        elif value > highest:
            highest = value
        elif value < highest - depth:
            falling, lowest, where = True, value, frame
    return np.array(at, dtype=np.float64), np.array(confirmed, dtype=np.int64)


def past_events(curve: Array, kind: int, depth: float) -> tuple[Array, NDArray[np.int64]]:
    """Events of a kind in a curve, ``depth`` octaves deep, and the frames that confirm them."""
    if kind:
        return valleys(curve, depth, GAPS[kind])
    frames = [frame for frame, _ in arrivals(curve, depth, ONSET_SPEED, GAPS[kind])]
    return np.array(frames, dtype=np.float64), np.array(frames, dtype=np.int64)


def best_lag(curve: Array, window: int) -> tuple[NDArray[np.int64], Array]:
    """The lag at which the last ``window`` frames correlate best with earlier ones, and how well, (T,) each.

    Early on, as much as there is, but at least half the window; before that the correlation is -1.
    """
    frames = len(curve)
    best, found = np.full(frames, -np.inf), np.zeros(frames, dtype=np.int64)
    level = curve - curve.mean() if frames else curve
    sums = np.concatenate([[0.0], np.cumsum(level)])
    squares = np.concatenate([[0.0], np.cumsum(level**2)])
    agreement = np.full(frames, -1.0)
    for lag in LAGS:
        if frames <= lag + window // 2:
            break
        products = np.concatenate([[0.0], np.cumsum(level[lag:] * level[:-lag])])
        end = np.arange(lag + window // 2, frames) + 1
        begin = np.maximum(end - window, lag)
        n = end - begin
        x, y = sums[end] - sums[begin], sums[end - lag] - sums[begin - lag]
        xx = squares[end] - squares[begin] - x * x / n
        yy = squares[end - lag] - squares[begin - lag] - y * y / n
        xy = products[end - lag] - products[begin - lag] - x * y / n
        r = xy / np.sqrt(np.maximum(xx * yy, 1e-12))
        t = end - 1
        better = r - FAR * lag > best[t]
        best[t[better]], found[t[better]] = (r - FAR * lag)[better], lag
        agreement[t[better]] = r[better]
    return found, agreement


def next_by_period(
    curve: Array, lags: NDArray[np.int64], agreement: Array, settings: Extrapolator, lead: float, kind: int
) -> Array:
    """When the next event at least ``lead`` frames ahead comes (T,), by the period; inf: not known."""
    at, confirmed = past_events(curve, kind, settings.depth)
    now = np.arange(len(curve))
    if not len(at):
        return np.full(len(curve), np.inf)
    following = np.searchsorted(at, now + lead + settings.lag_frames - lags)
    known = following < len(at)
    following = np.minimum(following, len(at) - 1)
    known &= (confirmed[following] <= now) & (agreement >= settings.agreement)
    return np.where(known, at[following] + lags - settings.lag_frames, np.inf)


def inputs(curve: Array, kind: int) -> Array:
    """What the curve is predicted from, (T, TAPS + 1): its past relative to now, now, and 1."""
    now = np.arange(len(curve))
    back = np.stack([curve[np.maximum(now - STRIDES[kind] * n, 0)] for n in range(1, TAPS)], axis=1)
    return np.column_stack([back - curve[:, None], curve, np.ones(len(curve))])


def predicted(curve: Array, kind: int, weights: Array) -> Array:
    """The last ``BEHIND`` frames and what is predicted to follow, (T, BEHIND + ahead)."""
    now = np.arange(len(curve))
    past = np.stack([curve[np.maximum(now - n, 0)] for n in range(BEHIND - 1, -1, -1)], axis=1)
    return np.concatenate([past, inputs(curve, kind) @ weights + curve[:, None]], axis=1)


def next_by_line(path: Array, settings: Extrapolator, lead: float, kind: int) -> Array:
    """When the next event at least ``lead`` frames ahead comes (T,), in what is predicted; inf: not known."""
    return (_next_trough if kind else _next_arrival)(path, settings, lead)


def _next_arrival(path: Array, settings: Extrapolator, lead: float) -> Array:
    """See :func:`next_by_line`: where the path falls from the highest of the frames before."""
    frames, width = path.shape
    out = np.full(frames, np.inf)
    first = math.ceil(BEHIND - 1 + lead + settings.lag_frames - 0.5)
    last = min(int(first + settings.aim_frames) + SLACK, width - 1)
    fallen = np.zeros(frames, dtype=np.bool_)
    for j in range(max(first - 1, STROKE), last + 1):
        high = path[:, j - STROKE : j].max(axis=1)
        before, fallen = fallen, path[:, j] < high - settings.fall
        if j >= first:
            new = fallen & ~before & (high >= np.log2(ONSET_SPEED + ONSET_FLOOR)) & np.isinf(out)
            out[new] = np.flatnonzero(new) + j - (BEHIND - 1) - settings.lag_frames
    return out


def _next_trough(path: Array, settings: Extrapolator, lead: float) -> Array:
    """When the next trough at least ``lead`` frames ahead comes (T,), in what is predicted; inf: not known.

    Args:
        path: of :func:`predicted`.
        settings: how deep a trough must be.
        lead: frames.
    """
    frames, width = path.shape
    out = np.full(frames, np.inf)
    now = np.arange(frames)
    first = BEHIND - 1 + lead + settings.lag_frames
    low = max(int(first) - SLACK, SPAN)
    high = min(int(first + settings.aim_frames) + SLACK, width - 2)
    for j in range(low, high + 1):
        here = path[:, j]
        left = path[:, j - SPAN : j].max(axis=1) - here
        right = path[:, j + 1 : j + 1 + SPAN].max(axis=1) - here
        trough = (here < path[:, j - 1]) & (here <= path[:, j + 1]) & np.isinf(out)
        trough &= (left >= settings.fall) & (right >= settings.rise)
        rows = np.flatnonzero(trough)
        if not len(rows):
            continue
        level = here[rows] + 0.5 * np.minimum(left, right)[rows]
        above = path[rows] >= level[:, None]
        columns = np.arange(width)
        begin = np.where(above & (columns < j), columns, -1).max(axis=1) + 1
        end = np.where(above & (columns > j), columns, width).min(axis=1) - 1
        when = now[rows] - (BEHIND - 1) + 0.5 * (begin + end) - settings.lag_frames
        ahead = when >= now[rows] + lead - 0.5
        out[rows[ahead]] = when[ahead]
    return out


def fire(expected: Array, lead: float, aim: float, gap: int) -> Announcements:
    """Announce what is expected ``lead`` to ``lead + aim`` frames ahead, each once."""
    ahead = expected - np.arange(len(expected))
    decided, times = [], []
    last = -np.inf
    for t in np.flatnonzero((ahead >= lead - 0.5) & (ahead <= lead + aim)):
        if expected[t] >= last + gap:
            last = float(expected[t])
            decided.append(float(t))
            times.append(last)
    return Announcements(np.array(decided), np.array(times))


def extrapolate(place: Array, kind: int, lead: float, settings: Extrapolator) -> Announcements:
    """What an extrapolator announces in a clip of joint positions (T, 22, 3)."""
    curve = speed_curve(place, kind, settings.delay_s, settings.motion_delay_s)
    lags, agreement = best_lag(curve, settings.window)
    expected = next_by_period(curve, lags, agreement, settings, lead, kind)
    if settings.weights:
        path = predicted(curve, kind, np.array(settings.weights))
        expected = np.where(np.isfinite(expected), expected, next_by_line(path, settings, lead, kind))
    return fire(expected, lead, settings.aim_frames, GAPS[kind])
