"""What is to be sent and when: the wire between the show and the port's process, and what waits there."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["RELEASE", "SILENCE", "WITHDRAWN", "Item", "Schedule", "pack", "unpack"]

#: In place of a message: end every note, and what was to come; the second cuts reverbs off as well.
RELEASE, SILENCE = b"\x00", b"\x01"

#: In place of how long a note is held: it was to come at that time, and will not.
WITHDRAWN = -1

_START, _STOP = b"\xfa", b"\xfc"
_HEAD = struct.Struct("<qqqB")
_ALL_NOTES_OFF, _ALL_SOUND_OFF, _RESET = 123, 120, 121
# What is left of a show in a synth, and where it was before: the pedal up, expression full. Not every synth
# lets 121 do that.
_STAYS = {64: 0, 11: 127}
# A note this late is not played any more.
_LATE_NS = 500_000_000


class Item(NamedTuple):
    """A message and when it is due (ns of the monotonic clock; 0: now); a note-on ends after ``hold_ns``;
    :data:`WITHDRAWN`: what had the same ``mark`` and message does not come."""

    due_ns: int
    hold_ns: int
    message: bytes
    mark: int = 0


def pack(items: Iterable[Item]) -> bytes:
    """As they go through the pipe."""
    return b"".join(_HEAD.pack(due, hold, mark, len(message)) + message for due, hold, message, mark in items)


def unpack(data: bytes) -> tuple[list[Item], bytes]:
    """The whole items at the beginning of ``data``, and what is left."""
    items, at = [], 0
    while at + _HEAD.size <= len(data):
        due, hold, mark, length = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + length
        if end > len(data):
            break
        items.append(Item(due, hold, data[at + _HEAD.size : end], mark))
        at = end
    return items, data[at:]


class Schedule:
    """Messages that wait for their time, and the notes that sound.

    Whatever is put in, every note-on that :meth:`take` gives is followed by its note-off, and a note that
    sounds is ended before the same one begins again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, bytes, int]] = []
        self._order = 0
        # When each note that sounds ends, by channel and number.
        self._ends: dict[tuple[int, int], int] = {}
        # What ended since :meth:`arrived`.
        self._ended: set[tuple[int, int]] = set()
        self._channels: set[int] = set()
        self._stays: set[tuple[int, int]] = set()
        self._runs = False

    @property
    def due_ns(self) -> int | None:
        """When :meth:`take` has something to give."""
        return self._heap[0][0] if self._heap else None

    def put(self, item: Item) -> list[bytes]:
        """Take one more; what is to be sent at once."""
        if item.message in (RELEASE, SILENCE):
            return self.quiet(sound_off=item.message == SILENCE)
        if item.hold_ns == WITHDRAWN:
            self._heap = [each for each in self._heap if each[3:] != (item.message, item.mark)]
            heapq.heapify(self._heap)
        else:
            self._push(*item)
        return []

    def _push(self, due: int, hold: int, message: bytes, mark: int = 0) -> None:
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, hold, message, mark))

    def take(self, now_ns: int) -> list[bytes]:
        """What is due, in order."""
        out: list[bytes] = []
        while self._heap and self._heap[0][0] <= now_ns:
            due, _, hold, message, _ = heapq.heappop(self._heap)
            status = message[0]
            if hold and status & 0xF0 == 0x90 and due and now_ns - due > _LATE_NS:
                continue
            if status < 0xF0:
                self._channels.add(status & 15)
                if status & 0xF0 == 0xB0 and message[1] in _STAYS:
                    self._stays.add((status & 15, message[1]))
            else:
                self._runs = message == _START or (self._runs and message != _STOP)
            if not hold:
                out.append(message)
                continue
            key = status & 15, message[1]
            if status & 0xF0 == 0x80:
                # Of a note that has begun again since, another one tells the end.
                if self._ends.get(key) == due:
                    del self._ends[key]
                    self._ended.add(key)
                    out.append(message)
                continue
            if key in self._ends:
                out.append(_off(key))
            out.append(message)
            self._ends[key] = end = now_ns + hold
            self._push(end, hold, _off(key))
        return out

    def quiet(self, *, sound_off: bool) -> list[bytes]:
        """End every note and forget what was to come; with ``sound_off`` reverbs and releases as well."""
        self._heap.clear()
        self._ended |= self._ends.keys()
        out = [_off(key) for key in sorted(self._ends)]
        self._ends.clear()
        if self._runs:
            out.append(_STOP)
            self._runs = False
        for channel in sorted(self._channels):
            out.append(_control(channel, _ALL_NOTES_OFF))
            if sound_off:
                out.append(_control(channel, _ALL_SOUND_OFF))
        return out

    def arrived(self) -> None:
        """What was given until now has arrived."""
        self._ended.clear()

    def missed(self) -> list[bytes]:
        """What a receiver needs that heard nothing since :meth:`arrived`, so that no note goes on there."""
        out = [_off(key) for key in sorted(self._ended)]
        self._ended.clear()
        return out + [_control(channel, _ALL_NOTES_OFF) for channel in sorted(self._channels)]

    def leave(self) -> list[bytes]:
        """After :meth:`quiet`, at the end: the controllers and bends of a synth that others will play."""
        out = []
        for channel in sorted(self._channels):
            out += [_control(channel, _RESET), bytes((0xE0 | channel, 0, 64))]
            out += [
                _control(channel, number, value)
                for number, value in _STAYS.items()
                if (channel, number) in self._stays
            ]
        return out


def _control(channel: int, number: int, value: int = 0) -> bytes:
    return bytes((0xB0 | channel, number, value))


def _off(key: tuple[int, int]) -> bytes:
    return bytes((0x80 | key[0], key[1], 64))
