"""Generation with the commitment gate: a token is emitted once the model is committed, or has waited long
enough.

Every forward step of a row feeds either the token just emitted or, while the row waits, its own last hidden
state as a latent step (Diomande 2026, section 5.3), so that waiting adds context. All rows step together;
each has its own gate, buffer and random numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from pyanticip.errors import OptionError, ShapeError
from pyanticip.geometry import VectorStream
from pyanticip.models.core.gates import decide
from pyanticip.models.core.part import Positions
from pyanticip.models.core.trunk import ScalarMode
from pyanticip.models.token.baseline import BaselineTransformer, check_ids
from pyanticip.models.token.transformer import AnticipatoryTransformer, LanguageModel

# Rows of a batch, at most, whose random numbers are not those of another seed, up to seed 4293; a prime.
_ROWS = 1_000_003


@dataclass(frozen=True)
class Generation:
    """Result of generation (B rows, P tokens of prompt, T new ones).

    ``ids`` (B, P + T). For each new token: ``log_probs`` (B, T), in nats, under the model's prediction at
    temperature 1 at the step that emitted it; the ``gate`` (B, T) of that step; ``waits`` (B, T) int64, the
    steps waited before it; and whether it was ``forced`` (B, T) by a full buffer or ``cramped`` (B, T) by the
    end of the longest sequence.
    """

    ids: Tensor
    log_probs: Tensor
    gate: Tensor
    waits: Tensor
    forced: Tensor
    cramped: Tensor

    @property
    def forwards(self) -> Tensor:
        """Forward passes of each row, (B,): the prompt's, then one per token fed and per step waited."""
        return self.waits.shape[1] + self.waits.sum(1)

    def statistics(self) -> dict[str, Any]:
        """Tokens per forward pass, and statistics of deferred tokens, over all rows."""
        counts = torch.bincount(self.waits.flatten())
        emitted = self.waits.numel()
        return {
            "tokens": emitted,
            "forwards": int(self.forwards.sum()),
            "tokens_per_forward": round(emitted / int(self.forwards.sum()), 5),
            "mean_wait": round(float(self.waits.double().mean()), 5),
            "waits": counts.tolist(),
            "deferred": round(float((self.waits > 0).double().mean()), 5),
            "forced": round(float(self.forced.double().mean()), 5),
            "cramped": round(float(self.cramped.double().mean()), 5),
        }


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Tensor,
    *,
    tokens: int,
    gated: bool = True,
    theta: float | None = None,
    max_buffer: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
    scalars: ScalarMode = "initial",
    neighbours: int = 8,
) -> Generation:
    """Continue prompts token by token.

    Each row draws from its own stream of random numbers, one per token, so that its output does not depend on
    the batch nor, up to the effect of waiting itself, on the gate.

    Args:
        model: is set to evaluation mode. A baseline has no gate and uses no scalars.
        prompt: (B, P) int64, P >= 1.
        tokens: number of tokens to generate, T.
        gated: whether the gate decides when to emit; False emits a token at every step.
        theta: threshold in [0, 1], by default the model's; it falls by half while a row waits.
        max_buffer: steps waited after which a token is always emitted, by default the model's.
        temperature: divides the logits; 0 selects the most likely token.
        top_k: draw only from the k most likely tokens.
        seed: of the random numbers.
        scalars: which scalars steer: the initial head's, the refined head's of the previous step, or
            ``external``, computed from all inputs of the row, latent steps included.
        neighbours: number of past states compared for the uncertainty of external scalars, as in training.

    Raises:
        OptionError: an option outside its range.
        ShapeError: shapes that do not fit, ids out of range, or more tokens than the model supports.
    """
    gated_model = model if isinstance(model, AnticipatoryTransformer) else None
    if gated_model is None and gated:
        raise OptionError("gated must be False for a baseline: it has no gate and no latent steps")
    _check(model, prompt, tokens, temperature, top_k, scalars)
    cfg = model.cfg
    theta = cfg.theta if theta is None else theta
    max_buffer = cfg.max_buffer if max_buffer is None else max_buffer
    if not 0.0 <= theta <= 1.0:
        raise OptionError(f"theta must be from 0 to 1, got {theta!r}")
    if max_buffer < 1:
        raise OptionError(f"max_buffer must be at least 1, got {max_buffer!r}")
    model.eval()
    rows, device = prompt.shape[0], prompt.device
    draws = _draws(rows, tokens, seed).to(device)
    feed = _Feed(model, scalars, neighbours)
    out = feed.start(prompt)
    emitted = torch.zeros(rows, dtype=torch.int64, device=device)
    waiting = torch.zeros(rows, dtype=torch.int64, device=device)
    ids = torch.cat((prompt, prompt.new_zeros(rows, tokens)), 1)
    record = {
        "log_probs": torch.zeros(rows, tokens, device=device),
        "gate": torch.ones(rows, tokens, device=device),
        "waits": torch.zeros(rows, tokens, dtype=torch.int64, device=device),
        "forced": torch.zeros(rows, tokens, dtype=torch.bool, device=device),
        "cramped": torch.zeros(rows, tokens, dtype=torch.bool, device=device),
    }
    all_rows = torch.arange(rows, device=device)
    steps_fed = prompt.shape[1]
    absolute = _positions(model).absolute
    while True:
        logits = out.logits[:, -1].float()
        gate = out.gate[:, -1].float() if gated_model is not None else torch.ones(rows, device=device)
        open_rows = emitted < tokens
        slot = emitted.clamp(max=tokens - 1)
        if gated:
            emit, _ = decide(gate, waiting, theta, max_buffer)
        else:
            emit = torch.ones(rows, dtype=torch.bool, device=device)
        # All rows have had equally many steps: a row may wait while the rest of its tokens still fits.
        full = steps_fed + (tokens - emitted) > cfg.max_seq_len if absolute else ~open_rows
        cramped = full & ~emit
        emit = (emit | full) & open_rows
        token = _choose(logits, draws[all_rows, slot], temperature, top_k)
        emit_rows, emit_slots = all_rows[emit], slot[emit]
        ids[emit_rows, prompt.shape[1] + emit_slots] = token[emit]
        log_probs = logits.log_softmax(-1)[emit_rows, token[emit]]
        buffer_full = (waiting >= max_buffer) & gated
        for name, value in (
            ("log_probs", log_probs),
            ("gate", gate[emit_rows]),
            ("waits", waiting[emit_rows]),
            ("forced", (buffer_full & ~_emits_by_gate(gate, waiting, theta, max_buffer))[emit_rows]),
            ("cramped", cramped[emit_rows]),
        ):
            record[name][emit_rows, emit_slots] = value
        emitted = emitted + emit
        waiting = torch.where(emit | ~open_rows, torch.zeros_like(waiting), waiting + 1)
        if bool((emitted >= tokens).all()):
            return Generation(ids, **record)
        out = feed.step(
            torch.where(emit, token, torch.zeros_like(token)), out.hidden[:, -1], ~emit & open_rows
        )
        steps_fed += 1


