"""The event baseline: extrapolates the causal twin's speed curve.

The extrapolator follows the speed curve, whose falls are onsets and whose troughs are phrases, and predicts
the next event by one or both of two methods:

* *period*: the lag at which the last stretch of the curve best correlates with what came before it; the
  events of the last period are expected again one period later;
* *line*: linear prediction of the curve from its own past (least squares over the training subjects,
  separately for every frame ahead); a fall or trough of the predicted curve is expected.

Settings are tuned on the training subjects for each kind of event and each lead.
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
"""Periods that are tried, frames: 0.24 to 1.5 s."""

TAPS: Final = 24
"""Taps of the linear prediction."""
STRIDES: Final = (2, 6)
"""Frames between the taps, for each kind of event."""
AHEAD: Final = (28, 72)
"""Frames that are predicted, for each kind of event."""
BEHIND: Final = 40
"""Past frames that are searched for an event along with the predicted ones."""
SPAN: Final = 12
"""Frames on either side of a trough within which the curve must rise."""
STROKE: Final = 20
"""Frames before a predicted arrival that are searched for its stroke's peak speed."""
SLACK: Final = 6
"""Maximum distance of the lowest frame of a trough from its middle, frames."""

LAG_PENALTY: Final = 0.0005
"""Correlation subtracted per frame of lag: of equally good periods, the shortest wins."""


@dataclass(frozen=True)
class Extrapolator:
    """Settings of an extrapolator for one kind of event at one lead."""

    delay_s: float
    """Delay of the smoothing of the squared speed."""
    motion_delay_s: float
    """Delay of the smoothing before differentiation."""
    lag_frames: float
    """Delay of the curve's events, the median over the training clips."""
    agreement: float = 2.0
    """Minimum correlation to use the period; above 1: never."""
    window: int = 50
    """Frames that are correlated."""
    depth: float = 0.3
    """Depth of past events, octaves: fall of an onset, or rise after a trough."""
    fall: float = 0.3
    """Minimum fall of the predicted curve, octaves."""
    rise: float = 0.1
    """Minimum rise of the predicted curve after a trough, octaves; not used for onsets."""
    weights: tuple[tuple[float, ...], ...] = ()
    """Weights of the linear prediction (inputs, frames ahead); empty: only the period is used."""
    aim_frames: float = 2.0
    """How much earlier than the lead an event may be announced."""


def speed_curve(joints: Array, kind: int, delay_s: float, motion_delay_s: float) -> Array:
    """Causal counterpart (T,) of the curve in which the teacher finds events, in octaves.

    Args:
        joints: (T, 22, 3) joint positions, upright.
        kind: index of the kind of event.
        delay_s: delay of the smoothing of the squared speed.
        motion_delay_s: delay of the smoothing of the positions.
    """
    smoothed = CausalLowPass(motion_delay_s * RATE, MOTION_POLES).push(joints.reshape(len(joints), -1))
    smoothed = smoothed.reshape(joints.shape)
    velocity = np.diff(smoothed, axis=0, prepend=smoothed[:1]) * RATE
    power = CausalLowPass(delay_s * RATE).push(speeds(velocity)[kind][:, None])[:, 0]
    return np.asarray(np.log2(np.sqrt(np.maximum(power, 0.0)) + FLOORS[kind]), dtype=np.float64)


def joint_positions(quats: NDArray[np.floating]) -> Array:
    """Joint positions (T, 22, 3) that the curves are computed from."""
    return positions(check_quats(quats), upright=True)


def valleys(curve: Array, depth: float, gap: int) -> tuple[Array, NDArray[np.int64]]:
    """Troughs of a curve, and the frames that confirm them: where it has risen ``depth`` above its minimum.

    Billauer's online peak detection. The position of a trough is the middle of its frames within half of
    ``depth`` of the minimum; of two less than ``gap`` frames apart the later is left out.
    """
    troughs: list[float] = []
    confirmed: list[int] = []
    lowest, lowest_frame, highest, falling = np.inf, 0, -np.inf, True
    values = curve.tolist()
    for frame, value in enumerate(values):
        if falling:
            if value < lowest:
                lowest, lowest_frame = value, frame
            elif value > lowest + depth:
                falling, highest = False, value
                left, right = lowest_frame, lowest_frame
                while left > 0 and values[left - 1] < lowest + 0.5 * depth:
                    left -= 1
                while values[right + 1] < lowest + 0.5 * depth:
                    right += 1
                middle = 0.5 * (left + right)
                if not troughs or middle - troughs[-1] >= gap:
                    troughs.append(middle)
                    confirmed.append(frame)
        elif value > highest:
            highest = value
        elif value < highest - depth:
            falling, lowest, lowest_frame = True, value, frame
    return np.array(troughs, dtype=np.float64), np.array(confirmed, dtype=np.int64)


