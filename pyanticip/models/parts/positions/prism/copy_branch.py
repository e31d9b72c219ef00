"""The copy branch of PRISM positions: a query cursor jumps to the place of an earlier key.

Key j of a row is at place ``min(j + 1, P - 1)``, where an increment-only cursor is after step j. Attention
over the keys before a step, and over a null slot for staying, gives the probability of each jump. A histogram
has P places, and so the branch P keys: of the steps that share the last place, only the newest is visible."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pyanticip.models.core.streaming import State


@dataclass
class CopyState(State):
    """Streaming state: ``keys`` (B, J, P, E) by place."""

    keys: Tensor


class CopyBranch(nn.Module):
    """Causal attention from steps to the steps before them, for J cursors.

    Args:
        inputs: width I of the input of queries and keys.
        cursors: J.
        places: P, at least 3.
        width: E, width of a query or key.
    """

    def __init__(self, inputs: int, cursors: int, places: int, width: int) -> None:
        super().__init__()
        self.cursors, self.places, self.width = cursors, places, width
        self.query = nn.Linear(inputs, cursors * width)
        self.key = nn.Linear(inputs, cursors * width)
        self.null = nn.Parameter(torch.zeros(cursors, width))
        self.stay = nn.Parameter(torch.zeros(cursors))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise weights with variance 1 / I, and the null slot without a preference."""
        for linear in (self.query, self.key):
            nn.init.normal_(linear.weight, 0.0, linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)
        nn.init.normal_(self.null, 0.0, 1.0)
        nn.init.zeros_(self.stay)

    def initial_state(self, batch: int) -> CopyState:
        """The state before the first step: no keys."""
        return CopyState(self.null.new_zeros(batch, self.cursors, self.places, self.width))

    def forward(
        self, x: Tensor, frames: Tensor | None = None, state: CopyState | None = None
    ) -> tuple[Tensor, Tensor, CopyState | None]:
        """Probabilities for a chunk (B, L, I): ``jumps`` (B, J, L, P) to each place, ``stay`` (B, J, L) of no
        jump; and the state with the chunk's keys in it.

        Args:
            frames: (B,) steps before the chunk, needed with a state.
            state: the keys of those steps; without gradients the chunk's keys are written into it.
        """
        rows, length, _ = x.shape
        query, key = (
            linear(x).view(rows, length, self.cursors, self.width).transpose(1, 2)
            for linear in (self.query, self.key)
        )
        query = query * self.width**-0.5
        index = torch.arange(length, device=x.device)
        last = self.places - 1
        number = index if frames is None else frames[:, None] + index
        slot = (number + 1).clamp(max=last).expand(rows, -1)  # (B, L)
        # A key at the last place is replaced by the next one.
        visible = (index[:, None] > index) & ((slot < last)[:, None, :] | (index[:, None] == index + 1))
        scores = (query @ key.transpose(-1, -2)).masked_fill(~visible[:, None], float("-inf"))
        null_score = (query * self.null[:, None]).sum(-1, keepdim=True) + self.stay[:, None, None]
        parts = [null_score, scores]
        if state is not None and frames is not None:
            place = torch.arange(self.places, device=x.device)
            stored = (place >= 1) & (place <= frames[:, None])  # (B, P)
            # The key at the last place is that of the step before the chunk: only the chunk's first step
            # still sees it.
            visible_stored = stored[:, None] & ((place < last) | (index[:, None] == 0))
            stored_scores = query @ state.keys.transpose(-1, -2)
            parts.append(stored_scores.masked_fill(~visible_stored[:, None], float("-inf")))
        probabilities = torch.cat(parts, -1).softmax(-1)
        stay, chunk_jumps, stored_jumps = (
            probabilities[..., 0],
            probabilities[..., 1 : 1 + length],
            probabilities[..., 1 + length :],
        )
        jumps = probabilities.new_zeros(rows, self.cursors, length, self.places)
        jumps = jumps.scatter_add(-1, slot[:, None, None].expand_as(chunk_jumps), chunk_jumps)
        if state is None:
            return jumps, stay, None
        return jumps + stored_jumps, stay, _store(state, key, slot, last)


def _store(state: CopyState, key: Tensor, slot: Tensor, last: int) -> CopyState:
    """Store keys (B, J, L, E) at these slots (B, L), with one write per slot that is ever read."""
    newest = torch.arange(key.shape[2], device=key.device) == key.shape[2] - 1
    # Place 0 belongs to no key: keys at the last place that a newer one replaces are written there.
    slot = torch.where((slot < last) | newest, slot, torch.zeros_like(slot))
    at = slot[:, None, :, None].expand_as(key)
    if torch.is_grad_enabled():
        return CopyState(state.keys.scatter(2, at, key))
    return CopyState(state.keys.scatter_(2, at, key))
