"""Windows of tokens, and batches of them that depend only on seed and step."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import OptionError
from training.run.settings import derived_seed
from training.tasks.token.corpus import Corpus
from training.tasks.token.options import LanguageOptions
from training.tasks.token.synthetic import synthetic
from training.tasks.token.tokens import Tokenizer

# Independent streams of random numbers from one seed.
ORDER: Final = 1
SAMPLING: Final = 2
INITIAL: Final = 4
TRAIN_DATA: Final = 11
VALID_DATA: Final = 12
JUDGED_DATA: Final = 13


class Windows:
    """Windows of ``length + 1`` tokens: all but the last are inputs, all but the first are targets.

    Args:
        rows: (N, length + 1) tokens, or a stream (n,) that is cut into windows that overlap by one token.
        length: inputs per window.
        source: name of the data in messages.

    Raises:
        OptionError: the stream is shorter than one window.
    """

    def __init__(self, rows: NDArray[Any], length: int, source: str = "data") -> None:
        self.length = length
        self.rows = rows
        if rows.ndim == 1:
            self.count = (len(rows) - 1) // length
            if self.count < 1:
                raise OptionError(
                    f"{source}: has {len(rows)} tokens, a window needs {length + 1}; use a longer text or a "
                    f"smaller seq_len"
                )
        else:
            self.count = len(rows)

    def __len__(self) -> int:
        return self.count

    def take(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Windows (n, length + 1) with these indices, in this order."""
        if self.rows.ndim == 2:
            return self.rows[which].astype(np.int64)
        at = which[:, None] * self.length + np.arange(self.length + 1)
        windows: NDArray[np.int64] = self.rows[at].astype(np.int64)
        return windows

    def spread(self, most: int) -> NDArray[np.int64]:
        """Evenly spaced indices of at most ``most`` windows, (n,)."""
        n = min(most, self.count)
        return (np.arange(n) * self.count) // n


@dataclass(frozen=True)
class LanguageData:
    """Training and validation windows."""

    train: Windows
    valid: Windows


def synthetic_data(options: LanguageOptions, vocab: int) -> LanguageData:
    """Synthetic windows for training and validation, from different seeds."""
    counts = (TRAIN_DATA, options.data.train_sequences), (VALID_DATA, options.data.valid_windows)
    return LanguageData(*(synthetic_windows(options, vocab, *each) for each in counts))


def synthetic_windows(options: LanguageOptions, vocab: int, purpose: int, count: int) -> Windows:
    """Draw synthetic windows; ``purpose``, a constant above, selects an independent random stream."""
    seed, length = derived_seed(options.schedule.seed, purpose), options.data.seq_len
    return Windows(synthetic(vocab, length + 1, count, seed, repeats=options.data.repeats).ids, length)


def text_data(options: LanguageOptions, train: Corpus, valid: Corpus) -> LanguageData:
    """Windows of two texts.

    Raises:
        OptionError: a text is shorter than a window.
    """
    return LanguageData(*(Windows(c.tokens, options.data.seq_len, c.source) for c in (train, valid)))


@dataclass(frozen=True)
class Prepared:
    """A prepared run: folder, options, vocabulary and data."""

    folder: Path
    options: LanguageOptions
    vocab: int
    tokenizer: Tokenizer | None
    """None for synthetic data."""
    data: LanguageData

    def unvalidated(self, most: int) -> tuple[NDArray[np.int64], bool]:
        """Up to ``most`` windows (n, length + 1) not used by validations, and True; if a text has too few of
        them, evenly spaced ones of all its validation windows, and False."""
        if self.tokenizer is None:
            drawn = synthetic_windows(self.options, self.vocab, JUDGED_DATA, most)
            return drawn.take(np.arange(most)), True
        valid = self.data.valid
        unused = np.setdiff1d(np.arange(len(valid)), valid.spread(self.options.data.valid_windows))
        if len(unused) < most:
            return valid.take(valid.spread(most)), False
        return valid.take(unused[(np.arange(most) * len(unused)) // most]), True


class Batch(NamedTuple):
    """The share of one process in one accumulated part of an update."""

    ids: Tensor
    """(b, L + 1) int64."""
    predicted: Tensor
    """(b, L) bool: positions where scheduled sampling uses the model's own scalars."""
    step: int
    """Index of the update."""
    part: int
    """Index of the accumulated part within the update."""


class Batches:
    """The batches of a run from update ``start`` on, for one of ``world`` processes.

    Windows are shuffled in every epoch; update k takes the windows from ``k * batch`` on. Order and scheduled
    sampling depend only on seed and step: a resumed run, or one with more processes or parts, sees the same.

    Raises:
        OptionError: the batch cannot be divided among the processes and parts.
    """

    options: LanguageOptions

    def __init__(
        self, windows: Windows, options: LanguageOptions, *, start: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        self.check(options, world)
        self.windows, self.options = windows, options
        self.start, self.rank, self.world = start, rank, world
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    @staticmethod
    def check(options: LanguageOptions, world: int) -> None:
        """Refuse a batch that cannot be divided; see the class."""
        pieces = world * options.run.accumulate
        if options.schedule.batch % pieces:
            raise OptionError(
                f"option batch: must be a multiple of processes times accumulate = {pieces}, "
                f"got {options.schedule.batch}"
            )

    def __iter__(self) -> Iterator[Batch]:
        accumulate = self.options.run.accumulate
        share = self.options.schedule.batch // (self.world * accumulate)
        for step in range(self.start, self.options.schedule.steps):
            ids, predicted = self.update(step)
            for part in range(accumulate):
                rows = slice(
                    (part * self.world + self.rank) * share, (part * self.world + self.rank + 1) * share
                )
                yield Batch(torch.from_numpy(ids[rows]), torch.from_numpy(predicted[rows]), step, part)

    def update(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Tokens (B, L + 1) of an update, and the positions (B, L) with the model's own scalars."""
        options = self.options
        ids = self.windows.take(self._numbers(step))
        rows, length = ids.shape[0], self.windows.length
        rng = np.random.default_rng([options.schedule.seed, SAMPLING, step])
        drawn = rng.random((rows, 1 if options.loss.sampling_unit == "window" else length))
        predicted = np.broadcast_to(drawn < options.sampled(step), (rows, length))
        return ids, predicted.copy()

    def _numbers(self, step: int) -> NDArray[np.int64]:
        size, batch = len(self.windows), self.options.schedule.batch
        pieces: list[NDArray[np.int64]] = []
        position, remaining = step * batch, batch
        while remaining:
            epoch, offset = divmod(position, size)
            piece = self._shuffled(epoch)[offset : offset + remaining]
            pieces.append(piece)
            position, remaining = position + len(piece), remaining - len(piece)
        return np.concatenate(pieces)

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        if epoch != self._epoch:
            rng = np.random.default_rng([self.options.schedule.seed, ORDER, epoch])
            self._epoch, self._order = epoch, rng.permutation(len(self.windows))
        return self._order
