"""Options of MIDI out."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from pyanticip.controls import Range
from pyanticip.errors import OptionError
from pyanticip.options import Options, option
from pyanticip.vocabulary import EVENTS, PARAMETERS, SCALARS
from realtime.config import known_name, number_or, unknown_hint
from realtime.protocols import CUE

#: Pitch class (0 to 11) of each key name.
KEYS = {
    name: number
    for number, names in enumerate(
        ("C", "C# Db", "D", "D# Eb", "E", "F", "F# Gb", "G", "G# Ab", "A", "A# Bb", "B")
    )
    for name in names.split()
}

#: Semitones above the key, of each scale.
SCALES: dict[str, tuple[int, ...]] = {
    "chromatic": tuple(range(12)),
    "major": (0, 2, 4, 5, 7, 9, 11),
    "minor": (0, 2, 3, 5, 7, 8, 10),
    "harmonic-minor": (0, 2, 3, 5, 7, 8, 11),
    "dorian": (0, 2, 3, 5, 7, 9, 10),
    "phrygian": (0, 1, 3, 5, 7, 8, 10),
    "lydian": (0, 2, 4, 6, 7, 9, 11),
    "mixolydian": (0, 2, 4, 5, 7, 9, 10),
    "locrian": (0, 1, 3, 5, 6, 8, 10),
    "pentatonic": (0, 2, 4, 7, 9),
    "minor-pentatonic": (0, 3, 5, 7, 10),
    "blues": (0, 3, 5, 6, 7, 10),
    "whole-tone": (0, 2, 4, 6, 8, 10),
}


class Scale:
    """The notes of a scale from ``low`` to ``high``: a value in 0..1 selects the nearest.

    Raises:
        OptionError: No note of the scale lies in this range.
    """

    def __init__(self, low: int, high: int, key: int, steps: Sequence[int]) -> None:
        pitch_classes = {(key + step) % 12 for step in steps}
        self.notes = [note for note in range(low, high + 1) if note % 12 in pitch_classes]
        if not self.notes:
            raise OptionError(f"low, high: expected a note of the scale in between, got {low} to {high}")
        self._low, self._span = low, high - low

    def __call__(self, value: float) -> int:
        """The note nearest to ``value``; of two equally near, the lower."""
        target = self._low + self._span * min(max(value, 0.0), 1.0)
        right = bisect.bisect_left(self.notes, target)
        neighbours = self.notes[max(right - 1, 0) : right + 1]
        return min(neighbours, key=lambda note: abs(note - target))


Channel = Annotated[int, Field(ge=1, le=16)]
Seven = Annotated[int, Field(ge=0, le=127)]
_MAX_LENGTH_MS = 60_000.0


Output = Annotated[str, known_name(*PARAMETERS, *SCALARS, also="taught/")]


class MidiNote(Options):
    """A note for each event of this name.

    An output selects the note: the nearest of a scale between ``low`` and ``high`` (60 is middle C);
    ``scale`` is a name, or semitones above ``key``. ``note`` sets a fixed note instead.
    """

    model_config = ConfigDict(populate_by_name=True)

    event: Annotated[str, known_name(*EVENTS, also=CUE)] = "onset"
    note: Seven | None = None
    output: Output = Field(default="pitch", alias="from")
    low: Seven = 48
    high: Seven = 84
    key: Annotated[str, known_name(*KEYS)] = "C"
    scale: str | tuple[Annotated[int, Field(ge=0, le=11)], ...] = "minor-pentatonic"
    velocity: Range = Range(low=40.0, high=120.0)
    length_ms: Annotated[float, Field(ge=1.0, le=_MAX_LENGTH_MS)] = 200.0
    channel: Channel = 1

    @model_validator(mode="after")
    def _validate_note(self) -> MidiNote:
        if isinstance(self.scale, str) and self.scale not in SCALES:
            raise ValueError(f"scale.{self.scale}: unknown name{unknown_hint(self.scale, tuple(SCALES))}")
        self.build()
        if not all(1 <= end <= 127 for end in (self.velocity.low, self.velocity.high)):
            raise ValueError("velocity: expected low and high from 1 to 127")
        return self

    def build(self) -> Scale:
        """Build the scale that the notes are chosen from."""
        if self.note is not None:
            return Scale(self.note, self.note, 0, SCALES["chromatic"])
        steps = SCALES[self.scale] if isinstance(self.scale, str) else self.scale
        return Scale(self.low, self.high, KEYS[self.key], steps)


class MidiControl(Range):
    """A controller (0 to 119), the pitch bend or the channel pressure that follows an output.

    ``low`` and ``high`` are 0..127 (with 14 bits, 128 steps lie between two of these numbers); for the bend
    they are semitones. ``channel`` "note" is the member channel of each sounding note, with MPE.
    """

    model_config = ConfigDict(populate_by_name=True)

    output: Output = Field(alias="from")
    # Higher numbers are channel mode messages, which end notes or change the mode.
    to: Annotated[
        int | Literal["bend", "pressure"], number_or("bend", "pressure", low=0, high=119, whole=True)
    ]
    bits: Literal[7, 14] = 7
    channel: Annotated[int | Literal["note"], number_or("note", low=1, high=16, whole=True)] = 1

    @model_validator(mode="before")
    @classmethod
    def _default_range(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        low, high = (-2.0, 2.0) if value.get("to") == "bend" else (0.0, 127.0)
        return {"low": low, "high": high, **value}

    @model_validator(mode="after")
    def _validate_target(self) -> MidiControl:
        lowest, highest = (-96.0, 96.0) if self.to == "bend" else (0.0, 127.0)
        if not all(lowest <= end <= highest for end in (self.low, self.high)):
            raise ValueError(
                f"low, high: expected {lowest:g} to {highest:g}, got {self.low:g} to {self.high:g}"
            )
        if self.bits == 14 and (not isinstance(self.to, int) or self.to > 31):
            raise ValueError("bits: 14 is for controllers 0 to 31 only (the bend always has 14 bits)")
        return self

    @property
    def targets(self) -> tuple[int | str, ...]:
        """Everything it is sent to: with 14 bits, the low half has a controller of its own."""
        return (self.to, self.to + 32) if isinstance(self.to, int) and self.bits == 14 else (self.to,)


def _controls(channel: int | str, **to: int | str) -> tuple[MidiControl, ...]:
    return tuple(
        MidiControl.model_validate({"from": name, "to": number, "channel": channel})
        for name, number in to.items()
    )


#: Controller numbers that synths expect (expression, timbre, resonance, reverb, pan), else general-purpose.
_DEFAULT_CONTROLS = _controls(
    1, pitch=16, loudness=11, brightness=74, roughness=71, density=17, space=91, pan=10, pulse=18
)
_DEFAULT_MPE_CONTROLS = _controls("note", loudness="pressure", brightness=74)


class MidiConfig(Options):
    """One MIDI port: ``virtual`` or ``virtual:NAME`` creates one, anything else is part of an existing name.

    ``mpe`` is the number of member channels of the lower zone (2 to 1 + mpe), one for each sounding note;
    ``bend_range`` is the receiver's bend range in semitones (default 48 with MPE, which is sent to it; else
    2). ``clock`` is beats per minute, or "body": the performer's beat. ``latency_ms`` is the synth's output
    latency. ``max_rate`` limits how often per second the controls change.
    """

    port: str | None = option(
        "MIDI out: virtual, virtual:NAME, or part of a port's name.", None, metavar="PORT", min_length=1
    )
    note: tuple[MidiNote, ...] = (MidiNote(),)
    control: tuple[MidiControl, ...] | None = None
    mpe: Annotated[int, Field(ge=0, le=15)] = 0
    bend_range: Annotated[int, Field(ge=1, le=96)] | None = None
    clock: (
        Annotated[float | Literal["body"], number_or("body", low=20, high=400, unit=" beats per minute")]
        | None
    ) = None
    latency_ms: Annotated[float, Field(ge=0.0, le=400.0)] = 0.0
    max_rate: Annotated[float, Field(ge=0.01, le=1000.0)] | None = None

    @model_validator(mode="after")
    def _validate_port(self) -> MidiConfig:
        outputs: dict[tuple[int | str, int | str], str] = {}
        for control in self.controls:
            for to in control.targets:
                if other := outputs.get((control.channel, to)):
                    raise ValueError(
                        f"control: {other} and {control.output} both go to {to} of channel {control.channel}"
                        " (14 bits take the controller 32 above as well)"
                    )
                outputs[control.channel, to] = control.output
            if control.channel == "note" and not self.mpe:
                raise ValueError('control.channel: "note" needs mpe, the number of its members')
            if isinstance(control.channel, int) and 1 < control.channel <= 1 + self.mpe:
                raise ValueError(
                    f'control.channel: {control.channel} is a member of the MPE zone; expected "note" or 1'
                )
            if control.to == "bend" and max(abs(control.low), abs(control.high)) > self.semitones:
                raise ValueError(
                    f"control.low, high: the bend reaches {self.semitones} semitones (bend_range)"
                )
        if self.mpe and any("channel" in note.model_fields_set for note in self.note):
            raise ValueError(
                "note.channel: with mpe each note has a channel of its own; leave one of them out"
            )
        return self

    def on(self, channel: int, name: str, *, leads: bool) -> MidiConfig:
        """The options for one of several performers: a single channel, the name added to a virtual port, and
        the clock only for the performer who leads.
        """
        is_virtual = self.port is not None and self.port.partition(":")[0] == "virtual"
        base = (self.port or "").partition(":")[2] or "pyanticip"
        on_channel = {"channel": channel}
        update = {
            "port": f"virtual:{base} {name}" if is_virtual else self.port,
            "note": tuple(note.model_copy(update=on_channel) for note in self.note),
            "control": tuple(control.model_copy(update=on_channel) for control in self.controls),
        }
        return self.model_copy(update=update if leads else {**update, "clock": None})

    @property
    def semitones(self) -> int:
        """Semitones of a full bend."""
        return self.bend_range or (48 if self.mpe else 2)

    @property
    def controls(self) -> tuple[MidiControl, ...]:
        """The configured controls, or the default ones."""
        if self.control is not None:
            return self.control
        return _DEFAULT_MPE_CONTROLS if self.mpe else _DEFAULT_CONTROLS
