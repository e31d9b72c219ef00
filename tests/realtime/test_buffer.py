"""The jitter buffer: bundles are sent at an even pace, in the order of their times."""

from typing import Any

import numpy as np
import pytest


def test_a_jitter_buffer_sends_at_an_even_pace(stage: Any) -> None:
    rng = np.random.default_rng(0)
    delays = rng.gamma(1.0, 6.4e6, 1000).astype(int)
    spread = {}
    for buffer in (0.0, "auto", 60.0):
        s = stage(buffer_ms=buffer)
        last = 0
        for n, delay in enumerate(delays):
            last = max(last, n * 20_000_000 + int(delay))
            s.receive(n, last)
        frames = [f for f in s.ear.frames if f.seq > 100]
        assert [f.seq for f in frames] == list(range(101, 101 + len(frames)))
        spread[buffer] = np.std(np.diff([f.t_ns for f in frames])) / 1e6
    assert spread[0.0] > 4.0
    assert max(spread["auto"], spread[60.0]) < 0.5


@pytest.mark.parametrize("buffer", ["auto", 60.0])
def test_a_lost_frame_is_bridged_at_its_own_time(stage: Any, buffer: Any) -> None:
    lost = np.random.default_rng(1).random(600) < 0.2
    lost[:100] = lost[-1] = False
    s = stage(buffer_ms=buffer)
    for n in np.flatnonzero(~lost).tolist():
        # 20 to 50 ms in transit: the next may arrive before or after the lost one's turn.
        s.receive(n, max(n * 20_000_000 + 20_000_000 + n * 7 % 4 * 10_000_000, s.clock.now_ns()))
    s.pipeline.run_until(s.clock.now_ns() + 100_000_000)
    frames = [f for f in s.ear.frames if 100 < f.seq < 600]
    assert [f.seq for f in frames] == list(range(101, 600)), "each number once, and none is left out"
    assert np.diff([f.t_ns for f in frames]).max() < 21_000_000


@pytest.mark.parametrize("buffer", ["auto", 60.0])
def test_times_increase_when_the_delay_exceeds_the_buffer(stage: Any, buffer: Any) -> None:
    s = stage(buffer_ms=buffer)
    for n in range(400):
        # From here on the transit takes longer than any buffer.
        s.receive(n, n * 20_000_000 + 5_000_000 + (100_000_000 if n > 200 else 0))
    times = np.array([f.t_ns for f in s.ear.frames if f.seq >= 0])
    assert len(times) >= 390
    assert np.diff(times).min() > 0
