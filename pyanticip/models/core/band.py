"""The reference layout: blocks of queries against an explicit bias, with or without a state.

One code path serves both: a sequence is a chunk that follows an empty past. Keys are the ``past`` steps
before the chunk and then the chunk itself; long chunks are cut into blocks of ``past`` queries, so that no
(L, L) score matrix ever exists.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.models.core.attention import Ring
from pyanticip.models.core.encodings import rotate
from pyanticip.models.core.steering import Extras, Steering


@dataclass(frozen=True)
class Band:
    """Data shared by every layer of a pathway for one call: the additive mask and the ring's slots.

    ``bias`` is (1 or B, 1 or H, blocks, Q, past + Q): the steering where a key is visible, -inf elsewhere.
    ``read`` (B, past) are ring slots, oldest first, or ``None`` without a state. ``write`` (B, W) are the
    slots for the last W steps of the chunk, of which ``keep`` (B, W) marks those that are real (``None``:
    all). ``rotary`` as in :class:`~pyanticip.models.core.steering.Steering`. With position vectors,
    ``query_places`` are (B, L, C, d), ``key_places`` (B, blocks, past + Q, C d), and ``stored`` is the ring
    of the keys' vectors after the chunk.

    The ring is read before it is written, so chunks may have any length: queries attend to the ring's
    ``past`` steps and the chunk, side by side.
    """

    past: int
    block: int
    bias: Tensor
    read: Tensor | None
    write: Tensor | None
    keep: Tensor | None
    rotary: float = 0.0
    query_places: Tensor | None = None
    key_places: Tensor | None = None
    stored: Tensor | None = None

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None, extras: Extras | None = None
    ) -> tuple[Tensor, Ring | None]:
        """See :class:`~pyanticip.models.core.attention.Layout`."""
        rows, length, heads, _ = q.shape
        gates = None if extras is None else extras.log_gate
        if ring is None or self.read is None:
            keys, values = (F.pad(t, (0, 0, 0, 0, self.past, 0)) for t in (k, v))
            gates = None if gates is None else F.pad(gates, (self.past, 0))
        else:
            batch = torch.arange(rows, device=q.device)[:, None]
            keys, values = (
                torch.cat((stored[batch, self.read], new), 1) for stored, new in ((ring.k, k), (ring.v, v))
            )
            fresh = gates
            if gates is not None:
                assert isinstance(ring.gate, Tensor)
                gates = torch.cat((ring.gate[batch, self.read], gates), 1)
            ring = self._write(ring, k, v, fresh)
        place_queries = None
        if extras is not None and self.query_places is not None:
            q, place_queries = extras.content(q), extras.weighted_places(self.query_places)
        blocks = self.bias.shape[2]
        extra = blocks * self.block - length
        if extra:
            q, keys, values = (F.pad(t, (0, 0, 0, 0, 0, extra)) for t in (q, keys, values))
        span = self.past + self.block
        q = q.view(rows, blocks, self.block, heads, -1).permute(0, 3, 1, 2, 4)  # (B, H, blocks, Q, d)
        keys = keys.unfold(1, span, self.block).permute(0, 2, 1, 4, 3)  # (B, H, blocks, span, d)
        values = values.unfold(1, span, self.block).permute(0, 2, 1, 4, 3)
        if self.rotary:
            # Only differences of positions matter: count from the first key of each block.
            places = torch.arange(span, device=q.device) * self.rotary
            q, keys = rotate(q, places[self.past :]), rotate(keys, places)
        scores = (q * q.shape[-1] ** -0.5) @ keys.transpose(-1, -2) + self.bias
        if place_queries is not None and self.key_places is not None:
            place_queries = F.pad(place_queries, (0, 0, 0, 0, 0, extra))
            place_queries = place_queries.view(rows, blocks, self.block, heads, -1)
            place_keys = self.key_places[:, None].transpose(-1, -2)
            scores = scores + place_queries.permute(0, 3, 1, 2, 4) @ place_keys
        if gates is not None:
            gates = F.pad(gates, (0, extra)).unfold(1, span, self.block)  # (B, blocks, span)
            scores = scores + gates[:, None, :, None]
        mixed = scores.softmax(-1) @ values
        mixed = mixed.permute(0, 2, 3, 1, 4).reshape(rows, blocks * self.block, -1)
        return mixed[:, :length], ring

    def _write(self, ring: Ring, k: Tensor, v: Tensor, gates: Tensor | None) -> Ring:
        """Store the chunk's last steps."""
        assert self.write is not None
        ring = replace(
            ring, k=store(ring.k, k, self.write, self.keep), v=store(ring.v, v, self.write, self.keep)
        )
        if gates is not None and isinstance(ring.gate, Tensor):
            ring.gate = store(ring.gate, gates, self.write, self.keep)
        return ring


