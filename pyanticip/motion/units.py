"""What a file does not say, or says badly: its unit of length and its frame rate."""

import math
from decimal import Decimal, InvalidOperation

from pyanticip.errors import FormatError, OptionError

CMU_METRES = 0.0254 / 0.45
"""One unit of the CMU database in metres: inches scaled by the 0.45 of its ASF files, 0.056444."""

UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "cmu": CMU_METRES}
"""Names for ``load_motion(..., units=)``, in metres."""

_WHOLE_RATES = (24.0, 25.0, 30.0, 50.0, 60.0, 90.0, 100.0, 120.0, 144.0, 150.0, 180.0, 200.0, 240.0)
_NTSC_RATES = (24000 / 1001, 30000 / 1001, 60000 / 1001, 120000 / 1001)
_CUT_RATES = (60.0, 30.0)
"""Common rates whose frame times come with decimals cut off: .016, .03."""

RATE_LIMITS = (0.1, 10_000.0)

RATE_HINT = "--rate (send: --file-rate; rate= in Python)"
"""How to overrule a rate."""
UNITS_HINT = "--units m, cm, mm, in, cmu or metres (units= in Python)"
"""... and a unit of length."""

SLOW = 5.0
"""Frames a second below which no movement of a body can be told; a frame time in milliseconds looks so."""

# The longest chain of bones of an adult, hips to fingertips, is 1.05 to 1.5 m. The limits lie between
# the clusters that this gives: 1.05 to 1.5 (m), 19 to 27 (CMU), 41 to 59 (in), 105 to 150 (cm).
_UNIT_LIMITS = ((4.0, "m"), (28.0, "cmu"), (70.0, "in"), (400.0, "cm"), (math.inf, "mm"))
_SIZES = (0.8, 1.65)
"""Metres: what is smaller or larger may be of another unit."""


def guess_unit(reach: float) -> str:
    """The unit of a skeleton whose longest chain from the root to a tip measures ``reach`` units.

    Below 4: metres; below 28: CMU units; below 70: inches; below 400: centimetres; else millimetres.
    """
    return next(name for limit, name in _UNIT_LIMITS if reach < limit)


def metres_per_unit(units: str | float | None, reach: float) -> float:
    """The scale to metres: ``units`` by name or as a number, or guessed from ``reach`` when None."""
    if units is None:
        return UNITS[guess_unit(reach)]
    if isinstance(units, str):
        if units not in UNITS:
            raise OptionError(f"units is one of {', '.join(UNITS)} or metres per unit, given {units!r}")
        return UNITS[units]
    if not 1e-6 <= units <= 1e6:
        raise OptionError(f"units must be 1e-6 to 1e6 metres per unit, given {units}")
    return float(units)


def size_doubts(reach: float) -> list[str]:
    """A warning where a longest chain of bones of ``reach`` metres makes one doubt the unit of length."""
    if _SIZES[0] <= reach <= _SIZES[1]:
        return []
    return [f"a body {reach:.3g} m from hips to fingertips: if that is wrong, give {UNITS_HINT}"]


def rate_from_frame_time(text: str) -> tuple[float, bool]:
    """Frames a second from a frame time as a file writes it, and whether that is sure.

    ``.0083333`` gives 120.0 and True. A written number stands for an interval one unit of its last
    decimal wide. A frame time that is 1 over a whole number is that rate; else 60 or 30 Hz where
    further decimals were cut off; else the nearest standard rate in the interval, whole ones first;
    else the nearest whole rate in it; else 1 over what is written. Where the interval is wider than a
    hundredth of it, that is not sure.

    Raises:
        FormatError: Not a number, not positive, or a rate outside 0.1..10000 Hz (without file and line: the
            caller adds them).
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise FormatError(f"frame time is a number of seconds, given {text[:40]!r}") from None
    seconds = float(number) if number.is_finite() else math.nan
    low, high = RATE_LIMITS
    if not 1.0 / high <= seconds <= 1.0 / low:
        raise FormatError(f"frame time must be {1 / high:g} to {1 / low:g} s, given {text[:40]!r}")
    raw = 1.0 / seconds
    if abs(raw - round(raw)) < 1e-6 * raw:
        return float(round(raw)), True
    exponent = number.as_tuple().exponent
    step = 10.0**exponent if isinstance(exponent, int) else 0.0
    sure = step <= 0.01 * seconds
    for rate in _CUT_RATES:
        if 0.0 <= 1.0 / rate - seconds < step:
            return rate, sure

    def distance(rate: float) -> float:
        return abs(1.0 / rate - seconds)

    whole = [float(max(1, math.floor(raw))), float(math.ceil(raw))]
    for candidates in (_WHOLE_RATES, _NTSC_RATES, whole):
        nearest = min(candidates, key=distance)
        # Two per cent guards against a frame time of one or two decimals, which fits everything.
        if distance(nearest) < step and distance(nearest) < 0.02 * seconds:
            return nearest, sure
    return raw, sure


def check_rate(rate: float) -> float:
    """``rate`` as a float; :class:`OptionError` for what is no number, and outside 0.1..10000 Hz."""
    if isinstance(rate, bool) or not hasattr(rate, "__float__"):
        raise OptionError(f"rate is a number of frames a second, given {rate!r}")
    low, high = RATE_LIMITS
    if not low <= rate <= high:
        raise OptionError(f"rate must be {low:g} to {high:g} Hz, given {rate}")
    return float(rate)
