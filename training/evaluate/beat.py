"""The table of events on the beat: per kind of movement and lead, the model and its rivals."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pyanticip.vocabulary import EVENTS, RATE
from training.data.examples import Example
from training.evaluate.events import TOLERANCE_FRAMES, Announcements, Array, score_clips, total
from training.evaluate.rules import LEADS_MS, LIVE_RULES, PLAYS, REACH, WINDOW_RULES, Choice, Rule, announce
from training.report.statistics import LEVEL, resampled_within
from training.tasks.motion.scores import EventScore, Predictions

DRAWS: Final = 1000

RULES: Final = {
    "model, as it plays": PLAYS,
    "model, reach rule": REACH,
    "model, live rule": LIVE_RULES,
    "model, window rule": WINDOW_RULES,
}
"""What the table calls each rule, and the settings to choose from."""


def f1_interval(
    scores: Sequence[EventScore], subjects: Sequence[str], *, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of F1 by a bootstrap over subjects and the clips within them."""
    counts = np.array([(s.hits, s.reported, s.true) for s in scores], dtype=np.float64).reshape(-1, 3)
    found = []
    for picks in resampled_within(subjects, draws=draws, seed=seed):
        hits, reported, true = sum(counts[pick].sum(axis=0) for pick in picks)
        found.append(2.0 * hits / (reported + true) if reported + true else 0.0)
    low, high = np.quantile(found, LEVEL)
    return float(low), float(high)


def row(
    who: str,
    kind: int,
    lead_ms: int | None,
    category: str,
    scores: Sequence[EventScore],
    leads: Sequence[Array],
    subjects: Sequence[str],
    *,
    interval: bool = True,
) -> dict[str, Any]:
    """One line of the table."""
    all_of = total(scores)
    earlier = np.concatenate([*leads, np.zeros(0)])
    found: dict[str, Any] = {
        "who": who,
        "event": EVENTS[kind],
        "lead_ms": lead_ms,
        "category": category,
        "precision": round(all_of.precision, 3),
        "recall": round(all_of.recall, 3),
        "f1": round(all_of.f1, 3),
        "hits": all_of.hits,
        "announced": all_of.reported,
        "true": all_of.true,
        "median_lead_ms": round(float(np.median(earlier)) * 1000.0 / RATE, 1) if len(earlier) else None,
    }
    if interval and all_of.true:
        low, high = f1_interval(scores, subjects)
        found["f1_low"], found["f1_high"] = round(low, 3), round(high, 3)
    return found


def by_category(
    examples: Sequence[Example],
    groups: Sequence[str],
    reports: Sequence[Announcements],
    *,
    who: str,
    kind: int,
    lead_ms: int | None,
    tolerance: float = TOLERANCE_FRAMES,
) -> list[dict[str, Any]]:
    """Lines for all movement and for each category that has events.

    Args:
        examples: the clips.
        groups: the category of each.
        reports: what was announced in each.
        who: name in the table.
        kind: index of the event.
        lead_ms: how long before the event a decision must lie; None: it may come after it.
        tolerance: frames.
    """
    lead = -np.inf if lead_ms is None else lead_ms * RATE / 1000.0
    scores, leads = score_clips(examples, reports, kind, lead, tolerance)
    rows = []
    present = set(groups)
    for category in ("all", *sorted(present)):
        mine = [i for i, group in enumerate(groups) if category in ("all", group)]
        if category != "all" and (len(present) == 1 or not sum(scores[i].true for i in mine)):
            continue
        rows.append(
            row(
                who,
                kind,
                lead_ms,
                category,
                [scores[i] for i in mine],
                [leads[i] for i in mine],
                [examples[i].subject for i in mine],
            )
        )
    return rows


def model_rows(
    examples: Sequence[Example],
    said: Sequence[Predictions],
    groups: Sequence[str],
    chosen_on: tuple[Sequence[Example], Sequence[Predictions]],
    *,
    leads_ms: Sequence[int] = LEADS_MS,
    rules: dict[str, tuple[Rule, ...]] | None = None,
    on_rule: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:
    """The model by each rule at each lead; a subject's settings are chosen on the other subjects' clips.

    Args:
        examples: clips to judge.
        said: what the model says about them.
        groups: their categories.
        chosen_on: clips and answers that choose.
        leads_ms: leads to judge.
        rules: rules by the name in the table; all by default.
        on_rule: called after each (event, lead, rule).
    """
    rows: list[dict[str, Any]] = []
    choosers, answers = chosen_on
    for name, candidates in (rules or RULES).items():
        for kind in range(len(EVENTS)):
            # The live rule announces alike whatever lead is judged; the others are told the lead.
            known: dict[tuple[Rule, int], list[Announcements]] = {}
            for lead_ms in leads_ms:
                lead = round(lead_ms * RATE / 1000.0)
                told = []
                for rule in candidates:
                    key = (rule, 0 if rule.name == "live" else lead)
                    if key not in known:
                        known[key] = [announce(s, kind, lead, rule) for s in answers]
                    told.append(known[key])
                choice = Choice(candidates, choosers, told, kind, lead)
                best = {subject: choice.without(subject) for subject in {e.subject for e in examples}}
                found = [
                    announce(s, kind, lead, best[e.subject]) for e, s in zip(examples, said, strict=True)
                ]
                lines = by_category(examples, groups, found, who=name, kind=kind, lead_ms=lead_ms)
                settings = {subject: rule.settings() for subject, rule in sorted(best.items())}
                rows += [line | {"settings": settings} for line in lines]
                if on_rule is not None:
                    on_rule()
    return rows
