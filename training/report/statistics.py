"""Bootstrap intervals: over sequences, and over subjects with their clips."""

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
    """A value with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def to_dict(self, digits: int = 5) -> dict[str, float | None]:
        """JSON values; None where a value is not finite."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {k: round(v, digits) if np.isfinite(v) else None for k, v in values.items()}


def resample(sums: Array, statistic: Callable[[Array], Array], *, seed: int = 0) -> tuple[Array, Array]:
    """2.5 and 97.5 % quantiles of a statistic over resampled sequences.

    Args:
        sums: (N, K) sums of each sequence.
        statistic: function of totals (:data:`DRAWS`, K), giving (:data:`DRAWS`, ...).
        seed: seed of the resampling.
    """
    rng = np.random.default_rng(seed)
    rows = len(sums)
    # Counts of each sequence per draw: one matrix product instead of a gather per draw.
    counts = rng.multinomial(rows, np.full(rows, 1.0 / rows), size=DRAWS).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = statistic(counts @ sums)
    low, high = np.nanquantile(values, LEVEL, axis=0) if np.isfinite(values).any() else (np.nan, np.nan)
    return np.asarray(low), np.asarray(high)


def interval_of(sums: Array, statistic: Callable[[Array], Array], *, seed: int = 0) -> Interval:
    """A statistic of the sums (N, K) of all sequences, with its interval by :func:`resample`."""
    low, high = resample(sums, statistic, seed=seed)
    return Interval(float(statistic(sums.sum(0))), float(low), float(high))


def resampled_within(
    subjects: Sequence[str] | NDArray[np.str_], *, draws: int, seed: int
) -> Iterator[list[NDArray[np.int64]]]:
    """Resample subjects, and the clips within each drawn subject; yields the clip indices by drawn subject.

    A subject drawn twice counts twice, with its clips drawn separately each time.

    Args:
        subjects: (N,) subject of each clip.
        draws: number of resamplings.
        seed: seed of the resampling.
    """
    owners = np.array(subjects)
    groups = [np.flatnonzero(owners == name) for name in np.unique(owners)]
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        picked = [groups[g] for g in rng.integers(len(groups), size=len(groups))]
        yield [rng.choice(group, size=len(group)) for group in picked]
