"""Datagrams from a file or a recording, at their own pace: the source of ``replay``.

What is handed on are datagrams as a suit sends them, so that everything behind is the live path; between
them, the commands that were obeyed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyanticip.errors import FormatError
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_take
from pyanticip.motion.recording import LONGEST_PAUSE_NS, Control, Raw, is_recording, read_recording
from pyanticip.untrusted import open_file
from realtime.clock import OfflineClock, ScaledClock
from realtime.sources.base import NATIVE, Receive
from realtime.sources.named_files import files_of

__all__ = [
    "Command",
    "Datagram",
    "Item",
    "NobodyCameError",
    "Obey",
    "ReplaySource",
    "open_show",
    "play_offline",
    "recorded_sender",
]

_BURST = 64


class NobodyCameError(FormatError):
    """A recording is whole, and has no datagrams."""


class Datagram(NamedTuple):
    """A datagram of ``sender`` that arrived at ``t_ns``."""

    t_ns: int
    data: bytes
    sender: str = ""


class Command(NamedTuple):
    """A command that was obeyed at ``t_ns``; ``end`` is the end of the show."""

    t_ns: int
    name: str
    arguments: tuple[object, ...] = ()


Item = Datagram | Command
Obey = Callable[[Command], object]


class ReplaySource:
    """Hands items on when their time comes on a show clock, which it sets to the first one's.

    The arrival that is reported is the recorded one, not the moment the loop got round to it: a replay gives
    the same frames every time. ``seconds`` of the wall clock after the first frame of motion it ends.
    """

    def __init__(
        self,
        items: Iterable[Item],
        clock: ScaledClock,
        ended: Callable[[], None] = lambda: None,
        obey: Obey = lambda command: None,
        seconds: float | None = None,
    ) -> None:
        self._items: Iterator[Item] = iter(items)
        self._clock = clock
        self.ended = ended
        self.obey = obey
        self._next: Item | None = None
        self._go_on()
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Receive | None = None
        self.dropped = 0

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Begin with the first item now."""
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
        """Hand on what is due, a burst at most."""
        for _ in range(_BURST):
            item = self._next
            if item is None or self._receive is None or item.t_ns > self._clock.now_ns():
                return
            self._go_on()
            if isinstance(item, Datagram):
                frame = self._receive(item.data, item.t_ns, item.sender)
                if frame and self._seconds is not None and self._end is None and self._loop is not None:
                    self._end = self._loop.call_later(self._seconds, self.ended)
            else:
                self.obey(item)

    def _go_on(self) -> None:
        """To the next item; before it has been handed on nothing is due that comes after it."""
        self._next = next(self._items, None)
        self._clock.wait_for(None if self._next is None else self._next.t_ns)

    def wait(self, seconds: float) -> bool:
        """Nothing comes but by the loop's own timers: no waiting."""
        return False

    def close(self) -> None:
        """Stop."""
        self._receive = None
        self._clock.wait_for(None)
        for timer in (self._timer, self._end):
            if timer is not None:
                timer.cancel()


def play_offline(
    items: Iterable[Item],
    clock: OfflineClock,
    receive: Receive,
    obey: Obey = lambda command: None,
    seconds: float | None = None,
) -> None:
    """A whole show as fast as it goes, each item at its time; ``clock`` must be the pipeline's and begin
    with the first.

    Ends ``seconds`` of show time after the first frame of motion, which is when ``receive`` says that there
    is one, or with the item ``end``.
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
            # A file may have something to say of what lies behind it.
            next(items, None)
            return
        else:
            obey(item)


Say = Callable[[str], None]


def open_show(
    path: Path, *, say: Say | None = None, joined: bool = False, **reading: Any
) -> tuple[str, Iterable[Item]]:
    """The wire format, and the datagrams and commands, of a motion file or a recording.

    A recording gives the datagrams of its first source as they came, and what was commanded between them, of
    files where they lie now, up to the first ``end`` or a day without anything, or with ``joined`` of all
    recordings in the file; any other file is read with the options ``reading`` of
    :func:`pyanticip.load_motion` and sent on its own skeleton at its own rate. ``say`` is told what had to be
    decided, and behind the last item of a recording what of it could not be read or is left out. Raises
    FormatError (NobodyCameError of an empty recording), SkeletonError, OSError.
    """
    with open_file(path) as file:
        begins = file.read(16)
    if not is_recording(begins):
        clip = load_take(path, **reading)
        # The live path counts a skeleton it cannot use; a file's is told at once.
        clip.retargeter()
        if say is not None:
            for line in clip.warnings:
                say(f"{path}: {line}")
        return "msgpack", (Datagram(*pair) for pair in datagrams(clip, "msgpack"))
    taken = read_recording(path)
    kind = next((source.partition("@")[0] for _, source, _ in taken.datagrams()), None)
    if kind is None:
        # Of a damaged one it is not known.
        raise (FormatError if taken.warnings else NobodyCameError)(f"{path}: holds no datagrams to replay")
    if kind not in NATIVE:
        raise FormatError(f"{path}: was recorded from {kind!r}, expected one of {', '.join(NATIVE)}")

    def items() -> Iterator[Item]:
        ended, behind = "", 0
        newest_ns: int | None = None
        for record in taken:
            before_ns, newest_ns = newest_ns, max(newest_ns or 0, record.t_ns)
            # Days of silence are not waited for.
            if before_ns is not None and record.t_ns - before_ns > LONGEST_PAUSE_NS and not joined:
                ended = ended or "a pause of more than a day"
            if isinstance(record, Raw):
                source, _, sender = record.source.partition("@")
                if source == kind and ended:
                    behind += 1
                elif source == kind:
                    yield Datagram(record.t_ns, record.data, sender)
            elif isinstance(record, Control) and not ended:
                told = files_of(record.name, record.arguments, path, taken.header.get("folder"))
                yield Command(record.t_ns, record.name, told)
                ended = "the end" if record.name == "end" and not joined else ""
        if say is None:
            return
        if behind:
            say(f"{path}: what follows {ended} ({behind} datagrams) is not played")
        if taken.warnings:
            first, *more = taken.warnings
            say(first + (f"; and {len(more)} more such places (`pyanticip info` lists them)" if more else ""))

    return kind, items()


def recorded_sender(path: Path) -> str | None:
    """The one sender that the rig of a recording heard; None: whoever came, or it is no recording.

    Raises FormatError, OSError.
    """
    with open_file(path) as file:
        if not is_recording(file.read(16)):
            return None
    rig = read_recording(path).header.get("rig")
    source = rig.get("source") if isinstance(rig, dict) else None
    sender = source.get("from") if isinstance(source, dict) else None
    return sender if isinstance(sender, str) and sender else None
