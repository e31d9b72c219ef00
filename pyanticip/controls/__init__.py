"""The sound parameters: names, ranges and curves, smoothing, silence, events. Pure, no torch.

A control vector has eight values in 0..1, always in the order of :data:`pyanticip.vocabulary.PARAMETERS`. The
model gives it at five horizons, of which a lead picks one. What is said here is how it then is smoothed
(:class:`Smoothing`), shaped (:class:`Shape`), held and faded when the performer's signal is lost
(:class:`Presence`), mapped to what a receiver wants (:class:`Range`), and when events are announced; the way
of a frame through all of it is the core's (``_core.Desk``). All times are seconds unless the name says
otherwise.

Vectors here are lists of Python floats, not arrays: a paced frame finds every cache cold, and each NumPy call
then costs microseconds of its own.
"""

from pyanticip._core import NEUTRAL, scalar_mapping
from pyanticip.controls.events import BEAT_LEAD_MS, CANCEL, Event, EventTrigger, LastMoment
from pyanticip.controls.shaping import Presence, Range, Shape, Shaper, Smoothing

__all__ = [
    "BEAT_LEAD_MS",
    "CANCEL",
    "NEUTRAL",
    "Event",
    "EventTrigger",
    "LastMoment",
    "Presence",
    "Range",
    "Shape",
    "Shaper",
    "Smoothing",
    "scalar_mapping",
]
