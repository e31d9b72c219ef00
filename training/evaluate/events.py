"""Scoring announced events against the teacher's: when they were announced for, and when that was decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from training.data.examples import Example
from training.tasks.motion.scores import EventScore
from training.teacher.kinematic_targets import EDGE

Array = NDArray[np.float64]

TOLERANCE_FRAMES: Final = 2.5
"""50 ms."""


@dataclass(frozen=True)
class Announcements:
    """Events that were announced in one clip, in order of decision; both in frames of the clip."""

    decided: Array
    """(N,) the frame whose arrival made the decision possible."""
    times: Array
    """(N,) when the event is said to be."""

    def __len__(self) -> int:
        return len(self.times)


def pair(
    reports: Announcements, true: NDArray[np.integer], lead: float, tolerance: float
) -> list[tuple[int, int]]:
    """Pairs (announcement, event), each used once, as many as there can be.

    They pair if the announced time is within ``tolerance`` frames of the event and the decision fell at
    least ``lead`` frames before the event itself. Every announcement allows an interval of events, so taking
    the events in order, and of the announcements that allow one the first to expire, pairs the most.
    """
    low = np.maximum(reports.times - tolerance, reports.decided + lead)
    high = reports.times + tolerance
    free = np.ones(len(reports), dtype=np.bool_)
    pairs: list[tuple[int, int]] = []
    for j, event in enumerate(true):
        fits = np.flatnonzero(free & (low <= event) & (event <= high))
        if len(fits):
            i = int(fits[np.argmin(high[fits])])
            free[i] = False
            pairs.append((i, j))
    return pairs


def events_of(example: Example, kind: int) -> NDArray[np.int64]:
    """The teacher's events of a kind, frames ascending."""
    return (example.onsets, example.phrases)[kind]


def score_clip(
    reports: Announcements,
    true: NDArray[np.int64],
    frames: int,
    lead: float = -np.inf,
    tolerance: float = TOLERANCE_FRAMES,
) -> tuple[EventScore, Array]:
    """Hits, reports and events of a clip, and the leads (frames) of the hits.

    The first and last ``EDGE`` frames are not judged, where the teacher's kernels are cut: an announcement
    that pairs with an event in there counts neither for nor against.

    Args:
        reports: what was announced.
        true: the teacher's frames.
        frames: length of the clip.
        lead: frames that the decision must lie before the event; -inf: it may be late.
        tolerance: frames between the announced time and the event.
    """
    inner = (true >= EDGE) & (true < frames - EDGE)
    pairs = pair(reports, true, lead, tolerance)
    hits = [(i, j) for i, j in pairs if inner[j]]
    excused = {i for i, j in pairs if not inner[j]}
    counted = [
        i
        for i, time in enumerate(reports.times)
        if i not in excused and (EDGE <= time < frames - EDGE or i in {h for h, _ in hits})
    ]
    leads = np.array([true[j] - reports.decided[i] for i, j in hits], dtype=np.float64)
    return EventScore(len(hits), len(counted), int(inner.sum())), leads


def total(scores: Sequence[EventScore]) -> EventScore:
    """The scores of several clips as one."""
    return EventScore(
        sum(s.hits for s in scores), sum(s.reported for s in scores), sum(s.true for s in scores)
    )


def score_clips(
    examples: Sequence[Example],
    reports: Sequence[Announcements],
    kind: int,
    lead: float = -np.inf,
) -> tuple[list[EventScore], list[Array]]:
    """:func:`score_clip` of every clip."""
    found = [
        score_clip(announced, events_of(example, kind), len(example), lead)
        for example, announced in zip(examples, reports, strict=True)
    ]
    return [score for score, _ in found], [leads for _, leads in found]
