"""How a model's hazards become announcements: rules and their settings, chosen on other subjects.

Four rules are judged. ``plays`` is the instrument: :class:`pyanticip.controls.LastMoment` itself, frame by
frame, with the commitment gate and the settings it comes with, told the judged lead. ``reach`` is the
instrument whose rig says so: :class:`pyanticip.controls.EventTrigger`, likewise. ``live`` is the second with
a threshold and a reach that are chosen for each lead. ``window`` follows the chance that the event lies
in the 100 ms around a fixed lead and announces its peaks (:func:`training.tasks.motion.scores.announced`, a
frame after the peak).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pyanticip.controls import CANCEL, EventTrigger, LastMoment
from pyanticip.vocabulary import EVENT_BINS, EVENTS, RATE
from training.data.examples import Example
from training.evaluate.events import Announcements, score_clips, total
from training.tasks.motion.scores import Predictions, announced

LEADS_MS: Final = (0, 100, 200)

FRAME_S: Final = 1.0 / RATE

THRESHOLDS: Final = tuple(round(0.05 * n, 2) for n in range(1, 19))
AIMS: Final = (-1, 0, 1, 2, 3)
"""Frames that the window lies beyond the lead: an aim beyond it leaves fewer decisions too late."""
REACHES_MS: Final = (100.0, 140.0, 200.0, 260.0, 320.0)
LIVE_THRESHOLDS: Final = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class Rule:
    """A rule with its settings."""

    name: str
    threshold: float
    aim_frames: int = 0
    """Window rule: frames the window's middle lies beyond the judged lead."""
    reach_ms: float = 0.0
    """Live rule: the time within which a foreseen event is announced."""

    def settings(self) -> dict[str, Any]:
        """The settings for a table."""
        if self.name in ("plays", "reach"):
            return {"rule": self.name}
        where = {"aim_ms": self.aim_frames * 20} if self.name == "window" else {"reach_ms": self.reach_ms}
        return {"rule": self.name, "threshold": self.threshold, **where}


def window(said: Predictions, kind: int, lead_frames: int, rule: Rule) -> Announcements:
    """What the window rule announces in a clip."""
    aim = min(max(lead_frames + rule.aim_frames, 0), EVENT_BINS - 1)
    times = announced(said.hazards, kind, aim, rule.threshold)
    # A peak is one once the frame after it is there, and its event lies the aim beyond that frame.
    return Announcements(times - aim, times)


def live(
    said: Predictions, kind: int, trigger: EventTrigger | None = None, *, lead_ms: float = 0.0
) -> Announcements:
    """What the instrument announces in a clip; with its own settings where no trigger is given.

    Args:
        said: what the model says about the clip.
        kind: index of the event.
        trigger: what decides; it starts anew.
        lead_ms: the lead that the trigger is told.
    """
    trigger = trigger or LastMoment()
    trigger.reset()
    hazards, gates = said.hazards.tolist(), said.gate.tolist()
    decided, times = [], []
    for t, (rows, gate) in enumerate(zip(hazards, gates, strict=True)):
        for name, _, ahead in trigger.step(rows, gate, lead_ms, FRAME_S):
            if name == EVENTS[kind]:
                decided.append(float(t))
                times.append(t + ahead * RATE)
            elif name == EVENTS[kind] + CANCEL:
                gone = min(range(len(times)), key=lambda i: abs(times[i] - t - ahead * RATE))
                del decided[gone], times[gone]
    # Within 50 ms of the middle of a bin lie six frames, of any other moment five: where in a bin a rule
    # says its event must not count.
    times = [math.ceil(time) - 0.5 for time in times]
    return Announcements(np.array(decided), np.array(times))


def announce(said: Predictions, kind: int, lead_frames: int, rule: Rule) -> Announcements:
    """What a rule announces in a clip."""
    if rule.name == "window":
        return window(said, kind, lead_frames, rule)
    if rule.name in ("plays", "reach"):
        trigger = LastMoment() if rule.name == "plays" else EventTrigger()
        return live(said, kind, trigger, lead_ms=lead_frames * 1000.0 / RATE)
    levels = dict.fromkeys(EVENTS, rule.threshold)
    return live(said, kind, EventTrigger(threshold=levels, reach_ms=rule.reach_ms))


PLAYS: Final = (Rule("plays", 0.0),)
REACH: Final = (Rule("reach", 0.0),)
WINDOW_RULES: Final = tuple(Rule("window", p, aim) for p in THRESHOLDS for aim in AIMS)
LIVE_RULES: Final = tuple(Rule("live", p, 0, ms) for p in LIVE_THRESHOLDS for ms in REACHES_MS)


class Choice:
    """The best of some rules for a judged subject, by F1 on the clips of all others.

    Args:
        rules: what to choose from.
        choosers: clips to choose on.
        reports: what each rule announces in each of them.
        kind: index of the event.
        lead: frames.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        choosers: Sequence[Example],
        reports: Sequence[Sequence[Announcements]],
        kind: int,
        lead: int,
    ) -> None:
        self.rules = rules
        self.subjects = np.array([example.subject for example in choosers])
        self.scores = [score_clips(choosers, told, kind, lead)[0] for told in reports]

    def without(self, subject: str | None) -> Rule:
        """The best rule with a subject's clips left out (none, where they are all there are)."""
        kept = np.flatnonzero(self.subjects != subject)
        if not len(kept):
            kept = np.arange(len(self.subjects))
        best = max(range(len(self.rules)), key=lambda n: total([self.scores[n][c] for c in kept]).f1)
        return self.rules[best]
