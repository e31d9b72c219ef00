"""Opens voices by the name of their preset; the built-in presets and their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.options import Options, first_problem
from realtime.seams import VOICES
from realtime.voice.base import NEEDS_SAMPLES, SAMPLED, Voice

Say = Callable[[str], None]

_NOTES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
_ROOT = re.compile(r"([A-G])([#b]?)([1-3])")
# MIDI number of C1, the core's lowest root.
_LOWEST_ROOT = 24.0
# Minimum distance of two notes of a scale, in semitones; the core uses 32-bit floats.
_MIN_INTERVAL = 1e-5


def _midi_number(root: str) -> float | None:
    """The MIDI number of a note name; None if it is not a note name."""
    match = _ROOT.fullmatch(root)
    if match is None:
        return None
    letter, accidental, octave = match.groups()
    return 12.0 * (int(octave) + 1) + _NOTES[letter] + {"": 0, "#": 1, "b": -1}[accidental]


class Instrument(Options):
    """``[synth] options`` of the built-in presets: tuning, scale, chords and recorded sounds."""

    #: The lowest note: C1 to B3, with # or b.
    root: str = "D2"
    #: A scale of the core by name, or 1 to 12 semitones above the root, rising from 0 to below 12; fractions
    #: allowed.
    scale: str | tuple[float, ...] = "dorian"
    #: ``just``: whole semitones are five-limit ratios above the root.
    tuning: Literal["equal", "just"] = "equal"
    #: Frequency of A4, Hz.
    a4: Annotated[float, Field(ge=380.0, le=500.0)] = 440.0
    #: At most 8 chords of three scale steps above the note; each phrase moves to the next.
    chords: tuple[tuple[float, ...], ...] = ()
    #: A folder of recorded sounds.
    samples: Path | None = None

    @field_validator("root")
    @classmethod
    def _validate_root(cls, root: str) -> str:
        number = _midi_number(root)
        # Cb1 is a note name, but below C1.
        if number is None or number < _LOWEST_ROOT:
            raise ValueError(f"expected a note from C1 to B3, as D2 or F#1, got {root!r}")
        return root

    @field_validator("scale")
    @classmethod
    def _validate_scale(cls, scale: str | tuple[float, ...]) -> str | tuple[float, ...]:
        if isinstance(scale, str):
            if scale not in _core.SCALES:
                raise ValueError(f"expected one of {', '.join(_core.SCALES)}, or semitones, got {scale!r}")
        elif not (
            1 <= len(scale) <= 12
            and scale[0] == 0.0
            and all(b - a >= _MIN_INTERVAL for a, b in zip(scale, (*scale[1:], 12.0), strict=True))
        ):
            raise ValueError("expected 1 to 12 semitones that rise from 0 and stay below 12")
        return scale

    @field_validator("chords")
    @classmethod
    def _validate_chords(cls, chords: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        steps = [step for chord in chords for step in chord]
        is_valid = all(len(chord) == 3 for chord in chords) and all(abs(step) <= 24.0 for step in steps)
        if len(chords) > 8 or not is_valid:
            raise ValueError("expected at most 8 chords of exactly three steps each, from -24 to 24")
        return chords

    def core(self) -> dict[str, Any]:
        """Keyword arguments of :class:`pyanticip._core.Voice`."""
        scale = _core.SCALES[self.scale] if isinstance(self.scale, str) else self.scale
        return {
            "tonic": _midi_number(self.root),
            "scale": list(scale),
            "just": self.tuning == "just",
            "a4": self.a4,
            "chords": list(self.chords),
        }


class _BuiltIn:
    """A preset of the Rust core; its voice can switch to any other of them."""

    Config = Instrument

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, sample_rate: float, config: Instrument, /, say: Say | None = None) -> Voice:
        """Open the voice. ``say`` reports the samples, and errors in them; without it these are raised."""
        preset, samples = self._name, None
        try:
            if config.samples is not None:
                if say is not None:
                    say(f"reading samples: {config.samples}")
                samples = _core.Samples(config.samples, sample_rate)
            elif preset == SAMPLED:
                raise OptionError(f"preset {preset}: {NEEDS_SAMPLES}")
        except OptionError as error:
            if say is None:
                raise
            preset = "default" if preset == SAMPLED else preset
            say(f"{error}; playing the preset {preset} without")
        else:
            if say is not None and samples is not None:
                say(f"samples: {samples.summary}")
        return _core.Voice(sample_rate, preset=preset, samples=samples, **config.core())


#: The core's presets by name, for the registry.
PRESETS = SimpleNamespace(**{name: _BuiltIn(name) for name in _core.PRESETS})


def open_voice(preset: str, options: Mapping[str, Any], sample_rate: float, say: Say | None = None) -> Voice:
    """Open a voice. If its folder of samples cannot be used, ``say`` is told and a preset plays without them.

    Raises:
        OptionError: The preset is unknown, or the options are not valid for it; without ``say``, also if the
            samples cannot be used.
    """
    factory = VOICES.load(preset)
    try:
        config = factory.Config.model_validate(options)
    except ValidationError as error:
        raise OptionError(f"voice {preset}: {first_problem(error)}") from None
    if isinstance(factory, _BuiltIn):
        return factory(sample_rate, Instrument.model_validate(config), say)
    return factory(sample_rate, config)


def presets() -> dict[str, str]:
    """Description of every available preset, by name."""
    return {name: _core.PRESETS.get(name) or VOICES.find(name).value for name in VOICES.names()}
