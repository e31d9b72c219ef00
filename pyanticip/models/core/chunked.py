"""Attention over whole sequences in strips: some queries at a time, with their scores written out.

The way for a bias that does not factor (see :mod:`pyanticip.models.core.fused`): it is the definition, like
the reference layout, but never holds more than the scores of one strip. With gradients each strip is computed
again on the way back, so that memory grows with the length and not with its square.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip.models.core.attention import Ring
from pyanticip.models.core.encodings import rotate
from pyanticip.models.core.steering import Extras, Steering

SCORES = 1 << 20
"""Scores of a strip, over all rows and heads; one query's at the least."""


@dataclass(frozen=True)
class Chunked:
    """What every layer of a pathway shares for one whole sequence: how far back queries see, and what steers
    the scores."""

    past: int
    steering: Steering

    @property
    def stored(self) -> None:
        """See :class:`~pyanticip.models.core.attention.Layout`; there is no ring."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None, extras: Extras | None = None
    ) -> tuple[Tensor, Ring | None]:
        """See :class:`~pyanticip.models.core.attention.Layout`; there is no ring. There are no second
        derivatives."""
        assert ring is None
        steering, (_, length, _, width) = self.steering, q.shape
        if steering.rotary:
            steps = (torch.arange(length, device=q.device) * steering.rotary)[:, None]
            q, k = rotate(q, steps), rotate(k, steps)
        q = q * width**-0.5
        asked: Tensor | None = None
        seen: Tensor | None = None
        if extras is not None and steering.places is not None:
            q, asked = extras.content(q), extras.asked(steering.places.queries)
            seen = steering.places.keys.flatten(2)
        gates = None if extras is None else extras.log_gate
        amplitude, rate, beta = steering.amplitude, steering.rate, steering.beta
        if amplitude is not None:
            amplitude = amplitude.expand(q.shape[0], -1, -1)
        parts = (q, amplitude, asked, k, v, seen, gates, rate, beta)
        out: Tensor = _InChunks.apply(self, *parts)  # type: ignore[no-untyped-call]
        return out, None

    def cut(self, q: Tensor) -> Iterator["QueryChunk"]:
        """The strips of queries (B, L, H, d)."""
        rows, length, heads, _ = q.shape
        size = max(1, SCORES // (rows * heads * min(length, self.past + 1)))
        for begin in range(0, length, size):
            yield QueryChunk(begin, min(begin + size, length), max(0, begin - self.past))

    def mix(self, strip: "QueryChunk", parts: list[Tensor | None]) -> Tensor:
        """Mixed values of a strip's queries, from its share of everything; the definition."""
        q, amplitude, asked, k, v, seen, gates, rate, beta = parts
        assert q is not None
        assert k is not None
        assert v is not None
        steering = replace(self.steering, rate=rate, beta=beta)
        query = torch.arange(strip.begin, strip.end, device=q.device)
        distance = query[:, None] - torch.arange(strip.first, strip.end, device=q.device)
        hidden = (distance < 0) | (distance > self.past)
        steps = distance.clamp_(0, self.past)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1)  # (B, H, Q, K)
        kernel, line = steering.kernel(steps), steering.linear(steps)
        if amplitude is not None and kernel is not None:
            scores = scores + amplitude.transpose(1, 2)[..., None] * kernel
        if line is not None:
            scores = scores + line
        if asked is not None and seen is not None:
            scores = scores + asked.transpose(1, 2) @ seen[:, None].transpose(2, 3)
        if gates is not None:
            scores = scores + gates[:, None, None]
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return (weights @ v.transpose(1, 2)).transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class QueryChunk:
    """Queries ``begin`` to ``end``, and the ``first`` key that they see."""

    begin: int
    end: int
    first: int

    def share(self, parts: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        """What the strip needs of everything: of three by query, of four by key, and all of the rest."""
        ranges = [slice(self.begin, self.end)] * 3 + [slice(self.first, self.end)] * 4
        return [
            part if part is None or i >= len(ranges) else part[:, ranges[i]] for i, part in enumerate(parts)
        ]


class _InChunks(torch.autograd.Function):
    """Results and gradients are written where they belong as they come: were each strip's kept until the
    end, they would lie between holes that the next strip, which sees more keys, does not fit into."""

    @staticmethod
    def forward(ctx: Any, layout: Chunked, *parts: Tensor | None) -> Tensor:
        q, v = parts[0], parts[4]
        assert q is not None
        assert v is not None
        out: Tensor | None = None
        for strip in layout.cut(q):
            mixed = layout.mix(strip, strip.share(parts))
            if out is None:
                out = mixed.new_empty(*q.shape[:2], mixed.shape[2])
            out[:, strip.begin : strip.end] = mixed
        assert out is not None
        ctx.layout, device = layout, q.device.type
        ctx.autocast = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        ctx.save_for_backward(*parts)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parts = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        sums = [torch.zeros_like(p) if need else None for p, need in zip(parts, wanted, strict=True)]
        on, dtype = ctx.autocast
        for strip in ctx.layout.cut(parts[0]):
            share = [
                p if p is None else p.detach().requires_grad_(need)
                for p, need in zip(strip.share(parts), wanted, strict=True)
            ]
            with torch.enable_grad(), torch.autocast(gradient.device.type, dtype, enabled=on):
                mixed = ctx.layout.mix(strip, share)
            leaves = [p for p in share if p is not None and p.requires_grad]
            found = iter(torch.autograd.grad(mixed, leaves, gradient[:, strip.begin : strip.end]))
            for target in strip.share(tuple(sums)):
                if target is not None:
                    target += next(found)
        return None, *sums