class _Feed:
    """Steps a model with one kind of scalars."""

    def __init__(self, model: LanguageModel, scalars: ScalarMode, neighbours: int) -> None:
        self.model = model
        self.neighbours = neighbours
        self.mode = scalars
        self.streams: list[VectorStream] = []
        self.state: Any = None

    def start(self, prompt: Tensor) -> Any:
        """Run the prompt."""
        model = self.model
        self.state = model.initial_state(prompt.shape[0])
        if isinstance(model, BaselineTransformer):
            plain_out, self.state = model(prompt, state=self.state)
            return plain_out
        external = None
        if self.mode == "external":
            vectors = model.embed(prompt).double().cpu().numpy()
            self.streams = [VectorStream(model.cfg.d_model, k=self.neighbours) for _ in vectors]
            scalars_now = [s.push_many(v) for s, v in zip(self.streams, vectors, strict=True)]
            external = torch.from_numpy(np.stack(scalars_now)).to(model.token.weight)
        out, self.state = model(prompt, external, state=self.state, mode=self.mode)
        return out

    def step(self, token: Tensor, hidden: Tensor, waiting: Tensor) -> Any:
        """Run one step of every row: its token, or its hidden state if it waits."""
        model = self.model
        if isinstance(model, BaselineTransformer):
            plain_out, self.state = model.step(token, self.state)
            return plain_out
        external = None
        if self.mode == "external":
            vectors = torch.where(waiting[:, None], model.latent(hidden), model.token(token))
            pushed = zip(self.streams, vectors.double().cpu().numpy(), strict=True)
            scalars_now: list[NDArray[np.float64]] = [s.push(v) for s, v in pushed]
            external = torch.from_numpy(np.stack(scalars_now)).to(model.token.weight)
        out, self.state = model.latent_step(token, hidden, waiting, self.state, external, mode=self.mode)
        return out


