"""Records of a recording as bytes, to be damaged."""

from collections.abc import Callable

from pyanticip.motion.recording import Records


class _Packed(Records):
    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def _put(self, record: bytes) -> None:
        self.kept.append(record)


def packed(write: Callable[[Records], object]) -> list[bytes]:
    """The records that were written, one by one."""
    tape = _Packed()
    write(tape)
    return tape.kept
