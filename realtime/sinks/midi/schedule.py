"""Scheduled messages: the format of the pipe between the show and the port's process, and the queue there."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable
from typing import NamedTuple

#: In place of a message: end every note and clear the queue.
RELEASE = b"\x00"

#: The same, and also cut off releases and reverbs.
SILENCE = b"\x01"

#: In place of ``hold_ns``: the scheduled note is cancelled.
WITHDRAWN = -1

_CLOCK, _START, _STOP = b"\xf8", b"\xfa", b"\xfc"
_HEAD = struct.Struct("<qqqB")
_ALL_NOTES_OFF, _ALL_SOUND_OFF, _RESET = 123, 120, 121
# Values of a synth that was just switched on. Controllers are reset to them one by one, because controller
# 121 leaves them: volume, balance, pan, sound and reverb by specification (RP-015), expression and the pedal
# on some synths.
_RESET_VALUES = {7: 100, 8: 64, 10: 64, 11: 127, 64: 0, **dict.fromkeys(range(70, 80), 64), 91: 40}
# Registered parameters of a synth that was just switched on, in the order in which they are reset: no MPE
# zone (a new one changes bend ranges), the bend range in semitones.
MPE_MEMBERS, BEND_RANGE = 6, 0
_RESET_PARAMETERS = {MPE_MEMBERS: 0, BEND_RANGE: 2}
# A note later than this is not played.
_MAX_LATE_NS = 500_000_000


class Item(NamedTuple):
    """A message and when it is due (ns of the monotonic clock; 0: now). A note-on ends after ``hold_ns``; if
    that is :data:`WITHDRAWN`, the queued item with the same ``mark`` and message is removed instead."""

    due_ns: int
    hold_ns: int
    message: bytes
    mark: int = 0


def pack(items: Iterable[Item]) -> bytes:
    """Encode items for the pipe."""
    return b"".join(_HEAD.pack(due, hold, mark, len(message)) + message for due, hold, message, mark in items)


def unpack(data: bytes) -> tuple[list[Item], bytes]:
    """Decode the complete items at the start of ``data``; returns them and the remaining bytes."""
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
    """The queued messages and the sounding notes.

    Whatever is put in, every note-on that :meth:`take` returns is followed by its note-off, and a sounding
    note is ended before the same one starts again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, bytes, int]] = []
        self._order = 0
        # When each sounding note ends, by channel and number.
        self._ends: dict[tuple[int, int], int] = {}
        # Notes that ended since :meth:`confirm_delivery`.
        self._unconfirmed: set[tuple[int, int]] = set()
        self._used_channels: set[int] = set()
        # Channel and number of controllers of _RESET_VALUES that were sent.
        self._used_controllers: set[tuple[int, int]] = set()
        # Registered parameter (of _RESET_PARAMETERS) and channel of those that were sent.
        self._used_parameters: set[tuple[int, int]] = set()
        self._previous = b""
        self._is_clock_running = False

    @property
    def due_ns(self) -> int | None:
        """When the next message is due; None: none is queued."""
        return self._heap[0][0] if self._heap else None

    def put(self, item: Item) -> list[bytes]:
        """Queue an item, or execute it; returns messages to send at once."""
        if item.message in (RELEASE, SILENCE):
            return self.end_notes(sound_off=item.message == SILENCE)
        if item.hold_ns == WITHDRAWN:
            self._heap = [entry for entry in self._heap if entry[3:] != (item.message, item.mark)]
            heapq.heapify(self._heap)
        else:
            self._push(*item)
        return []

    def _push(self, due: int, hold: int, message: bytes, mark: int = 0) -> None:
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, hold, message, mark))

    def take(self, now_ns: int) -> list[bytes]:
        """Remove and return the messages that are due, in order."""
        out: list[bytes] = []
        while self._heap and self._heap[0][0] <= now_ns:
            due, order, hold, message, _ = heapq.heappop(self._heap)
            status = message[0]
            if message == _CLOCK and not self._is_clock_running:
                continue
            if message == _START:
                # Ticks that were queued before are of the clock that this one replaces.
                self._heap = [entry for entry in self._heap if entry[3] != _CLOCK or entry[1] > order]
                heapq.heapify(self._heap)
            if hold and status & 0xF0 == 0x90 and due and now_ns - due > _MAX_LATE_NS:
                continue
            if status < 0xF0:
                self._used_channels.add(status & 15)
                if status & 0xF0 == 0xB0 and message[1] in _RESET_VALUES:
                    self._used_controllers.add((status & 15, message[1]))
                selects = self._previous == _control(status & 15, 101) and message[:2] == bytes((status, 100))
                if selects and message[2] in _RESET_PARAMETERS:
                    self._used_parameters.add((message[2], status & 15))
            else:
                self._is_clock_running = message == _START or (self._is_clock_running and message != _STOP)
            self._previous = message
            if not hold:
                out.append(message)
                continue
            key = status & 15, message[1]
            if status & 0xF0 == 0x80:
                # If the note has started again since, a later note-off ends it.
                if self._ends.get(key) == due:
                    del self._ends[key]
                    self._unconfirmed.add(key)
                    out.append(message)
                continue
            if key in self._ends:
                out.append(_off(key))
            out.append(message)
            self._ends[key] = end = now_ns + hold
            self._push(end, hold, _off(key))
        return out

    def end_notes(self, *, sound_off: bool) -> list[bytes]:
        """End every note and clear the queue; ``sound_off`` also cuts off releases and reverbs."""
        self._heap.clear()
        self._unconfirmed |= self._ends.keys()
        out = [_off(key) for key in sorted(self._ends)]
        self._ends.clear()
        if self._is_clock_running:
            out.append(_STOP)
            self._is_clock_running = False
        for channel in sorted(self._used_channels):
            out.append(_control(channel, _ALL_NOTES_OFF))
            if sound_off:
                out.append(_control(channel, _ALL_SOUND_OFF))
        return out

    def confirm_delivery(self) -> None:
        """Everything returned so far has reached the receiver."""
        self._unconfirmed.clear()

    def missed_note_offs(self) -> list[bytes]:
        """Note-offs for a receiver that got nothing since :meth:`confirm_delivery`, so that no note hangs; it
        gets no ticks before the next start."""
        self._is_clock_running = False
        out = [_off(key) for key in sorted(self._unconfirmed)]
        self._unconfirmed.clear()
        return out + [_control(channel, _ALL_NOTES_OFF) for channel in sorted(self._used_channels)]

    def reset_controllers(self) -> list[bytes]:
        """Messages that reset the MPE zone, bend ranges, controllers and bends, to send after
        :meth:`end_notes` when the show ends."""
        out = []
        for parameter, value in _RESET_PARAMETERS.items():
            for used, channel in sorted(self._used_parameters):
                if used == parameter:
                    out += registered_parameter(channel, parameter, value)
        for channel in sorted(self._used_channels):
            out += [_control(channel, _RESET), bytes((0xE0 | channel, 0, 64))]
            out += [
                _control(channel, number, value)
                for number, value in _RESET_VALUES.items()
                if (channel, number) in self._used_controllers
            ]
        return out


def registered_parameter(channel: int, parameter: int, value: int) -> list[bytes]:
    """Set a registered parameter, then deselect it so that no later data entry changes it."""
    numbers = ((101, 0), (100, parameter), (6, value), (101, 127), (100, 127))
    return [_control(channel, *number) for number in numbers]


def _control(channel: int, number: int, value: int = 0) -> bytes:
    return bytes((0xB0 | channel, number, value))


def _off(key: tuple[int, int]) -> bytes:
    return bytes((0x80 | key[0], key[1], 64))
