"""A rule for beats that waits: an event is announced when the lead leaves no more time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pyanticip.controls import EventTrigger, bin_chances
from pyanticip.errors import OptionError
from pyanticip.vocabulary import BIN_MS, EVENTS

__all__ = ["BEAT_LEAD_MS", "LastMoment"]

BEAT_LEAD_MS = 100.0
"""How far ahead an instrument announces beats at least, unless its rig says otherwise."""

_BEAT = EVENTS.index("onset")
#: Bins that an announcement holds for, its 100 ms; and how many places of those are looked at.
_WIDE, _PLACES = 5, 8


class LastMoment(EventTrigger):
    """Announces a beat when the lead leaves no more time, or before where it is nearly certain.

    Looked at are the 100 ms from the lead on and those that begin up to seven bins later. Where the first of
    them is the likeliest and holds the onset's threshold (0.4 by default), the beat is announced. Where the
    likeliest holds ``sure``, whichever it is, it is announced as soon as the gate opens, at the latest after
    ``max_buffer`` frames of waiting. Nothing is announced nearer than the lead. Phrases are announced as
    :class:`pyanticip.controls.EventTrigger` announces them; its options mean the same here.

    A model whose event head hears strokes knows more of a beat at the last moment than before
    (``docs/experiments/beats/page.md``, where 0.4 and 0.95 were chosen). Another gains nothing by waiting.

    :param lead_ms: how far ahead beats are announced at least, whatever shorter lead a frame is given with.
    :param sure: chance that is waited no longer with, 0 to 1.
    :raises OptionError: an option that is out of range.
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
        super().__init__(
            threshold={EVENTS[_BEAT]: 0.4} | dict(threshold or {}),
            refractory=refractory,
            theta=theta,
            max_buffer=max_buffer,
            reach_ms=reach_ms,
        )
        self.sure, self.lead_ms = sure, lead_ms

    def _due(self, e: int, row: Sequence[float], gate: float, lead_ms: float) -> tuple[float, float] | None:
        if e != _BEAT:
            return super()._due(e, row, gate, lead_ms)
        masses = bin_chances(row)
        last = max(len(masses) - _WIDE, 0)
        nearest = min(math.ceil(max(lead_ms, self.lead_ms) / BIN_MS - 1e-9), last)
        places = range(nearest, min(nearest + _PLACES - 1, last) + 1)
        held = [sum(masses[b : b + _WIDE]) for b in places]
        most = max(held)
        best = next(i for i, chance in enumerate(held) if chance > most - 1e-9)
        chance = held[best]
        quiet, certain = self._quiet[e] > 0.0, chance >= self.sure
        self._waited[e] = self._waited[e] + 1 if certain and not quiet else -1
        early = certain and self._opens(e, gate)
        if quiet or not (early or (best == 0 and chance >= self._levels[e])):
            return None
        return chance, (places[best] + _WIDE / 2.0) * BIN_MS / 1000.0
