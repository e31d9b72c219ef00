"""The body as its sender tells it, of the datagrams themselves: in the monitor's own process."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pyanticip import _core
from pyanticip.errors import MotionError
from pyanticip.motion.rotations import below

__all__ = ["Suit"]

_MOST = 8


class Suit:
    """Everybody who sends in wire format ``kind``; one that nobody decodes has no body of its own."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._senders: dict[str, _Sender] = {}
        #: The one that was heard last.
        self.newest = ""

    def hear(self, datagrams: Iterable[tuple[str, bytes]]) -> None:
        """Take datagrams in, each with its sender."""
        for sender, datagram in datagrams:
            if self._kind not in _core.PROTOCOLS:
                continue
            # In the order in which they were heard: an app that is toggled comes from a new port each time.
            known = self._senders.pop(sender, None) or _Sender(self._kind)
            if len(self._senders) >= _MOST:
                del self._senders[next(iter(self._senders))]
            self._senders[sender] = known
            self.newest = sender
            known.hear(datagram)

    @property
    def body(self) -> dict[str, Any] | None:
        """Parents (-1: none) and places (m, y up) of the newest sender's joints; None where it tells no
        skeleton, or no frame yet."""
        found = self._senders.get(self.newest)
        return None if found is None else found.body()


class _Sender:
    def __init__(self, kind: str) -> None:
        self._decoder = _core.Decoder(kind)
        # Of VMC the bones are those of Unity's humanoid, and every frame says where they are.
        self._parents: Sequence[int] | None = _core.VMC_PARENTS if kind == "vmc" else None
        self._offsets: Any = None
        self._frame: dict[str, Any] | None = None
        # Whose joints the order is of.
        self._ids: list[int] | None = None
        self._order: list[tuple[int, int, int]] = []
        #: Where trackers are, which no skeleton joins.
        self._dots: list[list[float]] = []

    def hear(self, datagram: bytes) -> None:
        with contextlib.suppress(MotionError):
            for told in self._decoder.feed(datagram):
                if told["kind"] == "skeleton":
                    self._parents, self._offsets, self._ids = told["parents"], told["offsets"], None
                elif told["kind"] == "trackers":
                    places = told["positions"][np.isfinite(told["positions"]).all(axis=1)]
                    self._dots = np.round(places.astype(float), 3).tolist()
                else:
                    self._frame, self._dots = told, []

    def body(self) -> dict[str, Any] | None:
        if self._dots:
            return {"parents": [-1] * len(self._dots), "places": self._dots}
        frame, parents = self._frame, self._parents
        if frame is None or parents is None:
            return None
        ids = frame["ids"].tolist()
        if ids != self._ids:
            self._ids, self._order = ids, _order(ids, parents)
        offsets = (frame["positions"] if self._offsets is None else self._offsets).tolist()
        quats, root = frame["quats"].tolist(), None if frame["root"] is None else frame["root"].tolist()
        world: list[tuple[Sequence[float], Sequence[float]]] = []
        for joint, at, above in self._order:
            turn, place = quats[at], offsets[at if self._offsets is None else joint]
            if above < 0:
                world.append((turn, place if root is None else root))
            else:
                world.append(below(*world[above], turn, place))
        if not world or not all(math.isfinite(x) for _, place in world for x in place):
            return None
        return {
            "parents": [above for _, _, above in self._order],
            "places": [[round(x, 3) for x in place] for _, place in world],
        }


def _order(ids: Sequence[int], parents: Sequence[int]) -> list[tuple[int, int, int]]:
    """The joints that are told, the upper ones first: each with its row among them, and which of this list is
    above it (-1: none). Empty where they go round in circles."""
    at = {joint: row for row, joint in enumerate(ids) if joint < len(parents)}
    above = {joint: _above(joint, parents, at) for joint in at}
    known, left = dict[int, int](), list(at)
    while left:
        ready = [joint for joint in left if above[joint] < 0 or above[joint] in known]
        if not ready:
            return []
        known |= {joint: len(known) + n for n, joint in enumerate(ready)}
        left = [joint for joint in left if joint not in known]
    return [(joint, at[joint], known.get(above[joint], -1)) for joint in known]


def _above(joint: int, parents: Sequence[int], there: dict[int, int]) -> int:
    """The nearest joint above that is told; -1: none."""
    for _ in parents:
        joint = parents[joint]
        if joint < 0 or joint in there:
            return joint
    return -1
