"""Batches that depend only on seed and update, evaluation samples, and the exact-match metric."""

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
"""Target of positions that do not count."""


class Rows(NamedTuple):
    """A batch of examples, padded at the end."""

    ids: Tensor
    """(B, L) int64: prompt and answer."""
    prompt: Tensor
    """(B,) int64: number of tokens of the prompt."""
    length: Tensor
    """(B,) int64: number of tokens of prompt and answer."""

    def targets(self) -> Tensor:
        """(B, L - 1): next token of each of ``ids[:, :-1]``; :data:`IGNORED` in prompt and padding."""
        position = torch.arange(1, self.ids.shape[1], device=self.ids.device)
        in_answer = (position >= self.prompt[:, None]) & (position < self.length[:, None])
        return torch.where(in_answer, self.ids[:, 1:], IGNORED)


def stack(examples: Sequence[Example]) -> Rows:
    """Encode and pad examples."""
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
    """Draw evaluation examples of one length, from another random stream than training.

    Args:
        task: the task.
        length: length of the examples.
        count: number of examples.
        seed: seed of the samples.
        purpose: :data:`TEST` or :data:`VALID`.
    """
    rng = np.random.default_rng([seed, purpose, length])
    return [task.draw_test(length, rng) for _ in range(count)]


class Batch(NamedTuple):
    """The examples of an update."""

    rows: Rows
    shift: float
    """Random shift of sinusoidal positions, 0 to below 1, as a share of the free room in their table."""
    step: int
    """Index of the update."""
    part: int = 0


class Batches:
    """The batches of a run from update ``start`` on, which depend only on seed and update."""

    options: TaskOptions

    def __init__(self, options: TaskOptions, *, start: int = 0) -> None:
        self.options, self.start = options, start
        self.task = TASKS[options.task]

    def __iter__(self) -> Iterator[Batch]:
        for step in range(self.start, self.options.schedule.steps):
            yield self.update(step)

    def update(self, step: int) -> Batch:
        """The batch of an update."""
        options, task = self.options, self.task
        rng = np.random.default_rng([options.schedule.seed, TRAIN, step])
        shortest, longest = task.least, options.reach(step)
        lengths = rng.integers(shortest, longest + 1, options.schedule.batch if options.data.mixed else 1)
        lengths = np.broadcast_to(lengths, options.schedule.batch)
        rows = stack([task.draw(int(length), rng) for length in lengths])
        shift = float(np.random.default_rng([options.schedule.seed, SHIFT, step]).random())
        return Batch(rows, shift, step)


@torch.no_grad()
def exact_matches(model: Any, examples: Sequence[Example], *, device: str = "cpu") -> Tensor:
    """Whether the model produces the exact answer to each prompt, including its end.

    Computed in one pass over prompt and true answer: if every next token is right, generating token by token
    gives the same answer.

    Args:
        model: a token model of the family, in evaluation mode.
        examples: prompts and answers.
        device: device of the model.

    Returns:
        (N,) bool.
    """
    rows = stack(examples)
    targets = rows.targets().to(device)
    predicted = model(rows.ids[:, :-1].to(device)).logits.argmax(-1)
    right: Tensor = ((predicted == targets) | (targets < 0)).all(1)
    return right.cpu()
