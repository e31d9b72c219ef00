"""When events are announced: two rules over the model's hazards and its commitment gate.

:class:`EventTrigger` announces what is foreseen within its reach; :class:`LastMoment` waits with beats until
the lead leaves no more time, and calls off what falls through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pyanticip.controls.vectors import ArrayLike, as_lists, shape_of, unit
from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import BIN_MS, EVENTS

__all__ = ["BEAT_LEAD_MS", "CANCEL", "Event", "EventTrigger", "LastMoment", "bin_chances"]

Event = tuple[str, float, float]

CANCEL = "/cancel"
"""Behind the name of an event: it was announced for so many seconds ahead, and is called off."""

BEAT_LEAD_MS = 100.0
"""How far ahead an instrument announces beats at least, unless its rig says otherwise."""

_BEAT = EVENTS.index("onset")
#: Bins that an announcement holds for, its 100 ms; and how many places of those are looked at.
_WIDE, _PLACES = 5, 8

# Of events: how long one may wait to be announced; how much of the reach is looked at, in bins; what makes
# one pending that could also come sooner; how far around a bin its neighbours count. All were chosen with the
# threshold.
_WAIT_MS = 100.0
_SPAN = 7
_SURE = 0.6
_BESIDE = 2

# A beat is called off when less than this chance is left within so many bins of its moment, and so many
# seconds before it. Chosen on the validation subjects (docs/latency.md).
_FALLEN, _AROUND, _IN_TIME = 0.15, 3, 0.06


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
        self._levels = [levels[name] for name in EVENTS]
        self._pauses = [pauses[name] for name in EVENTS]
        self.theta, self.max_buffer, self.reach_ms = theta, max_buffer, reach_ms
        self.reset()

    def reset(self) -> None:
        """Forget what was pending or announced."""
        self._waited = [-1] * len(EVENTS)
        self._quiet = [0.0] * len(EVENTS)

    def step(
        self, hazards: ArrayLike | Sequence[Sequence[float]], gate: float, lead_ms: float, dt: float
    ) -> list[Event]:
        """Events of this frame, ``dt`` seconds after the last: (name, strength 0..1, seconds ahead)."""
        rows = _rows(hazards)
        out: list[Event] = []
        for e, (name, row) in enumerate(zip(EVENTS, rows, strict=True)):
            self._quiet[e] = max(self._quiet[e] - dt, 0.0)
            found = self._due(e, row, gate, lead_ms)
            if found is not None:
                chance, ahead = found
                out.append((name, min(chance, 1.0), ahead))
                self._waited[e] = -1
                self._quiet[e] = ahead + self._pauses[e]
        return out

    def _due(self, e: int, row: Sequence[float], gate: float, lead_ms: float) -> tuple[float, float] | None:
        """The chance and the seconds ahead of event ``e``, if it is announced in this frame."""
        reach_ms = max(lead_ms + _WAIT_MS, self.reach_ms) if lead_ms > 0.0 else self.reach_ms
        last = max(math.ceil(reach_ms / BIN_MS), 1)
        first, nearest = max(last - _SPAN, 0), min(round(lead_ms / BIN_MS), last - 1)
        masses = bin_chances(row[: last + _BESIDE])
        level, begin, chance = self._levels[e], first, sum(masses[first:last])
        if chance < level:
            level, begin, chance = max(level, _SURE), nearest, sum(masses[nearest:last])
        if self._quiet[e] > 0.0 or chance < level:
            self._waited[e] = -1
            return None
        self._waited[e] += 1
        if not self._opens(e, gate):
            return None
        return chance, _likeliest(masses, max(begin - _BESIDE, 0)) * (BIN_MS / 1000.0)

    def _opens(self, e: int, gate: float) -> bool:
        """Whether the gate lets an event out that has waited so long."""
        n = self._waited[e]
        return gate > self.theta * (1.0 - 0.5 * n / self.max_buffer) or n >= self.max_buffer


def _rows(hazards: ArrayLike | Sequence[Sequence[float]]) -> list[Sequence[float]]:
    rows = as_lists(hazards)
    if len(rows) != len(EVENTS) or not all(isinstance(row, list | tuple) and row for row in rows):
        raise ShapeError(f"hazards: expected shape ({len(EVENTS)}, bins), got {shape_of(rows)}")
    return rows


def bin_chances(row: Sequence[float]) -> list[float]:
    """The probability of each bin, of its hazards; whatever is no probability counts as 0 or 1."""
    survival, masses = 1.0, []
    for hazard in row:
        masses.append(survival * unit(hazard))
        survival -= masses[-1]
    return masses


def _likeliest(masses: Sequence[float], first: int) -> float:
    """The middle, in bins, of the five neighbours from ``first`` on that hold the most together; of several
    that hold alike, their middle."""
    held = [sum(masses[max(b - _BESIDE, first) : b + _BESIDE + 1]) for b in range(first, len(masses))]
    most = max(held, default=0.0)
    alike = [b for b, mass in enumerate(held) if mass >= most - 1e-9]
    return first + 0.5 * (alike[0] + alike[-1] + 1) if alike else first + 0.5


class LastMoment(EventTrigger):
    """Announces a beat when the lead leaves no more time, or before where it is nearly certain.

    Looked at are the 100 ms from the lead on and those that begin up to seven bins later. Where the first of
    them is the likeliest and holds the onset's threshold (0.4 by default), the beat is announced. Where the
    likeliest holds ``sure``, whichever it is, it is announced as soon as the gate opens, at the latest after
    ``max_buffer`` frames of waiting. It is said to come when it is expected: the mean, by their chances, of
    the ends of these five bins and the two on either side; nothing is announced nearer than the lead.
    Phrases are announced as :class:`EventTrigger` announces them; its options mean the same here.

    A beat that falls through is called off: when less than 0.15 of the chance is left within 70 ms of the
    moment that was said, 60 ms before it or earlier, ``onset/cancel`` says that chance and how many seconds
    ahead the moment is. It may then be announced anew.

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

    def reset(self) -> None:
        """Forget what was pending or announced."""
        super().reset()
        # Seconds until the beats that were said, those included whose pause is not over.
        self._said: list[float] = []

    def step(
        self, hazards: ArrayLike | Sequence[Sequence[float]], gate: float, lead_ms: float, dt: float
    ) -> list[Event]:
        """As :meth:`EventTrigger.step`; what is called off comes first."""
        rows = _rows(hazards)
        off = self._call_off(rows[_BEAT], dt) if self._said else []
        out = super().step(rows, gate, lead_ms, dt)
        self._said += [ahead for name, _, ahead in out if name == EVENTS[_BEAT]]
        return off + out

    def _call_off(self, row: Sequence[float], dt: float) -> list[Event]:
        pause = self._pauses[_BEAT]
        kept, off = [], []
        for due in [due - dt for due in self._said if due - dt > -pause]:
            middle = math.ceil(1000.0 * due / BIN_MS - 1e-9) - 1
            left = 0.0
            if due >= _IN_TIME:
                left = sum(bin_chances(row)[max(middle - _AROUND, 0) : middle + _AROUND + 1])
            if due < _IN_TIME or left >= _FALLEN:
                kept.append(due)
            else:
                off.append((EVENTS[_BEAT] + CANCEL, left, due))
        self._said = kept
        if off:
            # :meth:`step` takes this frame's time off it.
            self._quiet[_BEAT] = max([due + pause for due in kept], default=0.0) + dt
        return off

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
        first = max(places[best] - _BESIDE, 0)
        near = masses[first : places[best] + _WIDE + _BESIDE]
        # An event is a frame of the grid, which is the end of its bin.
        due = sum(mass * (b + 1) for b, mass in enumerate(near, first)) / sum(near)
        return chance, max(due, float(nearest)) * BIN_MS / 1000.0
