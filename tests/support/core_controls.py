"""Hypothesis strategies for the core's live path: steps of a model, settings, frames."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pyanticip import _core
from support.core_arrays import f32, numbers, rows, turns

Draws = SearchStrategy[Any]

shares = st.floats(0, 1)
leads = st.floats(0, 400)
spans = st.floats(0, 2)
"""Seconds."""
forecasts = f32(8, 5).map(lambda x: np.clip(np.abs(x), 0, 1))
hazards = st.sampled_from([1, 8, 25]).flatmap(lambda bins: f32(2, bins).map(lambda x: np.clip(x, 0, 1)))


def named(**fields: Draws) -> Draws:
    """An object with these attributes."""
    return st.fixed_dictionaries(fields).map(lambda given: SimpleNamespace(**given))


chances = f32(2, 25).map(lambda x: np.clip(x, 0, 1))
results = st.tuples(forecasts, chances, f32(7), shares)
said = results.map(lambda given: _core.StepResult(*given))
steps = st.none() | said
shapes = named(
    span=st.sampled_from([(0.0, 1.0), (0.2, 0.7), (0.5, 0.5)]),
    invert=st.booleans(),
    threshold=st.none() | shares,
    hysteresis=shares,
    toggle=st.booleans(),
    steps=st.none() | st.sampled_from([2, 3, 2**32 - 1]),
)
smoothings = named(
    kind=st.sampled_from(["none", "spring", "one-euro"]),
    half_life=st.floats(0.001, 2),
    min_cutoff=st.floats(0.1, 10),
    beta=st.floats(0, 2),
)
eight = st.lists(smoothings, min_size=8, max_size=8)
values = st.lists(shares, min_size=8, max_size=8)
rules = st.fixed_dictionaries(
    {
        "theta": shares,
        "max_buffer": st.integers(1, 9),
        "reach_ms": leads,
        "last_moment": st.none() | st.tuples(leads, shares),
    }
)


@st.composite
def rule(draw: DrawFn) -> Any:
    """A rule of events."""
    return _core.EventRule([draw(shares)] * 2, [draw(spans)] * 2, **draw(rules))


@st.composite
def taught(draw: DrawFn) -> list[Any]:
    """Of ``Desk.set_mapping``: places, and of those beside the eight settings and values."""
    places = draw(st.lists(st.none() | st.integers(0, 7), max_size=5))
    beside = places.count(None)
    listed = [draw(st.lists(of, min_size=beside, max_size=beside)) for of in (smoothings, shares, shares)]
    return [places, *listed]


shapers = st.lists(st.tuples(st.integers(0, 7), shapes.map(_core.Shaper)), max_size=3)
scalars = numbers(7).map(np.abs)

ends = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted).map(lambda e: (0.3 * e[0], *e[1:]))
"""Still, low and high of a range."""
known = st.lists(st.none() | ends, min_size=2, max_size=2)
ranges = st.builds(_core.PerformerRange, known, frozen=st.booleans())
lags = st.lists(leads, min_size=8, max_size=8)
ways = st.just("auto") | leads
lead = st.builds(_core.Lead, ways, lags, sound_ms=leads)
desk_parts: list[Draws] = [eight, st.tuples(spans, st.floats(0.01, 2), spans), values, rule(), lead]
desks = st.builds(_core.Desk, *desk_parts)
times = st.integers(0, 2**40)

completed: list[Draws] = [
    rows(2).map(lambda r: np.resize(r, (2, 279))),
    turns(2, 22),
    st.lists(st.floats(-2, 2), min_size=7, max_size=7),
]
"""Features, poses and scalars of a datagram's frames."""
moments: dict[str, Draws] = {
    "seq": st.integers(0, 99),
    "t_source_ns": times,
    "t_local_ns": times,
    "expected_ns": times,
    "late_ns": times,
    "reset": st.booleans(),
}
"""When they were."""
outs = st.builds(_core.FrontOutput, *completed, **moments)
fronts = st.sampled_from(_core.PROTOCOLS).map(_core.LiveFront)