def past_events(curve: Array, kind: int, depth: float) -> tuple[Array, NDArray[np.int64]]:
    """Events of a kind in a curve, at least ``depth`` octaves deep, and the frames that confirm them."""
    if kind:
        return valleys(curve, depth, GAPS[kind])
    frames = [frame for frame, _ in arrivals(curve, depth, ONSET_SPEED, GAPS[kind])]
    return np.array(frames, dtype=np.float64), np.array(frames, dtype=np.int64)


def best_lag(curve: Array, window: int) -> tuple[NDArray[np.int64], Array]:
    """Lag at which the last ``window`` frames correlate best with earlier ones, and the correlation, (T,).

    At the beginning fewer frames are used, but at least half the window; before that the correlation is -1.
    """
    frames = len(curve)
    best_score, best_lags = np.full(frames, -np.inf), np.zeros(frames, dtype=np.int64)
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
        better = r - LAG_PENALTY * lag > best_score[t]
        best_score[t[better]], best_lags[t[better]] = (r - LAG_PENALTY * lag)[better], lag
        agreement[t[better]] = r[better]
    return best_lags, agreement


def next_by_period(
    curve: Array, lags: NDArray[np.int64], agreement: Array, settings: Extrapolator, lead: float, kind: int
) -> Array:
    """Time of the next event at least ``lead`` frames ahead (T,), by the period; inf: unknown."""
    events, confirmed = past_events(curve, kind, settings.depth)
    now = np.arange(len(curve))
    if not len(events):
        return np.full(len(curve), np.inf)
    following = np.searchsorted(events, now + lead + settings.lag_frames - lags)
    known = following < len(events)
    following = np.minimum(following, len(events) - 1)
    known &= (confirmed[following] <= now) & (agreement >= settings.agreement)
    return np.where(known, events[following] + lags - settings.lag_frames, np.inf)


def inputs(curve: Array, kind: int) -> Array:
    """Inputs of the linear prediction (T, TAPS + 1): past values less the current one, the latter, and 1."""
    now = np.arange(len(curve))
    back = np.stack([curve[np.maximum(now - STRIDES[kind] * n, 0)] for n in range(1, TAPS)], axis=1)
    return np.column_stack([back - curve[:, None], curve, np.ones(len(curve))])


def predicted(curve: Array, kind: int, weights: Array) -> Array:
    """The last ``BEHIND`` frames of the curve and the predicted ones, (T, BEHIND + ahead)."""
    now = np.arange(len(curve))
    past = np.stack([curve[np.maximum(now - n, 0)] for n in range(BEHIND - 1, -1, -1)], axis=1)
    return np.concatenate([past, inputs(curve, kind) @ weights + curve[:, None]], axis=1)


def next_by_line(path: Array, settings: Extrapolator, lead: float, kind: int) -> Array:
    """Time of the next event at least ``lead`` frames ahead (T,), in the predicted curve; inf: unknown."""
    return (_next_trough if kind else _next_arrival)(path, settings, lead)


def _next_arrival(path: Array, settings: Extrapolator, lead: float) -> Array:
    """See :func:`next_by_line`: the first fall of the path from its recent maximum."""
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
    """See :func:`next_by_line`: the first trough of the path."""
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
    """Announce each event expected ``lead`` to ``lead + aim`` frames ahead, once."""
    ahead = expected - np.arange(len(expected))
    decided, times = [], []
    last = -np.inf
    for t in np.flatnonzero((ahead >= lead - 0.5) & (ahead <= lead + aim)):
        if expected[t] >= last + gap:
            last = float(expected[t])
            decided.append(float(t))
            times.append(last)
    return Announcements(np.array(decided), np.array(times))


def extrapolate(joints: Array, kind: int, lead: float, settings: Extrapolator) -> Announcements:
    """Announcements of an extrapolator in a clip of joint positions (T, 22, 3)."""
    curve = speed_curve(joints, kind, settings.delay_s, settings.motion_delay_s)
    lags, agreement = best_lag(curve, settings.window)
    expected = next_by_period(curve, lags, agreement, settings, lead, kind)
    if settings.weights:
        path = predicted(curve, kind, np.array(settings.weights))
        expected = np.where(np.isfinite(expected), expected, next_by_line(path, settings, lead, kind))
    return fire(expected, lead, settings.aim_frames, GAPS[kind])
