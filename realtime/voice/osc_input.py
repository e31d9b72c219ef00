"""What the voice hears: OSC datagrams with the addresses we send, into settings and strokes.

A pure function of bytes: a datagram is untrusted, so what is malformed is counted and left out.
"""

from __future__ import annotations

import math
import struct

from pyanticip._core import LIMBS
from pyanticip.controls import CANCEL
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.osc import split
from realtime.protocols import BEAT_TRUST

__all__ = ["VoiceInput"]

#: ("set", index, value, 0), ("event", index, strength, seconds ahead), ("cancel", index, 0, seconds ahead),
#: ("tempo", 0, bpm, phase), ("preset", name), ("status", state), ("limbs", speed, height, stroke of each).
Command = tuple[str, int, float, float] | tuple[str, str] | tuple[str, tuple[float, ...]]

_WORDS = {b"/anticip/control/preset": "preset", b"/anticip/status": "status"}
# What stands behind so many messages in a datagram is not heard.
_MOST = 4096
_LONGEST_AHEAD = 10.0


class VoiceInput:
    """Decodes datagrams and counts: datagrams, messages, other (not for the voice), malformed."""

    def __init__(self) -> None:
        self.counts = {"datagrams": 0, "messages": 0, "events": 0, "other": 0, "malformed": 0}
        self._parameters = {f"/anticip/param/{name}".encode(): i for i, name in enumerate(PARAMETERS)}
        self._events = {f"/anticip/event/{name}".encode(): i for i, name in enumerate(EVENTS)}
        self._cancels = {f"/anticip/event/{name}{CANCEL}".encode(): i for i, name in enumerate(EVENTS)}

    def decode(self, datagram: bytes) -> list[Command]:
        """The commands of one datagram, in order; values are finite, in 0..1, seconds in 0..10."""
        self.counts["datagrams"] += 1
        out: list[Command] = []
        try:
            for element in split(datagram, _MOST):
                try:
                    self._message(element, out)
                except (struct.error, ValueError, IndexError):
                    self.counts["malformed"] += 1
        except ValueError:
            # A bundle that is none.
            self.counts["malformed"] += 1
        return out

    def _message(self, data: bytes, out: list[Command]) -> None:
        address, at = _string(data, 0)
        index = self._parameters.get(address)
        if index is not None:
            (value,) = _floats(data, at, 1)
            out.append(("set", index, _unit(value), 0.0))
        elif address == b"/anticip/params":
            values = _floats(data, at, len(PARAMETERS))
            out.extend(("set", i, _unit(value), 0.0) for i, value in enumerate(values))
        elif address == b"/anticip/tempo":
            bpm, phase, trust = (_finite(value) for value in _floats(data, at, 3))
            if trust >= BEAT_TRUST:
                out.append(("tempo", 0, bpm, _unit(phase)))
        elif address == b"/anticip/limbs":
            out.append(("limbs", tuple(map(_unit, _floats(data, at, 3 * len(LIMBS))))))
        elif (index := self._events.get(address)) is not None:
            strength, ahead = _floats(data, at, 2)
            out.append(("event", index, _unit(strength), _ahead(ahead)))
            self.counts["events"] += 1
        elif (index := self._cancels.get(address)) is not None:
            (ahead,) = _floats(data, at, 1)
            out.append(("cancel", index, 0.0, _ahead(ahead)))
        elif address in _WORDS:
            tags, at = _string(data, at)
            if tags[:2] != b",s":
                raise ValueError("not a word")
            out.append((_WORDS[address], _string(data, at)[0].decode("utf-8")))
        elif address.startswith(b"/"):
            self.counts["other"] += 1
            return
        else:
            raise ValueError("not an address")
        self.counts["messages"] += 1


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _ahead(value: float) -> float:
    return min(max(_finite(value), 0.0), _LONGEST_AHEAD)


def _unit(value: float) -> float:
    return min(max(_finite(value), 0.0), 1.0)


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    """A padded OSC string and the position behind it."""
    end = data.index(b"\0", at)
    return data[at:end], (end // 4 + 1) * 4


def _floats(data: bytes, at: int, count: int) -> tuple[float, ...]:
    """Exactly the first ``count`` arguments as numbers; more may follow."""
    tags, at = _string(data, at)
    if len(tags) < count + 1 or tags[:1] != b",":
        raise ValueError("too few arguments")
    values = []
    for tag in tags[1 : count + 1].decode("ascii"):
        code, size = {"f": (">f", 4), "i": (">i", 4), "d": (">d", 8), "h": (">q", 8)}.get(tag, ("", 0))
        if not code:
            raise ValueError(f"argument type {tag!r}")
        values.append(float(struct.unpack_from(code, data, at)[0]))
        at += size
    return tuple(values)
