"""Hypothesis strategies for the core's kernels: arrays of matching shapes."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from support.core_arrays import seeds


class Draft:
    """Arrays of one precision, made from one seed."""

    def __init__(self, draw: DrawFn) -> None:
        self.rng = np.random.default_rng(draw(seeds))
        self.dtype = draw(st.sampled_from([np.float32, np.float64]))

    def any(self, *shape: int) -> Any:
        """Normal numbers."""
        return self.rng.normal(size=shape).astype(self.dtype)

    def share(self, *shape: int) -> Any:
        """Numbers that add up to one along the last axis."""
        x = np.abs(self.any(*shape)) + self.dtype(1e-3)
        return x / x.sum(-1, keepdims=True) if x.size else x

    def room(self, *shape: int) -> Any:
        """Room for a result."""
        return np.zeros(shape, self.dtype)

    def like(self, *arrays: Any) -> list[Any]:
        """Room for the gradients of these."""
        return [None if x is None else np.zeros_like(x) for x in arrays]


few = st.sampled_from([0, 1, 2, 3, 5, 17])


def _scan(draw: DrawFn) -> tuple[Draft, list[Any], tuple[int, int, int, int]]:
    """Moves, start, gamma and jumps of a scan, and its sizes: rows, cursors, steps, places."""
    rows, cursors, steps = draw(st.tuples(few, st.integers(1, 4), few))
    places, jumping, draft = draw(st.sampled_from([2, 3, 17, 40])), draw(st.integers(0, cursors)), Draft(draw)
    gamma = 1 + np.abs(draft.any(cursors)) if draw(st.booleans()) else None
    jumps = draft.share(rows, jumping, steps, places) if jumping else None
    inputs = [draft.share(rows, cursors, steps, 5), draft.share(rows, cursors, places), gamma, jumps]
    return draft, inputs, (rows, cursors, steps, places)


@st.composite
def scan(draw: DrawFn) -> list[Any]:
    """Of ``prism_scan``."""
    draft, inputs, sizes = _scan(draw)
    return [*inputs, draft.room(*sizes)]


def _places(draw: DrawFn) -> tuple[Draft, list[Any], tuple[int, ...], tuple[int, ...]]:
    draft, inputs, (rows, cursors, steps, places) = _scan(draw)
    width = draw(few)
    kept = (rows, cursors, -(-steps // 16), places)
    return draft, [*inputs, draft.any(places, width)], (rows, cursors, steps, width), kept


@st.composite
def places(draw: DrawFn) -> list[Any]:
    """Of ``prism_places``."""
    draft, inputs, out, kept = _places(draw)
    return [
        *inputs,
        draft.room(*out),
        draft.room(*inputs[1].shape),
        draw(st.none() | st.just(draft.room(*kept))),
    ]


@st.composite
def places_backward(draw: DrawFn) -> list[Any]:
    """Of ``prism_places_backward``."""
    draft, inputs, out, kept = _places(draw)
    last = draw(st.none() | st.just(draft.any(*inputs[1].shape)))
    return [*inputs, draft.share(*kept), draft.any(*out), last, *draft.like(*inputs[:4])]


@st.composite
def gru(draw: DrawFn) -> list[Any]:
    """Of ``prism_gru``."""
    (rows, steps, width), draft = draw(st.tuples(few, few, few)), Draft(draw)
    gates = draw(st.none() | st.just(draft.room(rows, steps, 4 * width)))
    given = [draft.any(rows, steps, 3 * width), draft.any(rows, width), draft.any(3 * width, width)]
    return [*given, draft.any(3 * width), draft.room(rows, steps, width), gates]


@st.composite
def gru_backward(draw: DrawFn) -> list[Any]:
    """Of ``prism_gru_backward``."""
    (rows, steps, width), draft = draw(st.tuples(few, few, few)), Draft(draw)
    out = (rows, steps, width)
    given = [draft.any(rows, width), draft.any(3 * width, width), draft.any(3 * width)]
    made = [draft.any(*out), draft.any(rows, steps, 4 * width), draft.any(*out)]
    return [*given, *made, draft.room(rows, steps, 3 * width), draft.room(*out), draft.room(rows, width)]


@st.composite
def field(draw: DrawFn) -> list[Any]:
    """Of ``field_forward``."""
    (fibres, hidden, rows, steps), draft = draw(st.tuples(few, few, few, few)), Draft(draw)
    parameters = [draft.any(hidden), draft.any(1, hidden), draft.any(1), draft.any()]
    parameters[-1] = np.asarray(parameters[-1], draft.dtype)
    rates = [draw(st.sampled_from([0.0, 0.5, 0.97, 1.0])), draw(st.floats(0, 3))]
    return [draft.any(fibres + hidden, rows * steps), fibres, *parameters, *rates, draft.room(6, rows, steps)]


@st.composite
def field_backward(draw: DrawFn) -> list[Any]:
    """Of ``field_backward``."""
    seen, fibres, *parameters, decay, bend, out = draw(field())
    grads = [draw(st.none() | st.just(np.ones(out.shape[1:], out.dtype))) for _ in range(5)]
    into = [np.zeros_like(x) for x in (seen, *parameters)]
    return [seen, fibres, *parameters, decay, bend, out + 1, grads, into]


@st.composite
def gates(draw: DrawFn) -> list[Any]:
    """Of ``field_gates``."""
    rows, steps, heads, width = draw(st.tuples(few, few, st.integers(1, 4), st.integers(1, 20)))
    draft = Draft(draw)

    def laid(last: int) -> tuple[Any, tuple[int, int, int]]:
        """Numbers from the first to the last as they lie, and the strides."""
        return draft.any(rows * steps * heads * last), (steps * heads * last, heads * last, last)

    tensors = [*(laid(width) for _ in range(6)), laid(1)]
    return [heads, width, 0.5, tensors, draft.any(rows, steps), draw(st.booleans()), draft.room(rows, steps)]


def _table(draw: DrawFn, width: int) -> list[Any]:
    """Sine and cosine of whole positions, and the speeds of their pairs."""
    pairs, positions = max(-(-width // 2), 1), draw(st.sampled_from([1, 40]))
    speeds = (0.1 ** np.arange(pairs)).astype(np.float32)
    angles = np.arange(positions)[:, None] * speeds
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(positions, 2 * pairs)
    return [table.astype(np.float32), speeds]


def _path(draw: DrawFn) -> Any:
    """Embeddings of which some may not be finite."""
    path = np.random.default_rng(draw(seeds)).normal(size=draw(st.tuples(few, few, few))).astype(np.float32)
    if path.size and draw(st.booleans()):
        path.flat[draw(st.integers(0, path.size - 1))] = draw(st.sampled_from([np.nan, np.inf, 3e38]))
    return path


rules = st.tuples(st.floats(0.1, 2), st.floats(0.1, 2), st.booleans())


@st.composite
def trajectory(draw: DrawFn) -> list[Any]:
    """Of ``trajectory_encode``."""
    path = _path(draw)
    return [path, *draw(rules), *_table(draw, path.shape[2]), np.zeros_like(path)]


@st.composite
def positions(draw: DrawFn) -> list[Any]:
    """Of ``encode_positions``."""
    (count, width), rng = draw(st.tuples(few, few)), np.random.default_rng(draw(seeds))
    return [39 * rng.random(count), *_table(draw, width), np.zeros((count, width), np.float32)]


@st.composite
def plans(draw: DrawFn) -> list[Any]:
    """Of ``plan_draw``."""
    (steps, ahead), vocab, rng = draw(st.tuples(few, few)), draw(st.integers(1, 99)), Draft(draw).rng
    slots = draw(st.integers(1, vocab))
    room = np.zeros((steps, slots), np.int64), np.zeros((steps, slots))
    comes = rng.integers(0, vocab, (steps, ahead)), rng.integers(0, 4, (steps, ahead))
    shapes, log_frequency = rng.exponential(size=(4, 2)), -rng.exponential(size=vocab)
    return [*comes, shapes, log_frequency, np.sort(-rng.exponential(size=9)), 8.0, draw(seeds), *room]


@st.composite
def plan_targets(draw: DrawFn) -> list[Any]:
    """Of ``plan_targets``."""
    rows, count, length, horizon = draw(st.tuples(few, few, few, st.integers(1, 9)))
    codes, sizes = Draft(draw).rng.integers(-1, 7, (rows, count)), (rows if count else 0, length)
    gone = np.zeros((*sizes, horizon), np.bool_)
    return [codes, gone.astype(np.int64), gone, np.zeros(sizes, np.bool_)]


@st.composite
def plan_rows(draw: DrawFn, spread: bool) -> list[Any]:
    """Of ``plan_spread``, or of ``plan_products``."""
    draft, (steps, asks, each, width) = Draft(draw), draw(st.tuples(few, few, few, few))
    table, codes = draft.any(7, width), draft.rng.integers(0, 7, (steps, each))
    wide, narrow = draft.any(steps, asks, width), draft.any(steps, asks, each)
    return [narrow, wide, codes, table] if spread else [wide, table, codes, narrow]
