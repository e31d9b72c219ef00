"""Events that the instrument's rule announces from a model's hazards, and their score against the teacher's,
by their announced time and the time of the decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.controls import CANCEL, EventTrigger, LastMoment
from pyanticip.vocabulary import EVENTS, RATE
from training.data.examples import Example
from training.tasks.motion.scores import EventScore, Predictions
from training.teacher.kinematic_targets import EDGE

Array = NDArray[np.float64]

LEADS_MS: Final = (0, 100, 200)
"""Leads at which events are evaluated."""

TOLERANCE_FRAMES: Final = 2.5
"""Maximum distance of an announced time from its event: 50 ms."""


@dataclass(frozen=True)
class Announcements:
    """Announced events of one clip, in order of decision; times are frames of the clip."""

    decided: Array
    """(N,) frame on whose arrival the event was announced."""
    times: Array
    """(N,) announced time of the event."""

    def __len__(self) -> int:
        return len(self.times)


def announce(
    output: Predictions, kind: int, trigger: EventTrigger | None = None, *, lead_ms: float = 0.0
) -> Announcements:
    """Events that the instrument announces in a clip.

    An event that is cancelled at least the lead before its time does not count as announced; one that is
    cancelled later does.

    Args:
        output: model output for the clip.
        kind: index of the kind of event.
        trigger: the rule, which is reset; by default the instrument's own.
        lead_ms: lead that is passed to the trigger, and set in the default one.
    """
    trigger = trigger or LastMoment(lead_ms=lead_ms)
    trigger.reset()
    hazards, gates = output.hazards.tolist(), output.gate.tolist()
    lead = lead_ms * RATE / 1000.0
    decided, times = [], []
    for t, (rows, gate) in enumerate(zip(hazards, gates, strict=True)):
        for name, _, ahead in trigger.step(rows, gate, lead_ms, 1.0 / RATE):
            if name == EVENTS[kind]:
                decided.append(float(t))
                times.append(t + ahead * RATE)
            elif name == EVENTS[kind] + CANCEL:
                cancelled = min(range(len(times)), key=lambda i: abs(times[i] - t - ahead * RATE))
                if times[cancelled] - t >= lead:
                    del decided[cancelled], times[cancelled]
    return Announcements(np.array(decided), np.array(times))


def pair(
    reports: Announcements, true: NDArray[np.integer], lead: float, tolerance: float
) -> list[tuple[int, int]]:
    """Match announcements with events; returns a maximum set of pairs (announcement, event).

    They match if the event is later than ``tolerance`` frames before the announced time and at most that
    much after it, and the decision was made at least ``lead`` frames before the event. Only one end counts,
    so as many frames match a time between two frames as one on a frame. Each announcement matches an interval
    of times, so taking the events in order, each with the matching announcement that expires first, gives the
    most pairs.
    """
    low, latest = reports.times - tolerance, reports.decided + lead
    high = reports.times + tolerance
    free = np.ones(len(reports), dtype=np.bool_)
    pairs: list[tuple[int, int]] = []
    for j, event in enumerate(true):
        fits = np.flatnonzero(free & (low < event) & (latest <= event) & (event <= high))
        if len(fits):
            i = int(fits[np.argmin(high[fits])])
            free[i] = False
            pairs.append((i, j))
    return pairs


def events_of(example: Example, kind: int) -> NDArray[np.int64]:
    """The teacher's events of a kind, as ascending frames."""
    return (example.onsets, example.phrases)[kind]


def score_clip(
    reports: Announcements,
    true: NDArray[np.int64],
    frames: int,
    lead: float = -np.inf,
    tolerance: float = TOLERANCE_FRAMES,
) -> tuple[EventScore, Array]:
    """Score the announcements of a clip; also returns the leads of the hits, frames.

    The first and last ``EDGE`` frames, where the teacher's kernels are truncated, are not scored: an
    announcement that matches an event there counts neither for nor against.

    Args:
        reports: the announcements.
        true: frames of the teacher's events.
        frames: length of the clip.
        lead: minimum time from decision to event, frames; -inf allows any.
        tolerance: maximum distance of the announced time from the event, frames.
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
    """Add up the scores of several clips."""
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
    results = [
        score_clip(announced, events_of(example, kind), len(example), lead)
        for example, announced in zip(examples, reports, strict=True)
    ]
    return [score for score, _ in results], [leads for _, leads in results]
