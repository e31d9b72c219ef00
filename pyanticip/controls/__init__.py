"""Settings of the sound parameters: ranges and curves, smoothing, silence, events. Pure, no torch.

A control vector has eight values in 0..1, always in the order of :data:`pyanticip.vocabulary.PARAMETERS`. The
model predicts it at five horizons, of which a lead selects one. It is then smoothed (:class:`Smoothing`),
shaped (:class:`Shape`), held and faded when the performer's signal is lost (:class:`Presence`) and mapped to
a receiver's range (:class:`Range`); event rules decide when events are announced. The core processes the
frames (``_core.Desk``). All times are seconds unless the name says otherwise.

Vectors here are lists of Python floats, not arrays: a paced frame finds every cache cold, and each NumPy call
then costs microseconds of its own.
"""

from pyanticip._core import NEUTRAL, Shaper, scalar_mapping
from pyanticip.controls.events import BEAT_LEAD_MS, CANCEL, Event, EventTrigger, LastMoment
from pyanticip.controls.shaping import Presence, Range, Shape, Smoothing

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
