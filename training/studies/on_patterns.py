"""Token sequences of seven kinds, the pattern types of *Trajectory-Guided Positional Encoding* (2025).

The paper names the kinds and says nothing of how they are made. Here the four geometric ones are paths on a
line or a plane of 64 cells, one token a cell, with some noise, begun anew every 12 to 24 steps; dialogue and
code are small grammars; random is uniform. Every kind has something that can be foretold, but for the last.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

VOCAB: Final = 64
SIDE: Final = 8
"""The plane of the circles is 8 x 8 cells."""
JITTER: Final = 0.1
"""Share of the steps of a path that are seen one cell off."""

Ids = NDArray[np.int64]


def pattern(kind: str, sequences: int, length: int, seed: int) -> Ids:
    """Sequences (N, L) of tokens from 0 to 63, of one of :data:`PATTERNS`.

    >>> pattern("circular", 3, 40, seed=0).shape
    (3, 40)
    """
    rng = np.random.default_rng([seed, list(PATTERNS).index(kind)])
    return PATTERNS[kind](rng, sequences, length)


def _segments(rng: np.random.Generator, sequences: int, length: int) -> tuple[Ids, Ids]:
    """For every step (N, L) which stretch of 12 to 24 steps it belongs to, and its number therein."""
    ends = rng.integers(12, 25, size=(sequences, -(-length // 12))).cumsum(1)
    at = np.arange(length)
    segment = (at[None, :, None] >= ends[:, None, :]).sum(2)
    begins = np.concatenate((np.zeros((sequences, 1), np.int64), ends), 1)
    return segment, at - np.take_along_axis(begins, segment, 1)


def _each(rng: np.random.Generator, segment: Ids, low: float, high: float) -> NDArray[np.float64]:
    """A number from low to high for every stretch, at each of its steps."""
    drawn = rng.uniform(low, high, size=(len(segment), int(segment.max()) + 1))
    return np.take_along_axis(drawn, segment, 1)


def _sign(rng: np.random.Generator, segment: Ids) -> NDArray[np.float64]:
    return np.where(_each(rng, segment, -1.0, 1.0) < 0.0, -1.0, 1.0)


def _jitter(rng: np.random.Generator, shape: tuple[int, ...]) -> Ids:
    """-1 or 1 on some steps, else 0."""
    off: Ids = (rng.random(shape) < JITTER) * rng.choice(np.array([-1, 1]), size=shape)
    return off


def linear(rng: np.random.Generator, sequences: int, length: int) -> Ids:
    """A constant step of 1 to 5 cells either way, round and round."""
    segment, at = _segments(rng, sequences, length)
    step = np.floor(_each(rng, segment, 1.0, 6.0)) * _sign(rng, segment)
    start = np.floor(_each(rng, segment, 0.0, VOCAB))
    return ((start + at * step).astype(np.int64) + _jitter(rng, at.shape)) % VOCAB


def convergent(rng: np.random.Generator, sequences: int, length: int) -> Ids:
    """A gap of 16 to 31 cells to a centre that shrinks by a fifth each step, noise in proportion."""
    segment, at = _segments(rng, sequences, length)
    gap = _each(rng, segment, 16.0, 31.0) * _sign(rng, segment) * 0.8**at
    return _around(rng, segment, gap)


def divergent(rng: np.random.Generator, sequences: int, length: int) -> Ids:
    """A gap of one cell to a centre that grows by a sixth each step, noise in proportion."""
    segment, at = _segments(rng, sequences, length)
    gap = _sign(rng, segment) * (7.0 / 6.0) ** at
    return _around(rng, segment, gap)


def _around(rng: np.random.Generator, segment: Ids, gap: NDArray[np.float64]) -> Ids:
    centre = np.floor(_each(rng, segment, 0.0, VOCAB))
    noise = rng.uniform(-0.25, 0.25, size=gap.shape) * gap
    return np.rint(centre + gap + noise).astype(np.int64) % VOCAB


def circular(rng: np.random.Generator, sequences: int, length: int) -> Ids:
    """Circles of radius 2 to 3.5 cells, a turn every 5 to 12 steps, either way."""
    segment, at = _segments(rng, sequences, length)
    turn = 2.0 * np.pi / np.floor(_each(rng, segment, 5.0, 13.0)) * _sign(rng, segment)
    angle = _each(rng, segment, 0.0, 2.0 * np.pi) + turn * at
    radius = _each(rng, segment, 2.0, 3.5)
    across, up = (np.rint(3.5 + radius * f(angle)).astype(np.int64) for f in (np.cos, np.sin))
    across = np.clip(across + _jitter(rng, at.shape), 0, SIDE - 1)
    cells: Ids = np.clip(up, 0, SIDE - 1) * SIDE + across
    return cells


SPEAKERS: Final = 2
WORDS: Final = 15
"""Of each speaker: word w of the first answers word w of the second."""


def dialogue(rng: np.random.Generator, sequences: int, length: int) -> Ids:
    """Two take turns of 3 to 8 words: a speaker's mark, then answers to the other's last words, word by word;
    where those have run out, or one time in four, the speaker's own chain of words goes on."""
    out = np.empty((sequences, length), np.int64)
    for row in out:
        said: list[int] = []
        last: list[int] = []
        speaker, topic = int(rng.integers(SPEAKERS)), int(rng.integers(1, 4))
        while len(said) < length:
            words: list[int] = []
            word = int(rng.integers(WORDS))
            for k in range(int(rng.integers(3, 9))):
                word = last[k] if k < len(last) and rng.random() < 0.75 else (word + topic) % WORDS
                words.append(word)
            said += [speaker, *(SPEAKERS + speaker * WORDS + word for word in words)]
            last, speaker = words, 1 - speaker
        row[:] = said[:length]
    return out


