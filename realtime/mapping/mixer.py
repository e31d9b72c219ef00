"""The mixer between model and sinks: lead, fallback, gain, smoothing, shapes, silence, the performer's hand.

The eight sound parameters, the outputs that a mapping teaches besides, and a list of events go out for every
frame that comes in, and for every tick of silence. No change of mode or mapping, no late model and no lost
signal makes the output jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pyanticip.controls import (
    BEAT_LEAD_MS,
    CANCEL,
    NEUTRAL,
    Crossfade,
    Event,
    EventTrigger,
    LastMoment,
    Presence,
    Shape,
    Shaper,
    Smoothing,
    at_lead,
    scalar_mapping,
)
from pyanticip.errors import OptionError
from pyanticip.vocabulary import BIN_MS, HORIZONS_MS, PARAMETERS
from realtime.config import LeadMs
from realtime.mapping.channel import MODES, Channel
from realtime.mapping.lead import Lead
from realtime.mapping.performer import PerformerRange
from realtime.step.base import StepResult

__all__ = ["Mixer", "Teaching"]

_LOUDNESS = PARAMETERS.index("loudness")
_SWITCH = 0.25
# A forecast is trusted for so many seconds, and then in inverse proportion to its age.
_TRUSTED = 0.2


class Teaching(Protocol):
    """What the mixer reads of a mapping: its outputs' names, and where each goes when nobody is there."""

    @property
    def names(self) -> Sequence[str]:
        """In the order of the values."""
        ...

    @property
    def neutral(self) -> Sequence[float]:
        """In 0..1."""
        ...


