"""How a model's hazards become announcements: the instrument itself, frame by frame."""

import math
from typing import Final

import numpy as np

from pyanticip.controls import CANCEL, EventTrigger, LastMoment
from pyanticip.vocabulary import EVENTS, RATE
from training.evaluate.events import Announcements
from training.tasks.motion.scores import Predictions

LEADS_MS: Final = (0, 100, 200)


def live(
    output: Predictions, kind: int, trigger: EventTrigger | None = None, *, lead_ms: float = 0.0
) -> Announcements:
    """What the instrument announces in a clip; with its own settings where no trigger is given.

    What is called off while there is still time for the lead was not announced; what is called off later was.

    Args:
        output: what the model says about the clip.
        kind: index of the event.
        trigger: what decides; it starts anew.
        lead_ms: the lead that the trigger is told, and that its own settings keep.
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
                gone = min(range(len(times)), key=lambda i: abs(times[i] - t - ahead * RATE))
                if times[gone] - t >= lead:
                    del decided[gone], times[gone]
    # Within 50 ms of the middle of a bin lie six frames, of any other moment five: where in a bin a rule
    # says its event must not count.
    times = [math.ceil(time) - 0.5 for time in times]
    return Announcements(np.array(decided), np.array(times))
