"""Greedy decoding through the streaming step, and whether all that comes out is right."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from training.tasks.algorithmic.batches import stack
from training.tasks.algorithmic.problem import Example

DENSE: Final = 0.75
"""Rows that are decided are taken out when no more than this share is left."""


@torch.no_grad()
def exact(model: Any, examples: Sequence[Example], *, device: str = "cpu") -> Tensor:
    """For every example whether the model, given the prompt, produces the whole answer and ends it.

    The prompts are read as one chunk as far as all rows have one, then all rows go on token by token, each
    fed its own prompt or what it said last. A row is decided at its first wrong token or at its end: what
    it would go on to say changes nothing, so it is taken out.

    Args:
        model: a token model of the family, in evaluation mode.
        examples: prompts and the answers wanted.
        device: where the model is.

    Returns:
        (N,) bool.
    """
    rows = stack(examples)
    ids, prompt, length = (part.to(device) for part in rows)
    right = torch.zeros(len(examples), dtype=torch.bool, device=device)
    alive = torch.arange(len(examples), device=device)
    state = model.initial_state(len(examples))
    common = int(prompt.min())
    out, state = model(ids[:, :common], state=state)
    said = out.logits[:, -1].argmax(-1)
    for place in range(common, ids.shape[1]):
        wanted = ids[alive, place]
        given = place < prompt[alive]
        wrong = ~given & (said != wanted)
        ended = ~wrong & (length[alive] == place + 1)
        right[alive[ended]] = True
        going = ~wrong & ~ended
        left = int(going.sum())
        if not left:
            break
        fed = torch.where(given, wanted, said)
        if left <= DENSE * len(alive):
            alive, fed = alive[going], fed[going]
            state = state.map(lambda tensor, kept=going: tensor[kept])
        elif left < len(alive):
            # A decided row that stays for now must not count as right when its place comes.
            length.index_fill_(0, alive[~going], 0)
            ids.index_fill_(0, alive[~going], -1)
        out, state = model.step(fed, state)
        said = out.logits[:, -1].argmax(-1)
    return right.cpu()


def all_right(model: Any, examples: Sequence[Example], *, device: str = "cpu") -> Tensor:
    """The same as :func:`exact` by :func:`answers_after`: (N,) bool."""
    right, asked = answers_after(model, examples, device=device)
    return (right | ~asked).all(1)


@torch.no_grad()
def answers_after(model: Any, examples: Sequence[Example], *, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """What the model would say next, given prompt and the right answer so far: one pass over whole sequences.

    An example is right all along here exactly where :func:`exact` finds it right; it is quick, but asks no
    streaming step.

    Returns:
        Whether each asked token is right (N, L - 1) bool, and which are asked (N, L - 1) bool.
    """
    rows = stack(examples)
    targets = rows.targets().to(device)
    said = model(rows.ids[:, :-1].to(device)).logits.argmax(-1)
    return (said == targets).cpu(), (targets >= 0).cpu()
