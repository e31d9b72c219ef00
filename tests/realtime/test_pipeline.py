from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyanticip.controls import NEUTRAL, scalar_mapping
from realtime.pipeline import STAGES


def test_a_frame_goes_all_the_way(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model())
    seen = []
    s.pipeline.observer = lambda *a: seen.append(a)
    for n in range(25):
        s.frame(n)
    assert [f.seq for f in s.ear.frames] == list(range(25))
    assert [f.seconds for f in s.ear.frames[:2]] == [0.0, pytest.approx(0.02)]
    loudness = [f.params[1] for f in s.ear.frames]
    assert loudness[0] < 0.05, "the stream eases in from silence"
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8)
    assert s.ear.frames[1].scalars == [0.7, 0.3, 0, 0.35, 0.8, 0.2, 0.6]
    assert s.model.said == ["reset", *["step 1"] * 25]
    assert len(seen) == 25
    assert len(seen[0][3]) == len(STAGES)
    assert seen[0][3][:3] == (1000, 2000, 3000)
    assert all(ns >= 0 for ns in seen[0][3])


def test_datagrams_that_complete_nothing_send_nothing(stage: Any) -> None:
    s = stage()
    assert s.pipeline.feed(b"alien", 1) is False
    assert s.ear.frames == []


def test_a_short_gap_is_stepped_in_one_call_and_a_long_one_resets(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model())
    for n in (0, 1, 6, 7, 60):
        s.frame(n)
    assert s.model.said == ["reset", "step 1", "step 1", "step 5", "step 1", "reset", "step 1"]
    assert [f.seq for f in s.ear.frames] == [0, 1, 6, 7, 60]


def test_without_a_model_the_scalars_play(stage: Any) -> None:
    s = stage()
    for n in range(25):
        s.frame(n)
    assert s.ear.frames[-1].params == pytest.approx(scalar_mapping(s.ear.frames[-1].scalars))
    assert "backend=none" in s.pipeline.status()


def test_a_failing_model_leaves_the_stage_and_is_tried_again(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model(fail=True))
    for n in range(50):
        s.frame(n)
    assert len(s.ear.frames) == 50
    assert s.model.said.count("step 1") == 1, "it must rest after a failure"
    assert "out of paper" in s.pipeline.model_error
    assert any("model rests" in word for word in s.pipeline.status())
    s.model.fail = False
    for n in range(50, 150):
        s.frame(n)
    assert s.model.said[2:4] == ["reset", "step 1"]
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8, abs=1e-6)
    assert s.pipeline.counts["failed_steps"] == 1


def test_a_model_that_says_nan_is_a_failing_model(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model(level=float("nan")))
    s.frame(0)
    assert np.isfinite(s.ear.frames[0].params).all()
    assert s.pipeline.counts["failed_steps"] == 1


def test_a_late_model_hands_over_after_three_late_steps(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model(delay=0.02))
    s.clock.speed = 1.0
    for n in range(6):
        s.frame(n)
    assert s.model.said.count("step 1") == 3
    assert s.pipeline.counts["late_steps"] == 3
    assert len(s.ear.frames) == 6
    assert not s.pipeline.desk.by_model


def test_silence_ticks_hold_then_fade_then_catch_up(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model())
    for n in range(25):
        s.frame(n)
    s.silence(49)
    assert len(s.ear.frames) >= 25 + 48
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8, abs=1e-6)
    assert s.pipeline.state == "silent"
    s.silence(120)
    assert s.ear.frames[-1].params == pytest.approx(NEUTRAL)
    for n in range(195, 225):
        s.frame(n)
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8, abs=1e-6)
    numbers = [f.seq for f in s.ear.frames]
    assert numbers == sorted(set(numbers)), "frame numbers go up, whatever happens"
    times = [f.seconds for f in s.ear.frames]
    assert times == sorted(times)
    values = np.array([f.params for f in s.ear.frames])
    assert np.abs(np.diff(values, axis=0)).max() < 0.1
    assert s.pipeline.state == "playing"


def test_one_late_packet_is_not_silence(stage: Any) -> None:
    s = stage()
    s.frame(0)
    s.clock.advance_to(25_000_000)
    s.pipeline.tick()
    assert len(s.ear.frames) == 1


def test_a_sender_that_restarts_goes_on(stage: Any) -> None:
    s = stage()
    for n in (100, 101, 102, 0, 1, 2):
        s.pipeline.feed(str(n).encode(), s.clock.now_ns())
        s.clock.advance_to(s.clock.now_ns() + 20_000_000)
    assert [f.seq for f in s.ear.frames] == [0, 1, 2, 3, 4, 5]
    assert s.ear.frames[-1].seconds == pytest.approx(0.1)


def test_the_status_comes_once_a_second_and_before_the_first_frame(stage: Any) -> None:
    s = stage()
    s.silence(60)
    assert [f.seq for f in s.ear.frames] == [-1, -1]
    assert s.ear.frames[0].status[0] == "waiting"
    for n in range(60, 260):
        s.frame(n)
    told = [f for f in s.ear.frames if f.status]
    assert len(told) == 2 + 4
    assert told[-1].status[0] == "playing"
    assert "lost=3" in told[-1].status
    assert "bad=2" in told[-1].status


def test_the_tape_hears_everything(stage: Any) -> None:
    calls: list[str] = []

    class Tape:
        def raw(self, *a: Any) -> None:
            calls.append("raw")

        def frame(self, *a: Any) -> None:
            calls.append("frame")

        def output(self, *a: Any) -> None:
            calls.append("output")

    s = stage()
    s.pipeline.tape = Tape()
    s.frame(0)
    s.pipeline.feed(b"alien", 1)
    assert calls == ["raw", "frame", "output", "raw"]


def test_the_same_show_twice_is_the_same(stage: Any, paper_model: Any) -> None:
    shows = []
    for _ in range(2):
        s = stage(paper_model())
        for n in [*range(30), *range(35, 50), *range(200, 220)]:
            s.frame(n)
            if n == 49:
                s.silence(140)
        shows.append([(f.seq, f.seconds, tuple(f.params), tuple(f.events)) for f in s.ear.frames])
    assert shows[0] == shows[1]


def test_prewarming_changes_nothing(stage: Any, paper_model: Any) -> None:
    shows = []
    for warm in (False, True):
        s = stage(paper_model())
        for n in range(30):
            s.frame(n)
            if warm:
                s.pipeline.prewarm()
        shows.append([(f.seq, f.seconds, f.params, f.events) for f in s.ear.frames])
    assert shows[0] == shows[1]


def test_closing_closes_everything(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model())
    s.pipeline.prewarm()
    s.pipeline.close()
    assert s.ear.closed
    assert s.model.said == ["prewarm", "close"]
