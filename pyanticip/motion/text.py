"""Motion files as bytes: bounded reading, lines, and blocks of numbers at NumPy's speed."""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.untrusted import open_file, read_file

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Larger files are refused: 256 MB is about 50 minutes of a CMU performer at 120 Hz."""

MAX_VALUES = 32_000_000
"""More numbers than this in one file are refused (256 MB as float64)."""

MAX_FRAMES = 1_000_000
"""More frames than this are refused: over two hours at 120 Hz."""

MAX_POSES = 12_000_000
"""More rotations of joints than this, frames times joints, are refused: their quaternions take 192 MB. A file
that has numbers for each of them is below it anyhow."""

MAX_LINE_BYTES = 1024 * 1024
"""1024 joints of six channels fit in less."""

MAX_NUMBER = 1e9
"""No position or angle of a performer has more digits: larger numbers are refused as damage."""

_COMMA = re.compile(r"\d,\d")
_BLANKS = b" \t\r\n\x1a"
"""DOS ends a text with 0x1A."""

BLOCK_BYTES = 4 * 1024 * 1024


def fail(path: Path, line: int | None, reason: str) -> FormatError:
    """The one-line error of every reader: file, line where there is one, and reason."""
    where = f"{path}:{line}" if line is not None else f"{path}"
    return FormatError(f"{where}: {reason}")


def show(text: str | bytes, limit: int = 40) -> str:
    """A piece of a file, quoted and short enough for an error message."""
    if isinstance(text, bytes):
        text = text[: limit * 4].decode("utf-8", "replace")
    return repr(text if len(text) <= limit else text[:limit] + "...")


def listed(names: list[str]) -> str:
    """Names for a warning of one line."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(show, names[:3])) + more


def comma(text: str) -> str:
    """What to add to an error about numbers where their decimals come after a comma."""
    return " (decimals need a point, not a comma)" if _COMMA.search(text) else ""


def read_start(path: Path, size: int) -> bytes:
    """The file's first ``size`` bytes; :class:`FormatError` when it is missing or unreadable."""
    with open_file(path) as file:
        return file.read(size)


def read_bytes(path: Path) -> bytes:
    """The file's bytes; :class:`FormatError` when it is missing, empty, unreadable or too large."""
    data = read_file(path, MAX_FILE_BYTES, what="a motion file")
    if not data.strip():
        raise fail(path, None, "is empty")
    return data


def text_lines(path: Path, data: bytes) -> bytes:
    """``data`` with one kind of line end and no mark at either end; refuses binary files."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    zero = data.find(b"\0")
    if zero >= 0:
        raise fail(path, data.count(b"\n", 0, zero) + 1, "is not text: it has a zero byte")
    if b"\x1a" in data[-128:]:
        data = data.rstrip(_BLANKS)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def parse_numbers(block: bytes) -> NDArray[np.float64]:
    """All numbers of ``block``, separated by blanks; ValueError where one is not a number."""
    return np.array(block.decode("utf-8", "replace").split(), np.float64)


def check_size(path: Path, line: int | None, frames: int, columns: int, joints: int = 0) -> None:
    """Refuse what is too large to be one performance."""
    if frames * joints > MAX_POSES:
        raise fail(path, line, f"has {frames} frames of {joints} joints, more than {MAX_POSES} in all")
    if frames > MAX_FRAMES:
        raise fail(path, line, f"has more than {MAX_FRAMES} frames")
    if frames * columns > MAX_VALUES:
        raise fail(path, line, f"has more than {MAX_VALUES} numbers")


def number(path: Path, line: int, word: bytes) -> float:
    """One number of a file, finite and within ``MAX_NUMBER``."""
    try:
        value = float(word)
    except ValueError:
        said = f"expected a number, given {show(word)}{comma(word.decode('utf-8', 'replace'))}"
        raise fail(path, line, said) from None
    if not abs(value) <= MAX_NUMBER:
        raise fail(path, line, f"expected a finite number of at most {MAX_NUMBER:g}, given {show(word)}")
    return value


def number_rows(path: Path, data: bytes, start: int, line: int, columns: int) -> NDArray[np.float64]:
    """Rows of ``columns`` numbers, a line each, from ``data[start:]``; blank lines are skipped.

    ``line`` is the line number of ``start``. Works in blocks, so the working memory does not grow
    with the file. Every line is checked; errors name the line.

    Returns:
        Array (rows, columns), all finite; rows may be 0.
    """
    # Room for as many numbers as there can be, two bytes each: what is not written to takes no memory.
    most = min((len(data) - start + 1) // 2, MAX_VALUES) // columns
    found = np.empty((most, columns))
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
        found[total : total + len(rows)] = rows
        total += len(rows)
        line += block.count(b"\n")
        start = end
    return found[:total]


def _rows(path: Path, block: bytes, line: int, columns: int) -> NDArray[np.float64]:
    """The rows of one block of whole lines."""
    counts = words_per_line(block)
    wrong = np.flatnonzero((counts != columns) & (counts != 0))
    if wrong.size == 0:
        try:
            values = parse_numbers(block)
        except ValueError:
            values = np.empty(0)
        if values.size == counts.sum() and (np.abs(values) <= MAX_NUMBER).all():
            return values.reshape(-1, columns)
    first_wrong = int(wrong[0]) if wrong.size else len(counts)
    for index, text in enumerate(block.split(b"\n")):
        for word in text.split():
            number(path, line + index, word)
        if index >= first_wrong:
            break
    if first_wrong < len(counts):
        given = int(counts[first_wrong])
        raise fail(path, line + first_wrong, f"expected {columns} numbers, given {given} (truncated?)")
    raise fail(path, line, "numbers that cannot be read")


def words_per_line(block: bytes) -> NDArray[np.int64]:
    """How many words each line of ``block`` has."""
    codes = np.frombuffer(block, np.uint8)
    blank = np.empty(len(codes) + 1, np.bool_)
    blank[0] = True
    np.less_equal(codes, 32, out=blank[1:])
    starts = np.flatnonzero(blank[:-1] & ~blank[1:])
    ends = np.append(np.flatnonzero(codes == 10), len(codes))
    edges = np.searchsorted(starts, ends)
    return np.diff(edges, prepend=0)
