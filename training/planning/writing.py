"""Writing with a model that plans, or with one that does not, and scoring what it writes: the paper's tables
3 to 5 without their human judges."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.bridge import bridge_scalars
from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer, load_language_model
from pyanticip.models.checkpoint.files import load_tokenizer_text
from pyanticip.models.checkpoint.manifest import MANIFEST, TOKENIZER
from training.planning.arms import Planner
from training.planning.gpt2 import load_gpt2
from training.planning.metrics import coverage, rouge_l
from training.planning.tasks_text import Item
from training.tasks.token.tokens import Tokenizer

BOOST = 6.0
"""By how much the contrast of wished-for codes is raised: e^6 times as likely as they were."""


@dataclass(frozen=True)
class Writer:
    """A model and its tokenizer: ``encode`` text to tokens, ``decode`` tokens to text."""

    name: str
    model: Planner
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]

    def logits(self, ids: Tensor, boost: Tensor | None) -> Tensor:
        """Logits (1, L, V) of tokens (1, L), with the model's own plans if it makes any."""
        wishes = {} if boost is None else {"boost": boost}
        if isinstance(self.model, AnticipatoryTransformer):
            given = bridge_scalars(self.model.embed(ids)).to(self.model.token.weight)
            found: Tensor = self.model(ids, given, **wishes).logits
        else:
            found = self.model(ids, **wishes).logits
        return found


def load_writer(path: str) -> Writer:
    """A checkpoint of a token model, with its tokenizer, or a GPT-2: a folder or name of ``transformers``.

    Raises:
        CheckpointError: there is none, or it is damaged.
        OptionError: a token model without a tokenizer.
    """
    folder = Path(path)
    if (folder / MANIFEST).is_file():
        model = load_language_model(folder)
        if not (folder / TOKENIZER).is_file():
            raise OptionError(f"{folder}: the model has no tokenizer, it cannot read text")
        tokenizer = Tokenizer(_backend(load_tokenizer_text(folder)))
        return Writer(path, model, lambda text: tokenizer.encode(text).tolist(), tokenizer.decode)
    gpt2, theirs = load_gpt2(path)
    return Writer(
        path,
        gpt2,
        lambda text: list(theirs(text, add_special_tokens=False, verbose=False)["input_ids"]),
        lambda ids: str(theirs.decode(list(ids), skip_special_tokens=True)),
    )


def _backend(text: str) -> Any:
    from tokenizers import Tokenizer as Backend

    return Backend.from_str(text)


@torch.no_grad()
def write(
    writer: Writer,
    prompt: Sequence[int],
    *,
    tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    wishes: Sequence[int] = (),
) -> list[int]:
    """Continue a prompt. Every token is said from two passes over all that came before.

    Args:
        writer: the model; the oldest tokens are left out where it can read no more.
        prompt: tokens, at least one.
        tokens: how many to say.
        temperature: 0 takes the most likely token.
        seed: of the draws.
        wishes: tokens that plans should name until they have been said.
    """
    generator = torch.Generator().manual_seed(seed)
    said: list[int] = []
    longest = writer.model.cfg.max_seq_len
    for _ in range(tokens):
        ids = torch.tensor([[*prompt, *said][-longest:]])
        boost = None
        left = set(wishes) - set(said)
        if left and writer.model.planning is not None:
            boost = torch.zeros(writer.model.cfg.vocab)
            boost[list(left)] = BOOST
        logits = writer.logits(ids, boost)[0, -1].float()
        if temperature == 0.0:
            said.append(int(logits.argmax()))
        else:
            shares = (logits / temperature).softmax(-1)
            said.append(int(torch.multinomial(shares, 1, generator=generator)))
    return said


@torch.no_grad()
def surprise(judge: Writer, prompt: str, text: str) -> tuple[float, int]:
    """Cross-entropy of a text given its prompt, nats summed over its tokens, and how many they are, under a
    judge. Tokens that the judge cannot read because prompt and text are too long are left out."""
    before, after = judge.encode(prompt), judge.encode(text)
    ids = [*before, *after][: judge.model.cfg.max_seq_len + 1]
    first = max(len(before), 1)
    if len(ids) <= first:
        return 0.0, 0
    whole = torch.tensor([ids])
    logits = judge.logits(whole[:, :-1], None)[0].float()
    found = F.cross_entropy(logits[first - 1 :], whole[0, first:], reduction="sum")
    return float(found), len(ids) - first


def evaluate(
    writer: Writer,
    judge: Writer,
    items: Sequence[Item],
    *,
    tokens: int = 40,
    temperature: float = 0.0,
    seed: int = 0,
    steer: bool = False,
    on_item: Callable[[int], None] = lambda number: None,
) -> dict[str, Any]:
    """Write for every item and score it.

    Args:
        writer: the model that writes.
        judge: the model whose perplexity judges; the paper's is GPT-3.
        items: what to write.
        tokens: of each text, cut at the end of its first line.
        temperature: 0: greedy.
        seed: of the draws.
        steer: whether an item's words are wished into the plans.
        on_item: told how many are done.

    Returns:
        ``items``; means ``coverage`` (of items with words) and ``rouge_l`` (of those with references), None
        where there is none; ``perplexity`` under the judge; ``texts``.
    """
    if steer and writer.model.planning is None:
        raise OptionError(f"{writer.name}: makes no plans that words could be wished into")
    texts: list[str] = []
    covered: list[float] = []
    rouge: list[float] = []
    nats, count = 0.0, 0
    for number, item in enumerate(items):
        prompt = writer.encode(item.prompt) or [0]
        wishes: list[int] = []
        for concept in item.concepts if steer else ():
            wishes += writer.encode(" " + concept)
        said = write(
            writer, prompt, tokens=tokens, temperature=temperature, seed=seed + number, wishes=wishes
        )
        text = writer.decode(said).strip().split("\n")[0]
        texts.append(text)
        if item.concepts:
            covered.append(coverage(text, item.concepts))
        if item.references:
            rouge.append(rouge_l(text, item.references))
        mine, length = surprise(judge, item.prompt, " " + text)
        nats, count = nats + mine, count + length
        on_item(number + 1)
    return {
        "writer": writer.name,
        "judge": judge.name,
        "items": len(items),
        "coverage": float(np.mean(covered)) if covered else None,
        "rouge_l": float(np.mean(rouge)) if rouge else None,
        "perplexity": math.exp(nats / count) if count else None,
        "texts": texts,
    }
