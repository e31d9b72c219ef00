"""The jitter buffer: bundles are sent at an even pace, in the order of their times."""

from typing import Any

import numpy as np
import pytest

from realtime.mapping.mixer import Mixer
from realtime.pipeline import Pipeline


def test_a_jitter_buffer_lets_bundles_go_at_an_even_pace(stage: Any) -> None:
    rng = np.random.default_rng(0)
    delays = rng.gamma(1.0, 6.4e6, 1000).astype(int)
    spread = {}
    for buffer in (0.0, "auto", 60.0):
        s = stage()
        s.pipeline = Pipeline(front=s.front, mixer=Mixer(), sinks=[s.ear], clock=s.clock, buffer_ms=buffer)
        last = 0
        for n, delay in enumerate(delays):
            last = max(last, n * 20_000_000 + int(delay))
            s.clock.advance_to(last)
            s.pipeline.feed(str(n).encode(), last)
        frames = [f for f in s.ear.frames if f.seq > 100]
        assert [f.seq for f in frames] == list(range(101, 101 + len(frames)))
        spread[buffer] = np.std(np.diff([f.t_ns for f in frames])) / 1e6
    assert spread[0.0] > 4.0
    assert max(spread["auto"], spread[60.0]) < 0.5


@pytest.mark.parametrize("buffer", ["auto", 60.0])
def test_what_is_lost_leaves_at_its_own_turn(stage: Any, buffer: Any) -> None:
    lost = np.random.default_rng(1).random(600) < 0.2
    lost[:100] = lost[-1] = False
    s = stage()
    s.pipeline = Pipeline(front=s.front, mixer=Mixer(), sinks=[s.ear], clock=s.clock, buffer_ms=buffer)
    for n in np.flatnonzero(~lost).tolist():
        # 20 to 50 ms in transit: the next may arrive before or after the lost one's turn.
        at = max(n * 20_000_000 + 20_000_000 + n * 7 % 4 * 10_000_000, s.clock.now_ns())
        s.clock.advance_to(at)
        s.pipeline.feed(str(n).encode(), at)
    s.pipeline.run_until(s.clock.now_ns() + 100_000_000)
    frames = [f for f in s.ear.frames if 100 < f.seq < 600]
    assert [f.seq for f in frames] == list(range(101, 600)), "each number once, and none is left out"
    assert np.diff([f.t_ns for f in frames]).max() < 21_000_000


@pytest.mark.parametrize("buffer", ["auto", 60.0])
def test_with_a_buffer_time_never_goes_back(stage: Any, buffer: Any) -> None:
    s = stage()
    s.pipeline = Pipeline(front=s.front, mixer=Mixer(), sinks=[s.ear], clock=s.clock, buffer_ms=buffer)
    for n in range(400):
        # From here on the transit takes longer than any buffer.
        at = n * 20_000_000 + 5_000_000 + (100_000_000 if n > 200 else 0)
        s.clock.advance_to(at)
        s.pipeline.feed(str(n).encode(), at)
    times = np.array([f.t_ns for f in s.ear.frames if f.seq >= 0])
    assert len(times) >= 390
    assert np.diff(times).min() > 0
