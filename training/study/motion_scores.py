"""What a run of the motion study is judged by, kept by subject so that a report can average as it likes."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import RATE, SCALAR_COLUMNS
from training.data.batches import event_targets
from training.data.examples import Example, Split
from training.evaluate.events import score_clips, total
from training.evaluate.rules import THRESHOLDS, Choice, Rule, announce
from training.tasks.motion.scores import Errors, Said, measure, run_model
from training.teacher.handmade import EDGE

ONSET: Final = 0
LEAD_MS: Final = 100
"""Onsets count as announced when the decision fell at least this long before."""

RULES: Final = tuple(Rule("window", threshold, aim) for threshold in THRESHOLDS for aim in (0, 1))


def judge(model: MotionTransformer, held_out: dict[Split, list[Example]]) -> dict[str, Any]:
    """Scores by split and subject: see :func:`by_subject`, and ``onset``, the hits, announcements and events.

    The threshold of announcements is chosen on the validation clips; for a validation subject on those of
    the others.
    """
    said = {split: [run_model(model, example) for example in clips] for split, clips in held_out.items()}
    answers = {id(e): s for split, clips in held_out.items() for e, s in zip(clips, said[split], strict=True)}
    lead = round(LEAD_MS * RATE / 1000.0)
    choosers = held_out["validation"]
    told = [[announce(s, ONSET, lead, rule) for s in said["validation"]] for rule in RULES]
    choice = Choice(RULES, choosers, told, ONSET, lead)
    scores: dict[str, Any] = {}
    for split, clips in held_out.items():
        scores[split] = by_subject(clips, said[split], measure(clips, lambda e: answers[id(e)].params))
        for subject, row in scores[split].items():
            rule = choice.without(subject)
            mine = [i for i, example in enumerate(clips) if example.subject == subject]
            reports = [announce(said[split][i], ONSET, lead, rule) for i in mine]
            counted = total(score_clips([clips[i] for i in mine], reports, ONSET, lead)[0])
            row["onset"] = [counted.hits, counted.reported, counted.true]
    return scores


def by_subject(clips: Sequence[Example], said: Sequence[Said], errors: Errors) -> dict[str, Any]:
    """Per subject: ``error`` (8 x 5) of the parameters, ``event_nll`` in nats a frame over both kinds of
    event, ``scalar_error``, the mean over the seven, and ``frames``."""
    low, high = SCALAR_COLUMNS
    found: dict[str, Any] = {}
    for subject in sorted({example.subject for example in clips}):
        judged = np.flatnonzero(errors.subjects == subject)
        if not len(judged):
            continue  # all clips too short to be judged at the longest horizon
        mine = [(e, s) for e, s in zip(clips, said, strict=True) if e.subject == subject]
        surprise = np.concatenate([event_surprise(e, s.hazards) for e, s in mine])
        wrong = np.concatenate([np.abs(s.scalars - e.features[:, low:high]) for e, s in mine])
        table = errors.mean(judged)
        found[subject] = {
            "error": [[round(float(value), 6) for value in row] for row in table],
            "event_nll": round(float(surprise.mean()), 6),
            "scalar_error": round(float(wrong.mean()), 6),
            "frames": len(surprise),
        }
    return found


def event_surprise(example: Example, hazards: NDArray[np.floating]) -> NDArray[np.float64]:
    """Negative log-likelihood (T',) of the next event of either kind, nats, away from the clip's ends.

    As in training: a clip's end, and nothing within the bins, count as nothing having come so far.
    """
    h = np.clip(hazards.astype(np.float64), 1e-9, 1.0 - 1e-9)
    surprise = np.zeros(len(example))
    for kind, events in enumerate((example.onsets, example.phrases)):
        bins, seen = event_targets(events, len(example))
        index = np.arange(h.shape[2])
        at_risk = (index <= bins[:, None]) & (index < seen[:, None])
        hit = index == bins[:, None]
        each = -np.where(hit, np.log(h[:, kind]), np.log1p(-h[:, kind]))
        surprise += (each * at_risk).sum(axis=1)
    return surprise[EDGE : max(len(example) - EDGE, EDGE)]
