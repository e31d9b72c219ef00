"""Greedy decoding, and whether all that comes out is right."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from training.tasks.algorithmic.batches import stack
from training.tasks.algorithmic.problem import Example


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
