"""Attention over whole sequences without a score matrix in memory.

For j <= i the trajectory bias factors: ``a_i exp(-r (i - j) + b) = [a_i exp(-r i)] [exp(r j + b)]``. One
more channel on queries and on keys therefore adds it exactly, inside any fused attention kernel, with
gradients to amplitude, rate and beta; the linear bias and the mask of keys that do not exist take one channel
each. A layer's own score terms are added the same way: position vectors as additional channels, and one for
the gates of its control field where the kernel cannot add them
(:mod:`~pyanticip.models.core.gated_attention`).

Time is counted from the middle, so that both factors stay within floating-point range. A sequence too long
for one middle is cut into stretches, each with its own middle and channel: a query reads the channel of its
stretch only, and keys have a factor in it up to the stretch's end, which is as far as its queries see. A key
so far before the middle that its factor underflows gets a bias of 0 instead of one below
``2^-126 |a_i| exp(b + 30)``, about ``1e-25 |a_i| exp(b)``, which is negligible. Where stretches do not help
either, :func:`make_fused` returns another layout, or ``None`` for the reference.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.models.core.attention import Ring
from pyanticip.models.core.chunked import Chunked
from pyanticip.models.core.encodings import rotate
from pyanticip.models.core.gated_attention import attend_gated, can_gate
from pyanticip.models.core.steering import Extras, PositionVectors, Steering

MAX_EXPONENT = 60.0
"""Largest exponent of a factor that is safely in the range of float32 (and bfloat16, which has the same)."""

MAX_BETA = 20.0
"""Largest beta, which is added to the exponents of keys."""

MAX_STRETCHES = 16
"""Most stretches of a sequence; more would cost more than :class:`Chunked`."""

RECORDED_STRETCH = 4096
"""Steps of a stretch under ``torch.compile``, where no choice may depend on the rates."""

_WIDE_WINDOW = 1024
"""Window, in past steps, from which :class:`Chunked` replaces the reference layout."""

_MASK_VALUE = -1e30
"""Score of keys before the first step."""


@dataclass(frozen=True)
class Fused:
    """Data shared by every layer of a pathway for one whole sequence.

    ``block`` queries at a time see ``block + past`` keys through ``mask`` (Q, past + Q) bool; without a mask
    (``None``) all queries are one block that sees the whole past. ``queries`` (B or 1, L, H, E) and ``keys``
    (1, L, H, E), or (1, blocks, past + Q, H, E) with a mask, are the additional channels; with a mask the
    last of them hides the keys before the first step. ``places``: position vectors of the steps, if any.
    """

    past: int
    block: int
    mask: Tensor | None
    queries: Tensor | None
    keys: Tensor | None
    rotary: float
    alignment: int = 1
    """The head width is zero-padded to a multiple of this."""
    places: PositionVectors | None = None
    stored: ClassVar[None] = None
    """There is no ring."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None, extras: Extras | None = None
    ) -> tuple[Tensor, Ring | None]:
        """See :class:`~pyanticip.models.core.attention.Layout`; there is no ring."""
        assert ring is None
        length, width = q.shape[1], q.shape[3]
        if self.rotary:
            places = (torch.arange(length, device=q.device) * self.rotary)[:, None]
            q, k = rotate(q, places), rotate(k, places)
        gate = None if extras is None else extras.log_gate
        only_gate = self.mask is None and self.queries is None and self.places is None
        if gate is not None and only_gate and can_gate(q, gate):
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            return attend_gated(q, k, v, gate, width**-0.5).transpose(1, 2).flatten(2), None
        q = q * width**-0.5
        extra_queries: list[Tensor] = []
        extra_keys: list[Tensor] = []
        if extras is not None and self.places is not None:
            q = extras.content(q)
            extra_queries.append(extras.weighted_places(self.places.queries))
            extra_keys.append(self.places.keys.flatten(2)[:, :, None])
        if gate is not None:
            extra_queries.append(q.new_ones(1, 1, 1, 1))
            extra_keys.append(gate[..., None, None])
        if self.mask is None:
            mixed = self._whole(q, k, v, extra_queries, extra_keys)
        else:
            mixed = self._blocks(q, k, v, extra_queries, extra_keys, self.mask)
        return mixed[..., :width].flatten(2), None

    def _whole(
        self, q: Tensor, k: Tensor, v: Tensor, extra_queries: list[Tensor], extra_keys: list[Tensor]
    ) -> Tensor:
        if self.queries is not None and self.keys is not None:
            extra_queries, extra_keys = [*extra_queries, self.queries], [*extra_keys, self.keys]
        if extra_queries:
            q, k = self._widen(q, extra_queries), self._widen(k, extra_keys)
            v = F.pad(v, (0, q.shape[-1] - v.shape[-1]))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0).transpose(1, 2)

    def _blocks(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        extra_queries: list[Tensor],
        extra_keys: list[Tensor],
        mask: Tensor,
    ) -> Tensor:
        assert self.queries is not None
        assert self.keys is not None
        rows, length, heads, width = q.shape
        blocks = self.keys.shape[1]
        extra = blocks * self.block - length
        q = self._widen(q, [*extra_queries, self.queries])
        if extra:
            q = F.pad(q, (0, 0, 0, 0, 0, extra))
        # Channels shared by all heads are cut into spans once, not per head.
        k, *extra_keys = (self._spans(F.pad(t, (0, 0, 0, 0, self.past, extra))) for t in (k, *extra_keys))
        k = self._widen(k, [*extra_keys, self.keys])
        v = self._spans(F.pad(v, (0, q.shape[-1] - width, 0, 0, self.past, extra)))
        # Blocks join the batch axis.
        mixed = F.scaled_dot_product_attention(
            q.view(rows * blocks, self.block, heads, -1).transpose(1, 2),
            k.flatten(0, 1).transpose(1, 2),
            v.flatten(0, 1).transpose(1, 2),
            attn_mask=mask,
            scale=1.0,
        )
        return mixed.transpose(1, 2).reshape(rows, blocks * self.block, heads, -1)[:, :length]

    def _widen(self, x: Tensor, channels: list[Tensor]) -> Tensor:
        """Append additional channels to each head's features, zero-padded to the alignment."""
        width = x.shape[-1] + sum(part.shape[-1] for part in channels)
        if width % self.alignment:
            channels = [*channels[:-1], F.pad(channels[-1], (0, -width % self.alignment))]
        return torch.cat((x, *(part.to(x.dtype).expand(*x.shape[:-1], -1) for part in channels)), -1)

    def _spans(self, padded: Tensor) -> Tensor:
        """The steps visible to each block (B, blocks, past + Q, H, d), from (B, past + blocks Q, H, d)."""
        if not self.past:
            return padded[:, :, None]
        # A block is as long as its past: it sees the block before and itself. (``unfold`` is one call, but
        # its gradient is slow.)
        pieces = padded.view(padded.shape[0], -1, self.block, *padded.shape[2:])
        return torch.cat((pieces[:, :-1], pieces[:, 1:]), 2)


