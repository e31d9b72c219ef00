"""A motion file or a recording as the datagrams of a performance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyanticip.errors import FormatError
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from pyanticip.motion.recording import Control, Raw, is_recording, read_recording
from pyanticip.untrusted import open_file
from realtime.sources.base import NATIVE
from realtime.sources.replay import Command, Datagram, Item

__all__ = ["open_show"]

Say = Callable[[str], None]


def open_show(path: Path, *, say: Say | None = None, **reading: Any) -> tuple[str, Iterable[Item]]:
    """The wire format, and the datagrams and commands, of a motion file or a recording.

    A recording gives the datagrams of its first source as they came, and what was commanded between them;
    any other file is read with the options ``reading`` of :func:`pyanticip.load_motion` and sent on its own
    skeleton at its own rate. ``say`` is told what had to be decided. Raises FormatError, SkeletonError,
    OSError.
    """
    with open_file(path) as file:
        begins = file.read(16)
    if not is_recording(begins):
        clip = load_motion(path, **reading)
        # The live path counts a skeleton it cannot use; a file's is told at once.
        clip.retargeter()
        if say is not None:
            for line in clip.warnings:
                say(f"{path}: {line}")
        return "msgpack", (Datagram(*pair) for pair in datagrams(clip, "msgpack"))
    taken = read_recording(path)
    kind = next((source.partition("@")[0] for _, source, _ in taken.datagrams()), None)
    if kind is None:
        raise FormatError(f"{path}: holds no datagrams to replay")
    if kind not in NATIVE:
        raise FormatError(f"{path}: was recorded from {kind!r}, expected one of {', '.join(NATIVE)}")

    def items() -> Iterator[Item]:
        for record in taken:
            if isinstance(record, Raw):
                source, _, sender = record.source.partition("@")
                if source == kind:
                    yield Datagram(record.t_ns, record.data, sender)
            elif isinstance(record, Control):
                yield Command(record.t_ns, record.name, record.arguments)

    return kind, items()
