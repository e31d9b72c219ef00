"""Windows of text that reach beyond what is read: plans and targets need to know what comes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import OptionError
from training.tasks.token.corpus import Corpus, digest, read_lines
from training.tasks.token.tokens import Tokenizer, byte_pairs


@dataclass(frozen=True)
class Text:
    """A stream of tokens (n,), cut into windows of ``length`` that go on for ``beyond`` more tokens.

    Raises:
        OptionError: the stream is shorter than one window.
    """

    tokens: NDArray[Any]
    length: int
    beyond: int
    source: str = "text"

    def __post_init__(self) -> None:
        if len(self) < 1:
            raise OptionError(
                f"{self.source}: has {len(self.tokens)} tokens, a window needs {self.length + self.beyond}"
            )

    def __len__(self) -> int:
        return (len(self.tokens) - self.beyond) // self.length

    def take(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """The windows (n, length + beyond) at these numbers; they overlap by ``beyond``."""
        at = which[:, None] * self.length + np.arange(self.length + self.beyond)
        return np.asarray(self.tokens[at], dtype=np.int64)

    def batch(self, seed: int, step: int, rows: int) -> NDArray[np.int64]:
        """The windows of an update: drawn from an order that seed and epoch decide."""
        epoch, number = divmod(step, max(1, len(self) // rows))
        order = np.random.default_rng([seed, epoch]).permutation(len(self))
        return self.take(np.resize(order, rows) if len(self) < rows else order[number * rows :][:rows])

    def spread(self, most: int) -> NDArray[np.int64]:
        """At most ``most`` windows, evenly spaced."""
        count = min(most, len(self))
        return self.take((np.arange(count) * len(self)) // count)

    def counts(self, vocab: int) -> Tensor:
        """How often each token occurs, (V,)."""
        return torch.from_numpy(np.bincount(self.tokens, minlength=vocab))


def read_texts(
    train: Path, test: Path, vocab: int, folder: Path, length: int, beyond: int
) -> tuple[Text, Text, Tokenizer]:
    """Both texts by a byte-pair encoding learned from the first; tokens and encoding are kept in ``folder``.

    Raises:
        FormatError: a text that cannot be read.
        OptionError: one that is too short.
    """
    kept = folder / f"bpe-{vocab}-{digest(train)[:16]}.json"
    if kept.is_file():
        tokenizer = Tokenizer.load(kept)
    else:
        tokenizer = byte_pairs(read_lines(train), vocab)
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_text(tokenizer.to_json(), encoding="utf-8")
    texts = [
        Text(Corpus.encode(path, tokenizer, folder, name).tokens, length, beyond, str(path))
        for path, name in ((train, "train"), (test, "test"))
    ]
    return texts[0], texts[1], tokenizer
