"""The performer's range: what is loud for this body becomes loud for the ear.

The model's scale is fixed; people are not. One dances slowly, another runs. Loudness and brightness are
stretched from the range that a performer uses to the range that is heard, by the same map for every lead. The
range comes from ``pyanticip calibrate``, or it is learned while playing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyanticip import _core
from pyanticip.vocabulary import PARAMETERS

__all__ = ["PLACES", "RESTLESS", "STRETCHED", "PerformerRange", "Reach"]

#: Where the parameters that are stretched stand among the eight: those that say how much a body moves, not
#: where it is.
PLACES = _core.STRETCHED
#: Their names.
STRETCHED = tuple(PARAMETERS[place] for place in PLACES)
#: Nobody stands above this.
RESTLESS = _core.RESTLESS


@dataclass(frozen=True, slots=True)
class Reach:
    """What a performer does with one parameter, in the model's 0..1: ``still`` while standing, ``low`` and
    ``high`` (5th and 95th percentile) while moving."""

    still: float
    low: float
    high: float

    def __post_init__(self) -> None:
        self(0.0)

    def __call__(self, value: float) -> float:
        """``value`` stretched: 0 up to still, 0.1 at low, 0.75 at high, 1 at 1, and never falling.

        The more octaves a range has, the more its lower half is lifted: what is slow is heard before it is
        loud.
        """
        return _core.stretched(value, (self.still, self.low, self.high))


class PerformerRange:
    """Stretches what the model says to the performer's range.

    ``known`` are the reaches that were calibrated, by name; the others of :data:`STRETCHED` are learned while
    playing, unless ``frozen``.
    """

    def __init__(self, known: Mapping[str, Reach] | None = None, *, frozen: bool = False) -> None:
        self._known, self._stays = dict(known or {}), dict[str, Reach]()
        #: What the desk stretches by.
        self.core = _core.PerformerRange(_ends(self._known), frozen=frozen)
        #: Told of every moment that is learned from: what the model says (8,), activity, seconds.
        self.listener: Callable[[Sequence[float], float, float], None] | None = None

    @property
    def frozen(self) -> bool:
        """Whether nothing is learned."""
        return self.core.frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self.core.frozen = frozen
        if not frozen:
            self.stay({})

    def calibrate(self, known: Mapping[str, Reach]) -> None:
        """Play in these ranges from now on; what is not among them is learned while playing."""
        self._known = dict(known)
        self.stay(self._stays)

    def stay(self, learned: Mapping[str, Reach]) -> None:
        """Play in what another show has learned, where it is not calibrated, until more is learned."""
        self._stays = dict(learned)
        self.core.calibrate(_ends({**learned, **self._known}))

    def learned(self) -> dict[str, Reach]:
        """Of :meth:`reaches` those that are neither calibrated nor anybody's."""
        anybody = PerformerRange(self._known).reaches()
        return {name: reach for name, reach in self.reaches().items() if reach != anybody[name]}

    def reaches(self) -> dict[str, Reach]:
        """The reach of every stretched parameter as it plays now."""
        return {name: Reach(*ends) for name, ends in zip(STRETCHED, self.core.spans(), strict=True)}


def _ends(known: Mapping[str, Reach]) -> list[tuple[float, float, float] | None]:
    found = (known.get(name) for name in STRETCHED)
    return [None if reach is None else (reach.still, reach.low, reach.high) for reach in found]
