"""The suit's own skeleton and pose, decoded from its datagrams in the monitor's process."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pyanticip import _core
from pyanticip.errors import MotionError
from pyanticip.motion.rotations import child_transform

_MAX_SENDERS = 8


class Suit:
    """The bodies of all senders in wire format ``kind``; formats without a decoder have no body."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._senders: dict[str, _Sender] = {}
        #: The sender of the last datagram.
        self.newest = ""

    def decode(self, datagrams: Iterable[tuple[str, bytes]]) -> None:
        """Decode datagrams, each with its sender."""
        for name, datagram in datagrams:
            if self._kind not in _core.PROTOCOLS:
                continue
            # Ordered by the last datagram: an app that is restarted sends from a new port each time.
            sender = self._senders.pop(name, None) or _Sender(self._kind)
            if len(self._senders) >= _MAX_SENDERS:
                del self._senders[next(iter(self._senders))]
            self._senders[name] = sender
            self.newest = name
            sender.decode(datagram)

    @property
    def body(self) -> dict[str, Any] | None:
        """``parents`` (-1: none) and ``places`` (metres, y up) of the newest sender's joints; None without a
        skeleton or a frame."""
        sender = self._senders.get(self.newest)
        return None if sender is None else sender.body()


class _Sender:
    def __init__(self, kind: str) -> None:
        self._decoder = _core.Decoder(kind)
        # VMC has the bones of Unity's humanoid, and the offsets in every frame.
        self._parents: Sequence[int] | None = _core.VMC_PARENTS if kind == "vmc" else None
        self._offsets: Any = None
        self._frame: dict[str, Any] | None = None
        # The joints that `_order` is for.
        self._ids: list[int] | None = None
        self._order: list[tuple[int, int, int]] = []
        # Positions of trackers, which have no skeleton.
        self._trackers: list[list[float]] = []

    def decode(self, datagram: bytes) -> None:
        with contextlib.suppress(MotionError):
            for message in self._decoder.feed(datagram):
                if message["kind"] == "skeleton":
                    self._parents, self._offsets, self._ids = message["parents"], message["offsets"], None
                elif message["kind"] == "trackers":
                    positions = message["positions"][np.isfinite(message["positions"]).all(axis=1)]
                    self._trackers = np.round(positions.astype(float), 3).tolist()
                else:
                    self._frame, self._trackers = message, []

    def body(self) -> dict[str, Any] | None:
        if self._trackers:
            return {"parents": [-1] * len(self._trackers), "places": self._trackers}
        frame, parents = self._frame, self._parents
        if frame is None or parents is None:
            return None
        ids = frame["ids"].tolist()
        if ids != self._ids:
            self._ids, self._order = ids, _parents_first(ids, parents)
        offsets = (frame["positions"] if self._offsets is None else self._offsets).tolist()
        quats, root = frame["quats"].tolist(), None if frame["root"] is None else frame["root"].tolist()
        world: list[tuple[Sequence[float], Sequence[float]]] = []
        for joint, row, parent in self._order:
            turn, offset = quats[row], offsets[row if self._offsets is None else joint]
            if parent < 0:
                world.append((turn, offset if root is None else root))
            else:
                world.append(child_transform(*world[parent], turn, offset))
        if not world or not all(math.isfinite(x) for _, position in world for x in position):
            return None
        return {
            "parents": [parent for _, _, parent in self._order],
            "places": [[round(x, 3) for x in position] for _, position in world],
        }


def _parents_first(ids: Sequence[int], parents: Sequence[int]) -> list[tuple[int, int, int]]:
    """The joints ``ids`` of a frame, parents first, as (joint, row in the frame, index of the parent in this
    list or -1). Empty if the parents form a cycle."""
    rows = {joint: row for row, joint in enumerate(ids) if joint < len(parents)}
    ancestors = {joint: _nearest_ancestor(joint, parents, rows) for joint in rows}
    indices, remaining = dict[int, int](), list(rows)
    while remaining:
        ready = [joint for joint in remaining if ancestors[joint] < 0 or ancestors[joint] in indices]
        if not ready:
            return []
        indices |= {joint: len(indices) + n for n, joint in enumerate(ready)}
        remaining = [joint for joint in remaining if joint not in indices]
    return [(joint, rows[joint], indices.get(ancestors[joint], -1)) for joint in indices]


def _nearest_ancestor(joint: int, parents: Sequence[int], rows: dict[int, int]) -> int:
    """The nearest ancestor that is in the frame; -1: none."""
    for _ in parents:
        joint = parents[joint]
        if joint < 0 or joint in rows:
            return joint
    return -1
