"""Datagrams from a motion file or a recording, at their own pace: the source of ``replay``.

A replay delivers datagrams as a suit sends them, so that everything after the source is the live path, and
between them the recorded commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyanticip.errors import FormatError, counted
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_take
from pyanticip.motion.recording import Control, Raw, is_recording, read_recording
from pyanticip.motion.recording_walk import LONGEST_PAUSE_NS
from pyanticip.untrusted import open_file
from realtime.clock import OfflineClock, ScaledClock
from realtime.sources.base import NATIVE, Receive
from realtime.sources.named_files import resolve_arguments

_BURST = 64


class NoDatagramsError(FormatError):
    """A recording is intact but has no datagrams."""


class Datagram(NamedTuple):
    """A datagram from ``sender`` that arrived at ``t_ns`` (monotonic clock of the recording)."""

    t_ns: int
    data: bytes
    sender: str = ""


class Command(NamedTuple):
    """A command that was executed at ``t_ns``; the name ``end`` marks the end of the show."""

    t_ns: int
    name: str
    arguments: tuple[object, ...] = ()


Item = Datagram | Command
Obey = Callable[[Command], object]


class ReplaySource:
    """Delivers items when they are due on ``clock``, which it starts at the first item's time.

    It reports the recorded arrival times, not the moments of delivery, so that every replay gives the same
    frames. :attr:`ended` is called after the last item, or ``seconds`` (wall clock) after the first frame of
    motion.
    """

    def __init__(
        self,
        items: Iterable[Item],
        clock: ScaledClock,
        seconds: float | None = None,
    ) -> None:
        self._items: Iterator[Item] = iter(items)
        self._clock = clock
        self.ended: Callable[[], object] = lambda: None
        #: Executes the commands.
        self.obey: Obey = lambda command: None
        self._next: Item | None = None
        self._advance()
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Receive | None = None
        self.dropped = 0

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Start with the first item now."""
        self._loop, self._receive = loop, receive
        if self._next is not None:
            self._clock.begin(self._next.t_ns)
        self._timer = loop.call_later(0, self._play)

    def _play(self) -> None:
        assert self._loop is not None
        self.poll()
        if self._next is None:
            self.ended()
            return
        wait = max(self._next.t_ns - self._clock.now_ns(), 0) / 1e9 / self._clock.speed
        self._timer = self._loop.call_later(wait, self._play)

    def poll(self) -> None:
        """Deliver the items that are due, at most one burst."""
        for _ in range(_BURST):
            item = self._next
            if item is None or self._receive is None or item.t_ns > self._clock.now_ns():
                return
            self._advance()
            if isinstance(item, Datagram):
                frame = self._receive(item.data, item.t_ns, item.sender)
                if frame and self._seconds is not None and self._end_timer is None and self._loop is not None:
                    self._end_timer = self._loop.call_later(self._seconds, self.ended)
            else:
                self.obey(item)

    def _advance(self) -> None:
        """Fetch the next item, and keep the clock from passing its time before it is delivered."""
        self._next = next(self._items, None)
        self._clock.wait_for(None if self._next is None else self._next.t_ns)

    def wait(self, seconds: float) -> bool:
        """Return False at once: items come from the loop's timers only."""
        return False

    def close(self) -> None:
        """Stop the replay."""
        self._receive = None
        self._clock.wait_for(None)
        for timer in (self._timer, self._end_timer):
            if timer is not None:
                timer.cancel()


def play_offline(
    items: Iterable[Item],
    clock: OfflineClock,
    receive: Receive,
    obey: Obey = lambda command: None,
    seconds: float | None = None,
) -> None:
    """Play a whole show as fast as possible, each item at its time on ``clock``, which must be the pipeline's
    and start at the first item.

    Ends at the command ``end``, or ``seconds`` of show time after the first frame of motion, that is after
    ``receive`` first returns a true value.
    """
    end_ns: int | None = None
    items = iter(items)
    for item in items:
        if end_ns is not None and item.t_ns > end_ns:
            clock.advance_to(end_ns)
            return
        clock.advance_to(item.t_ns)
        if isinstance(item, Datagram):
            frame = receive(item.data, item.t_ns, item.sender)
            if frame and seconds is not None and end_ns is None:
                end_ns = item.t_ns + round(seconds * 1e9)
        elif item.name == "end":
            # Resume the generator, which may have a warning about records after the end.
            next(items, None)
            return
        else:
            obey(item)


