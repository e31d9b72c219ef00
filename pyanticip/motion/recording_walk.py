"""From record to record through a recording's file, and past what is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

from pyanticip import _core

__all__ = ["walk"]

_CHUNK = 1 << 20


def walk(file: IO[bytes], base: int, warn: Callable[[int, str], None]) -> Iterator[tuple[int, bytes]]:
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
