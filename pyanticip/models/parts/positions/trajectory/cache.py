"""Displacements of sequences met before, found by the exact bytes of their embeddings."""

from collections import OrderedDict
from hashlib import sha256
from typing import Final

import torch
from torch import Tensor

CACHE_ENTRIES: Final = 10_000
"""Sequences kept by default, as in the paper."""

CACHE_BYTES: Final = 1 << 26
"""What they may take together, 64 MiB: a sequence of 32,768 steps takes a quarter of one."""


class DisplacementCache:
    """The most recent sequences' displacements, the least recently used dropped first.

    A key is a SHA-256 of the bytes, the shape and the type: similar is not equal, other than in the paper,
    whose cache would hand one sequence's positions to another that resembles it.

    :param entries: most sequences kept, at least 1.
    :param size: most bytes of displacements kept.
    """

    def __init__(self, entries: int = CACHE_ENTRIES, size: int = CACHE_BYTES) -> None:
        self.entries, self.size = entries, size
        self.bytes = 0
        self._found: OrderedDict[bytes, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    @staticmethod
    def keys(embedded: Tensor) -> list[bytes]:
        """A key for each row of (B, L, D) embeddings on the CPU."""
        plain = embedded.detach().contiguous()
        shape = f"{tuple(plain.shape[1:])}{plain.dtype}".encode()
        # As bytes, for NumPy does not know every type of torch's.
        return [sha256(shape + memoryview(row.view(torch.uint8).numpy())).digest() for row in plain]

    def get(self, key: bytes) -> Tensor | None:
        """The displacements (L,) of a key, or ``None``."""
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: bytes, moved: Tensor) -> None:
        """Keep displacements (L,), which nobody may write to afterwards."""
        if moved.nbytes > self.size:
            return
        old = self._found.pop(key, None)
        self.bytes += moved.nbytes - (0 if old is None else old.nbytes)
        self._found[key] = moved
        while len(self._found) > self.entries or self.bytes > self.size:
            self.bytes -= self._found.popitem(last=False)[1].nbytes
