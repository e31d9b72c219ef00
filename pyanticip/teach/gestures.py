"""Gestures: movements with a beginning and an end, recognised while they last (:class:`_core.Spotter`).

The active part of a take is learned, from where the body begins to move to where it is still again. A
gesture's threshold, the most that matching it may cost, is set by leaving out every take in turn, and by the
frames of all other takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip._core import GESTURE_FRAMES, Spotter
from pyanticip.errors import OptionError
from pyanticip.motion.clip import Clip
from pyanticip.teach.folds import frame_ids, group_same_motion, same_motion
from pyanticip.teach.options import collect_refusals
from pyanticip.vocabulary import RATE

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MIN_TAKES = 3
"""Fewest takes of a gesture: with fewer nothing is known of its variation."""

_ACTIVE_SHARE = 0.35
"""The active part begins and ends at this share of the take's highest speed."""
_SMOOTHING_FRAMES = 5
"""Frames over which that speed is averaged."""
_SPEED_STEP = 3
"""Speed is measured over this many frames before and after."""
_MARGINS = (1.1, 1.25, 1.5)
"""Factors tried between the cost of held-out takes and the threshold."""
_ALARMS_PER_MINUTE = 4.0
"""This rate of false alarms weighs as much as missing every take."""
_ALARM_GAP = RATE
"""Alarms at most this many frames apart count as one."""
_TOLERANCE_FRAMES = 12
"""Accuracy to which the begin and end of a gesture are known."""
_NEVER = 1e-4
"""A threshold below any cost: a spotter with it reports costs and recognises nothing."""


@dataclass(frozen=True)
class GestureExample:
    """A take of a gesture, or of something else: the frames ``begin`` to ``end`` of ``quats`` (T, 22, 4)."""

    name: str
    quats: F32
    begin: int
    end: int

    @classmethod
    def active(cls, name: str, clip: Clip) -> GestureExample:
        """The active part of a take."""
        positions = clip.positions()
        positions = positions - positions[:, :1]
        speed = np.zeros(len(positions))
        moved = np.linalg.norm(positions[2 * _SPEED_STEP :] - positions[: -2 * _SPEED_STEP], axis=2).mean(1)
        speed[_SPEED_STEP : _SPEED_STEP + len(moved)] = moved
        speed = np.convolve(speed, np.full(_SMOOTHING_FRAMES, 1.0 / _SMOOTHING_FRAMES), "same")
        fast = np.flatnonzero(speed >= _ACTIVE_SHARE * speed.max())
        return cls(name, clip.quats, int(fast[0]), int(fast[-1]) + 1)

    @cached_property
    def covered(self) -> Mask:
        """Whether frames (T,) may belong to the gesture, given how accurately its begin and end are known."""
        frames = np.arange(len(self.quats))
        return (frames >= self.begin - _TOLERANCE_FRAMES) & (frames < self.end + _TOLERANCE_FRAMES)

    @cached_property
    def frame_ids(self) -> npt.NDArray[np.int64]:
        """The :func:`pyanticip.teach.folds.frame_ids` (T,) of the take."""
        return frame_ids(self.quats)

    @property
    def part(self) -> F32:
        """The frames from ``begin`` to ``end``."""
        return np.ascontiguousarray(self.quats[self.begin : self.end], np.float32)


Examples = Sequence[tuple[str | None, GestureExample]]
"""Takes with the gesture that each shows; None: none."""


@dataclass(frozen=True)
class Gesture:
    """A taught gesture: the most that a match may cost (m), its takes (T, 22, 4), a report."""

    name: str
    threshold: float
    takes: tuple[F32, ...]
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """How a gesture was recognised in a take.

    ``at`` is the share of the gesture that had passed when it was recognised (None: missed), ``end_ms`` the
    error of the predicted end at that moment (positive: too late), ``alarms`` the number of false alarms.
    """

    take: str
    at: float | None
    end_ms: float | None
    alarms: int


def spot(gestures: Sequence[Gesture], quats: F32) -> F64:
    """Rows (T, gestures, 4) as of :meth:`pyanticip._core.Spotter.push_many`."""
    return make_spotter(gestures).push_many(quats)


def make_spotter(gestures: Sequence[Gesture]) -> Spotter:
    """A spotter of these gestures."""
    takes = [(i, take) for i, gesture in enumerate(gestures) for take in gesture.takes]
    return Spotter(takes, [gesture.threshold for gesture in gestures])


def frames_without(name: str, takes: Examples) -> list[Mask]:
    """Per take, the frames (T,) that do not show a gesture.

    A frame shows it if it belongs to the gesture in this take, or in another take of the same recording.
    """
    ids = [take.frame_ids[take.covered] for of, take in takes if of == name]
    shown = np.concatenate([np.zeros(0, np.int64), *ids])
    shown = shown[shown != 0]
    return [~(np.isin(take.frame_ids, shown) | ((of == name) & take.covered)) for of, take in takes]


