"""Parsing of numbers and lines: complete, checked and bounded."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyanticip.errors import FormatError
from pyanticip.motion import text

FILE = Path("file.txt")


@given(st.text("ab 1\t\n", max_size=60))
def test_words_of_a_line_are_counted_as_split_does(content: str) -> None:
    assert text.words_per_line(content.encode()).tolist() == [
        len(line.split()) for line in content.split("\n")
    ]


@given(st.lists(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3), max_size=8), st.integers(1, 40))
def test_rows_are_the_numbers_that_were_written_whatever_the_blocks(rows, block):
    content = b"head\n" + "".join(f"{a!r} {b!r}\t{c!r} \n\n" for a, b, c in rows).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK_BYTES", block)
        found = text.number_rows(FILE, content, 5, 2, 3)
    np.testing.assert_array_equal(found, np.reshape(rows, (-1, 3)))


@pytest.mark.parametrize("block", [1, 9, 1000])
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (b"1 2", "file.txt:13: expected 3 numbers, got 2"),
        (b"1 2 3 4", "file.txt:13: expected 3 numbers, got 4"),
        (b"1 x 3", "file.txt:13: expected a number, got 'x'"),
        (b"1 nan 3", "file.txt:13: expected a finite number"),
        (b"1 -1000000001 3", "file.txt:13: expected a finite number"),
    ],
)
def test_the_line_that_is_wrong_is_named(monkeypatch, block, wrong, reason):
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    with pytest.raises(FormatError, match=reason):
        text.number_rows(FILE, b"1 2 3\n\n4 5 6\n" + wrong + b"\n7 8 9\n", 0, 10, 3)


def test_the_first_of_two_wrong_lines_is_told() -> None:
    for content, reason in ((b"1 x\n1\n", ":1: expected a number"), (b"1\n1 x\n", ":1: expected 2 numbers")):
        with pytest.raises(FormatError, match=reason):
            text.number_rows(FILE, content, 0, 1, 2)


def test_a_line_longer_than_any_body_needs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 10)
    start, rest = b"1 2 3\n" * 2, b"7 8 9\n" * 20
    long = b" " * (text.MAX_LINE_BYTES - 6) + b"4 5 6\n"
    assert len(text.number_rows(FILE, start + long + rest, 0, 1, 3)) == 23
    with pytest.raises(FormatError, match=r"^file.txt:3: a line of more than 1 MB"):
        text.number_rows(FILE, start + b" " * 20 + long + rest, 0, 1, 3)


def test_the_largest_is_taken_and_one_more_is_refused() -> None:
    frames, values, poses = text.MAX_FRAMES, text.MAX_VALUES, text.MAX_POSES
    text.check_size(FILE, 1, frames, values // frames, poses // frames)
    for sizes, reason in (
        ((frames + 1, 1, 1), "more than 1000000 frames"),
        ((1, values + 1, 1), "more than 32000000 numbers"),
        ((1, 1, poses + 1), "1 frames of 12000001 joints"),
    ):
        with pytest.raises(FormatError, match=reason):
            text.check_size(FILE, 1, *sizes)
    assert text.parse_number(FILE, 1, b"-1e9") == -1e9
    with pytest.raises(FormatError, match=r"^file.txt:1: expected a finite number of at most 1e\+09"):
        text.parse_number(FILE, 1, b"1000000001")


def test_any_line_end_is_one_and_binary_is_refused_with_its_line() -> None:
    assert text.text_lines(FILE, b"\xef\xbb\xbfa\r\nb\rc\n") == b"a\nb\nc\n"
    with pytest.raises(FormatError, match=r"^file.txt:3: is not text"):
        text.text_lines(FILE, b"a\nb\n\0\n")


def test_what_is_shown_of_a_file_is_short() -> None:
    assert text.quote("a" * 40) == repr("a" * 40)
    assert text.quote(b"a" * 41) == repr("a" * 40 + "...")
    assert text.quote("ä".encode() * 30) == repr("ä" * 30)
