"""Text files as streams of tokens, stored in the folder of a run and memory-mapped."""

import codecs
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import CheckpointError, FormatError
from pyanticip.motion.atomic import writing
from pyanticip.untrusted import check_file, open_file
from training.tasks.token.tokens import Tokenizer

_BLOCK: Final = 1 << 20
"""Bytes read at a time."""

_LINES: Final = 4096
"""Lines encoded at a time."""


def read_lines(path: Path | str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their line ends; lines over about a megabyte come in pieces.

    A byte order mark at the beginning is skipped.

    Raises:
        FormatError: the file is missing or not UTF-8; the message names file and byte.
    """
    try:
        with open_file(path) as file:
            yield from _lines(file, str(path))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from None


def _lines(file: BinaryIO, path: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    at, rest = 0, ""
    while True:
        block = file.read(_BLOCK)
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            bad = at - pending + error.start
            raise FormatError(f"{path}: not UTF-8 at byte {bad}: {error.reason}") from None
        if at == 0:
            text = text.removeprefix("\ufeff")
        at += len(block)
        # Only \n ends a line: str.splitlines would also split at characters within words of some scripts.
        *whole, rest = (rest + text).split("\n")
        yield from (line + "\n" for line in whole)
        if not block or len(rest) >= _BLOCK:
            if rest:
                yield rest
            rest = ""
        if not block:
            return


def digest(path: Path | str) -> str:
    """SHA-256 of a file.

    Raises:
        FormatError: the file cannot be read.
    """
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class Corpus:
    """The tokens of a text file.

    Each line is encoded separately, so that the tokens do not depend on how the file is read.
    """

    tokens: NDArray[Any]
    """(n,) unsigned integers, memory-mapped from ``file``."""
    file: Path
    source: str
    sha256: str
    """SHA-256 of the text."""

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def encode(cls, path: Path | str, tokenizer: Tokenizer, folder: Path, name: str) -> "Corpus":
        """Encode a text file into ``folder``, or map the result of an earlier call.

        The name of the file includes a hash of text and tokenizer, so that outdated tokens are never used.

        Args:
            path: the text.
            tokenizer: encodes the text.
            folder: folder of the tokens; made if missing.
            name: prefix of the file's name.

        Raises:
            FormatError: the text is missing, not UTF-8, or empty.
            DeviceError: the tokens cannot be written.
        """
        sha = digest(path)
        key = hashlib.sha256(f"{sha}\n{tokenizer.to_json()}".encode()).hexdigest()[:16]
        target = folder / f"{name}-{key}.npy"
        if not target.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, tokenizer, target)
        return cls.open(target, str(path), sha)

    @classmethod
    def open(cls, file: Path, source: str, sha256: str) -> "Corpus":
        """Map tokens that :meth:`encode` wrote.

        Raises:
            CheckpointError: the file is missing or damaged.
        """
        check_file(file, CheckpointError)
        try:
            return cls(np.load(file, mmap_mode="r", allow_pickle=False), file, source, sha256)
        except (OSError, ValueError, EOFError) as error:
            raise CheckpointError(f"{file}: the tokens of {source} cannot be read ({error})") from None


def _write(path: Path | str, tokenizer: Tokenizer, target: Path) -> None:
    """Write tokens to a .npy file, atomically and without holding them in memory."""
    kind = np.dtype(np.uint16 if tokenizer.vocab <= 1 << 16 else np.uint32)
    count = 0

    def write_header(file: BinaryIO) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(file, header)

    part = target.with_suffix(".part")
    try:
        # Never mapped for writing: if the disk were full, that would kill the process.
        with writing(target), part.open("wb") as file:
            write_header(file)
            for batch in _batches(read_lines(path)):
                ids = tokenizer.encode_pieces(batch).astype(kind)
                file.write(ids.tobytes())
                count += len(ids)
            if not count:
                raise FormatError(f"{path}: empty, there is nothing to learn from")
            file.seek(0)
            write_header(file)  # of the same length: numpy leaves room for any count
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _batches(lines: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _LINES:
            yield batch
            batch = []
    if batch:
        yield batch
