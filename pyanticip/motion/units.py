"""Units of length and frame rates that a file leaves unsaid or states imprecisely."""

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, OptionError

CMU_METRES = 0.0254 / 0.45
"""One unit of the CMU database in metres: inches scaled by the 0.45 of its ASF files, 0.056444."""

UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "cmu": CMU_METRES}
"""Unit names of ``load_motion(..., units=)``, and their length in metres."""

_WHOLE_RATES = (24.0, 25.0, 30.0, 50.0, 60.0, 90.0, 100.0, 120.0, 144.0, 150.0, 180.0, 200.0, 240.0)
_NTSC_RATES = (24000 / 1001, 30000 / 1001, 60000 / 1001, 120000 / 1001)
_CUT_RATES = (60.0, 30.0)
"""Common rates whose frame times are often written with decimals cut off: .016, .03."""

RATE_LIMITS = (0.1, 10_000.0)
"""Minimum and maximum frame rate in Hz."""

RATE_HINT = "--rate (send: --file-rate; rate= in Python)"
"""How to override a rate, for messages."""
UNITS_HINT = "--units m, cm, mm, in, cmu or metres (units= in Python)"
"""How to override a unit of length, for messages."""

MIN_PLAYABLE_RATE = 5.0
"""Rate in Hz below which frames show no movement; a frame time in milliseconds reads as such a rate."""

# The longest chain of bones of an adult, hips to fingertips, is 1.05 to 1.5 m. The limits lie between
# the clusters that this gives: 1.05 to 1.5 (m), 19 to 27 (CMU), 41 to 59 (in), 105 to 150 (cm).
_UNIT_LIMITS = ((4.0, "m"), (28.0, "cmu"), (70.0, "in"), (400.0, "cm"), (math.inf, "mm"))
_MIN_RADIANS_RANGE = 0.5
"""Range of an angle from which a body moves, if the angle is in radians."""
_PLAUSIBLE_REACH_M = (0.8, 1.65)
"""Range of the longest chain of bones, in metres, outside of which the unit is in doubt."""

_MAX_SPEED = 15.0
"""Plausible maximum speed of the root, in m/s."""
_MAX_RISE = 10.0
"""Plausible maximum vertical range of the root, in metres."""


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
            raise OptionError(f"units is one of {', '.join(UNITS)} or metres per unit, got {units!r}")
        return UNITS[units]
    if isinstance(units, bool) or not hasattr(units, "__float__") or not 1e-6 <= units <= 1e6:
        raise OptionError(f"units must be 1e-6 to 1e6 metres per unit, got {units!r}")
    return float(units)


def size_warnings(reach: float) -> list[str]:
    """A warning if the longest chain of bones, ``reach`` metres, suggests another unit of length."""
    if _PLAUSIBLE_REACH_M[0] <= reach <= _PLAUSIBLE_REACH_M[1]:
        return []
    return [f"a body {reach:.3g} m from hips to fingertips: if that is wrong, give {UNITS_HINT}"]


def path_warnings(root: NDArray[np.floating], rate: float, advice: str) -> list[str]:
    """A warning, with ``advice``, if nobody moves like root positions (T, 3) in metres; y or z is up."""
    steps = np.linalg.norm(np.diff(root, axis=0), axis=1)
    # A percentile, as single jumps are capture faults, or follow a pose at the origin.
    fastest = rate * float(np.percentile(steps, 99.0, method="lower")) if len(steps) else 0.0
    rise = float(np.ptp(root[:, 1:], axis=0).min())
    if fastest <= _MAX_SPEED and rise <= _MAX_RISE:
        return []
    return [f"a root that moves by {fastest:.3g} m/s and rises by {rise:.3g} m: {advice}"]


def angle_warnings(rows: NDArray[np.float64], columns: Sequence[int], advice: str) -> list[str]:
    """A warning, with ``advice``, if the angles in these columns (degrees) look like radians.

    That is, if they move and are all small.
    """
    low, high = rows.min(axis=0)[columns], rows.max(axis=0)[columns]
    largest = max(high.max(initial=0.0), -low.min(initial=0.0))
    if largest > 2.0 * math.pi or (high - low).max(initial=0.0) < _MIN_RADIANS_RANGE:
        return []
    return [f"rotations of up to {largest:.3g} degrees: are its angles in radians? {advice}"]


def rate_from_frame_time(text: str) -> tuple[float, bool]:
    """The rate in Hz that a frame time, as written in a file, stands for, and whether it is certain.

    ``.0083333`` gives 120.0 and True. The last decimal sets the precision of the written number. The result
    is the first of: a whole rate whose inverse it is; 60 or 30 Hz, if decimals were cut off; the nearest
    standard rate within the precision, whole ones first; the nearest whole rate within it; the exact inverse.
    It is uncertain if the precision is coarser than 1% of the frame time; a whole rate only if it is no
    standard one and might be one that was cut off.

    Raises:
        FormatError: Not a number, not positive, or a rate outside 0.1..10000 Hz (without file and line, which
            the caller adds).
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise FormatError(f"frame time is a number of seconds, got {text[:40]!r}") from None
    seconds = float(number) if number.is_finite() else math.nan
    low, high = RATE_LIMITS
    if not 1.0 / high <= seconds <= 1.0 / low:
        raise FormatError(f"frame time must be {1 / high:g} to {1 / low:g} s, got {text[:40]!r}")
    raw = 1.0 / seconds
    exponent = number.as_tuple().exponent
    precision = 10.0**exponent if isinstance(exponent, int) else 0.0
    if abs(raw - round(raw)) < 1e-6 * raw:
        # .008 is 125 Hz, or 120 Hz rounded down or cut off.
        has_rival = any(0.0 < 1.0 / rate - seconds < precision for rate in _WHOLE_RATES)
        return float(round(raw)), round(raw) in _WHOLE_RATES or not has_rival
    is_certain = precision <= 0.01 * seconds
    for rate in _CUT_RATES:
        if 0.0 <= 1.0 / rate - seconds < precision:
            return rate, is_certain

    def distance(rate: float) -> float:
        return abs(1.0 / rate - seconds)

    whole = [float(max(1, math.floor(raw))), float(math.ceil(raw))]
    for candidates in (_WHOLE_RATES, _NTSC_RATES, whole):
        nearest = min(candidates, key=distance)
        # The 2% limit is for frame times of one or two decimals, which would match any rate.
        if distance(nearest) < precision and distance(nearest) < 0.02 * seconds:
            return nearest, is_certain
    return raw, is_certain


def check_rate(rate: float) -> float:
    """``rate`` as a float; raises an OptionError if it is not a number from 0.1 to 10000 Hz."""
    if isinstance(rate, bool) or not hasattr(rate, "__float__"):
        raise OptionError(f"rate is a number of frames a second, got {rate!r}")
    low, high = RATE_LIMITS
    if not low <= rate <= high:
        raise OptionError(f"rate must be {low:g} to {high:g} Hz, got {rate}")
    return float(rate)
