"""Every error a user's data, files or options can cause.

All derive from :class:`MotionError`; each message is one line that says what was expected, what was
given and where. The Rust core raises these same classes.
"""

import contextlib
import signal
from collections.abc import Iterable, Iterator
from difflib import get_close_matches


class MotionError(Exception):
    """Base of every error that a user's data can cause."""


class ShapeError(MotionError, ValueError):
    """An array of the wrong shape or type."""


class OptionError(MotionError, ValueError):
    """An option or value outside its range, or a combination that makes no sense."""


class FormatError(MotionError, ValueError):
    """A file that is not what its name says: message carries file, line and reason."""


class WireError(MotionError, ValueError):
    """A malformed datagram."""


class SkeletonError(MotionError, ValueError):
    """A skeleton that cannot be mapped onto the canonical body, or does not match the data."""


class CheckpointError(MotionError, ValueError):
    """A checkpoint that is corrupt, incomplete, or made for other features or another version."""


class RigError(MotionError, ValueError):
    """A rig file or setting that does not make sense; its ``problems`` are a line each, where known."""

    problems: tuple[str, ...] = ()


class DeviceError(MotionError, RuntimeError):
    """A port, host or audio device that cannot be used; says whether trying again can help."""


def reason(error: BaseException) -> str:
    """What went wrong, for the end of a line: without the number and the name that an OSError says again."""
    return (getattr(error, "strerror", None) or "").lower() or str(error) or type(error).__name__


def one_line(error: BaseException) -> str:
    """The beginning of a library's message, in one line; the error's name where it has none."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def suggestion(given: str, known: Iterable[str]) -> str:
    """``; did you mean ...?`` for the nearest of the known words, or nothing."""
    # Dashes of options and capitals make nothing alike or different.
    plain = {word.lower().lstrip("-"): word for word in known}
    near = get_close_matches(given.lower().lstrip("-"), plain, n=1, cutoff=0.65)
    return f"; did you mean {plain[near[0]]}?" if near else ""


def counted(count: int, one: str, many: str = "") -> str:
    """``1 clip``, ``2 clips``; ``many`` where an s does not make the plural."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def utf8(name: str) -> str:
    """A file's name as text: what in it is none becomes ``?``."""
    return name.encode(errors="replace").decode()


def printable(text: str) -> str:
    """A text of anybody's with nothing in it that a terminal obeys."""
    return "".join(c if c.isprintable() else "?" for c in text)


@contextlib.contextmanager
def foreign_errors(what: str, *, ours: bool = True) -> Iterator[None]:
    """Of what somebody else's code raises, ``what`` and the reason in one line.

    Args:
        what: who raised it.
        ours: pass on a MotionError as it is, for it says where.

    Raises:
        OptionError: anything else was raised.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code == 128 + signal.SIGTERM:
            raise  # we are to end, whoever's code runs
        if ours and isinstance(error, MotionError):
            raise
        # Not our module: whatever it raises is the reader's only clue.
        raise OptionError(f"{what} ({type(error).__name__}: {one_line(error)})") from None
