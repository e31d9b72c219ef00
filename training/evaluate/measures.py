"""What the protocol measures of forecasts: error ratios, lags, what no rival says, and whom they harm.

All of it follows from sums per clip (:func:`tally`), which add up over the clips of a kind. A *ratio* is a
forecaster's mean absolute error, the eight parameters added up, over that of each parameter's best rival,
whichever that is in this kind of movement at this horizon, known in hindsight. Errors are means over frames
within a person, then over people.
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
"""(T, 8, 3): what is said of every frame, for each parameter and horizon of ``AHEAD_MS``."""

Verdict = Literal["ahead", "surer", "unclear", "no better", "worse"]

AHEAD_MS: Final = (100, 200, 400)
AHEAD: Final = tuple(round(ms * RATE / 1000.0) for ms in AHEAD_MS)
"""In frames."""

LAGS: Final = tuple(range(-10, 21))
"""Frames by which a forecast is moved against what it speaks of, 0: as if it spoke of now."""
LAGS_MS: Final = tuple(round(lag * 1000.0 / RATE) for lag in LAGS)

BEYOND: Final = 0.2
"""Partial R2 from which a forecast says something that no mix of the rivals does."""

HARM: Final = 1.02
"""Ratio to its best single rival from which a clip is harmed."""

SHORTEST: Final = 2 * EDGE + AHEAD[-1] - LAGS[0] + 2
"""Frames that a clip must have to be judged."""

DRAWS: Final = 1000

TINY: Final = 1e-9


@dataclass(frozen=True)
class Tally:
    """Sums over the judged frames of one clip; N forecasters, 3 horizons, 8 parameters."""

    person: str
    frames: int
    wrong: Array
    """(N, 8, 3) absolute errors."""
    moments: Array
    """(8, 3, N + 2, N + 2) products of one, what each forecaster says, and what came."""
    lagged: Array
    """(N, 3, L, 8) products with the parameters ``LAGS`` later, both less their means in the clip."""
    power: tuple[Array, Array]
    """(N, 3, 8) and (L, 8): their squares."""


def judged(frames: int) -> slice:
    """The frames that are judged: neither they nor what is said of them at a clip's edges."""
    return slice(EDGE, frames - EDGE - AHEAD[-1])


def tally(person: str, params: NDArray[np.floating], answers: Sequence[Answer]) -> Tally:
    """The sums of one clip.

    Args:
        person: whose it is.
        params: (T, 8) what the teacher says, T at least ``SHORTEST``.
        answers: of N forecasters.
    """
    truth, answered = params.astype(np.float64), np.stack(answers).astype(np.float64)
    span = judged(len(truth))
    came = np.stack([truth[span.start + h : span.stop + h] for h in AHEAD], axis=-1)
    ahead = answered[:, span]
    columns = np.concatenate([np.ones_like(came)[None], ahead, came[None]]).transpose(2, 3, 0, 1)
    span = slice(span.start - LAGS[0], span.stop)
    then = np.stack([truth[span.start + lag : span.stop + lag] for lag in LAGS])
    then -= then.mean(axis=1, keepdims=True)
    apart = answered[:, span] - answered[:, span].mean(axis=1, keepdims=True)
    return Tally(
        person,
        came.shape[0],
        np.abs(ahead - came).sum(axis=1),
        columns @ columns.swapaxes(-1, -2),
        np.einsum("ntkh,ltk->nhlk", apart, then),
        ((apart**2).sum(axis=1).swapaxes(-1, -2), (then**2).sum(axis=1)),
    )


def mean_error(tallies: Sequence[Tally]) -> Array:
    """(N, 8, 3): over frames within a person, then over people."""
    rows = []
    for person in sorted({one.person for one in tallies}):
        mine = [one for one in tallies if one.person == person]
        rows.append(np.sum([one.wrong for one in mine], axis=0) / sum(one.frames for one in mine))
    return np.asarray(np.mean(rows, axis=0), dtype=np.float64)


def ratio(error: Array, one: int, baselines: Sequence[int]) -> Array:
    """(3,): a forecaster's error over that of each parameter's best rival, of errors (N, 8, 3)."""
    best = error[list(baselines)].min(axis=0)
    return np.asarray(error[one].sum(axis=0) / (best.sum(axis=0) + TINY), dtype=np.float64)


