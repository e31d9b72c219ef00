"""The mixer between model and sinks: lead, fallback, gain, smoothing, shapes, silence and manual control.

For every frame, and for every tick of silence, it gives the eight sound parameters, the extra outputs of a
mapping, and events. A change of mode or mapping, a late model or a lost signal never makes the output jump. A
frame is processed by one call of the core's :class:`Desk`; this module holds the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

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
from realtime.mapping.performer import PLACES, STRETCHED, PerformerRange
from realtime.step.base import StepResult

T = TypeVar("T")


class _CoreSetting(Generic[T]):
    """An attribute of the mixer that is one of its desk's or its lead's (``part``)."""

    def __init__(self, part: str, name: str) -> None:
        self._part, self._name = part, name

    @overload
    def __get__(self, mixer: None, owner: type[Mixer]) -> Self: ...
    @overload
    def __get__(self, mixer: Mixer, owner: type[Mixer]) -> T: ...
    def __get__(self, mixer: Mixer | None, owner: type[Mixer]) -> Self | T:
        if mixer is None:  # read from the class, as documentation tools do
            return self
        value: T = getattr(getattr(mixer, self._part), self._name)
        return value

    def __set__(self, mixer: Mixer, value: T) -> None:
        setattr(getattr(mixer, self._part), self._name, value)


class Mixer:
    """Control values of one performer.

    ``mode`` is one of playing, frozen, stopped, panic. Frozen holds the values; stopped and panic go to
    neutral without loudness, slowly and at once. ``bypass`` plays the scalars instead of the model and of a
    mapping.
    ``shapes`` are keyed by the name of a parameter, or ``taught/<name>``.
    """

    #: Whether the scalars play instead of the model and of a mapping.
    bypass = _CoreSetting[bool]("core", "bypass")
    #: How far ahead the parameters are read, 0 to 400 ms, or ``auto``.
    lead_ms = _CoreSetting[LeadMs]("lead", "ms")
    #: Latency from sending to sound, 0 to 1000 ms; part of an automatic lead.
    sound_ms = _CoreSetting[float]("lead", "sound_ms")
    #: Factor on loudness, 0 to 4. Setting another value raises an OptionError.
    gain = _CoreSetting[float]("core", "gain")
    #: Factor on every smoothing time, 0 (none) to 100; 1 is the rig's.
    smoothing = _CoreSetting[float]("core", "smoothing")

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
        #: The core's mixing desk.
        self.core = Desk(smoothing, (silence.hold, silence.fade, silence.catch_up), neutral, rule, self.lead)
        self._shapers = {name: Shaper(shape) for name, shape in (shapes or {}).items()}
        self.gain = gain
        self.performer = performer
        self._extra_smoothing = extra_smoothing or Smoothing()
        self._extra_names: list[str] = []
        self._taught_parameters: list[int] = []
        #: Latest values of the taught outputs that are not among the eight parameters.
        self.extras: list[float] = []
        self._apply_shapes()

    def set_mapping(self, live_mapping: LiveMapping | None) -> None:
        """Play the outputs of a mapping from the next frame on; None: the model alone.

        A taught output with the name of a sound parameter replaces it; the others are in :attr:`extras`.
        """
        names = [] if live_mapping is None else live_mapping.names
        neutral = [] if live_mapping is None else live_mapping.neutral
        parameter_indices = [PARAMETERS.index(name) if name in PARAMETERS else None for name in names]
        self._taught_parameters = [index for index in parameter_indices if index is not None]
        current = dict(zip(self._extra_names, self.extras, strict=True))
        extra_neutrals = [
            (n, low) for n, low, index in zip(names, neutral, parameter_indices, strict=True) if index is None
        ]
        self._extra_names = [name for name, _ in extra_neutrals]
        rest = [low for _, low in extra_neutrals]
        # An output that already exists continues from its value, a new one starts at neutral.
        self.extras = [current.get(name, low) for name, low in extra_neutrals]
        self.core.set_mapping(parameter_indices, self._extra_smoothings(), rest, self.extras)
        self._apply_shapes()

    @property
    def mode(self) -> str:
        """playing, frozen, stopped or panic."""
        return self.core.mode

    def set_mode(self, mode: str) -> None:
        """Change to playing, frozen, stopped or panic, without a jump. Raises OptionError for another
        mode."""
        self.core.set_mode(mode)

    @property
    def performer(self) -> PerformerRange | None:
        """Stretches the model's output to the performer's range; None: the model's own scale."""
        return self._performer

    @performer.setter
    def performer(self, performer: PerformerRange | None) -> None:
        self._performer = performer
        self.core.set_range(None if performer is None else performer.core)

    @property
    def settings(self) -> dict[str, LeadMs]:
        """Settings that may be set by number (the lead also to ``auto``), by the names of their
        attributes."""
        return {
            "gain": self.gain,
            "smoothing": self.smoothing,
            "lead_ms": self.lead_ms,
            "sound_ms": self.sound_ms,
        }

    @property
    def shapers(self) -> Mapping[str, Shaper]:
        """Shapers of the outputs, by their names in the rig."""
        return self._shapers

    def shaper(self, name: str) -> Shaper:
        """The shaper of an output; one that changes nothing is added if there is none."""
        if name not in self._shapers:
            self._shapers[name] = Shaper(Shape())
            self._apply_shapes()
        return self._shapers[name]

    def reshape(self, name: str, shape: Shape | None) -> None:
        """Change the shape of an output within a quarter of a second; None removes it. An open gate stays
        open."""
        shaper = self.shaper(name)
        shaper.reshape(shape or Shape())
        if shape is None:
            shaper.open = shaper.toggled = False

    def _apply_shapes(self) -> None:
        taught = [f"taught/{name}" for name in self._extra_names]
        self.core.set_shapers(self._indexed_shapers(PARAMETERS), self._indexed_shapers(taught))

    def _indexed_shapers(self, names: Sequence[str]) -> list[tuple[int, Shaper]]:
        return [(i, self._shapers[name]) for i, name in enumerate(names) if name in self._shapers]

    def set_smoothing_settings(self, smoothing: Sequence[Smoothing], extra: Smoothing) -> None:
        """Change the smoothing of the eight parameters and of the extras from the next frame on."""
        self._extra_smoothing = extra
        self.core.set_smoothing_settings(smoothing, self._extra_smoothings())
        self.lead.set_lags(_lags(smoothing))

    def _extra_smoothings(self) -> list[Smoothing]:
        # Probabilities are not smoothed: labels and what they trigger would be late.
        unsmoothed = Smoothing(kind="none")
        return [unsmoothed if "/" in name else self._extra_smoothing for name in self._extra_names]

    @property
    def by_model(self) -> bool:
        """Whether the model plays, not the scalar mapping."""
        return self.core.by_model

    def fade_out(self, seconds: float) -> None:
        """Stop within ``seconds`` at the end of a show, in any mode."""
        self.core.fade_out(seconds)

    def resume(self, values: Sequence[float]) -> None:
        """Continue smoothly from ``values``, the last ones sent (the eight, then the extras), since later
        ones were not. Raises a MotionError for values outside 0..1.
        """
        self.core.resume(values[: len(PARAMETERS)], values[len(PARAMETERS) :])

    def play(
        self,
        step: StepResult | None,
        scalars: Sequence[float],
        dt: float,
        mapped: Sequence[float] | None = None,
        activity: float = 1.0,
        *,
        guessed: bool = False,
    ) -> tuple[list[float], list[Event]]:
        """Process a frame, ``dt`` seconds of source time after the last; returns parameters and events.

        Without a ``step`` (no model, or a late one) the scalars play. ``mapped`` are the mapping's values; if
        None, its outputs hold. ``activity`` is 0 while the body stands still: all but taught outputs are then
        silent, and there are no events. Nothing is learned from a ``guessed`` frame.
        """
        out = self.core.play(step, scalars, mapped, activity, dt, guessed)
        self.follow_extras()
        return out

    def bridge(
        self, step: StepResult | None, since_step_s: float, dt: float
    ) -> tuple[list[float], list[Event]]:
        """Process a missing frame, ``dt`` seconds after the last call, by the forecast of the newest
        ``step``.

        ``since_step_s`` seconds have passed since that frame, so the forecast is read that much farther
        ahead. Without one, and for taught outputs, the last values hold.
        """
        out = self.core.bridge(step, since_step_s, dt)
        self.follow_extras()
        return out

    def forecast(self, step: StepResult) -> npt.NDArray[np.float32]:
        """A step's parameters at the horizons (8, 5) as they will play: stretched to the performer's range,
        but not smoothed or shaped; NaN for those that a mapping plays."""
        params = np.array(step.params, np.float32)
        if self._performer is not None:
            reaches = self._performer.reaches()
            for place, name in zip(PLACES, STRETCHED, strict=True):
                params[place] = [reaches[name](float(value)) for value in params[place]]
        params[self._taught_parameters] = np.nan
        return params

    def follow_extras(self) -> None:
        """Update :attr:`extras` from the desk."""
        if self._extra_names:
            self.extras = self.core.extras

    def notify_listener(self) -> None:
        """Pass what the range will learn from the last frame to its listener, if any."""
        performer = self._performer
        if performer is not None and performer.listener is not None:
            range_sample = self.core.range_sample
            if range_sample is not None:
                performer.listener(*range_sample)

    def silence(self, dt: float) -> list[float]:
        """Process a tick of ``dt`` seconds without a source: hold, then fade."""
        out = self.core.silence(dt)
        self.follow_extras()
        return out

    @property
    def silent_seconds(self) -> float:
        """How long the source has been silent."""
        return self.core.silent_s


def _lags(smoothing: Sequence[Smoothing]) -> list[float]:
    return [1000.0 * setting.lag for setting in smoothing]
