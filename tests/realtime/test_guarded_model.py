"""A model that fails or is late: it is suspended, reported and tried again."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.playing import outputs

from pyanticip.motion.recording import RecordingWriter
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.rig import parse_rig
from realtime.sources.replay import open_show, play_offline
from realtime.stage import assemble
from realtime.step.guard import GuardedModel

RIG = parse_rig({"control": {"enabled": False}, "memory": {"enabled": False}}, "test")


def test_a_failing_model_is_suspended_and_retried(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model(fail=True)).frames(50)
    assert len(s.ear.frames) == 50
    assert s.model.calls.count("step 1") == 1, "it must rest after a failure"
    assert "out of paper" in s.pipeline.model_error
    assert f"plays=scalars (model rests: {s.pipeline.model_error})" in s.pipeline.status()
    s.model.fail = False
    s.frames(50, 150)
    assert s.model.calls[2:4] == ["reset", "step 1"]
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8, abs=1e-6)
    assert s.pipeline.counts["failed_steps"] == 1


def test_a_model_failure_is_recorded_and_replayed(paper_model: Any, tmp_path: Path) -> None:
    """As if a device or memory had been lost."""
    files = [tmp_path / "show.anticip", tmp_path / "again.anticip"]
    skeleton, frames = mocopi_datagrams(250)
    live, again = (assemble(RIG, OfflineClock(), backend=paper_model()) for _ in range(2))
    with RecordingWriter(files[0], t_ns=0) as live.tape:
        live.feed(skeleton, 0)
        for n, datagram in enumerate(frames):
            live.backend.fail = n == 60
            live.clock.advance_to(n * 20_000_000)
            live.feed(datagram, n * 20_000_000)
    with RecordingWriter(files[1], t_ns=0) as again.tape:
        obey = Commands(again, pytest.fail, RIG).replay_command
        play_offline(open_show(files[0])[1], again.clock, again.feed, obey)
    assert [pipeline.counts["failed_steps"] for pipeline in (live, again)] == [1, 0]
    assert live.counts["without_model"] == again.counts["without_model"] == 100
    assert outputs(files[0]) == outputs(files[1])
    assert [*open_show(files[0])[1]] == [*open_show(files[1])[1]]
    for pipeline in (live, again):
        pipeline.close()


def test_a_failing_prewarm_is_reported_and_the_model_plays(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model())
    s.model.prewarm = None
    for n in range(25):
        s.frame(n)
        s.pipeline.prewarm()
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8)
    assert s.pipeline.counts["errors"] == 25
    assert s.pipeline.model_error.startswith("the model cannot be warmed up, continuing: TypeError: ")


def test_suspensions_of_a_failing_model_get_longer(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model(fail=True))
    tried: list[float] = []
    for n in range(4750):
        before = s.pipeline.counts["failed_steps"]
        s.frame(n)
        if s.pipeline.counts["failed_steps"] > before:
            tried.append(n * 0.02)
    pauses = np.diff(tried)
    assert pauses == pytest.approx([2.0, 4.0, 8.0, 16.0, 32.0, 32.0], abs=0.021)


def test_a_model_is_suspended_after_three_late_steps(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model(delay=0.02))
    s.clock.live = True
    s.frames(6)
    assert s.model.calls.count("step 1") == 3
    assert s.pipeline.counts["late_steps"] == 3
    assert len(s.ear.frames) == 6
    assert not s.pipeline.mixer.by_model
    assert s.pipeline.model_error.startswith("the model takes longer than 15 ms (model.budget_ms), ")


@pytest.fixture
def guarded(paper_model: Any) -> GuardedModel:
    clock = OfflineClock()
    clock.live = True
    return GuardedModel(paper_model(), clock, 15.0, Counter())


@pytest.mark.parametrize(("every", "rests"), [(3, True), (5, False)])
def test_a_model_that_is_late_too_often_is_suspended(guarded, every, rests):
    late = [guarded.judge(0, None, 60_000_000 if n % every == 0 else 1_000_000) for n in range(100)]
    assert any(late) is rests
    assert bool(guarded.error) is rests


def test_a_step_that_stalls_once_is_reported(guarded: GuardedModel) -> None:
    assert not guarded.judge(0, None, 2_000_000_000)
    assert guarded.error == "a step of the model took more than 100 ms: all else waits for it"


def test_the_suspension_is_short_again_after_a_while_in_time(guarded: GuardedModel) -> None:
    def suspend(now: int) -> int:
        for _ in range(3):
            guarded.judge(now, None, 16_000_000)
        return next(s for s in range(99) if not guarded.is_suspended(now + s * 1_000_000_000))

    assert [suspend(s * 1_000_000_000) for s in (100, 110, 130, 210)] == [2, 4, 8, 2]