def mean_of_ratios(error: Array, one: int, baselines: Sequence[int]) -> Array:
    """(3,): the same taken parameter by parameter and averaged: what hardly moves weighs as much."""
    best = error[list(baselines)].min(axis=0)
    return np.asarray((error[one] / (best + TINY)).mean(axis=0), dtype=np.float64)


def interval(
    tallies: Sequence[Tally], one: int, baselines: Sequence[int], *, draws: int = DRAWS, seed: int = 0
) -> tuple[Array, Array] | None:
    """95 % intervals (3,) of the ratio over people and their clips; the best rivals are found anew.

    None of one clip, which says nothing of how clips differ.
    """
    if len(tallies) < 2:
        return None
    wrong, frames = np.stack([t.wrong for t in tallies]), np.array([t.frames for t in tallies])
    found = []
    for picks in resampled_within([t.person for t in tallies], draws=draws, seed=seed):
        rows = [wrong[pick].sum(axis=0) / frames[pick].sum() for pick in picks]
        found.append(ratio(np.mean(rows, axis=0), one, baselines))
    low, high = np.quantile(np.array(found), LEVEL, axis=0)
    return np.asarray(low), np.asarray(high)


def lag_profile(tallies: Sequence[Tally], one: int) -> Array:
    """(3, L): correlation of a forecast with the parameters at each of ``LAGS``, mean over the eight.

    Means are taken away clip by clip, so that it is the movement that correlates and not the level.
    """
    both = sum(t.lagged[one] for t in tallies)
    ours, theirs = sum(t.power[0][one] for t in tallies), sum(t.power[1] for t in tallies)
    scale = np.sqrt(np.asarray(ours)[:, None, :] * np.asarray(theirs)[None])
    return np.asarray((np.asarray(both) / (scale + TINY)).mean(axis=-1), dtype=np.float64)


def beyond(tallies: Sequence[Tally], one: int, baselines: Sequence[int]) -> Array:
    """(3,): partial R2 of a forecast with what came, the best linear mix of the rivals taken out of both.

    Mean over the eight; where the two are related the other way round it counts as none.
    """
    sums = np.asarray(sum(t.moments for t in tallies))
    base, pair = [0, *(1 + r for r in baselines)], [1 + one, sums.shape[-1] - 1]
    inner = sums[..., base, :][..., base]
    # Rivals may say the same: a trace of ridge keeps their mix unique.
    scale = np.einsum("...ii->...i", inner).mean(axis=-1)
    inner = inner + (1e-9 * scale + TINY)[..., None, None] * np.eye(len(base))
    across = sums[..., base, :][..., pair]
    left = sums[..., pair, :][..., pair] - across.swapaxes(-1, -2) @ np.linalg.solve(inner, across)
    related = left[..., 0, 1] / np.sqrt(np.maximum(left[..., 0, 0] * left[..., 1, 1], TINY**2))
    return np.asarray((np.clip(related, 0.0, 1.0) ** 2).mean(axis=0), dtype=np.float64)


def verdict(
    lag_ms: float,
    explained: float,
    ratio: float,
    low: float | None,
    high: float | None,
    horizon_ms: int,
) -> Verdict:
    """Whether a forecast is ahead, only surer than its rivals, no better than they are, or worse.

    Unclear where the ratio is below 1 and ``high``, the end of its interval, is not, or there is none;
    worse where ``low``, its beginning, is above 1.
    """
    if ratio >= 1.0:
        return "no better" if low is None or low <= 1.0 else "worse"
    if high is None or high >= 1.0:
        return "unclear"
    return "ahead" if lag_ms >= horizon_ms / 2.0 and explained >= BEYOND else "surer"


def harm(tallies: Sequence[Tally], one: int, baselines: Sequence[int]) -> Array:
    """(clips, 3): a forecaster's error in each clip over its best single rival's, the eight together."""
    wrong = np.stack([t.wrong.sum(axis=1) for t in tallies])
    return np.asarray(wrong[:, one] / (wrong[:, list(baselines)].min(axis=1) + TINY), dtype=np.float64)