def make_fused(
    length: int, past: int, steering: Steering, *, device: torch.device, dtype: torch.dtype
) -> Fused | Chunked | None:
    """Prepare a pathway's attention for a whole sequence; ``None`` where the bias does not factor safely and
    the reference layout is as good as any other.

    Args:
        length: steps of the sequence.
        past: past steps each query may see besides itself.
    """
    # On a GPU the kernel with a mask needs a width of whole vectors.
    alignment = 8 if device.type == "cuda" else 1
    whole = past >= length - 1
    block = length if whole else max(past, 1)
    stretches = count_stretches(steering, block if whole else block + past, dtype)
    if not stretches or (stretches > 1 and not whole):
        return Chunked(past, steering) if whole or past >= _WIDE_WINDOW else None
    if whole:
        at = torch.arange(length, device=device)
        queries, keys = _channels(steering, at, at, dtype, stretches)
        return Fused(past, block, None, queries, keys, steering.rotary, alignment, steering.places)
    span = past + block
    blocks = -(-length // block)
    places = torch.arange(span, device=device)
    query = past + torch.arange(length, device=device) % block
    distance = places[past:, None] - places[None]
    mask = (distance >= 0) & (distance <= past)
    queries, keys = _channels(steering, query, places, dtype)
    # Only the first block has keys before the first step.
    padding_mask = torch.zeros(1, blocks, span, 1, 1, device=device, dtype=dtype)
    padding_mask[:, 0, :past] = max(_MASK_VALUE, torch.finfo(dtype).min / 4)
    one = torch.ones(1, length, 1, 1, device=device, dtype=dtype)
    if queries is None or keys is None:
        return Fused(past, block, mask, one, padding_mask, steering.rotary, alignment, steering.places)
    heads = keys.shape[2]
    keys = keys[:, None].expand(-1, blocks, -1, -1, -1)
    keys = torch.cat((keys, padding_mask.expand(-1, -1, -1, heads, -1)), -1)
    queries = torch.cat((queries, one.expand(queries.shape[0], -1, heads, -1)), -1)
    return Fused(past, block, mask, queries, keys, steering.rotary, alignment, steering.places)


def count_stretches(steering: Steering, span: int, dtype: torch.dtype) -> int:
    """Number of stretches into which ``span`` steps must be cut for the bias to factor; 0 if it cannot.

    A single stretch may reach an exponent of :data:`MAX_EXPONENT` on both sides of its middle, several only
    half of it each: then all products of factors stay in range, those of hidden keys too.
    """
    if dtype == torch.float16:
        return 0
    if steering.rate is None or steering.beta is None:
        return 1
    if torch.compiler.is_compiling():
        return -(-span // RECORDED_STRETCH)
    rates, betas = torch.stack((steering.rate, steering.beta)).tolist()
    if max(betas) > MAX_BETA:
        return 0
    lowest, highest = min(rates), max(rates)
    if max(highest, -lowest) * span / 2 <= MAX_EXPONENT:
        return 1
    # A bias that grows with the distance leaves the range itself where its factors do.
    if not (math.isfinite(sum(rates)) and -lowest * span / 2 <= MAX_EXPONENT):
        return 0
    count = math.ceil(highest * span / MAX_EXPONENT)
    return count if count <= MAX_STRETCHES else 0


def _channels(
    steering: Steering, query: Tensor, key: Tensor, dtype: torch.dtype, stretches: int = 1
) -> tuple[Tensor | None, Tensor | None]:
    """Additional channels of queries (B or 1, L, H, E) and keys (1, K, H, E) at these times, in steps."""
    pairs: list[tuple[Tensor, Tensor]] = []
    middle = (len(key) - 1) / 2
    if steering.amplitude is not None and steering.rate is not None and steering.beta is not None:
        rate, beta, amplitude = steering.rate, steering.beta, steering.amplitude
        if stretches > 1:
            pairs.append(_stretched(amplitude, rate, beta, stretches))
        else:
            # In double precision: an exponent's absolute error is its factor's relative error, and exponents
            # are large.
            exact = rate.double()
            later = (key - middle)[:, None] * exact
            growth = torch.exp(later + beta)  # (K, H)
            decay = torch.exp(-later if query is key else (query - middle)[:, None] * -exact)  # (L, H)
            pairs.append(
                ((amplitude * decay.to(rate.dtype))[..., None], growth.to(rate.dtype)[None, ..., None])
            )
    if steering.slopes is not None:
        # Not in the slopes' precision: half of it cannot tell the places of a long sequence apart.
        line = (key - middle)[:, None] * steering.slopes
        # The part that depends only on the query cancels in the softmax.
        pairs.append((line.new_ones(1, len(query), line.shape[1], 1), line[None, ..., None]))
    if not pairs:
        return None, None
    if dtype == torch.bfloat16:
        pairs = [half for pair in pairs for half in _halves(*pair)]
    if len(pairs) == 1:
        return pairs[0][0].to(dtype), pairs[0][1].to(dtype)
    rows = max(q.shape[0] for q, _ in pairs)
    queries = torch.cat([q.to(dtype).expand(rows, -1, -1, -1) for q, _ in pairs], -1)
    return queries, torch.cat([k.to(dtype) for _, k in pairs], -1)


def _stretched(amplitude: Tensor, rate: Tensor, beta: Tensor, stretches: int) -> tuple[Tensor, Tensor]:
    """Factors of queries (B, L, H, stretches) and keys (1, L, H, stretches) over a whole sequence."""
    length = amplitude.shape[1]
    size = -(-length // stretches)
    steps = torch.arange(length, device=rate.device)
    stretch = steps // size
    numbers = torch.arange(stretches, device=rate.device)
    exact = rate.double()
    # With a negative rate the bias grows towards the past: all stretches use the middle of the sequence.
    middles = torch.where(exact > 0.0, numbers[:, None] * size + (size - 1) / 2, (length - 1) / 2)
    decay = torch.exp((steps[:, None] - middles[stretch]) * -exact).to(rate.dtype)  # (L, H)
    queries = (amplitude * decay)[..., None] * (stretch[:, None] == numbers)[:, None]
    # Beyond a stretch's end, where none of its queries looks, factors are 0, and so are their exponents:
    # 0 times an infinite gradient would be nan.
    visible = (stretch[:, None] <= numbers)[:, None]  # (L, 1, stretches)
    exponent = (steps[:, None, None] - middles.T) * exact[:, None]
    growth = torch.exp(exponent.where(visible, 0.0) + beta[:, None]).where(visible, 0.0)
    return queries, growth.to(rate.dtype)[None]


def _halves(query: Tensor, key: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Split a product into three products of bfloat16 parts, accurate to about 16 bits."""
    high, raised = query.to(torch.bfloat16), key.to(torch.bfloat16)
    low, rest = query - high, key - raised
    return [(high, raised), (high, rest), (low, raised)]
