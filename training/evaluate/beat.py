"""The table of events on the beat: per kind of movement and lead, the model as it plays and its rival."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pyanticip.vocabulary import EVENTS, RATE
from training.data.examples import Example
from training.evaluate.events import Announcements, score_clips, total
from training.evaluate.extrapolator import Extrapolator, extrapolate, joint_positions
from training.evaluate.rules import LEADS_MS, live
from training.evaluate.takes import KINDS
from training.report.statistics import LEVEL, resampled_within
from training.tasks.motion.scores import EventScore, Predictions

DRAWS: Final = 1000


def f1_interval(scores: Sequence[EventScore], subjects: Sequence[str]) -> tuple[float | None, float | None]:
    """95 % interval of F1 by a bootstrap over subjects and the clips within them; None of one clip."""
    if len(scores) < 2:
        return None, None
    counts = np.array([(s.hits, s.reported, s.true) for s in scores], dtype=np.float64).reshape(-1, 3)
    found = []
    for picks in resampled_within(subjects, draws=DRAWS, seed=0):
        hits, reported, true = sum(counts[pick].sum(axis=0) for pick in picks)
        found.append(2.0 * hits / (reported + true) if reported + true else 0.0)
    low, high = np.quantile(found, LEVEL)
    return round(float(low), 3), round(float(high), 3)


def by_kind(
    examples: Sequence[Example],
    kinds: Sequence[str],
    reports: Sequence[Announcements],
    *,
    who: str,
    event: int,
    lead_ms: int,
) -> list[dict[str, Any]]:
    """A line for each kind of movement that has events.

    Args:
        examples: the clips.
        kinds: the kind of each.
        reports: what was announced in each.
        who: name in the table.
        event: its index.
        lead_ms: how long before the event a decision must lie.
    """
    scores, leads = score_clips(examples, reports, event, lead_ms * RATE / 1000.0)
    rows = []
    for kind in KINDS:
        mine = [number for number, one in enumerate(kinds) if one == kind]
        all_of = total([scores[n] for n in mine])
        if not all_of.true:
            continue
        early = np.concatenate([leads[n] for n in mine])
        low, high = f1_interval([scores[n] for n in mine], [examples[n].subject for n in mine])
        rows.append(
            {
                "who": who,
                "event": EVENTS[event],
                "lead_ms": lead_ms,
                "kind": kind,
                "true": all_of.true,
                "precision": round(all_of.precision, 3),
                "recall": round(all_of.recall, 3),
                "f1": round(all_of.f1, 3),
                "low": low,
                "high": high,
                "median_lead_ms": round(float(np.median(early)) * 1000.0 / RATE, 1) if len(early) else None,
            }
        )
    return rows


def beat_rows(
    examples: Sequence[Example],
    kinds: Sequence[str],
    outputs: Sequence[Predictions],
    extrapolators: Sequence[Sequence[Extrapolator]],
) -> list[dict[str, Any]]:
    """The model by the instrument's own rule, told the lead, and the tuned extrapolator, at each lead.

    Args:
        examples: clips to judge.
        kinds: the kind of each.
        outputs: what the model says about them.
        extrapolators: settings by event and lead.
    """
    placed = [joint_positions(example.quats) for example in examples]
    rows = []
    for event in range(len(EVENTS)):
        for lead_ms, settings in zip(LEADS_MS, extrapolators[event], strict=True):
            lead = lead_ms * RATE / 1000.0
            announced = {
                "model": [live(one, event, lead_ms=float(lead_ms)) for one in outputs],
                "extrapolator": [extrapolate(place, event, lead, settings) for place in placed],
            }
            for who, reports in announced.items():
                rows += by_kind(examples, kinds, reports, who=who, event=event, lead_ms=lead_ms)
    return rows
