"""Is an event as likely as the model says? Reliability, Brier score and calibration error."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import BIN_MS, EVENTS, RATE
from training.data.examples import Example
from training.evaluate.events import Array, events_of
from training.report.statistics import LEVEL, resampled_within
from training.tasks.motion.scores import Predictions
from training.teacher.handmade import EDGE

WITHIN_MS: Final = (100, 200, 400)
BINS: Final = 10
DRAWS: Final = 1000


def chance_within(hazards: NDArray[np.floating], frames: int) -> Array:
    """The probability (T,) that an event comes within ``frames`` frames, of hazards (T, bins)."""
    alive = np.prod(1.0 - hazards[:, :frames].astype(np.float64), axis=1)
    return np.asarray(1.0 - alive, dtype=np.float64)


def comes_within(events: NDArray[np.int64], length: int, frames: int) -> NDArray[np.bool_]:
    """Whether an event comes in (t, t + frames], for every frame t of a clip."""
    now = np.arange(length)
    ordered = np.sort(events)
    return np.asarray(
        np.searchsorted(ordered, now + frames, side="right") > np.searchsorted(ordered, now, side="right")
    )


def reliability(chance: Array, came: NDArray[np.bool_], bins: int = BINS) -> dict[str, Any]:
    """Frequency of events against their probability in equal bins, Brier score and calibration error.

    The Brier score of always saying the base rate of these very frames, which no forecaster knows, stands
    beside it; ``skill`` is 1 - Brier / that (1: perfect, 0: no better). ECE is the mean distance of the
    frequency from the probability over the bins, weighted by their frames.
    """
    index = np.minimum((chance * bins).astype(np.int64), bins - 1)
    count = np.bincount(index, minlength=bins)
    said = np.bincount(index, chance, minlength=bins) / np.maximum(count, 1)
    seen = np.bincount(index, came, minlength=bins) / np.maximum(count, 1)
    base = float(came.mean())
    brier, plain = float(((chance - came) ** 2).mean()), base * (1.0 - base)
    return {
        "base_rate": round(base, 4),
        "brier": round(brier, 5),
        "brier_base_rate": round(plain, 5),
        "skill": round(1.0 - brier / plain, 4) if plain > 0.0 else None,
        "ece": round(float((np.abs(said - seen) * count).sum() / count.sum()), 4),
        "frames": len(chance),
        "bins": [
            {"said": round(float(s), 4), "seen": round(float(o), 4), "frames": int(n)}
            for s, o, n in zip(said, seen, count, strict=True)
            if n
        ],
    }


def calibration(
    examples: Sequence[Example], said: Sequence[Predictions], *, draws: int = DRAWS, seed: int = 0
) -> list[dict[str, Any]]:
    """:func:`reliability` for every kind of event and horizon; the skill with its interval over subjects."""
    rows = []
    for kind, event in enumerate(EVENTS):
        for ms in WITHIN_MS:
            frames = round(ms / BIN_MS)
            chances, comings, owners = [], [], []
            for example, s in zip(examples, said, strict=True):
                last = len(example) - EDGE - round(ms * RATE / 1000.0)
                if last <= EDGE:
                    continue
                chances.append(chance_within(s.hazards[EDGE:last, kind], frames))
                comings.append(comes_within(events_of(example, kind), len(example), frames)[EDGE:last])
                owners.append(example.subject)
            if not chances:
                continue
            found = reliability(np.concatenate(chances), np.concatenate(comings))
            low, high = _skill_interval(chances, comings, owners, draws, seed)
            rows.append({"event": event, "within_ms": ms, **found, "skill_low": low, "skill_high": high})
    return rows


def _skill_interval(
    chances: Sequence[Array],
    comings: Sequence[NDArray[np.bool_]],
    owners: Sequence[str],
    draws: int,
    seed: int,
) -> tuple[float | None, float | None]:
    sums = np.array(
        [(((c - y) ** 2).sum(), y.sum(), len(y)) for c, y in zip(chances, comings, strict=True)],
        dtype=np.float64,
    )
    found = []
    for picks in resampled_within(owners, draws=draws, seed=seed):
        wrong, events, frames = sum(sums[pick].sum(axis=0) for pick in picks)
        base = events / frames
        if 0.0 < base < 1.0:
            found.append(1.0 - wrong / frames / (base * (1.0 - base)))
    if not found:
        return None, None
    low, high = np.quantile(found, LEVEL)
    return round(float(low), 4), round(float(high), 4)