def store(ring: Tensor, chunk: Tensor, write: Tensor, keep: Tensor | None) -> Tensor:
    """Store the last steps of a chunk (B, L, ...) in the slots ``write`` (B, W) of a ring (B, past + 1, ...),
    except those whose ``keep`` (B, W) is False: in place without gradients, else in a new tensor. The ring
    keeps its dtype."""
    slots = (torch.arange(ring.shape[0], device=ring.device)[:, None], write)
    new = chunk[:, -write.shape[1] :].to(ring.dtype)
    if keep is not None:
        new = torch.where(keep.view(keep.shape + (1,) * (new.ndim - 2)), new, ring[slots])
    return ring.index_put(slots, new) if torch.is_grad_enabled() else ring.index_put_(slots, new)


def make_band(
    length: int,
    past: int,
    steering: Steering,
    *,
    count: Tensor | None,
    new: Tensor | None = None,
    device: torch.device,
    dtype: torch.dtype,
) -> Band:
    """Prepare a pathway's attention for a chunk.

    Args:
        length: steps in the chunk.
        past: past steps each query may see besides itself.
        count: (B,) steps since each row's start, ``None`` for an empty past.
        new: (B,) how many steps of the chunk are real in each row; the rest at the end is not stored.
    """
    block = max(min(length, past), 1)
    blocks = -(-length // block)
    query = torch.arange(block, device=device)
    key = torch.arange(past + block, device=device)
    distance = past + query[:, None] - key[None, :]  # (Q, past + Q)
    in_window = (distance >= 0) & (distance <= past)
    # Only the first block can see steps from before the chunk, and only those that exist.
    position = key[None, :] + block * torch.arange(blocks, device=device)[:, None]  # (blocks, past + Q)
    if count is None:
        exists = (position >= past)[None]
    else:
        exists = position[None] >= (past - count.clamp(max=past))[:, None, None]
    allowed = in_window[None, None, None] & exists[:, None, :, None, :]
    kernel = steering.kernel(distance.clamp(0, past))  # (H, Q, past + Q)
    linear_bias = steering.linear(distance.clamp(0, past))
    bias = torch.zeros((), device=device, dtype=dtype)
    if steering.amplitude is not None and kernel is not None:
        rows, _, heads = steering.amplitude.shape
        padded = F.pad(steering.amplitude, (0, 0, 0, blocks * block - length))
        strength = padded.view(rows, blocks, block, heads).permute(0, 3, 1, 2)  # (B, H, blocks, Q)
        bias = strength[..., None] * kernel[None, :, None]
    if linear_bias is not None:
        bias = bias + linear_bias[None, :, None]
    bias = torch.where(allowed, bias, torch.full((), float("-inf"), device=device, dtype=dtype))
    places = steering.places
    place_queries = None if places is None else places.queries
    place_keys = None if places is None else places.keys
    padding = blocks * block - length
    if count is None:
        if place_keys is not None:
            place_keys = _spans(F.pad(place_keys.flatten(2), (0, 0, past, padding)), past + block, block)
        return Band(past, block, bias, None, None, None, steering.rotary, place_queries, place_keys)
    capacity = past + 1
    ages = torch.arange(past, 0, -1, device=device)
    read = (count[:, None] - ages) % capacity
    width = min(length, capacity)
    items = torch.arange(length - width, length, device=device)
    write = (count[:, None] + items) % capacity
    keep = None if new is None else items < new[:, None]
    stored = steering.place_ring
    if place_keys is not None and stored is not None:
        batch = torch.arange(len(count), device=device)[:, None]
        all_places = torch.cat((stored[batch, read], place_keys), 1).flatten(2)
        stored = store(stored, place_keys, write, keep)
        place_keys = _spans(F.pad(all_places, (0, 0, 0, padding)), past + block, block)
    return Band(past, block, bias, read, write, keep, steering.rotary, place_queries, place_keys, stored)


def _spans(keys: Tensor, span: int, block: int) -> Tensor:
    """The keys visible to each block (B, blocks, span, E), from (B, past + blocks Q, E)."""
    return keys.unfold(1, span, block).transpose(2, 3)
