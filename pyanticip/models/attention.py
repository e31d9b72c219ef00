"""Local attention with an additive trajectory bias over a finite context, offline and streaming.

One code path serves both: a sequence is a chunk that follows an empty past. Keys are laid out as the ``past``
steps before the chunk and then the chunk itself; long chunks are cut into blocks of ``past`` queries, so that
no (L, L) score matrix ever exists.

Letters: b rows of the batch, h heads, i queries, j keys, d features of a head.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.streaming import State


@dataclass
class Ring(State):
    """Keys and values of the last ``past + 1`` steps, each (B, past + 1, H, d); a step sits at slot count mod
    capacity.

    Reading comes before writing, so chunks of any length fit: what is attended to is the ring's ``past``
    steps and the chunk, side by side.
    """

    k: Tensor
    v: Tensor


@dataclass(frozen=True)
class Band:
    """What every layer of a pathway shares for one call: the additive mask and the ring's slots.

    ``bias`` is (1 or B, 1 or H, blocks, Q, past + Q): the trajectory bias where a key may be seen, -inf
    elsewhere. ``read`` (B, past) are ring slots, oldest first, or ``None`` without a state. ``write`` (B, W)
    are the slots for the last W steps of the chunk, of which ``keep`` (B, W) marks those that exist
    (``None``: all of them).
    """

    past: int
    block: int
    bias: Tensor
    read: Tensor | None
    write: Tensor | None
    keep: Tensor | None


def make_band(
    length: int,
    past: int,
    *,
    amplitude: Tensor | None,
    kernel: Tensor | None,
    count: Tensor | None,
    new: Tensor | None = None,
    device: torch.device,
    dtype: torch.dtype,
) -> Band:
    """Prepare a pathway's attention for a chunk.

    :param length: steps in the chunk.
    :param past: past steps each query may see beside itself.
    :param amplitude: (B, length, H) amplitudes of the bias, ``None`` for no bias.
    :param kernel: (H, past + 1) kernel of the bias over distance.
    :param count: (B,) steps since each row's start, ``None`` for an empty past.
    :param new: (B,) how many steps of the chunk are real in each row; the rest at the end is not stored.
    """
    block = length if length <= past or past == 0 else past
    if past == 0:
        block = 1
    blocks = -(-length // block)
    query = torch.arange(block, device=device)
    key = torch.arange(past + block, device=device)
    distance = past + query[:, None] - key[None, :]  # (Q, past + Q)
    inside = (distance >= 0) & (distance <= past)
    # Only the first block can see steps from before the chunk; they must exist.
    position = key[None, :] + block * torch.arange(blocks, device=device)[:, None]  # (blocks, past + Q)
    if count is None:
        real = (position >= past)[None]
    else:
        real = position[None] >= (past - count.clamp(max=past))[:, None, None]
    allowed = inside[None, None, None] & real[:, None, :, None, :]
    if amplitude is None or kernel is None:
        bias = torch.zeros((), device=device, dtype=dtype)
    else:
        rows, _, heads = amplitude.shape
        padded = F.pad(amplitude, (0, 0, 0, blocks * block - length))
        strength = padded.view(rows, blocks, block, heads).permute(0, 3, 1, 2)  # (B, H, blocks, Q)
        shape = kernel[:, distance.clamp(0, past)]  # (H, Q, past + Q)
        bias = strength[..., None] * shape[None, :, None]
    bias = torch.where(allowed, bias, torch.full((), float("-inf"), device=device, dtype=dtype))
    if count is None:
        return Band(past, block, bias, None, None, None)
    capacity = past + 1
    ages = torch.arange(past, 0, -1, device=device)
    read = (count[:, None] - ages) % capacity
    width = min(length, capacity)
    items = torch.arange(length - width, length, device=device)
    write = (count[:, None] + items) % capacity
    keep = None if new is None else items < new[:, None]
    return Band(past, block, bias, read, write, keep)


class TrajectoryAttention(nn.Module):
    """``softmax(q k / sqrt(d) + bias) v`` over a finite past; fused projections without bias terms.

    :param d_model: width of the stream.
    :param heads: number of heads H.
    :param past: past steps each query may see.
    """

    def __init__(self, d_model: int, heads: int, past: int) -> None:
        super().__init__()
        self.heads = heads
        self.past = past
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, batch: int) -> Ring:
        """An empty ring."""
        weight = self.qkv.weight
        shape = (batch, self.past + 1, self.heads, weight.shape[1] // self.heads)
        return Ring(weight.new_zeros(shape), weight.new_zeros(shape))

    def forward(self, x: Tensor, band: Band, ring: Ring | None) -> tuple[Tensor, Ring | None]:
        """Attend from a chunk (B, L, D) to itself and, through the ring, to what came before."""
        rows, length, width = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, self.heads, -1).unbind(2)  # (B, L, H, d)
        if ring is None or band.read is None:
            keys, values = (F.pad(t, (0, 0, 0, 0, band.past, 0)) for t in (k, v))
        else:
            batch = torch.arange(rows, device=x.device)[:, None]
            keys, values = (
                torch.cat((stored[batch, band.read], new), 1) for stored, new in ((ring.k, k), (ring.v, v))
            )
            ring = _write(ring, band, batch, k, v)
        blocks = band.bias.shape[2]
        extra = blocks * band.block - length
        if extra:
            q, keys, values = (F.pad(t, (0, 0, 0, 0, 0, extra)) for t in (q, keys, values))
        span = band.past + band.block
        q = q.view(rows, blocks, band.block, self.heads, -1).permute(0, 3, 1, 2, 4)  # (B, H, blocks, Q, d)
        keys = keys.unfold(1, span, band.block).permute(0, 2, 1, 3, 4)  # (B, H, blocks, d, span)
        values = values.unfold(1, span, band.block).permute(0, 2, 1, 4, 3)  # (B, H, blocks, span, d)
        scores = (q * q.shape[-1] ** -0.5) @ keys + band.bias
        mixed = scores.softmax(-1) @ values
        mixed = mixed.permute(0, 2, 3, 1, 4).reshape(rows, blocks * band.block, width)
        return self.out(mixed[:, :length]), ring


def _write(ring: Ring, band: Band, batch: Tensor, k: Tensor, v: Tensor) -> Ring:
    """Store the chunk's last steps: in place without gradients, else in fresh memory."""
    assert band.write is not None
    slots = (batch, band.write)
    width = band.write.shape[1]
    stored = []
    for old, new in ((ring.k, k[:, -width:]), (ring.v, v[:, -width:])):
        if band.keep is not None:
            new = torch.where(band.keep[..., None, None], new, old[slots])
        if torch.is_grad_enabled():
            stored.append(old.index_put(slots, new))
        else:
            stored.append(old.index_put_(slots, new))
    return Ring(*stored)
