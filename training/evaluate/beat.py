"""Table of event scores by kind of movement and lead: the model as played live, and the baseline."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pyanticip.vocabulary import EVENTS, RATE
from training.data.examples import Example
from training.evaluate.events import LEADS_MS, Announcements, announce, score_clips, total
from training.evaluate.extrapolator import Extrapolator, extrapolate, joint_positions
from training.evaluate.takes import KINDS
from training.report.statistics import LEVEL, resampled_within
from training.tasks.motion.scores import EventScore, Predictions

DRAWS: Final = 1000


def f1_interval(scores: Sequence[EventScore], subjects: Sequence[str]) -> tuple[float | None, float | None]:
    """95 % interval of F1 by a bootstrap over subjects and their clips; None for a single clip."""
    if len(scores) < 2:
        return None, None
    counts = np.array([(s.hits, s.reported, s.true) for s in scores], dtype=np.float64).reshape(-1, 3)
    values = []
    for picks in resampled_within(subjects, draws=DRAWS, seed=0):
        hits, reported, true = sum(counts[pick].sum(axis=0) for pick in picks)
        values.append(2.0 * hits / (reported + true) if reported + true else 0.0)
    low, high = np.quantile(values, LEVEL)
    return round(float(low), 3), round(float(high), 3)


def by_kind(
    examples: Sequence[Example],
    kinds: Sequence[str],
    reports: Sequence[Announcements],
    *,
    system: str,
    event: int,
    lead_ms: int,
) -> list[dict[str, Any]]:
    """Score announcements: one row for each kind of movement that has events.

    Args:
        examples: the clips.
        kinds: kind of movement of each clip.
        reports: announcements in each clip.
        system: name of the system in the table.
        event: index of the kind of event.
        lead_ms: minimum time between decision and event.
    """
    scores, leads = score_clips(examples, reports, event, lead_ms * RATE / 1000.0)
    rows = []
    for kind in KINDS:
        members = [number for number, one in enumerate(kinds) if one == kind]
        score = total([scores[n] for n in members])
        if not score.true:
            continue
        hit_leads = np.concatenate([leads[n] for n in members])
        low, high = f1_interval([scores[n] for n in members], [examples[n].subject for n in members])
        rows.append(
            {
                "who": system,
                "event": EVENTS[event],
                "lead_ms": lead_ms,
                "kind": kind,
                "true": score.true,
                "precision": round(score.precision, 3),
                "recall": round(score.recall, 3),
                "f1": round(score.f1, 3),
                "low": low,
                "high": high,
                "median_lead_ms": round(float(np.median(hit_leads)) * 1000.0 / RATE, 1)
                if len(hit_leads)
                else None,
            }
        )
    return rows


def beat_rows(
    examples: Sequence[Example],
    kinds: Sequence[str],
    outputs: Sequence[Predictions],
    extrapolators: Sequence[Sequence[Extrapolator]],
) -> list[dict[str, Any]]:
    """Score the model with the instrument's own event rule, and the tuned extrapolator, at each lead.

    Args:
        examples: the clips.
        kinds: kind of movement of each clip.
        outputs: model output for each clip.
        extrapolators: settings by kind of event and lead.
    """
    positions = [joint_positions(example.quats) for example in examples]
    rows = []
    for event in range(len(EVENTS)):
        for lead_ms, settings in zip(LEADS_MS, extrapolators[event], strict=True):
            lead = lead_ms * RATE / 1000.0
            announced = {
                "model": [announce(one, event, lead_ms=float(lead_ms)) for one in outputs],
                "extrapolator": [extrapolate(joints, event, lead, settings) for joints in positions],
            }
            for system, reports in announced.items():
                rows += by_kind(examples, kinds, reports, system=system, event=event, lead_ms=lead_ms)
    return rows
