"""When events are announced: two rules over the model's hazards and its commitment gate.

:class:`EventTrigger` announces events predicted within its reach; :class:`LastMoment` delays beats until the
lead leaves no more time, and cancels those that do not come. The core computes the rules described here.
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

Event = tuple[str, float, float]
"""Name, strength in 0..1, seconds ahead."""

CANCEL = "/cancel"
"""Suffix of an event's name that cancels its announcement; the seconds are those to the announced time."""

BEAT_LEAD_MS = 100.0
"""Default minimum lead of beat announcements, milliseconds."""


class EventTrigger:
    """Turns hazards and the commitment gate into events, each announced once.

    ``hazards`` (2, 25) are the probabilities that the event falls into 20 ms bin b if it has not come
    before it. An event is *pending* while the probability that it comes in the last 140 ms of the reach
    exceeds ``threshold``, or that it comes within it at all exceeds 0.6 as well, bins nearer than ``lead_ms``
    left out. The reach is ``reach_ms``, or ``lead_ms`` and the 100 ms that waiting may take where that is
    longer. Near bins count less because they hold a little probability of everything where a movement does
    not repeat. A pending event is emitted when the gate exceeds ``theta (1 - n / (2 max_buffer))`` after n
    frames of waiting (.80 .72 .64 .56 .48 .40 by default), at the latest after ``max_buffer`` frames; each
    frame waited brings new context. Its announced time is the middle of the most probable 100 ms. The same
    event is not announced again before that time plus its refractory time.

    With the default reach of 200 ms an event is announced 100 to 200 ms ahead: waiting takes up to 100 ms.

    Args:
        threshold: probability from which an event is pending, by event; by default onset 0.5, phrase 0.2.
        refractory: seconds between an announced time and the next announcement, by event; by default onset
            0.12, phrase 1.0.
        theta: gate at which an event is emitted without waiting, above 0 to 1.
        max_buffer: most frames waited, at least 1.
        reach_ms: how far ahead events are announced, milliseconds.

    Raises:
        OptionError: an option out of range, or an unknown event.
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
        thresholds = {"onset": 0.5, "phrase": 0.2} | dict(threshold or {})
        refractory_s = {"onset": 0.12, "phrase": 1.0} | dict(refractory or {})
        for name in (*thresholds, *refractory_s):
            if name not in EVENTS:
                raise OptionError(f"events: expected one of {', '.join(EVENTS)}, got {name!r}")
        self.theta, self.max_buffer, self.reach_ms = theta, max_buffer, reach_ms
        #: The core's rule; a desk copies it.
        self.rule = EventRule(
            [thresholds[name] for name in EVENTS],
            [refractory_s[name] for name in EVENTS],
            theta=theta,
            max_buffer=max_buffer,
            reach_ms=reach_ms,
            last_moment=self._last_moment(),
        )

    def _last_moment(self) -> tuple[float, float] | None:
        """Minimum lead in ms and ``sure`` of the last-moment rule; None: beats are not delayed."""
        return None

    def reset(self) -> None:
        """Forget pending and announced events."""
        self.rule.reset()

    def step(self, hazards: npt.ArrayLike, gate: float, lead_ms: float, dt: float) -> list[Event]:
        """Events of this frame, ``dt`` seconds after the last: (name, strength 0..1, seconds ahead).

        Cancellations come first. Raises :class:`ShapeError` for hazards that are not (2, bins).
        """
        return self.rule.step(hazards, gate, lead_ms, dt)


class LastMoment(EventTrigger):
    """Announces a beat when its lead leaves no more time, or earlier if it is nearly certain.

    Candidates are the windows of 100 ms (five bins) that begin at ``lead_ms`` and up to seven bins later. If
    the first is the likeliest and its probability reaches the onset's threshold (0.4 by default), the beat is
    announced. If the likeliest, whichever it is, reaches ``sure``, it is announced as soon as the gate opens,
    at the latest after ``max_buffer`` frames of waiting. For a frame with a longer lead, candidates reach up
    to seven bins beyond that; if the likeliest is then no farther ahead than the frame's lead, it is
    announced where it reaches 0.6 and the threshold: a less certain beat waits, and comes later rather than
    never. The announced time is the expected one: the mean, by their probabilities, of the ends of these five
    bins and the two on either side; nothing is announced nearer than ``lead_ms``.
    Phrases follow the rule of :class:`EventTrigger`, whose options mean the same here.

    A beat that does not come is cancelled: when less than 0.15 of probability is left within 70 ms of the
    announced time, 60 ms before it or earlier, ``onset/cancel`` carries that probability and the seconds to
    the announced time. The beat may then be announced again.

    A model whose event head was trained on strokes knows more of a beat at the last moment than before
    (``docs/experiments/beats/page.md``, where 0.4 and 0.95 were chosen). Others gain nothing by waiting.

    Args:
        lead_ms: minimum lead of beats, whatever the lead of a frame.
        sure: probability at which a beat is announced without waiting, 0 to 1.

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
