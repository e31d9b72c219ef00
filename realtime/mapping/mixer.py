"""The mixer between model and sinks: lead, fallback, gain, smoothing, shapes, silence, the performer's hand.

The eight sound parameters, the outputs that a mapping teaches besides, and a list of events go out for every
frame that comes in, and for every tick of silence. No change of mode or mapping, no late model and no lost
signal makes the output jump. The way of a frame is one call of the core's desk; here stands what is set, and
what is learned of the performer when a frame has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyanticip._core import Desk, Lead
from pyanticip.controls import (
    BEAT_LEAD_MS,
    NEUTRAL,
    Event,
    EventTrigger,
    LastMoment,
    Presence,
    Shape,
    Shaper,
    Smoothing,
)
from pyanticip.vocabulary import PARAMETERS
from realtime.config import LeadMs
from realtime.mapping.live_mapping import LiveMapping
from realtime.mapping.performer import PerformerRange
from realtime.step.base import StepResult

__all__ = ["Mixer"]


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
        extra_smoothing: Smoothing | None = None,
        performer: PerformerRange | None = None,
        shapes: Mapping[str, Shape] | None = None,
    ) -> None:
        smoothing = smoothing or [Smoothing()] * len(PARAMETERS)
        silence = presence or Presence()
        rule = (trigger or LastMoment(lead_ms=BEAT_LEAD_MS)).rule
        #: How far ahead each parameter is read.
        self.lead = Lead(lead_ms, _lags(smoothing), sound_ms=sound_ms, delay_ms=delay_ms)
        #: What plays.
        self.core = Desk(smoothing, (silence.hold, silence.fade, silence.catch_up), neutral, rule, self.lead)
        self._shapers = {name: Shaper(shape) for name, shape in (shapes or {}).items()}
        self.gain = gain
        self.performer = performer
        self._extra_smoothing = extra_smoothing or Smoothing()
        self._extra_names: list[str] = []
        #: The taught outputs that are none of the eight, as they were given last.
        self.extras: list[float] = []
        self._shape()

    def set_mapping(self, live_mapping: LiveMapping | None) -> None:
        """Play the outputs of a mapping from the next frame on; None: the model alone.

        A taught output with the name of a sound parameter takes its place; the others go out beside the
        eight, in :attr:`extras`.
        """
        names = [] if live_mapping is None else live_mapping.names
        neutral = [] if live_mapping is None else live_mapping.neutral
        places = [PARAMETERS.index(name) if name in PARAMETERS else None for name in names]
        playing = dict(zip(self._extra_names, self.extras, strict=True))
        beside = [(n, low) for n, low, place in zip(names, neutral, places, strict=True) if place is None]
        self._extra_names = [name for name, _ in beside]
        rest = [low for _, low in beside]
        # An output that was there goes on from where it is, a new one from neutral.
        self.extras = [playing.get(name, low) for name, low in beside]
        self.core.set_mapping(places, self._extras_smoothed(), rest, self.extras)
        self._shape()

    @property
    def mode(self) -> str:
        """playing, frozen, stopped or panic."""
        return self.core.mode

    def set_mode(self, mode: str) -> None:
        """Go to playing, frozen, stopped or panic, each without a jump. Raises OptionError for another."""
        self.core.set_mode(mode)

    @property
    def performer(self) -> PerformerRange | None:
        """Stretches what the model says to the performer's range; None: the model's own scale."""
        return self._performer

    @performer.setter
    def performer(self, performer: PerformerRange | None) -> None:
        self._performer = performer
        self.core.set_range(None if performer is None else performer.core)

    @property
    def bypass(self) -> bool:
        """Whether the scalars play instead of the model, and instead of a mapping."""
        return self.core.bypass

    @bypass.setter
    def bypass(self, value: bool) -> None:
        self.core.bypass = value

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
        """Factor on loudness, 0 to 4. Raises OptionError for another."""
        return self.core.gain

    @gain.setter
    def gain(self, value: float) -> None:
        self.core.gain = value

    @property
    def smoothing(self) -> float:
        """Factor on every smoothing time: 0 none, 1 as the rig says, 100 at most."""
        return self.core.smoothing

    @smoothing.setter
    def smoothing(self, value: float) -> None:
        self.core.smoothing = value

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
        there = self._shapers.get(name)
        if shape is None and there is not None and there.seen is not None:
            # It is being learned how far it goes.
            shape = Shape()
        if shape is None:
            self._shapers.pop(name, None)
        elif there is not None:
            there.reshape(shape)
        else:
            self._shapers[name] = Shaper(shape)
        self._shape()

    def _shape(self) -> None:
        taught = [f"taught/{name}" for name in self._extra_names]
        self.core.shape(self._placed(PARAMETERS), self._placed(taught))

    def _placed(self, names: Sequence[str]) -> list[tuple[int, Shaper]]:
        return [(i, self._shapers[name]) for i, name in enumerate(names) if name in self._shapers]

    def resmooth(self, smoothing: Sequence[Smoothing], extra: Smoothing) -> None:
        """Smooth the eight and what is taught otherwise from the next frame on."""
        self._extra_smoothing = extra
        self.core.resmooth(smoothing, self._extras_smoothed())
        self.lead.follow(_lags(smoothing))

    def _extras_smoothed(self) -> list[Smoothing]:
        # What is likely is told as it is: labels and what they trigger would come late.
        plain = Smoothing(kind="none")
        return [plain if "/" in name else self._extra_smoothing for name in self._extra_names]

    @property
    def by_model(self) -> bool:
        """Whether the model plays, not the scalar mapping."""
        return self.core.by_model

    def leave(self, seconds: float) -> None:
        """The show is over: to neutral within ``seconds``, whatever the mode."""
        self.core.leave(seconds)

    def resume(self, values: Sequence[float]) -> None:
        """What was given lately was not heard: ease from what was, the eight and the extras behind them.

        Raises a MotionError for values outside 0..1.
        """
        self.core.resume(values[: len(PARAMETERS)], values[len(PARAMETERS) :])

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
        out = self.core.play(step, scalars, taught, activity, dt, guessed)
        self.follow_extras()
        return out

    def bridge(self, step: StepResult | None, away: float, dt: float) -> tuple[list[float], list[Event]]:
        """No frame, ``dt`` seconds after the last call: what the newest frame's ``step`` said of now.

        ``away`` seconds have passed since that frame. The forecast is read that much farther
        ahead; without one, and for what a mapping taught, the last values hold.
        """
        out = self.core.bridge(step, away, dt)
        self.follow_extras()
        return out

    def follow_extras(self) -> None:
        """Give what the desk gave last beside the eight."""
        if self._extra_names:
            self.extras = self.core.extras

    def notify_listener(self) -> None:
        """Tell who listens to the performer's range what will be learned of the last frame."""
        performer = self._performer
        if performer is not None and performer.listener is not None:
            range_sample = self.core.range_sample
            if range_sample is not None:
                performer.listener(*range_sample)

    def silence(self, dt: float) -> list[float]:
        """No frame for another ``dt`` seconds: hold, then fade."""
        out = self.core.silence(dt)
        self.follow_extras()
        return out

    @property
    def silent_seconds(self) -> float:
        """How long the source has been silent."""
        return self.core.silent


def _lags(smoothing: Sequence[Smoothing]) -> list[float]:
    return [1000.0 * setting.lag for setting in smoothing]
