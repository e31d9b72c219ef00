"""Character and byte-pair tokenizers, stored as ``tokenizer.json``."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_text

UNKNOWN: Final = "<unk>"
"""Token of characters that are not in the training text; number 0 of a character tokenizer."""

BYTES: Final = 256
"""Tokens that every byte-pair encoding has, one per byte, so that it can encode any text."""

DEFAULT_BPE: Final = 4096
"""Default vocabulary of a byte-pair encoding."""

Kind = Literal["char", "bpe"]


class Tokenizer:
    """Converts text to tokens and back.

    Args:
        backend: a tokenizer of the ``tokenizers`` package, of one of the two kinds made in this module.

    Raises:
        FormatError: it is of another kind.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        if isinstance(backend.model, models.WordLevel):
            self.kind: Kind = "char"
            # A table of code points, a hundred times faster than the package's search for words.
            vocab = backend.get_vocab(with_added_tokens=False)
            points = {ord(text): number for text, number in vocab.items() if len(text) == 1}
            if UNKNOWN not in vocab or len(points) != len(vocab) - 1:
                raise FormatError(f"tokenizer: expected single characters and {UNKNOWN}")
            self._table = np.full(max(points, default=0) + 1, vocab[UNKNOWN], dtype=np.uint32)
            self._table[list(points)] = list(points.values())
            self._unknown = vocab[UNKNOWN]
        elif isinstance(backend.model, models.BPE):
            self.kind = "bpe"
        else:
            raise FormatError(f"tokenizer: expected characters or BPE, got {type(backend.model).__name__}")

    @property
    def vocab(self) -> int:
        """Number of tokens."""
        return int(self.backend.get_vocab_size())

    def encode(self, text: str) -> NDArray[np.int64]:
        """Tokens (n,) of a text."""
        return self.encode_pieces([text])

    def encode_pieces(self, pieces: Sequence[str]) -> NDArray[np.int64]:
        """Concatenated tokens (n,) of pieces of text; byte pairs do not span pieces."""
        if self.kind == "char":
            points = np.frombuffer("".join(pieces).encode("utf-32-le", "surrogatepass"), dtype="<u4")
            known = np.minimum(points, len(self._table) - 1)
            ids = np.where(points < len(self._table), self._table[known], self._unknown)
            return ids.astype(np.int64)
        encodings = self.backend.encode_batch(list(pieces), add_special_tokens=False)
        return np.concatenate(
            [np.asarray(each.ids, dtype=np.int64) for each in encodings] or [np.empty(0, np.int64)]
        )

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens; invalid UTF-8 becomes U+FFFD."""
        return str(self.backend.decode([int(number) for number in ids], skip_special_tokens=False))

    def to_json(self) -> str:
        """The content of ``tokenizer.json``."""
        return str(self.backend.to_str(pretty=True))

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizer":
        """Read ``tokenizer.json``.

        Raises:
            FormatError: the file is invalid.
        """
        text = read_text(path)
        try:
            return cls(Backend.from_str(text))
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None
        except Exception as error:  # the package raises nothing narrower
            raise FormatError(f"{path}: not a tokenizer: {error}") from None


def characters(pieces: Iterable[str], vocab: int = 0) -> Tokenizer:
    """Learn a tokenizer with one token for each of the most frequent characters, ties by code point.

    Args:
        pieces: the training text.
        vocab: number of tokens including ``<unk>``; 0: all characters.

    Raises:
        OptionError: the vocabulary has no room for a character.
    """
    if vocab == 1 or vocab < 0:
        raise OptionError(f"option vocab: expected at least 2 tokens, got {vocab}")
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts.update(piece)
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    selected = ranked if vocab == 0 else ranked[: vocab - 1]
    numbers = {UNKNOWN: 0} | {character: 1 + n for n, character in enumerate(sorted(selected))}
    backend = Backend(models.WordLevel(numbers, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return Tokenizer(backend)


def byte_pairs(pieces: Iterable[str], vocab: int = 0) -> Tokenizer:
    """Learn a byte-level BPE: 256 bytes, and merges of the most frequent pairs.

    Args:
        pieces: the training text.
        vocab: maximum number of tokens; a text with few pairs gives fewer. 0: 4096.

    Raises:
        OptionError: the vocabulary is too small for the bytes.
    """
    size = vocab or DEFAULT_BPE
    if size <= BYTES:
        raise OptionError(f"option vocab: a BPE needs more than {BYTES} tokens (one a byte), got {size}")
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(_each(pieces), trainer)
    return Tokenizer(backend)


def learn(kind: str, pieces: Iterable[str], vocab: int = 0) -> Tokenizer:
    """Learn a tokenizer of either kind from the training text."""
    return characters(pieces, vocab) if kind == "char" else byte_pairs(pieces, vocab)


def _each(pieces: Iterable[str]) -> Iterator[str]:
    """A plain iterator: the package treats lists and strings differently."""
    yield from pieces
