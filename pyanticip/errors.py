"""Every error a user's data, files or options can cause.

All derive from :class:`MotionError`; each message is one line that says what was expected, what was
given and where. The Rust core raises these same classes.
"""

import contextlib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final


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
    """A rig file or setting that does not make sense; ``problems`` has a line for each fault, where known."""

    problems: tuple[str, ...] = ()


class DeviceError(MotionError, RuntimeError):
    """A port, host or audio device that cannot be used; says whether trying again can help."""


def reason(error: BaseException) -> str:
    """What went wrong, for the end of a line: an OSError without its number and file name."""
    return (getattr(error, "strerror", None) or "").lower() or str(error) or type(error).__name__


def one_line(error: BaseException) -> str:
    """The first 200 characters of an error's message, as one line; its class name where it has no message."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def suggestion(word: str, known_words: Iterable[str]) -> str:
    """``; did you mean ...?`` with the most similar known word, or ``""``."""
    # Case and an option's leading dashes do not count.
    originals = {known.lower().lstrip("-"): known for known in known_words}
    matches = get_close_matches(word.lower().lstrip("-"), originals, n=1, cutoff=0.65)
    return f"; did you mean {originals[matches[0]]}?" if matches else ""


def counted(count: int, singular: str, plural: str = "") -> str:
    """``1 clip``, ``2 clips``; ``plural`` where it is not the singular and an s."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def utf8(name: str) -> str:
    """A file name as valid Unicode: bytes that could not be decoded become ``?``."""
    return name.encode(errors="replace").decode()


def printable(text: str) -> str:
    """Untrusted text, its control and other unprintable characters replaced by ``?``."""
    return "".join(c if c.isprintable() else "?" for c in text)


class Terminated(BaseException):
    """SIGTERM came: no handler of third-party errors may take it for one."""


FOREIGN: Final = (Exception, SystemExit)
"""What third-party code may raise without ending a show: a library may call ``sys.exit``."""


@contextlib.contextmanager
def foreign_errors(what: str, *, ours: bool = True) -> Iterator[None]:
    """Turn whatever third-party code raises into an OptionError of one line.

    Args:
        what: beginning of the message: what failed.
        ours: let a MotionError pass unchanged; its message is already clear.

    Raises:
        OptionError: the block raised anything else.
    """
    try:
        yield
    except FOREIGN as error:
        if ours and isinstance(error, MotionError):
            raise
        # The class and message are the only clue to a fault in code that is not ours.
        raise OptionError(f"{what} ({type(error).__name__}: {one_line(error)})") from None
