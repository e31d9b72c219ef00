"""Runs the instrument's event rule over a model's hazards, frame by frame."""

import math
from typing import Final

import numpy as np

from pyanticip.controls import CANCEL, EventTrigger, LastMoment
from pyanticip.vocabulary import EVENTS, RATE
from training.evaluate.events import Announcements
from training.tasks.motion.scores import Predictions

LEADS_MS: Final = (0, 100, 200)
"""Leads at which events are evaluated."""


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
    # Times are rounded to the middle of a bin. Six frames lie within 50 ms of it but only five within 50 ms
    # of any other moment, so the position within a bin would affect the score.
    times = [math.ceil(time) - 0.5 for time in times]
    return Announcements(np.array(decided), np.array(times))
