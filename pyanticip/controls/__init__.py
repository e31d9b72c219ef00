"""The sound parameters: names, ranges and curves, smoothing, silence, events. Pure, no torch.

A control vector has eight values in 0..1, always in the order of :data:`pyanticip.vocabulary.PARAMETERS`. The
model gives it at five horizons; :func:`at_lead` picks one, a :class:`Smoother` takes the edges off, a
:class:`Shaper` makes of it what the rig says,
:class:`Presence` holds and fades it when the performer's signal is lost, a :class:`Range` maps one value to
what a receiver wants. All times are seconds unless the name says otherwise.

Vectors here are lists of Python floats, not arrays: eight numbers at 50 Hz are far cheaper that way. A
paced frame finds every cache cold, and each NumPy call then costs microseconds of its own.
"""

from pyanticip.controls.events import BEAT_LEAD_MS, CANCEL, Event, EventTrigger, LastMoment, bin_chances
from pyanticip.controls.presence import Crossfade, Presence
from pyanticip.controls.ranges import Range
from pyanticip.controls.shaping import Shape, Shaper
from pyanticip.controls.smoothing import Smoother, Smoothing
from pyanticip.controls.vectors import NEUTRAL, at_lead, scalar_mapping

__all__ = [
    "BEAT_LEAD_MS",
    "CANCEL",
    "NEUTRAL",
    "Crossfade",
    "Event",
    "EventTrigger",
    "LastMoment",
    "Presence",
    "Range",
    "Shape",
    "Shaper",
    "Smoother",
    "Smoothing",
    "at_lead",
    "bin_chances",
    "scalar_mapping",
]
