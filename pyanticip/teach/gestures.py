"""Gestures: movements with a beginning and an end, found while they last (:class:`pyanticip._core.Spotter`).

Of a take the active part is learnt, from where the body begins to move to where it stands again. What a
gesture may cost is settled by leaving out every take in turn, and by all that the other takes show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip._core import GESTURE_FRAMES, Spotter
from pyanticip.errors import OptionError
from pyanticip.motion.clip import Clip
from pyanticip.teach.folds import moments, same_motion, together
from pyanticip.teach.options import telling
from pyanticip.vocabulary import RATE

__all__ = ["FEWEST", "Gesture", "GestureExample", "Verdict", "fit_gestures", "spot", "verdict"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

FEWEST = 3
"""Takes of a gesture: with fewer nothing is known of how one differs from the next."""

# The active part begins and ends where the body is so fast, as a share of its fastest moment.
_ACTIVE, _SMOOTH, _STEP = 0.35, 5, 3
# What may be recognised costs so much more than a take that was left out, at least and at most.
_ROOM = (1.1, 1.25, 1.5)
# So many false alarms a minute are as bad as missing every take.
_ALARMS = 4.0
# Alarms so near each other are one. Where a gesture begins and ends is known to so many frames.
_APART, _ABOUT = RATE, 12
# Nothing costs as little: a spotter with this threshold tells costs and recognises nothing.
_NEVER = 1e-4


@dataclass(frozen=True)
class GestureExample:
    """A take of a gesture, or of something else: the frames ``begin`` to ``end`` of ``quats`` (T, 22, 4)."""

    name: str
    quats: F32
    begin: int
    end: int

    @classmethod
    def active(cls, name: str, clip: Clip, begin: int) -> GestureExample:
        """A take's active part, of the frames after ``begin``."""
        places = clip.positions()[begin:]
        places = places - places[:, :1]
        speed = np.zeros(len(places))
        moved = np.linalg.norm(places[2 * _STEP :] - places[: -2 * _STEP], axis=2).mean(1)
        speed[_STEP : _STEP + len(moved)] = moved
        speed = np.convolve(speed, np.full(_SMOOTH, 1.0 / _SMOOTH), "same")
        fast = np.flatnonzero(speed >= _ACTIVE * speed.max())
        return cls(name, clip.quats, begin + int(fast[0]), begin + int(fast[-1]) + 1)

    def is_it(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether frames are of the gesture, as far as it is known where it begins and ends."""
        return (frames >= self.begin - _ABOUT) & (frames < self.end + _ABOUT)

    @property
    def part(self) -> F32:
        """The frames of the gesture alone."""
        return np.ascontiguousarray(self.quats[self.begin : self.end], np.float32)


@dataclass(frozen=True)
class Gesture:
    """A taught gesture: what it may cost (m), takes (T, 22, 4) from first moment to last, a report."""

    name: str
    threshold: float
    takes: tuple[F32, ...]
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What was spotted in a take, against what it shows.

    ``at`` is the share of the gesture that was over when it was recognised (None: it was missed), ``end_ms``
    how much too late its end was foretold then, ``alarms`` how often it was recognised where it was not.
    """

    take: str
    at: float | None
    end_ms: float | None
    alarms: int


def spot(gestures: Sequence[Gesture], quats: F32) -> F64:
    """Rows (T, gestures, 4) as of :meth:`pyanticip._core.Spotter.push_many`."""
    return spotter(gestures).push_many(quats)


def spotter(gestures: Sequence[Gesture]) -> Spotter:
    """What spots them."""
    takes = [(i, take) for i, gesture in enumerate(gestures) for take in gesture.takes]
    return Spotter(takes, [gesture.threshold for gesture in gestures])


def verdict(spotted: F64, take: GestureExample, *, shows: bool) -> Verdict:
    """What rows (T, 4) of a gesture say of a take that ``shows`` it, or does not."""
    under_way = ~np.isnan(spotted[:, 0])
    entered = np.flatnonzero(np.diff(under_way.astype(np.int8), prepend=0) == 1)
    within = entered[take.is_it(entered)] if shows else entered[:0]
    if not len(within):
        return Verdict(take.name, None, None, len(entered))
    first = int(within[0])
    end_ms = 1000.0 * (float(spotted[first, 1]) - (take.end - 1 - first) / RATE)
    return Verdict(take.name, (first - take.begin) / (take.end - take.begin), end_ms, len(entered) - 1)


def fit_gestures(
    takes: Sequence[tuple[str | None, GestureExample]], refused: list[str] | None = None
) -> list[Gesture]:
    """The gestures that takes show; a take that shows None, or another one, shows what it is not.

    What cannot be fitted is left out and told in ``refused``, where that is given.

    Raises:
        OptionError: without ``refused``, a gesture of fewer than three takes, or one too short or too long.
    """
    fitted = []
    for name in sorted({name for name, _ in takes if name is not None}):
        mine = [take for of, take in takes if of == name]
        others = [take for of, take in takes if of != name]
        with telling(refused):
            fitted.append(_fitted(name, mine, others))
    return fitted


def _fitted(name: str, mine: Sequence[GestureExample], others: Sequence[GestureExample]) -> Gesture:
    if len(mine) < FEWEST:
        raise OptionError(f"gesture {name}: expected {FEWEST} takes or more, got {len(mine)}: record more")
    least, most = GESTURE_FRAMES
    for take in mine:
        if not least <= take.end - take.begin <= most:
            raise OptionError(
                f"gesture {name}: take {take.name} moves for {(take.end - take.begin) / RATE:.2f} s;"
                f" expected {least / RATE:g} to {most / RATE:g} s"
            )
    parts = tuple(take.part for take in mine)
    groups = together([moments(part) for part in parts])
    twins = same_motion([take.name for take in mine], groups)
    if len(groups) < FEWEST:
        same = "; ".join(f"takes {', '.join(names)} show the same motion" for names in twins)
        raise OptionError(
            f"gesture {name}: expected {FEWEST} takes or more, got {len(groups)} ({same}): record more"
        )
    group_of = {i: group for group in groups for i in group}
    without = [tuple(p for j, p in enumerate(parts) if j not in group_of[i]) for i in range(len(parts))]
    own, away = [], [_costs(parts, take.quats) for take in others]
    for rest, take in zip(without, mine, strict=True):
        costs = _costs(rest, take.quats)
        own.append(costs[take.begin : take.end + _ABOUT].min())
        # What comes before it and after it is not the gesture either.
        away.append(np.where(take.is_it(np.arange(len(costs))), np.inf, costs))
    minutes = sum(map(len, away)) / RATE / 60.0
    choices = sorted({_ROOM[0] * cost for cost in own} | {room * max(own) for room in _ROOM})

    def loss(threshold: float) -> float:
        alarms = sum(_alarms(costs < threshold) for costs in away)
        return float(np.mean([cost >= threshold for cost in own])) + alarms / max(minutes, 1.0) / _ALARMS

    # Of those that do equally well the one in the middle: room for the next time, and for what else there is.
    losses = [loss(threshold) for threshold in choices]
    best = [threshold for threshold, each in zip(choices, losses, strict=True) if each == min(losses)]
    threshold = float(np.clip(best[len(best) // 2], 2 * _NEVER, 10.0))
    verdicts = [
        verdict(spot([Gesture(name, threshold, rest)], take.quats)[:, 0], take, shows=True)
        for rest, take in zip(without, mine, strict=True)
    ]
    gesture = Gesture(name, threshold, parts)
    verdicts += [verdict(spot([gesture], take.quats)[:, 0], take, shows=False) for take in others]
    found = [one for one in verdicts if one.at is not None]
    return Gesture(
        name,
        threshold,
        parts,
        {
            "gesture": name,
            "takes": [take.name for take in mine],
            "same_motion": twins,
            "seconds": [round((take.end - take.begin) / RATE, 2) for take in mine],
            "threshold": round(threshold, 4),
            "found": [one.take for one in found],
            "missed": [one.take for one in verdicts[: len(mine)] if one.at is None],
            "at": round(float(np.median([one.at for one in found])), 3) if found else None,
            "end_ms": round(float(np.median([abs(one.end_ms or 0.0) for one in found]))) if found else None,
            "alarms": sum(one.alarms for one in verdicts),
            "alarmed_by": [one.take for one in verdicts if one.alarms],
            "minutes": round(minutes, 3),
        },
    )


def _costs(parts: Sequence[F32], quats: F32) -> F64:
    """What it would cost (T,) to recognise in every frame what these show."""
    return Spotter([(0, part) for part in parts], [_NEVER]).push_many(quats)[:, 0, 3]


def _alarms(below: npt.NDArray[np.bool_]) -> int:
    """How often something is recognised anew."""
    at = np.flatnonzero(below)
    return int((np.diff(at, prepend=-_APART - 1) > _APART).sum()) if len(at) else 0
