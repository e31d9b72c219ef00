"""Measures of forecasts: error ratios, lags, variance explained beyond the baselines, and harmed clips.

All follow from sums per clip (:func:`tally`), which add up over the clips of a kind. A *ratio* is a
forecaster's mean absolute error, summed over the eight parameters, divided by that of each parameter's best
baseline, chosen in hindsight for the kind of movement and the horizon. Errors are means over frames within a
person, then over people.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import RATE
from training.report.statistics import LEVEL, resampled_within
from training.teacher.kinematic_targets import EDGE

Array = NDArray[np.float64]
Answer = NDArray[np.float32]
"""(T, 8, 3): forecast at every frame of each parameter at each horizon of ``AHEAD_MS``."""

Verdict = Literal["ahead", "surer", "unclear", "no better", "worse"]

AHEAD_MS: Final = (100, 200, 400)
AHEAD: Final = tuple(round(ms * RATE / 1000.0) for ms in AHEAD_MS)
"""The horizons in frames."""

LAGS: Final = tuple(range(-10, 21))
"""Delays of the parameters, in frames from now, that a forecast is compared with."""
LAGS_MS: Final = tuple(round(lag * 1000.0 / RATE) for lag in LAGS)

BEYOND: Final = 0.2
"""Minimum partial R2 for a forecast to count as adding something to every mix of the baselines."""

HARM: Final = 1.02
"""Ratio to the clip's best single baseline above which a clip counts as harmed."""

SHORTEST: Final = 2 * EDGE + AHEAD[-1] - LAGS[0] + 2
"""Minimum length of a clip for the evaluation, frames."""

DRAWS: Final = 1000

TINY: Final = 1e-9


@dataclass(frozen=True)
class Tally:
    """Sums over the evaluated frames of one clip; N forecasters, 3 horizons, 8 parameters, L lags."""

    person: str
    frames: int
    errors: Array
    """(N, 8, 3) absolute errors."""
    moments: Array
    """(8, 3, N + 2, N + 2) products of the constant 1, each forecast, and the true value."""
    lagged: Array
    """(N, 3, L, 8) products of the forecasts and the parameters ``LAGS`` later, both centred in the clip."""
    power: tuple[Array, Array]
    """(N, 3, 8) and (L, 8): squares of the two, likewise centred."""


def evaluated_frames(frames: int) -> slice:
    """The evaluated frames: neither they nor the frames they forecast lie at the clip's edges."""
    return slice(EDGE, frames - EDGE - AHEAD[-1])


def tally(person: str, params: NDArray[np.floating], answers: Sequence[Answer]) -> Tally:
    """Compute the sums of one clip.

    Args:
        person: person of the clip.
        params: (T, 8) the teacher's parameters, T at least ``SHORTEST``.
        answers: forecasts of N forecasters.
    """
    truth, forecasts = params.astype(np.float64), np.stack(answers).astype(np.float64)
    span = evaluated_frames(len(truth))
    true = np.stack([truth[span.start + h : span.stop + h] for h in AHEAD], axis=-1)
    ahead = forecasts[:, span]
    columns = np.concatenate([np.ones_like(true)[None], ahead, true[None]]).transpose(2, 3, 0, 1)
    span = slice(span.start - LAGS[0], span.stop)
    delayed = np.stack([truth[span.start + lag : span.stop + lag] for lag in LAGS])
    delayed -= delayed.mean(axis=1, keepdims=True)
    centred = forecasts[:, span] - forecasts[:, span].mean(axis=1, keepdims=True)
    return Tally(
        person,
        true.shape[0],
        np.abs(ahead - true).sum(axis=1),
        columns @ columns.swapaxes(-1, -2),
        np.einsum("ntkh,ltk->nhlk", centred, delayed),
        ((centred**2).sum(axis=1).swapaxes(-1, -2), (delayed**2).sum(axis=1)),
    )


def mean_error(tallies: Sequence[Tally]) -> Array:
    """Mean absolute errors (N, 8, 3): over frames within a person, then over people."""
    rows = []
    for person in sorted({one.person for one in tallies}):
        own = [one for one in tallies if one.person == person]
        rows.append(np.sum([one.errors for one in own], axis=0) / sum(one.frames for one in own))
    return np.asarray(np.mean(rows, axis=0), dtype=np.float64)


