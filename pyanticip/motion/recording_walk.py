"""From record to record through a recording's file, and past what is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import msgpack

from pyanticip import _core
from pyanticip.motion.recording_file import HEADER

__all__ = ["LONGEST_PAUSE_NS", "Payload", "payloads"]

#: What is played lets all time between two records pass: nobody's file may make that a year.
LONGEST_PAUSE_NS = 86_400 * 10**9

# msgpack has no types.
_unpackb: Callable[..., Any] = msgpack.unpackb  # type: ignore[attr-defined]
_CHUNK = 1 << 20
_ALONE = "a record alone more than a day after those before is left out"


class Payload(NamedTuple):
    """What stands in a record, and the record's offset."""

    offset: int
    type: int
    t_ns: int
    rest: list[Any]


def payloads(file: IO[bytes], base: int, warn: Callable[[int, str], None]) -> Iterator[Payload]:
    """All records that can be read; ``file`` stands at offset ``base``.

    ``warn`` is told the offset of what cannot, and why.
    """
    before: int | None = None  # the latest so far
    late: Payload | None = None  # one much later than that, until another agrees
    for offset, data in _walk(file, base, warn):
        found = _payload(offset, data)
        if found is None:
            warn(offset, "a record that is no msgpack array [type, t_ns (0 to 2^62), ...] is left out")
            continue
        # A header in the midst of a file is another show's.
        if found.type == HEADER or before is None:
            before = found.t_ns
        if found.t_ns - before > LONGEST_PAUSE_NS:
            if late is None or abs(found.t_ns - late.t_ns) > LONGEST_PAUSE_NS:
                if late is not None:
                    warn(late.offset, _ALONE)
                late = found
                continue
            # Nobody had sent anything for days: of wrong times there is but one.
            yield late
        elif late is not None:
            warn(late.offset, _ALONE)
        before, late = max(before, found.t_ns), None
        yield found
    if late is not None:
        warn(late.offset, _ALONE)


def _payload(offset: int, data: bytes) -> Payload | None:
    try:
        fields = _unpackb(data, raw=False, strict_map_key=False)
        kind, t_ns, *rest = fields
        if isinstance(fields, list) and _is_int(kind) and _is_int(t_ns) and 0 <= t_ns < 1 << 62:
            return Payload(offset, kind, t_ns, rest)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException):
        pass
    return None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _walk(file: IO[bytes], base: int, warn: Callable[[int, str], None]) -> Iterator[tuple[int, bytes]]:
    """The payloads of all whole records and their offsets; ``file`` stands at offset ``base``.

    ``warn`` is told the offset of what cannot be read, and why.
    """
    at, buffer = 0, b""
    while True:
        found, start, end = _core.recording_next(buffer, at)
        if found == "more":
            # The length may be a lie: what is read is bounded by the longest record.
            chunk = file.read(max(_CHUNK, end - len(buffer)))
            if chunk:
                buffer, base, at = buffer[at:] + chunk, base + at, 0
                continue
            if at == len(buffer):
                return
        if found == "record":
            yield base + at, buffer[start:end]
            at = end
            continue
        damage = base + at
        base, at, buffer, is_found = _find(file, base, at + 1, buffer)
        cut = base + at - damage
        if not is_found:
            warn(damage, f"{_reason(found, end)}; its last {cut} bytes are cut")
            return
        # A length that leads beyond the end was wrong, for more records come.
        warn(
            damage,
            f"{_reason(found, end) if found != 'more' else 'a length is wrong'}; {cut} bytes are left out",
        )


def _reason(found: str, length: int) -> str:
    return {
        "more": "the file ends inside a record",
        "lost": f"no record has a length of {length}",
        "corrupt": "the checksum does not hold",
    }[found]


def _find(file: IO[bytes], base: int, at: int, buffer: bytes) -> tuple[int, int, bytes, bool]:
    """Behind damage: the window moved to where the next whole record begins, and whether there is one."""
    ended = False
    while True:
        at, is_found = _core.recording_find(buffer, at, ended)
        if is_found or ended:
            return base, at, buffer, is_found
        chunk = file.read(_CHUNK)
        ended = not chunk
        buffer, base, at = buffer[at:] + chunk, base + at, 0
