"""Attention over whole sequences in strips of queries, with explicit scores.

Used for a bias that does not factor (see :mod:`pyanticip.models.core.fused`). It computes the definition,
like the reference layout, but never holds more than the scores of one strip. The backward pass computes each
strip again, so that memory grows with the length and not with its square.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip.models.core.attention import Ring
from pyanticip.models.core.encodings import rotate
from pyanticip.models.core.steering import Extras, Steering

MAX_STRIP_SCORES = 1 << 20
"""Maximum number of scores of a strip over all rows and heads; a strip has at least one query."""


@dataclass(frozen=True)
class Chunked:
    """Data shared by every layer of a pathway for one whole sequence: the ``past`` steps that queries see,
    and the steering of the scores."""

    past: int
    steering: Steering
    stored: ClassVar[None] = None
    """There is no ring."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None, extras: Extras | None = None
    ) -> tuple[Tensor, Ring | None]:
        """See :class:`~pyanticip.models.core.attention.Layout`; there is no ring. Second derivatives are not
        supported."""
        assert ring is None
        steering, (_, length, _, width) = self.steering, q.shape
        if steering.rotary:
            steps = (torch.arange(length, device=q.device) * steering.rotary)[:, None]
            q, k = rotate(q, steps), rotate(k, steps)
        q = q * width**-0.5
        place_queries: Tensor | None = None
        place_keys: Tensor | None = None
        if extras is not None and steering.places is not None:
            q, place_queries = extras.content(q), extras.weighted_places(steering.places.queries)
            place_keys = steering.places.keys.flatten(2)
        gates = None if extras is None else extras.log_gate
        amplitude, rate, beta = steering.amplitude, steering.rate, steering.beta
        if amplitude is not None:
            amplitude = amplitude.expand(q.shape[0], -1, -1)
        parts = (q, amplitude, place_queries, k, v, place_keys, gates, rate, beta)
        out: Tensor = _ChunkedAttention.apply(self, *parts)  # type: ignore[no-untyped-call]
        return out, None

    def cut(self, q: Tensor) -> Iterator["QueryStrip"]:
        """Cut queries (B, L, H, d) into strips."""
        rows, length, heads, _ = q.shape
        size = max(1, MAX_STRIP_SCORES // (rows * heads * min(length, self.past + 1)))
        for begin in range(0, length, size):
            yield QueryStrip(begin, min(begin + size, length), max(0, begin - self.past))

    def mix(self, strip: "QueryStrip", parts: list[Tensor | None]) -> Tensor:
        """Mixed values of a strip's queries, from the strip's share of all inputs."""
        q, amplitude, place_queries, k, v, place_keys, gates, rate, beta = parts
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
        if place_queries is not None and place_keys is not None:
            scores = scores + place_queries.transpose(1, 2) @ place_keys[:, None].transpose(2, 3)
        if gates is not None:
            scores = scores + gates[:, None, None]
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return (weights @ v.transpose(1, 2)).transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class QueryStrip:
    """Queries ``begin`` to ``end`` (excluded), and the ``first`` key that they see."""

    begin: int
    end: int
    first: int

    def share(self, parts: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        """The strip's slices of all inputs: three are by query, four by key, the rest is not sliced."""
        ranges = [slice(self.begin, self.end)] * 3 + [slice(self.first, self.end)] * 4
        return [
            part if part is None or i >= len(ranges) else part[:, ranges[i]] for i, part in enumerate(parts)
        ]


class _ChunkedAttention(torch.autograd.Function):
    """Writes results and gradients into preallocated tensors: kept separately until the end, they would
    fragment memory, as each strip sees more keys than the one before."""

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
        needs_grad = ctx.needs_input_grad[1:]
        sums = [torch.zeros_like(p) if need else None for p, need in zip(parts, needs_grad, strict=True)]
        autocast_enabled, dtype = ctx.autocast
        for strip in ctx.layout.cut(parts[0]):
            share = [
                p if p is None else p.detach().requires_grad_(need)
                for p, need in zip(strip.share(parts), needs_grad, strict=True)
            ]
            with torch.enable_grad(), torch.autocast(gradient.device.type, dtype, enabled=autocast_enabled):
                mixed = ctx.layout.mix(strip, share)
            leaves = [p for p in share if p is not None and p.requires_grad]
            gradients = iter(torch.autograd.grad(mixed, leaves, gradient[:, strip.begin : strip.end]))
            for target in strip.share(tuple(sums)):
                if target is not None:
                    target += next(gradients)
        return None, *sums
