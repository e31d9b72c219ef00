"""The performer's range: maps what is much for this body to the full range of the sound.

The model's scale is fixed, but one performer dances slowly and another runs. Loudness and brightness are
stretched from the range that a performer uses to the range that is heard, by the same map for every lead. The
range comes from ``pyanticip calibrate``, or is learned while playing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyanticip import _core
from pyanticip.vocabulary import PARAMETERS

#: Indices of the stretched parameters among the eight: those that depend on how much a body moves, not where
#: it is.
PLACES = _core.STRETCHED
#: Names of the stretched parameters.
STRETCHED = tuple(PARAMETERS[place] for place in PLACES)
#: Upper limit of a parameter of somebody who stands still.
MAX_STILL = _core.MAX_STILL


@dataclass(frozen=True, slots=True)
class Reach:
    """A performer's range of one parameter on the model's scale 0..1: ``still`` while standing, ``low`` and
    ``high`` (5th and 95th percentile) while moving."""

    still: float
    low: float
    high: float

    def __post_init__(self) -> None:
        self(0.0)

    def __call__(self, value: float) -> float:
        """Stretch ``value``: 0 up to still, 0.1 at low, 0.75 at high, 1 at 1, and monotonic.

        The more octaves a range spans, the more its lower half is lifted, so that slow movement is audible.
        """
        return _core.stretched(value, (self.still, self.low, self.high))


class PerformerRange:
    """Stretches the model's output to the performer's range.

    ``calibrated`` holds ranges by name; the others of :data:`STRETCHED` are learned while playing, unless
    ``frozen``.
    """

    def __init__(self, calibrated: Mapping[str, Reach] | None = None, *, frozen: bool = False) -> None:
        self._calibrated, self._learned = dict(calibrated or {}), dict[str, Reach]()
        #: The core's range, used by the desk.
        self.core = _core.PerformerRange(_limits_of(self._calibrated), frozen=frozen)
        #: Called for every frame that is learned from: the model's output (8,), activity, seconds.
        self.listener: Callable[[Sequence[float], float, float], None] | None = None

    @property
    def frozen(self) -> bool:
        """Whether learning is switched off."""
        return self.core.frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self.core.frozen = frozen
        if not frozen:
            self.set_learned({})

    def calibrate(self, calibrated: Mapping[str, Reach]) -> None:
        """Use these ranges from now on; the others are learned while playing."""
        self._calibrated = dict(calibrated)
        self.set_learned(self._learned)

    def set_learned(self, learned: Mapping[str, Reach]) -> None:
        """Start from ranges that another show learned, where none is calibrated, until more is learned."""
        self._learned = dict(learned)
        self.core.calibrate(_limits_of({**learned, **self._calibrated}))

    def learned(self) -> dict[str, Reach]:
        """The ranges of :meth:`reaches` that are neither calibrated nor the default."""
        default = PerformerRange(self._calibrated).reaches()
        return {name: reach for name, reach in self.reaches().items() if reach != default[name]}

    def reaches(self) -> dict[str, Reach]:
        """The current range of every stretched parameter."""
        return {name: Reach(*limits) for name, limits in zip(STRETCHED, self.core.spans(), strict=True)}


def _limits_of(calibrated: Mapping[str, Reach]) -> list[tuple[float, float, float] | None]:
    ranges = (calibrated.get(name) for name in STRETCHED)
    return [None if reach is None else (reach.still, reach.low, reach.high) for reach in ranges]
