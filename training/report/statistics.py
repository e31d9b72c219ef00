"""Intervals by resampling: over sequences, and over subjects with their clips within them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DRAWS: Final = 2000
LEVEL: Final = (0.025, 0.975)


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval over sequences."""

    value: float
    low: float
    high: float

    def to_dict(self, digits: int = 5) -> dict[str, float | None]:
        """Plain values; None where nothing can be said."""
        found = {"value": self.value, "low": self.low, "high": self.high}
        return {k: round(v, digits) if np.isfinite(v) else None for k, v in found.items()}


def resample(
    sums: Array, statistic: Callable[[Array], Array], *, draws: int = DRAWS, seed: int = 0
) -> tuple[Array, Array]:
    """The 2.5 and 97.5 % points of a statistic of sums, over resampled sequences.

    Args:
        sums: (N, K) sums of each sequence.
        statistic: of (draws, K) totals, giving (draws, ...).
        draws: resamplings.
        seed: of the resampling.
    """
    rng = np.random.default_rng(seed)
    rows = len(sums)
    # How often each sequence was drawn: one matrix product instead of a gather per draw.
    counts = rng.multinomial(rows, np.full(rows, 1.0 / rows), size=draws).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = statistic(counts @ sums)
    low, high = np.nanquantile(values, LEVEL, axis=0) if np.isfinite(values).any() else (np.nan, np.nan)
    return np.asarray(low), np.asarray(high)


def interval_of(sums: Array, statistic: Callable[[Array], Array], *, seed: int = 0) -> Interval:
    """A statistic of the sums (N, K) of all sequences, with its interval as :func:`resample` draws it."""
    low, high = resample(sums, statistic, seed=seed)
    return Interval(float(statistic(sums.sum(0))), float(low), float(high))


def resampled_within(
    subjects: Sequence[str] | NDArray[np.str_], *, draws: int, seed: int
) -> Iterator[list[NDArray[np.int64]]]:
    """Subjects drawn anew, and the clips within each: of every draw the clips' numbers, by drawn subject.

    A subject drawn twice counts twice: its clips are drawn for each.

    Args:
        subjects: (N,) whose clip each is.
        draws: resamplings.
        seed: of the resampling.
    """
    owners = np.array(subjects)
    groups = [np.flatnonzero(owners == name) for name in np.unique(owners)]
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        picked = [groups[g] for g in rng.integers(len(groups), size=len(groups))]
        yield [rng.choice(group, size=len(group)) for group in picked]