def ratio(error: Array, one: int, baselines: Sequence[int]) -> Array:
    """(3,): summed error of forecaster ``one`` over that of each parameter's best baseline."""
    best = error[list(baselines)].min(axis=0)
    return np.asarray(error[one].sum(axis=0) / (best.sum(axis=0) + TINY), dtype=np.float64)


def mean_of_ratios(error: Array, one: int, baselines: Sequence[int]) -> Array:
    """(3,): ratios by parameter, averaged; parameters that hardly move weigh as much as others."""
    best = error[list(baselines)].min(axis=0)
    return np.asarray((error[one] / (best + TINY)).mean(axis=0), dtype=np.float64)


def interval(
    tallies: Sequence[Tally], one: int, baselines: Sequence[int], *, draws: int = DRAWS, seed: int = 0
) -> tuple[Array, Array] | None:
    """95 % bootstrap intervals (3,) of the ratio over people and their clips; None for a single clip.

    The best baselines are chosen again in each draw.
    """
    if len(tallies) < 2:
        return None
    errors, frames = np.stack([t.errors for t in tallies]), np.array([t.frames for t in tallies])
    ratios = []
    for picks in resampled_within([t.person for t in tallies], draws=draws, seed=seed):
        rows = [errors[pick].sum(axis=0) / frames[pick].sum() for pick in picks]
        ratios.append(ratio(np.mean(rows, axis=0), one, baselines))
    low, high = np.quantile(np.array(ratios), LEVEL, axis=0)
    return np.asarray(low), np.asarray(high)


def lag_profile(tallies: Sequence[Tally], one: int) -> Array:
    """(3, L): correlation of a forecast with the parameters at each of ``LAGS``, averaged over parameters.

    Means are removed in each clip, so that changes are correlated and not levels.
    """
    both = sum(t.lagged[one] for t in tallies)
    ours, theirs = sum(t.power[0][one] for t in tallies), sum(t.power[1] for t in tallies)
    scale = np.sqrt(np.asarray(ours)[:, None, :] * np.asarray(theirs)[None])
    return np.asarray((np.asarray(both) / (scale + TINY)).mean(axis=-1), dtype=np.float64)


def beyond(tallies: Sequence[Tally], one: int, baselines: Sequence[int]) -> Array:
    """(3,): partial R2 of a forecast and the outcome, given the best linear mix of the baselines.

    Averaged over parameters; a negative correlation counts as 0.
    """
    sums = np.asarray(sum(t.moments for t in tallies))
    base, pair = [0, *(1 + r for r in baselines)], [1 + one, sums.shape[-1] - 1]
    inner = sums[..., base, :][..., base]
    # Baselines may be identical: a tiny ridge penalty keeps their mix unique.
    scale = np.einsum("...ii->...i", inner).mean(axis=-1)
    inner = inner + (1e-9 * scale + TINY)[..., None, None] * np.eye(len(base))
    across = sums[..., base, :][..., pair]
    residual = sums[..., pair, :][..., pair] - across.swapaxes(-1, -2) @ np.linalg.solve(inner, across)
    correlation = residual[..., 0, 1] / np.sqrt(
        np.maximum(residual[..., 0, 0] * residual[..., 1, 1], TINY**2)
    )
    return np.asarray((np.clip(correlation, 0.0, 1.0) ** 2).mean(axis=0), dtype=np.float64)


def verdict(
    lag_ms: float,
    explained: float,
    ratio: float,
    low: float | None,
    high: float | None,
    horizon_ms: int,
) -> Verdict:
    """Whether a forecast is ahead of its baselines, only surer, no better, or worse.

    Unclear if the ratio is below 1 and ``high``, the end of its interval, is not or is missing; worse if
    ``low``, the start of the interval, is above 1.
    """
    if ratio >= 1.0:
        return "no better" if low is None or low <= 1.0 else "worse"
    if high is None or high >= 1.0:
        return "unclear"
    return "ahead" if lag_ms >= horizon_ms / 2.0 and explained >= BEYOND else "surer"


def harm(tallies: Sequence[Tally], one: int, baselines: Sequence[int]) -> Array:
    """(clips, 3): a forecaster's error in each clip over that of the best single baseline, all parameters."""
    errors = np.stack([t.errors.sum(axis=1) for t in tallies])
    return np.asarray(errors[:, one] / (errors[:, list(baselines)].min(axis=1) + TINY), dtype=np.float64)
