"""What the commitment gate does to announcements: as a veto, and as deferral.

As a *veto*, what would be announced at once is dropped where the gate lies under a threshold: if the gate
knows anything, precision rises with the threshold. As *deferral* (:class:`pyanticip.controls.EventTrigger`,
the reach rule; the rule that waits defers only what is nearly certain) an announcement waits until the gate
rises above a threshold that falls while it waits, five frames at most: that costs lead, and events that come
or pass in the meantime.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pyanticip.controls import EventTrigger
from pyanticip.vocabulary import EVENTS, RATE
from training.data.examples import Example
from training.evaluate.events import Announcements, events_of, score_clip, total
from training.evaluate.rules import live
from training.tasks.motion.scores import Predictions

REACH_MS: Final = 200.0
VETOES: Final = tuple(round(0.1 * n, 1) for n in range(10))
THETAS: Final = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
AT_ONCE: Final = 1e-9
"""A theta that every gate exceeds: no deferral."""


def gate_curves(
    examples: Sequence[Example],
    said: Sequence[Predictions],
    *,
    kind: int = 0,
    reach_ms: float = REACH_MS,
    threshold: float | None = None,
) -> dict[str, Any]:
    """Precision and recall over the gate's threshold, as a veto and as deferral.

    Args:
        examples: clips to judge.
        said: what the model says about them.
        kind: index of the event.
        reach_ms: time within which a foreseen event is announced.
        threshold: probability that makes an event pending; the instrument's own where None.
    """
    levels = {} if threshold is None else dict.fromkeys(EVENTS, threshold)

    def played(theta: float) -> list[Announcements]:
        trigger = EventTrigger(threshold=levels, theta=theta, reach_ms=reach_ms)
        return [live(s, kind, trigger) for s in said]

    at_once = played(AT_ONCE)
    gates = [s.gate[a.decided.astype(np.int64)] for s, a in zip(said, at_once, strict=True)]
    vetoes = []
    for level in VETOES:
        kept = [
            Announcements(a.decided[g > level], a.times[g > level])
            for a, g in zip(at_once, gates, strict=True)
        ]
        vetoes.append({"gate_above": level, **_line(examples, kept, kind)})
    free = _line(examples, at_once, kind)
    deferrals = []
    for theta in THETAS:
        line = _line(examples, played(theta), kind)
        line["events_missed_more"] = free["hits"] - line["hits"]
        if free["median_lead_ms"] is not None and line["median_lead_ms"] is not None:
            line["lead_lost_ms"] = round(free["median_lead_ms"] - line["median_lead_ms"], 1)
        deferrals.append({"theta": theta, **line})
    return {
        "event": EVENTS[kind],
        "reach_ms": reach_ms,
        "at_once": free,
        "veto": vetoes,
        "deferral": deferrals,
    }


def _line(examples: Sequence[Example], told: Sequence[Announcements], kind: int) -> dict[str, Any]:
    """Precision and recall within 50 ms, the decision before the event at all, and the leads of the hits."""
    found = [
        score_clip(said, events_of(example, kind), len(example), 0.0)
        for example, said in zip(examples, told, strict=True)
    ]
    score = total([one for one, _ in found])
    leads = np.concatenate([*(leads for _, leads in found), np.zeros(0)]) * 1000.0 / RATE
    return {
        "precision": round(score.precision, 4),
        "recall": round(score.recall, 4),
        "f1": round(score.f1, 4),
        "hits": score.hits,
        "announced": score.reported,
        "true": score.true,
        "median_lead_ms": round(float(np.median(leads)), 1) if len(leads) else None,
        "mean_lead_ms": round(float(np.mean(leads)), 1) if len(leads) else None,
    }
