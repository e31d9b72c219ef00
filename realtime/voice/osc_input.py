"""Decodes the OSC datagrams that the voice receives, at the addresses that every OSC target gets.

A pure function of untrusted bytes: malformed messages are counted and skipped.
"""

from __future__ import annotations

import math
import struct

from pyanticip._core import LIMBS
from pyanticip.controls import CANCEL
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.osc import split
from realtime.protocols import BEAT_TRUST

#: ("set", index, value, 0), ("event", index, strength, seconds ahead), ("cancel", index, 0, seconds ahead),
#: ("tempo", 0, bpm, phase), ("preset", name), ("status", state), ("limbs", speed, height, stroke of each).
Command = tuple[str, int, float, float] | tuple[str, str] | tuple[str, tuple[float, ...]]

# Messages whose first argument is a string.
_STRING_MESSAGES = {b"/anticip/control/preset": "preset", b"/anticip/status": "status"}
# Further messages in a datagram are ignored.
_MAX_MESSAGES = 4096
_MAX_AHEAD_S = 10.0


class VoiceInput:
    """Decodes datagrams; ``counts`` has datagrams, messages, events, other (not for the voice), malformed."""

    def __init__(self) -> None:
        self.counts = {"datagrams": 0, "messages": 0, "events": 0, "other": 0, "malformed": 0}
        self._parameters = {f"/anticip/param/{name}".encode(): i for i, name in enumerate(PARAMETERS)}
        self._events = {f"/anticip/event/{name}".encode(): i for i, name in enumerate(EVENTS)}
        self._cancels = {f"/anticip/event/{name}{CANCEL}".encode(): i for i, name in enumerate(EVENTS)}

    def decode(self, datagram: bytes) -> list[Command]:
        """The commands of one datagram, in order; values are clamped to 0..1, seconds to 0..10."""
        self.counts["datagrams"] += 1
        out: list[Command] = []
        try:
            for element in split(datagram, _MAX_MESSAGES):
                try:
                    self._decode_message(element, out)
                except (struct.error, ValueError, IndexError):
                    self.counts["malformed"] += 1
        except ValueError:
            # A malformed bundle.
            self.counts["malformed"] += 1
        return out

    def _decode_message(self, data: bytes, out: list[Command]) -> None:
        """Append the commands of one message; raises ValueError, IndexError or struct.error if malformed."""
        address, offset = _read_string(data, 0)
        index = self._parameters.get(address)
        if index is not None:
            (value,) = _read_numbers(data, offset, 1)
            out.append(("set", index, _clamp_unit(value), 0.0))
        elif address == b"/anticip/params":
            values = _read_numbers(data, offset, len(PARAMETERS))
            out.extend(("set", i, _clamp_unit(value), 0.0) for i, value in enumerate(values))
        elif address == b"/anticip/tempo":
            bpm, phase, trust = (_check_finite(value) for value in _read_numbers(data, offset, 3))
            if trust >= BEAT_TRUST:
                out.append(("tempo", 0, bpm, _clamp_unit(phase)))
        elif address == b"/anticip/limbs":
            out.append(("limbs", tuple(map(_clamp_unit, _read_numbers(data, offset, 3 * len(LIMBS))))))
        elif (index := self._events.get(address)) is not None:
            strength, ahead = _read_numbers(data, offset, 2)
            out.append(("event", index, _clamp_unit(strength), _clamp_ahead(ahead)))
            self.counts["events"] += 1
        elif (index := self._cancels.get(address)) is not None:
            (ahead,) = _read_numbers(data, offset, 1)
            out.append(("cancel", index, 0.0, _clamp_ahead(ahead)))
        elif address in _STRING_MESSAGES:
            tags, offset = _read_string(data, offset)
            if tags[:2] != b",s":
                raise ValueError("not a word")
            out.append((_STRING_MESSAGES[address], _read_string(data, offset)[0].decode("utf-8")))
        elif address.startswith(b"/"):
            self.counts["other"] += 1
            return
        else:
            raise ValueError("not an address")
        self.counts["messages"] += 1


def _check_finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _clamp_ahead(value: float) -> float:
    return min(max(_check_finite(value), 0.0), _MAX_AHEAD_S)


def _clamp_unit(value: float) -> float:
    return min(max(_check_finite(value), 0.0), 1.0)


def _read_string(data: bytes, offset: int) -> tuple[bytes, int]:
    """A padded OSC string, and the offset after it."""
    end = data.index(b"\0", offset)
    return data[offset:end], (end // 4 + 1) * 4


def _read_numbers(data: bytes, offset: int, count: int) -> tuple[float, ...]:
    """The first ``count`` arguments as numbers; more may follow."""
    tags, offset = _read_string(data, offset)
    if len(tags) < count + 1 or tags[:1] != b",":
        raise ValueError("too few arguments")
    values = []
    for tag in tags[1 : count + 1].decode("ascii"):
        code, size = {"f": (">f", 4), "i": (">i", 4), "d": (">d", 8), "h": (">q", 8)}.get(tag, ("", 0))
        if not code:
            raise ValueError(f"argument type {tag!r}")
        values.append(float(struct.unpack_from(code, data, offset)[0]))
        offset += size
    return tuple(values)
