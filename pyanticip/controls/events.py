"""When events are announced: two rules over the model's hazards and its commitment gate.

:class:`EventTrigger` announces what is foreseen within its reach; :class:`LastMoment` waits with beats until
the lead leaves no more time, and calls off what falls through. The core decides; here is what it means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyanticip._core import EventRule
from pyanticip.errors import OptionError
from pyanticip.vocabulary import EVENTS

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["BEAT_LEAD_MS", "CANCEL", "Event", "EventTrigger", "LastMoment"]

Event = tuple[str, float, float]

CANCEL = "/cancel"
"""Behind the name of an event: it was announced for so many seconds ahead, and is called off."""

BEAT_LEAD_MS = 100.0
"""How far ahead an instrument announces beats at least, unless its rig says otherwise."""


class EventTrigger:
    """Turns hazards and the commitment gate into events, each announced once.

    ``hazards`` (2, 25) are the probabilities that the event falls into 20 ms bin b if it has not come
    before it. An event is *pending* while the probability that it comes in the last 140 ms of the reach
    exceeds ``threshold``, or that it comes within it at all exceeds 0.6 as well, bins nearer than ``lead_ms``
    left out. The reach is ``reach_ms``, or ``lead_ms`` and the 100 ms that waiting may take where that is
    longer. Near bins count for less because they hold a little of everything where a movement does not
    repeat. A pending event is emitted when the gate exceeds ``theta (1 - n / (2 max_buffer))`` after n frames
    of waiting (.80 .72 .64 .56 .48 .40 by default), at the latest after ``max_buffer`` frames; each frame
    waited brings new context. It is said to come in the middle of the 100 ms that it most probably falls
    into. After an emission the same event is not announced again before the announced moment plus its
    refractory time.

    With the default reach of 200 ms an event that was foreseen is announced 100 to 200 ms ahead: waiting
    takes up to 100 ms of it.
    """

    def __init__(
        self,
        *,
        threshold: Mapping[str, float] | None = None,
        refractory: Mapping[str, float] | None = None,
        theta: float = 0.8,
        max_buffer: int = 5,
        reach_ms: float = 200.0,
    ) -> None:
        if not (0 < theta <= 1 and max_buffer >= 1):
            raise OptionError(f"events: expected theta in 0..1, max_buffer >= 1, got {theta}, {max_buffer}")
        # Chosen on the validation subjects by the F1 of what is decided at least 100 and 200 ms ahead.
        levels = {"onset": 0.5, "phrase": 0.2} | dict(threshold or {})
        pauses = {"onset": 0.12, "phrase": 1.0} | dict(refractory or {})
        for name in (*levels, *pauses):
            if name not in EVENTS:
                raise OptionError(f"events: expected one of {', '.join(EVENTS)}, got {name!r}")
        self.theta, self.max_buffer, self.reach_ms = theta, max_buffer, reach_ms
        #: The rule itself, which a desk copies.
        self.rule = EventRule(
            [levels[name] for name in EVENTS],
            [pauses[name] for name in EVENTS],
            theta=theta,
            max_buffer=max_buffer,
            reach_ms=reach_ms,
            last_moment=self._last_moment(),
        )

    def _last_moment(self) -> tuple[float, float] | None:
        """Lead in ms and certainty of the rule that waits with beats; None: this one does not."""
        return None

    def reset(self) -> None:
        """Forget what was pending or announced."""
        self.rule.reset()

    def step(self, hazards: npt.ArrayLike, gate: float, lead_ms: float, dt: float) -> list[Event]:
        """Events of this frame, ``dt`` seconds after the last: (name, strength 0..1, seconds ahead).

        What is called off comes first. Raises :class:`ShapeError` for hazards that are not (2, bins).
        """
        return self.rule.step(hazards, gate, lead_ms, dt)


class LastMoment(EventTrigger):
    """Announces a beat when its lead leaves no more time, or before where it is nearly certain.

    Looked at are the 100 ms from ``lead_ms`` on and those that begin up to seven bins later. Where the first
    of them is the likeliest and holds the onset's threshold (0.4 by default), the beat is announced. Where
    the likeliest holds ``sure``, whichever it is, it is announced as soon as the gate opens, at the latest
    after ``max_buffer`` frames of waiting. A frame that is given with a longer lead is looked at up to seven
    bins beyond that; what then is likeliest no farther ahead than the frame's lead is announced where it
    holds 0.6 and the threshold: what is not as sure so early waits, and comes later rather than never. It is
    said to come when it is expected: the mean, by their chances, of the ends of these five bins and the two
    on either side; nothing is announced nearer than ``lead_ms``.
    Phrases are announced as :class:`EventTrigger` announces them; its options mean the same here.

    A beat that falls through is called off: when less than 0.15 of the chance is left within 70 ms of the
    moment that was said, 60 ms before it or earlier, ``onset/cancel`` says that chance and how many seconds
    ahead the moment is. It may then be announced anew.

    A model whose event head hears strokes knows more of a beat at the last moment than before
    (``docs/experiments/beats/page.md``, where 0.4 and 0.95 were chosen). Another gains nothing by waiting.

    Args:
        lead_ms: how far ahead beats are announced at least, whatever lead a frame is given with.
        sure: chance that is waited no longer with, 0 to 1.

    Raises:
        OptionError: an option that is out of range.
    """

    def __init__(
        self,
        *,
        lead_ms: float = 0.0,
        sure: float = 0.95,
        threshold: Mapping[str, float] | None = None,
        refractory: Mapping[str, float] | None = None,
        theta: float = 0.8,
        max_buffer: int = 5,
        reach_ms: float = 200.0,
    ) -> None:
        if not 0.0 <= sure <= 1.0:
            raise OptionError(f"events: expected sure in 0..1, got {sure}")
        if not 0.0 <= lead_ms < math.inf:
            raise OptionError(f"events: expected lead_ms of at least 0, got {lead_ms}")
        self.sure, self.lead_ms = sure, lead_ms
        super().__init__(
            threshold={EVENTS[0]: 0.4} | dict(threshold or {}),
            refractory=refractory,
            theta=theta,
            max_buffer=max_buffer,
            reach_ms=reach_ms,
        )

    def _last_moment(self) -> tuple[float, float]:
        return self.lead_ms, self.sure
