"""Is the suit there? One line for the person at the terminal, when that changes."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Attendance", "unheard"]

_UNHEARD_S = 3.0
_BAD = ("truncated", "malformed", "alien")


class Attendance:
    """Told once a second what the front end has counted, says what a performer should know.

    Nothing has come, or nothing that is a frame; frames come; they have stopped; they come again.
    """

    def __init__(self, kind: str, address: tuple[str, int], now: float) -> None:
        self._kind = kind
        self._address = address
        self._frames = 0
        self._heard = self._began = now
        self._told = "waiting"

    def look(self, now: float, counters: Mapping[str, int]) -> str | None:
        """A line about what has changed: ``now`` in seconds, ``counters`` of a ``LiveFront``."""
        frames = counters.get("frames", 0)
        if frames > self._frames:
            self._frames, self._heard = frames, now
            if self._told == "playing":
                return None
            again = " again" if self._told == "silent" else ""
            self._told = "playing"
            return f"frames of {self._kind} come{again}"
        if now - self._heard < _UNHEARD_S:
            return None
        if self._told == "waiting":
            self._told = "unheard"
            return unheard(self._kind, self._address, now - self._began, counters)
        if self._told == "unheard" and now - self._began >= 10 * _UNHEARD_S:
            self._began = now
            return unheard(self._kind, self._address, now - self._heard, counters)
        if self._told == "playing":
            self._told = "silent"
            return f"nothing from the suit for {now - self._heard:.0f} s; waiting for it"
        return None


def unheard(kind: str, address: tuple[str, int], seconds: float, counters: Mapping[str, int]) -> str:
    """Why there is no frame yet, as far as it can be told."""
    where = f"{address[0]}:{address[1]}"
    packets = counters.get("packets", 0)
    bad = sum(counters.get(name, 0) for name in _BAD)
    if packets and bad >= packets:
        return f"{packets} datagrams came to {where}, none of them {kind}: what does the sender speak?"
    if packets:
        return (
            f"{packets} datagrams of {kind} came to {where}, no frame: the suit has not sent its skeleton yet"
        )
    text = f"no frame of {kind} came to {where} in {seconds:.0f} s"
    if address[0].startswith("127.") or address[0] == "::1":
        text += f"; a suit on the network needs --source {kind}://0.0.0.0:{address[1]}"
    return text
