"""Every fault that there can be here, and when which happens: the same for a seed, each kind once before any
comes again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from realtime.soak.faults import children, control, disk, files, motion, surroundings
from realtime.soak.faults.base import Fault
from realtime.soak.servers import Pulse
from realtime.soak.theatre import Theatre

__all__ = ["Planned", "every", "plan"]

# A fault has so many seconds, if there is time; the first begins when it has been quiet for so long, the last
# leaves so much for the show to be seen whole again.
_EACH, _BEFORE, _AFTER = 12.0, 2.0, 3.0
# How long a fault lasts that lasts: at least, and at most of the time that it has.
_SHORTEST, _MOST = 0.4, 0.5


class Planned(NamedTuple):
    """A fault: what, how many seconds after the first frame, for how long, and the chance of the rest."""

    kind: str
    at: float
    lasts: float
    seed: int


def plan(kinds: Sequence[str], seconds: float, seed: int) -> list[Planned]:
    """The faults of a show of so many seconds: all kinds at least once, however short it is."""
    chance = random.Random(seed)
    room = max(seconds - _BEFORE - _AFTER, 0.0)
    rounds = max(round(room / (_EACH * len(kinds))), 1)
    order = [kind for _ in range(rounds) for kind in chance.sample(list(kinds), len(kinds))]
    each = room / len(order)
    return [
        Planned(
            kind,
            round(_BEFORE + (n + 0.3 * chance.random()) * each, 3),
            round(max(chance.uniform(0.1, _MOST) * each, _SHORTEST), 3),
            chance.getrandbits(32),
        )
        for n, kind in enumerate(order)
    ]


def every(show: Theatre, pulse: Pulse | None) -> dict[str, Fault]:
    """By name, those of this show: a process that it does not have cannot die."""
    there = {word for word, module in children.CHILDREN.items() if show.children(module)}
    deaths = {
        name: fault
        for name, fault in children.FAULTS.items()
        if not name.startswith("killed") or name.partition(": ")[2] in there
    }
    sound = surroundings.SOUND if pulse is not None else {}
    return control.FAULTS | deaths | disk.FAULTS | sound | files.FAULTS | motion.FAULTS | surroundings.FAULTS