Say = Callable[[str], None]


def open_show(
    path: Path, *, say: Say | None = None, joined: bool = False, **reading: Any
) -> tuple[str, Iterable[Item]]:
    """Open a motion file or a recording; returns the wire format, and the datagrams and commands.

    A recording yields the datagrams of its first source as they arrived, and the commands between them, with
    the current paths of the files that they name, up to the first ``end`` or a pause of more than a day; with
    ``joined``, those of all recordings in the file. Any other file is read with the options ``reading`` of
    :func:`pyanticip.load_motion` and sent with its own skeleton at its own rate. ``say`` gets the clip's
    warnings, and after the last item of a recording what could not be read or is not played.

    Raises:
        FormatError: The file cannot be read, or its source is unknown; NoDatagramsError: it has no datagrams.
        SkeletonError: The skeleton of a motion file cannot be used.
        OSError: The file cannot be opened.
    """
    with open_file(path) as file:
        head = file.read(16)
    if not is_recording(head):
        clip = load_take(path, **reading)
        # Raises now for a skeleton that cannot be used; the live path would only count it.
        clip.retargeter()
        if say is not None:
            for line in clip.warnings:
                say(f"{path}: {line}")
        return "msgpack", (Datagram(*pair) for pair in datagrams(clip, "msgpack"))
    recording = read_recording(path)
    kind = next((source.partition("@")[0] for _, source, _ in recording.datagrams()), None)
    if kind is None:
        # A damaged recording may have had some.
        raise (FormatError if recording.warnings else NoDatagramsError)(
            f"{path}: holds no datagrams to replay"
        )
    if kind not in NATIVE:
        raise FormatError(f"{path}: was recorded from {kind!r}, expected one of {', '.join(NATIVE)}")

    def items() -> Iterator[Item]:
        end_reason, unplayed = "", 0
        newest_ns: int | None = None
        for record in recording:
            previous_ns, newest_ns = newest_ns, max(newest_ns or 0, record.t_ns)
            # A replay does not wait for days of silence.
            if previous_ns is not None and record.t_ns - previous_ns > LONGEST_PAUSE_NS and not joined:
                end_reason = end_reason or "a pause of more than a day"
            if isinstance(record, Raw):
                source, _, sender = record.source.partition("@")
                if source == kind and end_reason:
                    unplayed += 1
                elif source == kind:
                    yield Datagram(record.t_ns, record.data, sender)
            elif isinstance(record, Control) and not end_reason:
                folder = recording.header.get("folder")
                yield Command(
                    record.t_ns, record.name, resolve_arguments(record.name, record.arguments, path, folder)
                )
                end_reason = "the end" if record.name == "end" and not joined else ""
        if say is None:
            return
        if unplayed:
            say(f"{path}: what follows {end_reason} ({counted(unplayed, 'datagram')}) is not played")
        if recording.warnings:
            first, *more = recording.warnings
            say(first + (f"; and {len(more)} more such places (`pyanticip info` lists them)" if more else ""))

    return kind, items()


def recorded_sender(path: Path) -> str | None:
    """The sender that the rig of a recording was limited to; None: any sender, or the file is no recording.

    Raises FormatError, OSError.
    """
    with open_file(path) as file:
        if not is_recording(file.read(16)):
            return None
    return sender_of(read_recording(path).header)


def sender_of(header: Mapping[str, Any]) -> str | None:
    """The sender that the rig in a recording's header was limited to; None: any."""
    rig = header.get("rig")
    source = rig.get("source") if isinstance(rig, dict) else None
    sender = source.get("from") if isinstance(source, dict) else None
    return sender if isinstance(sender, str) and sender else None
