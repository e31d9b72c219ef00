"""What the live path of the core is called with: its engine, and the parts that this one shares."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pyanticip import _core
from support import core_controls as controls
from support.core_arrays import rows, turns

Draws = SearchStrategy[Any]

ends = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted).map(lambda e: (0.3 * e[0], *e[1:]))
"""Still, low and high of a range."""
known = st.lists(st.none() | ends, min_size=2, max_size=2)
ranges = st.builds(_core.PerformerRange, known, frozen=st.booleans())
lags = st.lists(controls.leads, min_size=8, max_size=8)
ways = st.just("auto") | controls.leads
lead = st.builds(_core.Lead, ways, lags, sound_ms=controls.leads)
desk_parts: list[Draws] = [
    controls.eight,
    st.tuples(controls.spans, st.floats(0.01, 2), controls.spans),
    controls.values,
    controls.rule(),
    lead,
]
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