NEWLINE, INDENT, ASSIGN, PLUS, OPEN, CLOSE = range(6)
KEYWORDS: Final = (6, 7, 8)
FIRST_NAME: Final = 9


def code(rng: np.random.Generator, sequences: int, length: int) -> Ids:
    """Lines, indented by their depth: assignments of sums of the names known in their block, and blocks that
    a keyword and a known name open and a closing mark ends, by which the block's own names are forgotten."""
    out = np.empty((sequences, length), np.int64)
    for row in out:
        said: list[int] = []
        scopes = [[int(rng.integers(FIRST_NAME, VOCAB))]]

        def known(scopes: list[list[int]] = scopes) -> int:
            names = [name for scope in scopes for name in scope]
            return names[int(rng.integers(len(names)))]

        while len(said) < length:
            depth, luck = len(scopes) - 1, float(rng.random())
            if luck < 0.2 and depth < 4:
                line = [INDENT] * depth + [KEYWORDS[int(rng.integers(3))], known(), OPEN]
                scopes.append([])
            elif luck < 0.45 and depth:
                scopes.pop()
                line = [INDENT] * (depth - 1) + [CLOSE]
            else:
                name = known() if rng.random() < 0.5 else int(rng.integers(FIRST_NAME, VOCAB))
                line = [INDENT] * depth + [name, ASSIGN, known(), PLUS, known()]
                scopes[-1].append(name)
            said += [*line, NEWLINE]
        row[:] = said[:length]
    return out


def uniform(rng: np.random.Generator, sequences: int, length: int) -> Ids:
    """Independent uniform tokens: nothing to foretell."""
    return rng.integers(VOCAB, size=(sequences, length))


PATTERNS: Final[dict[str, Callable[[np.random.Generator, int, int], Ids]]] = {
    "linear": linear,
    "convergent": convergent,
    "circular": circular,
    "divergent": divergent,
    "dialogue": dialogue,
    "code": code,
    "random": uniform,
}
"""The kinds, in the order of the paper's table."""