class Mixer:
    """Control values of one performer.

    ``mode`` is one of playing, frozen, stopped, panic. While frozen the values stand still; stopped and
    panic go to neutral, slowly and at once. ``bypass`` lets the scalars play instead of the model, and
    instead of a mapping. ``shapes`` go by the name of a parameter, or ``taught/<name>``.
    """

    def __init__(
        self,
        *,
        smoothing: Sequence[Smoothing] | None = None,
        lead_ms: LeadMs = 0.0,
        sound_ms: float = 0.0,
        delay_ms: float = 0.0,
        gain: float = 1.0,
        trigger: EventTrigger | None = None,
        presence: Presence | None = None,
        neutral: Sequence[float] = NEUTRAL,
        teaching: Teaching | None = None,
        extra_smoothing: Smoothing | None = None,
        performer: PerformerRange | None = None,
        shapes: Mapping[str, Shape] | None = None,
    ) -> None:
        smoothing = smoothing or [Smoothing()] * len(PARAMETERS)
        self._shapers = {name: Shaper(shape) for name, shape in (shapes or {}).items()}
        self._main = Channel(smoothing, presence, neutral, self._shaping(PARAMETERS))
        #: How far ahead each parameter is read.
        self.lead = Lead(lead_ms, smoothing, sound_ms=sound_ms, delay_ms=delay_ms)
        #: What share of each parameter 100, 200 and 400 ms ahead is foreseen, 24 numbers; empty: nobody says.
        self.trust: Sequence[float] = ()
        self._trigger = trigger or LastMoment(lead_ms=BEAT_LEAD_MS)
        self._neutral = list(neutral)
        self._switch = Crossfade(_SWITCH)
        self._target = list(neutral)
        # What the last frame asked for, before the forecast took over, and whether the body moved in it.
        self._asked = list(neutral)
        self._activity = 1.0
        self._lesson: tuple[list[float], float, float] | None = None
        # Names and seconds left of the events that were announced and have not come.
        self._announced: list[tuple[str, float]] = []
        # Who gives the target: whether the model steps, and whether a mapping speaks.
        self._by: tuple[bool, bool] | None = None
        self.bypass = False
        self.gain = gain
        #: Stretches what the model says to the performer's range; None: the model's own scale.
        self.performer = performer
        self._extra_smoothing = extra_smoothing or Smoothing()
        self._extra: Channel | None = None
        self._extra_names: list[str] = []
        self._held: list[float] = []
        #: The taught outputs that are none of the eight, as they were given last.
        self.extras: list[float] = []
        self.teach(teaching)

    def teach(self, teaching: Teaching | None) -> None:
        """Play the outputs of a mapping from the next frame on; None: the model alone.

        A taught output with the name of a sound parameter takes its place; the others go out beside the
        eight, in :attr:`extras`.
        """
        names = list(teaching.names) if teaching is not None else []
        neutral = list(teaching.neutral) if teaching is not None else []
        self._places = [PARAMETERS.index(name) if name in PARAMETERS else -1 for name in names]
        playing = dict(zip(self._extra_names, self.extras, strict=True))
        self._extra_names = [name for name, place in zip(names, self._places, strict=True) if place < 0]
        rest = [level for place, level in zip(self._places, neutral, strict=True) if place < 0]
        self._extra = None
        self.extras = [playing.get(name, low) for name, low in zip(self._extra_names, rest, strict=True)]
        if rest:
            mine = self._main.presence
            presence = Presence(hold=mine.hold, fade=mine.fade, catch_up=mine.catch_up, neutral=rest)
            self._extra = Channel(
                self._extras_smoothed(), presence, rest, self._shaping(self._taught_names())
            )
            self._extra.smoother.amount = self._main.smoother.amount
            # An output that was there goes on from where it is, a new one from neutral.
            self._extra.begin(self.extras)
            self._extra.set_mode(self._main.mode)
        self._held = list(self.extras)
        if self._by is not None:
            self._switch.start(self._target)

    @property
    def mode(self) -> str:
        """playing, frozen, stopped or panic."""
        return self._main.mode

    @property
    def lead_ms(self) -> LeadMs:
        """How far ahead the parameters speak, 0 to 400 ms, or auto."""
        return self.lead.ms

    @lead_ms.setter
    def lead_ms(self, value: LeadMs) -> None:
        self.lead.ms = value

    @property
    def sound_ms(self) -> float:
        """How long what is sent takes to sound, 0 to 1000 ms: part of an automatic lead."""
        return self.lead.sound_ms

    @sound_ms.setter
    def sound_ms(self, value: float) -> None:
        self.lead.sound_ms = value

    @property
    def gain(self) -> float:
        """Factor on loudness, 0 to 4."""
        return self._gain

    @gain.setter
    def gain(self, value: float) -> None:
        if not 0.0 <= value <= 4.0:
            raise OptionError(f"gain: expected 0 to 4, got {value:g}")
        self._gain = float(value)

    @property
    def smoothing(self) -> float:
        """Factor on every smoothing time: 0 none, 1 as the rig says."""
        return self._main.smoother.amount

    @smoothing.setter
    def smoothing(self, value: float) -> None:
        for channel in self._channels():
            channel.smoother.amount = value

    @property
    def settings(self) -> dict[str, LeadMs]:
        """What the performer may set by number, the lead to auto as well: the attributes of these names."""
        return {
            "gain": self.gain,
            "smoothing": self.smoothing,
            "lead_ms": self.lead_ms,
            "sound_ms": self.sound_ms,
        }

    @property
    def shapers(self) -> Mapping[str, Shaper]:
        """What shapes the outputs, by their names in the rig."""
        return self._shapers

    def shaper(self, name: str) -> Shaper:
        """What shapes an output; where nothing did, what leaves it as it is."""
        if name not in self._shapers:
            self.reshape(name, Shape())
        return self._shapers[name]

    def reshape(self, name: str, shape: Shape | None) -> None:
        """Shape an output otherwise from the next frame on; None: no more. A gate that is open stays so."""
        if shape is None:
            self._shapers.pop(name, None)
        elif name in self._shapers:
            self._shapers[name].shape = shape
        else:
            self._shapers[name] = Shaper(shape)
        self._main.shape(self._shaping(PARAMETERS))
        if self._extra is not None:
            self._extra.shape(self._shaping(self._taught_names()))

    def resmooth(self, smoothing: Sequence[Smoothing], extra: Smoothing) -> None:
        """Smooth the eight and what is taught otherwise from the next frame on."""
        self._main.smoother.retune(smoothing)
        self.lead.follow(smoothing)
        self._extra_smoothing = extra
        if self._extra is not None:
            self._extra.smoother.retune(self._extras_smoothed())

    def _shaping(self, names: Iterable[str]) -> list[Shaper | None]:
        return [self._shapers.get(name) for name in names]

    def _taught_names(self) -> list[str]:
        return [f"taught/{name}" for name in self._extra_names]

    def _extras_smoothed(self) -> list[Smoothing]:
        # What is likely is told as it is: labels and what they trigger would come late.
        plain = Smoothing("none")
        return [plain if "/" in name else self._extra_smoothing for name in self._extra_names]

    @property
    def by_model(self) -> bool:
        """Whether the model plays, not the scalar mapping."""
        return self._by is not None and self._by[0]

    def _channels(self) -> list[Channel]:
        return [self._main] if self._extra is None else [self._main, self._extra]

    def set_mode(self, mode: str) -> None:
        """Go to playing, frozen, stopped or panic, each without a jump."""
        if mode not in MODES:
            raise OptionError(f"mode: expected playing, frozen, stopped or panic, got {mode!r}")
        if mode == self.mode:
            return
        for channel in self._channels():
            channel.set_mode(mode)

    def leave(self, seconds: float) -> None:
        """The show is over: to neutral within ``seconds``, whatever the mode."""
        for channel in self._channels():
            channel.leave(seconds)

    def forget(self) -> None:
        """The stream begins anew: pending events are void and the values ease into what comes."""
        self._trigger.reset()
        for channel in self._channels():
            channel.presence.restart()

    def play(
        self,
        step: StepResult | None,
        scalars: Sequence[float],
        dt: float,
        taught: Sequence[float] | None = None,
        activity: float = 1.0,
        *,
        guessed: bool = False,
    ) -> tuple[list[float], list[Event]]:
        """A frame, ``dt`` seconds of source time after the last.

        ``step`` None means that there is no model or that it is late: the scalars play. ``taught`` are the
        mapping's values; None: it cannot speak, its own outputs hold. ``activity`` is 0 while the body stands
        still: it is silent then, but for what is taught, and has no events. Of a ``guessed`` frame nothing is
        learned.
        """
        by = step is not None and not self.bypass, taught is not None and not self.bypass
        events: list[Event] = []
        if step is None:
            target = scalar_mapping(scalars)
        else:
            if not (guessed or self.bypass):
                self.overhear(step, activity, dt)
            target = scalar_mapping(scalars) if self.bypass else self._forecast(step)
            events = self._trigger.step(step.hazards, step.gate, self.lead.way_ms, dt)
        target[_LOUDNESS] *= activity
        if taught is not None and not self.bypass:
            self._held = []
            for place, value in zip(self._places, taught, strict=True):
                if place < 0:
                    self._held.append(value)
                else:
                    target[place] = value
        if self._by is not None and by != self._by:
            self._switch.start(self._target)
        self._by = by
        self._asked, self._activity = list(target), activity
        return self._out(target, events, dt)

    def bridge(self, step: StepResult | None, away: float, dt: float) -> tuple[list[float], list[Event]]:
        """No frame, ``dt`` seconds after the last call: what the newest frame's ``step`` said of now.

        ``away`` seconds have passed since that frame. The forecast is read that much farther ahead and
        trusted less and less; without one, and for what a mapping taught, the last values hold.
        """
        target, events = list(self._asked), []
        if step is not None and self._by is not None and self._by[0]:
            farther = [min(lead + 1000.0 * away, HORIZONS_MS[-1]) for lead in self.lead.leads]
            ahead = at_lead(step.params, farther)
            if self.performer is not None:
                ahead = self.performer.play(ahead)
            ahead[_LOUDNESS] *= self._activity
            trust = min(1.0, _TRUSTED / away)
            taught = set(self._places) if self._by[1] else set()
            for i, value in enumerate(ahead):
                if i not in taught:
                    target[i] += trust * (value - target[i])
            passed = round(1000.0 * away / BIN_MS)
            hazards = [row[passed:] + [0.0] * passed for row in step.hazards.tolist()]
            events = self._trigger.step(hazards, step.gate, self.lead.way_ms, dt)
        return self._out(target, events, dt)

    def _out(self, target: list[float], events: list[Event], dt: float) -> tuple[list[float], list[Event]]:
        """From what is asked for to what goes out."""
        self._target = self._switch.step(target, dt)
        goal = self._target
        if self._gain != 1.0:
            goal = list(goal)
            goal[_LOUDNESS] = min(goal[_LOUDNESS] * self._gain, 1.0)
        if self._extra is not None:
            self.extras = self._extra.play(self._held, dt)
        return self._main.play(goal, dt), self._allowed(events, dt)

    def _allowed(self, events: list[Event], dt: float) -> list[Event]:
        """The events where there may be any; where not, what was announced is called off."""
        waiting = [(name, due - dt) for name, due in self._announced if due > dt]
        if self.mode != "playing" or self.bypass or self._activity == 0.0:
            self._announced = []
            return [(name + CANCEL, 0.0, due) for name, due in waiting]
        for name, _, ahead in events:
            if not name.endswith(CANCEL):
                waiting.append((name, ahead))
            elif mine := [known for known in waiting if known[0] + CANCEL == name]:
                waiting.remove(min(mine, key=lambda known: abs(known[1] - ahead)))
        self._announced = waiting
        return events

    def _forecast(self, step: StepResult) -> list[float]:
        """The model's parameters at their leads, in the performer's range."""
        target = at_lead(step.params.tolist(), self.lead.leads)
        return target if self.performer is None else self.performer.play(target)

    def overhear(self, step: StepResult, activity: float, dt: float) -> None:
        """Note what a frame says of the performer's range, ``dt`` seconds after the last that said so."""
        self.learn()
        self._lesson = [row[0] for row in step.params.tolist()], activity, dt

    def learn(self) -> None:
        """What the last frame says of the performer's range: for the time after it has been sent."""
        if self._lesson is not None and self.performer is not None:
            self.performer.learn(*self._lesson)
        self._lesson = None

    def silence(self, dt: float) -> list[float]:
        """No frame for another ``dt`` seconds: hold, then fade."""
        if self._extra is not None:
            self.extras = self._extra.silence(dt)
        return self._main.silence(dt)

    @property
    def silent_seconds(self) -> float:
        """How long the source has been silent."""
        return self._main.presence.silent
