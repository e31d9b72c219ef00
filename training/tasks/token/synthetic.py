"""Synthetic sequences with known phases: a repeated motif, randomness, convergence (Diomande 2026)."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import OptionError

MOTIF, RANDOM, CONVERGE, PADDING = range(4)
"""Labels of the phases."""

# Ranges, inclusive, and number of tokens.
MOTIF_TOKENS: Final = (3, 7)
MOTIF_REPEATS: Final = (2, 4)
RANDOM_TOKENS: Final = (5, 14)
CONVERGING_TOKENS: Final = 10


@dataclass(frozen=True)
class Synthetic:
    """Sequences, and the phase of each token."""

    ids: NDArray[np.int64]
    """(N, L) tokens."""
    phases: NDArray[np.int8]
    """(N, L) labels: 0 motif, 1 random, 2 converge, 3 padding."""


def synthetic(
    vocab: int,
    length: int,
    sequences: int,
    seed: int,
    *,
    repeats: tuple[int, int] = MOTIF_REPEATS,
) -> Synthetic:
    """Draw sequences of three phases.

    A motif of 3 to 7 random tokens, repeated 2 to 4 times; 5 to 14 random tokens; 10 tokens that converge
    to a random centre: the i-th (from 0) is the centre plus uniform integer noise of at most
    ``max(1, vocab // 2**i)``, modulo the vocabulary; random tokens up to ``length``, where sequences are cut.

    Args:
        vocab: number of tokens, at least 2.
        length: tokens per sequence, at least 2.
        sequences: number of sequences.
        seed: seed of all draws; training and validation use different ones.
        repeats: minimum and maximum number of repetitions of a motif.

    Raises:
        OptionError: a size is too small, or the seed is negative.

    >>> drawn = synthetic(vocab=50, length=64, sequences=4, seed=0)
    >>> drawn.ids.shape, int(drawn.ids.max()) < 50, drawn.phases[0, 0] == MOTIF
    ((4, 64), True, np.True_)
    """
    for name, value, minimum in (
        ("vocab", vocab, 2),
        ("length", length, 2),
        ("sequences", sequences, 1),
        ("seed", seed, 0),
    ):
        if value < minimum:
            raise OptionError(f"synthetic data: {name} must be at least {minimum}, got {value}")
    if not 1 <= repeats[0] <= repeats[1]:
        raise OptionError(f"synthetic data: repeats must be 1 <= least <= most, got {repeats}")
    rng = np.random.default_rng(seed)
    position = np.arange(length)[None, :]

    def between(bounds: tuple[int, int]) -> NDArray[np.int64]:
        return rng.integers(bounds[0], bounds[1], size=(sequences, 1), endpoint=True)

    period = between(MOTIF_TOKENS)
    random_from = period * between(repeats)
    converge_from = random_from + between(RANDOM_TOKENS)
    padding_from = converge_from + CONVERGING_TOKENS
    phases = (
        (position >= random_from).astype(np.int8) + (position >= converge_from) + (position >= padding_from)
    )

    motif = rng.integers(vocab, size=(sequences, MOTIF_TOKENS[1]))
    spread = np.maximum(1, vocab >> np.arange(CONVERGING_TOKENS))
    centre = rng.integers(vocab, size=(sequences, 1))
    noise = rng.integers(-spread, spread, size=(sequences, CONVERGING_TOKENS), endpoint=True)
    converging = (centre + noise) % vocab

    ids = rng.integers(vocab, size=(sequences, length))
    ids = np.where(phases == MOTIF, np.take_along_axis(motif, position % period, axis=1), ids)
    step = np.clip(position - converge_from, 0, CONVERGING_TOKENS - 1)
    ids = np.where(phases == CONVERGE, np.take_along_axis(converging, step, axis=1), ids)
    return Synthetic(ids, phases)