def _check(
    model: LanguageModel, prompt: Tensor, tokens: int, temperature: float, top_k: int | None, scalars: str
) -> None:
    check_ids(prompt, model.cfg.vocab, "prompt")
    if not isinstance(tokens, int | np.integer) or tokens < 1:
        raise OptionError(f"tokens must be a whole number of at least 1, got {tokens!r}")
    if not temperature >= 0.0:
        raise OptionError(f"temperature must be 0 or more, got {temperature!r}")
    if top_k is not None and not 1 <= top_k <= model.cfg.vocab:
        raise OptionError(f"top_k must be from 1 to the vocabulary's {model.cfg.vocab}, got {top_k!r}")
    if scalars not in ("initial", "refined_prev", "external"):
        raise OptionError(f"scalars must be initial, refined_prev or external, got {scalars!r}")
    steps_fed = prompt.shape[1] + tokens - 1
    if _positions(model).absolute and steps_fed > model.cfg.max_seq_len:
        raise ShapeError(
            f"a prompt of {prompt.shape[1]} and {tokens} tokens need {steps_fed} steps, "
            f"max_seq_len is {model.cfg.max_seq_len}"
        )


def _positions(model: LanguageModel) -> Positions:
    return model.positions if isinstance(model, BaselineTransformer) else model.trunk.positions


def _emits_by_gate(gate: Tensor, waiting: Tensor, theta: float, max_buffer: int) -> Tensor:
    """Rows that emit because of their gate alone."""
    return decide(gate, waiting.clamp(max=max_buffer - 1), theta, max_buffer)[0] | (gate > 0.5 * theta) & (
        waiting >= max_buffer
    )


def _draws(rows: int, tokens: int, seed: int) -> Tensor:
    """One number in [0, 1) per row and token; a row's numbers do not depend on the number of rows. Rows of
    several seeds share none, see ``_ROWS``; of large seeds they hardly ever do."""
    seeds = ((seed * _ROWS + row) % (1 << 32) for row in range(rows))  # torch uses 32 bits of a seed
    streams = (torch.Generator().manual_seed(each) for each in seeds)
    return torch.stack([torch.rand(tokens, generator=g, dtype=torch.float64) for g in streams])


def _choose(logits: Tensor, draw: Tensor, temperature: float, top_k: int | None) -> Tensor:
    """Draw a token for each row by inverting the cumulative distribution."""
    if temperature == 0.0:
        return logits.argmax(-1)
    if top_k is not None:
        lowest = logits.topk(top_k, -1).values[:, -1:]
        logits = logits.masked_fill(logits < lowest, float("-inf"))
    sums = F.softmax(logits.double() / temperature, -1).cumsum(-1)
    # The last sum may differ from 1 by rounding: the draw is scaled, so that it always finds a token.
    return torch.searchsorted(sums, draw[:, None] * sums[:, -1:], right=True)[:, 0].clamp(
        max=logits.shape[-1] - 1
    )
