"""Simulated shortages for the process that runs the tests: a full disk, no more files to open."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def _limited(kind: int, room: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (room, before[1]))
        yield
    finally:
        resource.setrlimit(kind, before)


def full_disk(room: int = 0) -> contextlib.AbstractContextManager[None]:
    """Within, every write beyond the first ``room`` bytes of a file fails."""
    return _limited(resource.RLIMIT_FSIZE, room)


def no_more_files() -> contextlib.AbstractContextManager[None]:
    """Within, no file or pipe can be opened."""
    return _limited(resource.RLIMIT_NOFILE, 0)
