"""The performer's range: what is loud for this body becomes loud for the ear.

The model's scale is fixed; people are not. One dances slowly, another runs. Loudness and brightness are
stretched from the range that a performer uses to the range that is heard, by the same map for every lead. The
range comes from ``pyanticip calibrate``, or it is learned while playing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyanticip._core import stretched
from pyanticip.errors import OptionError
from pyanticip.vocabulary import PARAMETERS

__all__ = ["PLACES", "RESTLESS", "STRETCHED", "PerformerRange", "Reach", "Running"]

#: The parameters that are stretched: those that say how much a body moves, not where it is.
STRETCHED = ("loudness", "brightness")
#: Where they stand among the eight.
PLACES = tuple(PARAMETERS.index(name) for name in STRETCHED)

# Where the performer's low and high (5th and 95th percentile) are put.
_LOW, _HIGH = 0.1, 0.75
# No range is narrower than this; values below the floor are none.
_NARROWEST = 0.1
_FLOOR = 0.02
# Nobody's high is so near the end that the rest of the way would be a jump, and nobody stands above this.
_FULL, RESTLESS = 0.98, 0.3


@dataclass(frozen=True, slots=True)
class Reach:
    """What a performer does with one parameter, in the model's 0..1: ``still`` while standing, ``low`` and
    ``high`` (5th and 95th percentile) while moving."""

    still: float
    low: float
    high: float
    #: Where the map rises from 0, where it reaches 0.75, and the exponent between: used in every frame.
    curve: tuple[float, float, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (0.0 <= self.still <= self.low <= self.high <= 1.0 and self.still <= RESTLESS):
            ends = f"{self.still:g}, {self.low:g}, {self.high:g}"
            raise OptionError(
                f"range: expected 0 <= still <= low <= high <= 1, still at most {RESTLESS:g}, got {ends}"
            )
        high = min(max(self.high, self.still + _NARROWEST), _FULL)
        low = min(self.low, high - _NARROWEST)
        curve = 1.0 / (1.0 + 0.5 * math.log2(high / max(low, _FLOOR)))
        foot = max(low - (high - low) / ((_HIGH / _LOW) ** (1.0 / curve) - 1.0), self.still)
        object.__setattr__(self, "curve", (foot, high, curve))

    def __call__(self, value: float) -> float:
        """``value`` stretched: 0 up to still, 0.1 at low, 0.75 at high, 1 at 1, and never falling.

        The more octaves a range has, the more its lower half is lifted: what is slow is heard before it is
        loud.
        """
        return stretched(value, *self.curve)


# What is assumed of somebody unknown, and the least that anybody's range is taken for: who moves less is not
# made as loud as who dances.
_ANYBODY = Reach(0.02, 0.06, 0.5)
# The running estimate: older seconds of movement fade with this time constant.
_FADE = 60.0
# Low and high: percentile, how many seconds of movement weigh as much as what is assumed, what is assumed.
_ENDS = (0.05, 8.0, _ANYBODY.low), (0.95, 0.3, _ANYBODY.high)
_BINS_AN_OCTAVE = 8
# Frames between two looks at the percentiles.
_LOOK = 10
# After a gap a frame stands for no more than so many seconds.
_LONGEST = 0.1
_BINS = math.ceil(-math.log2(_FLOOR) * _BINS_AN_OCTAVE)


class Running:
    """A running estimate of the reach of one parameter: percentiles of what was moved, older seconds fading.

    What it says depends on the values and times it was told alone.
    """

    def __init__(self) -> None:
        self._bins = [0.0] * _BINS
        self._frames, self._age = 0, 0.0
        self.reach = _ANYBODY

    def learn(self, value: float, dt: float) -> None:
        """A value while the performer moved, ``dt`` seconds after the last frame."""
        if not value >= _FLOOR:
            return
        place = min(int(math.log2(value / _FLOOR) * _BINS_AN_OCTAVE), _BINS - 1)
        self._bins[place] += min(dt, _LONGEST)
        self._age += dt
        self._frames += 1
        if self._frames % _LOOK == 0:
            self._look()

    def _look(self) -> None:
        keep = math.exp(-self._age / _FADE)
        self._age = 0.0
        self._bins = [seconds * keep for seconds in self._bins]
        known = sum(self._bins)
        if known <= 0.0:
            return
        ends = []
        for share, belief, assumed in _ENDS:
            found, doubt = self._percentile(share * known), belief / (belief + known)
            ends.append(max(math.exp(doubt * math.log(assumed) + (1.0 - doubt) * math.log(found)), assumed))
        low, high = ends
        self.reach = Reach(_ANYBODY.still, min(low, high), high)

    def _percentile(self, seconds: float) -> float:
        bins = 0.0
        for inside in self._bins:
            if seconds < inside:
                bins += seconds / inside
                break
            seconds -= inside
            bins += 1.0
        return min(_FLOOR * math.pow(2.0, bins / _BINS_AN_OCTAVE), 1.0)


class PerformerRange:
    """Stretches what the model says to the performer's range.

    ``known`` are the reaches that were calibrated, by name; the others of :data:`STRETCHED` are learned while
    playing, unless ``frozen``.
    """

    def __init__(self, known: Mapping[str, Reach] | None = None, *, frozen: bool = False) -> None:
        self.frozen = frozen
        self._running = [Running() for _ in STRETCHED]
        #: Told what :meth:`learn` is told.
        self.listener: Callable[[Sequence[float], float, float], None] | None = None
        self.calibrate(known or {})

    def calibrate(self, known: Mapping[str, Reach]) -> None:
        """Play in these ranges from now on; what is not among them is learned while playing."""
        self._known = [known.get(name) for name in STRETCHED]

    def reaches(self) -> dict[str, Reach]:
        """The reach of every stretched parameter as it plays now."""
        pairs = zip(STRETCHED, self._known, self._running, strict=True)
        return {name: known or running.reach for name, known, running in pairs}

    def learn(self, now: Sequence[float], activity: float, dt: float) -> None:
        """What the model says of this moment (8,); learned from while the body moves (``activity`` 1)."""
        if self.listener is not None:
            self.listener(now, activity, dt)
        if self.frozen or activity < 1.0:
            return
        for place, known, running in zip(PLACES, self._known, self._running, strict=True):
            if known is None:
                running.learn(now[place], dt)

    def places(self) -> list[tuple[int, float, float, float]]:
        """Which parameters are stretched, and how: the place, and the curve of its reach."""
        pairs = zip(PLACES, self._known, self._running, strict=True)
        return [(place, *(known or running.reach).curve) for place, known, running in pairs]
