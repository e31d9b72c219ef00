"""Reading of motion files: size limits, errors, text lines, and fast parsing of blocks of numbers."""

import contextlib
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.untrusted import open_file, read_file

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Maximum file size: about 50 minutes of a CMU performer at 120 Hz."""

MAX_VALUES = 32_000_000
"""Maximum count of numbers in a file (256 MB as float64)."""

MAX_FRAMES = 1_000_000
"""Maximum count of frames: over two hours at 120 Hz."""

MAX_POSES = 12_000_000
"""Maximum of frames times joints (192 MB of quaternions); reached only by files without numbers for each."""

MAX_LINE_BYTES = 1024 * 1024
"""Maximum length of a line; 1024 joints of six channels need less."""

MAX_NUMBER = 1e9
"""Maximum magnitude of a number; larger ones are taken for damage."""

_DECIMAL_COMMA = re.compile(r"\d,\d")
_SHIFT_JIS = re.compile(rb"[\x81-\x9f]")
_TRAILING_BYTES = b" \t\r\n\x1a"
"""Bytes to strip from the end of a text, including the 0x1A with which DOS ends it."""

BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes that are parsed at once."""


def fail(path: Path, line: int | None, reason: str) -> FormatError:
    """The one-line error of all readers: file, line (if known) and reason."""
    where = f"{path}:{line}" if line is not None else f"{path}"
    return FormatError(f"{where}: {reason}")


def quote(text: str | bytes, limit: int = 40) -> str:
    """A piece of a file, quoted and shortened for an error message."""
    if isinstance(text, bytes):
        text = text[: limit * 4].decode("utf-8", "replace")
    return repr(text if len(text) <= limit else text[:limit] + "...")


def decoded(content: bytes) -> str:
    """Text in UTF-8, in Shift-JIS, in which Japanese programs write names, or in Latin-1."""
    with contextlib.suppress(UnicodeDecodeError):
        return content.decode("utf-8")
    # Kana and most kanji of Shift-JIS begin with a byte that is no letter in Latin-1.
    if _SHIFT_JIS.search(content):
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode("cp932")
    return content.decode("latin-1")


def list_names(names: list[str]) -> str:
    """Quoted names for a one-line warning, at most three."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(quote, names[:3])) + more


def comma_hint(text: str) -> str:
    """A hint for errors about numbers, if ``text`` has a decimal comma; else empty."""
    return " (decimals need a point, not a comma)" if _DECIMAL_COMMA.search(text) else ""


def read_start(path: Path, size: int) -> bytes:
    """The first ``size`` bytes of a file; raises a FormatError if it is missing or unreadable."""
    with open_file(path) as file:
        return file.read(size)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; raises a FormatError if it is missing, empty, unreadable or too large."""
    data = read_file(path, MAX_FILE_BYTES, what="a motion file")
    if not data.strip():
        raise fail(path, None, "is empty")
    return data


def text_lines(path: Path, data: bytes) -> bytes:
    """``data`` with ``\\n`` line ends, without a byte-order mark or DOS end mark; refuses binary files."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    zero = data.find(b"\0")
    if zero >= 0:
        raise fail(path, data.count(b"\n", 0, zero) + 1, "is not text: it has a zero byte")
    if b"\x1a" in data[-128:]:
        data = data.rstrip(_TRAILING_BYTES)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def parse_numbers(block: bytes) -> NDArray[np.float64]:
    """All numbers of ``block``, separated by whitespace; raises a ValueError for anything else."""
    return np.array(block.decode("utf-8", "replace").split(), np.float64)


def check_size(path: Path, line: int | None, frames: int, columns: int, joints: int = 0) -> None:
    """Raise a FormatError if a file has too many frames, poses or numbers for one performance."""
    if frames * joints > MAX_POSES:
        raise fail(path, line, f"has {frames} frames of {joints} joints, more than {MAX_POSES} in all")
    if frames > MAX_FRAMES:
        raise fail(path, line, f"has more than {MAX_FRAMES} frames")
    if frames * columns > MAX_VALUES:
        raise fail(path, line, f"has more than {MAX_VALUES} numbers")


def parse_number(path: Path, line: int, word: bytes) -> float:
    """Parse one number, finite and at most ``MAX_NUMBER``; raises a FormatError."""
    try:
        value = float(word)
    except ValueError:
        reason = f"expected a number, got {quote(word)}{comma_hint(word.decode('utf-8', 'replace'))}"
        raise fail(path, line, reason) from None
    if not abs(value) <= MAX_NUMBER:
        raise fail(path, line, f"expected a finite number of at most {MAX_NUMBER:g}, got {quote(word)}")
    return value


def number_rows(path: Path, data: bytes, start: int, line: int, columns: int) -> NDArray[np.float64]:
    """Parse ``data[start:]`` as lines of ``columns`` numbers; blank lines are skipped.

    ``line`` is the line number of ``start``. Parses in blocks, so that working memory does not grow with the
    file. Every line is checked; errors name the line.

    Returns:
        Array (rows, columns), all finite; rows may be 0.
    """
    # Room for the most rows possible, at two bytes a number; pages that are never written take no memory.
    max_rows = min((len(data) - start + 1) // 2, MAX_VALUES) // columns
    values = np.empty((max_rows, columns))
    total = 0
    while start < len(data):
        end = len(data)
        if end - start > BLOCK_BYTES:
            cut = data.find(b"\n", start + BLOCK_BYTES, start + BLOCK_BYTES + MAX_LINE_BYTES)
            if cut < 0 and end - start > BLOCK_BYTES + MAX_LINE_BYTES:
                line += data.count(b"\n", start, start + BLOCK_BYTES)
                raise fail(path, line, f"a line of more than {MAX_LINE_BYTES >> 20} MB")
            end = cut + 1 if cut >= 0 else end
        block = data[start:end]
        rows = _rows(path, block, line, columns)
        check_size(path, line, total + len(rows), columns)
        values[total : total + len(rows)] = rows
        total += len(rows)
        line += block.count(b"\n")
        start = end
    return values[:total]


def _rows(path: Path, block: bytes, line: int, columns: int) -> NDArray[np.float64]:
    """Parse a block of whole lines."""
    counts = words_per_line(block)
    bad_lines = np.flatnonzero((counts != columns) & (counts != 0))
    if bad_lines.size == 0:
        try:
            values = parse_numbers(block)
        except ValueError:
            values = np.empty(0)
        if values.size == counts.sum() and (np.abs(values) <= MAX_NUMBER).all():
            return values.reshape(-1, columns)
    first_bad = int(bad_lines[0]) if bad_lines.size else len(counts)
    for index, text in enumerate(block.split(b"\n")):
        for word in text.split():
            parse_number(path, line + index, word)
        if index >= first_bad:
            break
    if first_bad < len(counts):
        count = int(counts[first_bad])
        raise fail(path, line + first_bad, f"expected {columns} numbers, got {count} (truncated?)")
    raise fail(path, line, "numbers that cannot be read")


def words_per_line(block: bytes) -> NDArray[np.int64]:
    """The number of words in each line of ``block``."""
    codes = np.frombuffer(block, np.uint8)
    is_blank = np.empty(len(codes) + 1, np.bool_)
    is_blank[0] = True
    np.less_equal(codes, 32, out=is_blank[1:])
    starts = np.flatnonzero(is_blank[:-1] & ~is_blank[1:])
    ends = np.append(np.flatnonzero(codes == 10), len(codes))
    edges = np.searchsorted(starts, ends)
    return np.diff(edges, prepend=0)
