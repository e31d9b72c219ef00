"""Where the performer is in what was rehearsed, and the cues that are due there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pyanticip._core import Cues, Follower
from pyanticip.controls import Event
from pyanticip.errors import OptionError, suggestion
from pyanticip.memory.cues import Cue
from pyanticip.vocabulary import RATE

__all__ = ["Following", "Place"]

#: Take, seconds in it, tempo against the rehearsal, trust 0..1.
Place = tuple[int, float, float, float]

_AHEAD_MS = 200.0


class Following:
    """Follows takes (T, 22, 4), by name; ``place`` is that of the newest frame, None: in none of them."""

    def __init__(self, takes: Mapping[str, npt.NDArray[np.float32]], cues: Sequence[Cue] = ()) -> None:
        self.takes = dict(takes)
        self._names = list(takes)
        self.cues = tuple(cues)
        self.place: Place | None = None
        self._follower = Follower(list(takes.values()))
        self._due: list[Event] = []
        self._core = self._armed()

    def _armed(self) -> Cues:
        for cue in self.cues:
            if cue.take not in self.takes:
                hint = suggestion(cue.take, self.takes) or f"; there are {', '.join(self.takes)}"
                raise OptionError(f"cue {cue.name}: no take {cue.take!r} was rehearsed{hint}")
        return Cues([(self._names.index(c.take), c.at, c.ahead_ms / 1000.0) for c in self.cues])

    def hear(self, poses: npt.NDArray[np.float32], *, reset: bool) -> list[Place | None]:
        """Take the frames (n, 22, 4) that a datagram completed; where each of them is."""
        places: list[Place | None] = []
        if reset:
            self._follower.reset()
            self._core.reset()
        for n, pose in enumerate(poses, 1 - len(poses)):
            self.place = self._follower.push(pose)
            places.append(self.place)
            for index, seconds in self._core.push(self.place):
                trust = 0.0 if self.place is None else self.place[3]
                # Of a frame that fills a gap it is told with the newest.
                self._due.append((f"cue/{self.cues[index].name}", trust, max(seconds + n / RATE, 0.0)))
        return places

    def due(self) -> list[Event]:
        """The cues since the last call, as events: name, trust, seconds ahead."""
        due, self._due = self._due, []
        return due

    def here(self, name: str) -> Cue:
        """A cue of this name where the performer is now. Raises OptionError where that is not known."""
        if self.place is None:
            raise OptionError("cue/set: expected a performer within what was rehearsed")
        take, seconds, *_ = self.place
        known = next((cue for cue in self.cues if cue.name == name), None)
        ahead_ms = _AHEAD_MS if known is None else known.ahead_ms
        return Cue(name=name, take=self._names[take], at=round(seconds, 2), ahead_ms=ahead_ms)

    def set(self, cue: Cue) -> None:
        """Say this one as well, in place of another of its name; all are armed again."""
        before = self.cues
        self.cues = (*(each for each in before if each.name != cue.name), cue)
        try:
            self._core = self._armed()
        except OptionError:
            self.cues = before
            raise
