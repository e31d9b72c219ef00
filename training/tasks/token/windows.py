"""Windows of tokens, and batches of them that depend on nothing but the seed and the step."""

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
    """Windows of ``length + 1`` tokens: all but the last are inputs, all but the first targets.

    Args:
        rows: (N, length + 1) tokens, or a stream (n,) that is cut into windows which share one token.
        length: inputs of a window.

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
        """The windows (n, length + 1) at these numbers, in this order."""
        if self.rows.ndim == 2:
            return self.rows[which].astype(np.int64)
        at = which[:, None] * self.length + np.arange(self.length + 1)
        windows: NDArray[np.int64] = self.rows[at].astype(np.int64)
        return windows

    def spread(self, most: int) -> NDArray[np.int64]:
        """At most ``most`` window numbers, evenly spaced: (n,)."""
        n = min(most, self.count)
        return (np.arange(n) * self.count) // n


@dataclass(frozen=True)
class LanguageData:
    """What a model learns from and what it is judged on."""

    train: Windows
    valid: Windows


def synthetic_data(options: LanguageOptions, vocab: int) -> LanguageData:
    """Synthetic windows for training and validation, from different seeds."""
    counts = (TRAIN_DATA, options.data.train_sequences), (VALID_DATA, options.data.valid_windows)
    return LanguageData(*(synthetic_windows(options, vocab, *each) for each in counts))


def synthetic_windows(options: LanguageOptions, vocab: int, purpose: int, count: int) -> Windows:
    """So many synthetic windows; ``purpose`` is one of the numbers above, a stream of its own for each."""
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
    """A run that is prepared: its options, its vocabulary, its data."""

    folder: Path
    options: LanguageOptions
    vocab: int
    tokenizer: Tokenizer | None
    """None for synthetic data, whose tokens are numbers."""
    data: LanguageData

    def unjudged(self, most: int) -> tuple[NDArray[np.int64], bool]:
        """At most ``most`` windows (n, length + 1) that no validation looked at, and True. Where a text has
        not as many, evenly spaced ones of all that it has for validation, and False."""
        if self.tokenizer is None:
            drawn = synthetic_windows(self.options, self.vocab, JUDGED_DATA, most)
            return drawn.take(np.arange(most)), True
        valid = self.data.valid
        left = np.setdiff1d(np.arange(len(valid)), valid.spread(self.options.data.valid_windows))
        if len(left) < most:
            return valid.take(valid.spread(most)), False
        return valid.take(left[(np.arange(most) * len(left)) // most]), True


class Batch(NamedTuple):
    """One process's part of what an update, or one of its accumulated parts, is computed from."""

    ids: Tensor
    """(b, L + 1) int64."""
    predicted: Tensor
    """(b, L) bool: where scheduled sampling puts the model's own scalars."""
    step: int
    """Number of the update, from 0."""
    part: int
    """Number of the accumulated part within the update."""


class Batches:
    """The batches of a run from update ``start`` on, for one of ``world`` processes.

    Windows come in an order that is shuffled anew in every epoch; update k takes the windows at ``k * batch``
    and after. Order and scheduled sampling are functions of seed and step, not states: a run that is resumed,
    or computed by more processes or in more parts, sees the same.

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
                f"given {options.schedule.batch}"
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
        """Everything update ``step`` is computed from: tokens (B, L + 1) and where the model's own scalars go
        (B, L)."""
        options = self.options
        ids = self.windows.take(self._numbers(step))
        rows, length = ids.shape[0], self.windows.length
        rng = np.random.default_rng([options.schedule.seed, SAMPLING, step])
        drawn = rng.random((rows, 1 if options.loss.sampling_unit == "window" else length))
        predicted = np.broadcast_to(drawn < options.sampled(step), (rows, length))
        return ids, predicted.copy()

    def _numbers(self, step: int) -> NDArray[np.int64]:
        size, batch = len(self.windows), self.options.schedule.batch
        found: list[NDArray[np.int64]] = []
        at, left = step * batch, batch
        while left:
            epoch, offset = divmod(at, size)
            piece = self._shuffled(epoch)[offset : offset + left]
            found.append(piece)
            at, left = at + len(piece), left - len(piece)
        return np.concatenate(found)

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        if epoch != self._epoch:
            rng = np.random.default_rng([self.options.schedule.seed, ORDER, epoch])
            self._epoch, self._order = epoch, rng.permutation(len(self.windows))
        return self._order
