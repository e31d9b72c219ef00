"""Errors of the parameters beside the three rivals', and as shares of the best rival's."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS
from training.tasks.motion.scores import Array, Errors, bootstrap

DRAWS: Final = 2000

RIVALS: Final = {"hold": "hold the twin", "linear": "extrapolate the twin", "tracker": "track the twin"}
"""The three rivals and how tables call them."""

BARS: Final = {100: 0.60, 200: 0.65, 400: 0.75}
"""The share of the best rival's error that the model is to stay under, by horizon in ms."""


def table(values: Array) -> list[list[float]]:
    """An array as rounded rows."""
    return [[round(float(value), 6) for value in row] for row in np.atleast_2d(values)]


def best_of(rivals: list[Array]) -> Array:
    """The least error (8, 5) for each parameter at each horizon."""
    return np.asarray(np.min(np.stack(rivals), axis=0), dtype=np.float64)


def shares(means: list[Array]) -> Array:
    """The model's error over the best rival's, averaged over the parameters in two ways, (2, 5).

    Args:
        means: (8, 5) mean errors of the model and of each rival.

    Row 0 is the ratio of the means over the eight, row 1 the mean of the eight ratios. The best rival is
    another one for every parameter at every horizon.
    """
    best = np.maximum(best_of(means[1:]), 1e-12)
    return np.stack([means[0].mean(axis=0) / best.mean(axis=0), (means[0] / best).mean(axis=0)])


def compare(errors: Mapping[str, Errors], *, draws: int = DRAWS, seed: int = 0) -> dict[str, Any]:
    """Mean errors with their intervals, the shares, and where the model is worse than its best rival.

    Args:
        errors: of ``model`` first, then of every rival, on the same clips.
        draws: resamplings of the subjects and of the clips within them.
        seed: of the resampling.
    """
    names = list(errors)
    means = [errors[name].mean() for name in names]

    def statistic(found: list[Array]) -> Array:
        averaged = np.stack([mean.mean(axis=0) for mean in found])
        margin = best_of(found[1:]).mean(axis=0) - averaged[0]
        return np.concatenate([averaged, margin[None], shares(found)])

    low, high = bootstrap(list(errors.values()), statistic, draws=draws, seed=seed)
    rows = [*names, "margin", "ratio_of_means", "mean_of_ratios"]
    interval = {name: {"low": table(low)[row], "high": table(high)[row]} for row, name in enumerate(rows)}
    found = shares(means)
    best = best_of(means[1:])
    lost = [
        f"{name} at {ms} ms"
        for k, name in enumerate(PARAMETERS)
        for i, ms in enumerate(HORIZONS_MS)
        if ms in BARS and not means[0][k, i] <= best[k, i]
    ]
    model = errors["model"]
    return {
        "mean": {name: table(mean.mean(axis=0))[0] for name, mean in zip(names, means, strict=True)},
        "interval": interval,
        "per_parameter": {
            name: dict(zip(PARAMETERS, table(mean), strict=True))
            for name, mean in zip(names, means, strict=True)
        },
        "shares": [
            {
                "horizon_ms": ms,
                "bar": BARS[ms],
                **{
                    reading: {
                        "value": round(float(found[row, i]), 4),
                        "low": round(float(low[len(names) + 1 + row, i]), 4),
                        "high": round(float(high[len(names) + 1 + row, i]), 4),
                        "met": bool(found[row, i] <= BARS[ms]),
                    }
                    for row, reading in enumerate(("ratio_of_means", "mean_of_ratios"))
                },
            }
            for i, ms in enumerate(HORIZONS_MS)
            if ms in BARS
        ],
        "not_beaten": lost,
        "subjects": sorted(set(model.subjects.tolist())),
        "clips": len(model.subjects),
        "frames": int(model.counts[:, 0].sum()),
    }
