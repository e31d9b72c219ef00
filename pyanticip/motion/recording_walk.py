"""Iteration over the records of a recording's file, skipping damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import msgpack

from pyanticip import _core
from pyanticip.motion.recording_file import HEADER

#: Maximum time between records. A replay waits between records, so a wrong time could make it last for years.
LONGEST_PAUSE_NS = 86_400 * 10**9

_CHUNK = 1 << 20
_LONE_RECORD = "a single record more than a day after the others is left out"


class Payload(NamedTuple):
    """A record's decoded array, and its offset in the file."""

    offset: int
    type: int
    t_ns: int
    rest: list[Any]


def payloads(file: IO[bytes], base: int, warn: Callable[[int, str], None]) -> Iterator[Payload]:
    """Yield all readable records; ``file`` is at offset ``base``.

    ``warn`` is called with the offset of each unreadable part, and the reason.
    """
    latest_ns: int | None = None
    late: Payload | None = None  # a record much later than that, until another one confirms its time
    for offset, data in _walk(file, base, warn):
        payload = _payload(offset, data)
        if payload is None:
            warn(offset, "a record that is not a msgpack array [type, t_ns (0 to 2^62), ...] is left out")
            continue
        # A header in the middle of a file starts another show, with another clock.
        if payload.type == HEADER or latest_ns is None:
            latest_ns = payload.t_ns
        if payload.t_ns - latest_ns > LONGEST_PAUSE_NS:
            if late is None or abs(payload.t_ns - late.t_ns) > LONGEST_PAUSE_NS:
                if late is not None:
                    warn(late.offset, _LONE_RECORD)
                late = payload
                continue
            # Two records agree: there really was a pause of days.
            yield late
        elif late is not None:
            warn(late.offset, _LONE_RECORD)
        latest_ns, late = max(latest_ns, payload.t_ns), None
        yield payload
    if late is not None:
        warn(late.offset, _LONE_RECORD)


def _payload(offset: int, data: bytes) -> Payload | None:
    try:
        fields = msgpack.unpackb(data, raw=False, strict_map_key=False)
        kind, t_ns, *rest = fields
        if isinstance(fields, list) and _is_int(kind) and _is_int(t_ns) and 0 <= t_ns < 1 << 62:
            return Payload(offset, kind, t_ns, rest)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException):
        pass
    return None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _walk(file: IO[bytes], base: int, warn: Callable[[int, str], None]) -> Iterator[tuple[int, bytes]]:
    """Yield the offsets and payloads of all complete records; ``file`` is at offset ``base``.

    ``warn`` is called with the offset of each unreadable part, and the reason.
    """
    at, buffer = 0, b""
    while True:
        status, start, end = _core.recording_next(buffer, at)
        if status == "more":
            # The length may be wrong; the core limits it to the longest record.
            chunk = file.read(max(_CHUNK, end - len(buffer)))
            if chunk:
                buffer, base, at = buffer[at:] + chunk, base + at, 0
                continue
            if at == len(buffer):
                return
        if status == "record":
            yield base + at, buffer[start:end]
            at = end
            continue
        damage = base + at
        base, at, buffer, is_found = _find(file, base, at + 1, buffer)
        cut = base + at - damage
        if not is_found:
            warn(damage, f"{_reason(status, end)}; its last {cut} bytes are cut")
            return
        # If a length exceeded the file, it was wrong, as more records follow.
        warn(
            damage,
            f"{_reason(status, end) if status != 'more' else 'a length is wrong'}; {cut} bytes are left out",
        )


def _reason(status: str, length: int) -> str:
    return {
        "more": "the file ends inside a record",
        "lost": f"no record has a length of {length}",
        "corrupt": "the checksum does not hold",
    }[status]


def _find(file: IO[bytes], base: int, at: int, buffer: bytes) -> tuple[int, int, bytes, bool]:
    """``base``, ``at`` and ``buffer`` moved to the next complete record, and whether there is one."""
    ended = False
    while True:
        at, is_found = _core.recording_find(buffer, at, ended)
        if is_found or ended:
            return base, at, buffer, is_found
        chunk = file.read(_CHUNK)
        ended = not chunk
        buffer, base, at = buffer[at:] + chunk, base + at, 0
