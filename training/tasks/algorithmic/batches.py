"""Batches that depend on nothing but the seed and the update, samples to judge by, and the judge."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.options import TaskOptions
from training.tasks.algorithmic.problem import PAD_ID, Example, Task, encode

# Independent streams of random numbers from one seed.
TRAIN: Final = 21
SHIFT: Final = 22
INITIAL: Final = 23
VALID: Final = 24
TEST: Final = 25

IGNORED: Final = -100
"""The target of what is not asked for."""


class Rows(NamedTuple):
    """Examples side by side, filled up at their ends."""

    ids: Tensor
    """(B, L) int64: prompt and answer."""
    prompt: Tensor
    """(B,) int64: tokens of the prompt."""
    length: Tensor
    """(B,) int64: tokens of prompt and answer."""

    def targets(self) -> Tensor:
        """(B, L - 1): what follows each token of ``ids[:, :-1]``; :data:`IGNORED` left of ``=`` and behind
        the end."""
        place = torch.arange(1, self.ids.shape[1], device=self.ids.device)
        asked = (place >= self.prompt[:, None]) & (place < self.length[:, None])
        return torch.where(asked, self.ids[:, 1:], IGNORED)


def stack(examples: Sequence[Example]) -> Rows:
    """Examples as rows."""
    encoded = [encode(example.tokens) for example in examples]
    width = max(len(row) for row in encoded)
    ids = np.full((len(encoded), width), PAD_ID, dtype=np.int64)
    for row, numbers in zip(ids, encoded, strict=True):
        row[: len(numbers)] = numbers
    return Rows(
        torch.from_numpy(ids),
        torch.tensor([len(example.prompt) for example in examples]),
        torch.tensor([len(row) for row in encoded]),
    )


def samples(task: Task, length: int, count: int, seed: int, purpose: int = TEST) -> list[Example]:
    """Examples of one length to judge by; those of training come from another stream of numbers.

    Args:
        task: which task.
        length: of every example.
        count: how many.
        seed: of the samples.
        purpose: :data:`TEST` or :data:`VALID`.
    """
    rng = np.random.default_rng([seed, purpose, length])
    return [task.draw_test(length, rng) for _ in range(count)]


class Batch(NamedTuple):
    """What an update is computed from."""

    rows: Rows
    shift: float
    """From 0 to below 1: where in what is left of their table the sinusoids begin."""
    step: int
    """Number of the update, from 0."""
    part: int = 0


class Batches:
    """The batches of a run from update ``start`` on; functions of seed and update, not states."""

    options: TaskOptions

    def __init__(self, options: TaskOptions, *, start: int = 0) -> None:
        self.options, self.start = options, start
        self.task = TASKS[options.task]

    def __iter__(self) -> Iterator[Batch]:
        for step in range(self.start, self.options.schedule.steps):
            yield self.update(step)

    def update(self, step: int) -> Batch:
        """Everything update ``step`` is computed from."""
        options, task = self.options, self.task
        rng = np.random.default_rng([options.schedule.seed, TRAIN, step])
        least, most = task.least, options.reach(step)
        drawn = rng.integers(least, most + 1, options.schedule.batch if options.data.mixed else 1)
        lengths = np.broadcast_to(drawn, options.schedule.batch)
        rows = stack([task.draw(int(length), rng) for length in lengths])
        shift = float(np.random.default_rng([options.schedule.seed, SHIFT, step]).random())
        return Batch(rows, shift, step)


@torch.no_grad()
def all_right(model: Any, examples: Sequence[Example], *, device: str = "cpu") -> Tensor:
    """For every example whether the model, given the prompt, produces the whole answer and ends it.

    The right answer is read with the prompt, in one pass: where every next token is right, a model that is
    fed what it said last would say the same.

    Args:
        model: a token model of the family, in evaluation mode.
        examples: prompts and the answers wanted.
        device: where the model is.

    Returns:
        (N,) bool.
    """
    rows = stack(examples)
    targets = rows.targets().to(device)
    predicted = model(rows.ids[:, :-1].to(device)).logits.argmax(-1)
    right: Tensor = ((predicted == targets) | (targets < 0)).all(1)
    return right.cpu()