def verdict(spotted: F64, take: GestureExample, without: Mask, *, shows: bool) -> Verdict:
    """Evaluate the rows (T, 4) of a gesture on a take that ``shows`` it, or does not.

    ``without`` are its :func:`frames_without` the gesture: false alarms are counted there.
    """
    is_active = ~np.isnan(spotted[:, 0])
    starts = np.flatnonzero(np.diff(is_active.astype(np.int8), prepend=0) == 1)
    alarms = int(without[starts].sum())
    correct = starts[take.covered[starts]] if shows else starts[:0]
    if not len(correct):
        return Verdict(take.name, None, None, alarms)
    first = int(correct[0])
    end_ms = 1000.0 * (float(spotted[first, 1]) - (take.end - 1 - first) / RATE)
    at = (first - take.begin) / (take.end - take.begin)
    return Verdict(take.name, at, end_ms, alarms + len(correct) - 1)


def fit_gestures(takes: Examples, refused: list[str] | None = None) -> list[Gesture]:
    """Fit the gestures that takes show; takes of None, or of another gesture, are counterexamples.

    With ``refused``, a gesture that cannot be fitted is left out and its error appended there.

    Raises:
        OptionError: without ``refused``, a gesture of fewer than three takes, or one too short or too long.
    """
    fitted = []
    for name in sorted({name for name, _ in takes if name is not None}):
        with collect_refusals(refused):
            fitted.append(_fit_gesture(name, takes))
    return fitted


def _fit_gesture(name: str, examples: Examples) -> Gesture:
    # Takes of the gesture first, then all others.
    examples = sorted(examples, key=lambda example: example[0] != name)
    takes, without = [take for _, take in examples], frames_without(name, examples)
    mine = [take for of, take in examples if of == name]
    if len(mine) < MIN_TAKES:
        raise OptionError(f"gesture {name}: expected {MIN_TAKES} takes or more, got {len(mine)}: record more")
    least, most = GESTURE_FRAMES
    for take in mine:
        if not least <= take.end - take.begin <= most:
            raise OptionError(
                f"gesture {name}: take {take.name} moves for {(take.end - take.begin) / RATE:.2f} s;"
                f" expected {least / RATE:g} to {most / RATE:g} s"
            )
    parts = tuple(take.part for take in mine)
    groups = group_same_motion([frame_ids(part) for part in parts])
    twins = same_motion([take.name for take in mine], groups)
    if len(groups) < MIN_TAKES:
        same = "; ".join(f"takes {', '.join(names)} show the same motion" for names in twins)
        raise OptionError(
            f"gesture {name}: expected {MIN_TAKES} takes or more, got {len(groups)} ({same}): record more"
        )
    group_of = {i: group for group in groups for i in group}
    # Per take, the parts that it is matched with: all of other recordings.
    rests = [tuple(p for j, p in enumerate(parts) if j not in group_of[i]) for i in range(len(parts))]
    rests += [parts] * (len(takes) - len(mine))
    costs = [_match_costs(rest, take.quats) for rest, take in zip(rests, takes, strict=True)]
    match_costs = [
        cost[take.begin : take.end + _TOLERANCE_FRAMES].min() for cost, take in zip(costs, mine, strict=False)
    ]
    # The frames before and after the gesture are counterexamples too.
    other_costs = [np.where(frames, cost, np.inf) for frames, cost in zip(without, costs, strict=True)]
    minutes = sum(int(frames.sum()) for frames in without) / RATE / 60.0
    choices = sorted(
        {_MARGINS[0] * cost for cost in match_costs} | {margin * max(match_costs) for margin in _MARGINS}
    )

    def loss(threshold: float) -> float:
        alarms = sum(_count_alarms(costs < threshold) for costs in other_costs)
        missed = float(np.mean([cost >= threshold for cost in match_costs]))
        return missed + alarms / max(minutes, 1.0) / _ALARMS_PER_MINUTE

    # The middle one of the best thresholds leaves room for new takes and for other movements.
    losses = [loss(threshold) for threshold in choices]
    best = [threshold for threshold, each in zip(choices, losses, strict=True) if each == min(losses)]
    threshold = float(np.clip(best[len(best) // 2], 2 * _NEVER, 10.0))
    verdicts = [
        verdict(spot([Gesture(name, threshold, rest)], take.quats)[:, 0], take, frames, shows=of == name)
        for rest, (of, take), frames in zip(rests, examples, without, strict=True)
    ]
    recognised = [one for one in verdicts if one.at is not None]
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
            "found": [one.take for one in recognised],
            "missed": [one.take for one in verdicts[: len(mine)] if one.at is None],
            "at": round(float(np.median([one.at for one in recognised])), 3) if recognised else None,
            "end_ms": round(float(np.median([abs(one.end_ms or 0.0) for one in recognised])))
            if recognised
            else None,
            "alarms": sum(one.alarms for one in verdicts),
            "alarmed_by": [one.take for one in verdicts if one.alarms],
            "minutes": round(minutes, 3),
        },
    )


def _match_costs(parts: Sequence[F32], quats: F32) -> F64:
    """The cost (T,) of matching any of the parts, in every frame."""
    return Spotter([(0, part) for part in parts], [_NEVER]).push_many(quats)[:, 0, 3]


def _count_alarms(below: Mask) -> int:
    """The number of separate alarms in frames below the threshold."""
    index = np.flatnonzero(below)
    return int((np.diff(index, prepend=-_ALARM_GAP - 1) > _ALARM_GAP).sum()) if len(index) else 0
