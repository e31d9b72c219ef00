"""What the commands of the remote control take."""

from __future__ import annotations

from dataclasses import dataclass

from pyanticip import _core
from pyanticip.vocabulary import HORIZONS_MS
from realtime.sinks.outputs import Limits

__all__ = ["CONTROLS", "Control"]


@dataclass(frozen=True, slots=True)
class Control:
    """One command: the OSC types of what it takes (N: nothing, T: on or off), what it does; the range of its
    number, or the words that it knows; the number's unit."""

    types: str
    text: str
    limits: Limits = None
    unit: str | None = None


#: By what stands behind ``/anticip/control/``, or the beginning of it where the rest is an argument (those
#: that end with a slash).
CONTROLS: dict[str, Control] = {
    "start": Control("N", "play"),
    "stop": Control("N", "to silence within 1 s"),
    "panic": Control("N", "to silence at once"),
    "freeze": Control("T", "the values stand still"),
    "bypass": Control("T", "the scalars play instead of the model"),
    "gain": Control("f", "on loudness", (0.0, 4.0)),
    "smoothing": Control("f", "factor on smoothing", (0.0, 100.0)),
    "lead_ms": Control("f", "how far ahead to play", (HORIZONS_MS[0], HORIZONS_MS[-1]), unit="time.ms"),
    "sound_ms": Control("f", "how long it takes to sound", (0.0, 1000.0), unit="time.ms"),
    "preset": Control("s", "what the voice plays", tuple(_core.PRESETS)),
    "source": Control("s", "whose suit is heard"),
    "plan": Control("if", "wish for a code of the plan, by so much"),
    "unload": Control("N", "without the mapping"),
    "load": Control("s", "play the mapping", ("mapping",)),
    "rig/merge": Control("s", "set many keys of the rig: a JSON merge patch"),
    "rig/save": Control("s", "write what was set into the rig, or a new one of this name"),
    "rig/load": Control("s", "play by another rig of the show's folder, as far as it can change"),
    "memory/load": Control("s", "mix with another memory of the show's folder"),
    "learn/": Control("T", "on: note how far it goes; off: that is its range"),
    "calibrate/still": Control("N", "the performer stands"),
    "calibrate/move": Control("N", "the performer moves"),
    "calibrate/save": Control("N", "keep what was calibrated"),
    "calibrate/clear": Control("N", "forget what was calibrated"),
    "calibrate/freeze": Control("T", "learn the range no further"),
    "memory/learn": Control("N", "remember what is played"),
    "memory/freeze": Control("N", "remember no more"),
    "memory/clear": Control("N", "forget this show"),
    "memory/save": Control("s", "write the memory"),
    "cue/set": Control("s", "a cue of this name, here"),
    "record/start": Control("s", "record into a file"),
    "record/stop": Control("N", "record no more"),
    "teach/values": Control("sf", "what the next take teaches"),
    "teach/class": Control("ss", "a class, and its label that is shown"),
    "teach/param/": Control("f", "what the next take teaches"),
    "teach/clear": Control("N", "nothing is taught"),
    "teach/output": Control("s", "one more output"),
    "teach/start": Control("s", "begin a take"),
    "teach/stop": Control("N", "keep the take"),
    "teach/cancel": Control("N", "forget the take"),
    "teach/list": Control("N", "what was taught"),
    "teach/remove": Control("s", "forget a take of before"),
    "teach/undo": Control("N", "take the last change back"),
    "teach/fit": Control("N", "learn it, and play it"),
}
