from typing import Any

import numpy as np
import pytest

from pyanticip.controls import NEUTRAL, Smoothing, scalar_mapping
from realtime.control.commands import Commands
from realtime.mapping.performer import PerformerRange
from realtime.pipeline import STAGES
from realtime.sources.replay import Command
from realtime.step.base import StepBackend, StepResult


def test_a_frame_passes_all_stages(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model())
    seen = []
    s.pipeline.observer = lambda *a: seen.append(a)
    s.frames(25)
    assert [f.seq for f in s.ear.frames] == list(range(25))
    assert [f.seconds for f in s.ear.frames[:2]] == [0.0, pytest.approx(0.02)]
    loudness = [f.params[1] for f in s.ear.frames]
    assert loudness[0] < 0.05, "the stream eases in from silence"
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8)
    assert s.ear.frames[1].scalars == [0.7, 0.3, 0, 0.35, 0.8, 0.2, 0.6]
    assert s.model.calls == ["reset", *["step 1"] * 25]
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
    assert s.model.calls == ["reset", "step 1", "step 1", "step 5", "step 1", "reset", "step 1"]
    # Every frame is sent once: missing ones as forecasts or as silence.
    assert [f.seq for f in s.ear.frames] == list(range(61))
    assert s.pipeline.counts["frames"] == 5
    assert s.pipeline.counts["bridged"] == 4 + 20


def test_without_a_model_the_scalars_play(stage: Any) -> None:
    s = stage().frames(25)
    assert s.ear.frames[-1].params == pytest.approx(scalar_mapping(s.ear.frames[-1].scalars))
    assert "backend=none" in s.pipeline.status()


@pytest.mark.parametrize("missing", [60, 80, 110, 130])
def test_what_comes_after_a_fade_is_eased_in_from_where_it_is(
    stage: Any, paper_model: Any, missing: int
) -> None:
    s = stage(paper_model()).frames(50)
    s.silence(missing)
    s.frames(50 + missing, 100 + missing)
    loudness = [frame.params[1] for frame in s.ear.frames if frame.seq >= 49]
    assert np.abs(np.diff(loudness)).max() < 0.06


def test_a_show_that_is_stopped_while_the_signal_is_lost_fades_evenly(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model()).frames(50)
    s.silence(10)
    s.pipeline.mixer.set_mode("stopped")
    s.silence(60)
    loudness = [frame.params[1] for frame in s.ear.frames if frame.seq >= 49]
    assert loudness[-1] == 0.0
    assert np.abs(np.diff(loudness)).max() < 0.06


def test_frames_behind_their_slots_do_not_shorten_the_silence(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model()).frames(50)
    for late in range(40):
        s.receive(50 + late, (50 + late) * 20_000_000 + 410_000_000)
    assert s.pipeline.counts["overtaken"] > 10
    assert s.pipeline.counts["ticks"] > 10
    loudness = [frame.params[1] for frame in s.ear.frames if frame.seq >= 49]
    assert min(loudness) > 0.7, "held for a second"


def test_silence_holds_then_fades_then_catches_up(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model()).frames(25)
    s.silence(49)
    assert len(s.ear.frames) >= 25 + 48
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8, abs=1e-6)
    assert s.pipeline.state == "silent"
    s.silence(120)
    assert s.ear.frames[-1].params == pytest.approx(NEUTRAL)
    s.frames(195, 225)
    assert s.ear.frames[-1].params == pytest.approx([0.75] * 8, abs=1e-6)
    numbers = [f.seq for f in s.ear.frames]
    assert numbers == sorted(set(numbers)), "frame numbers go up, whatever happens"
    times = [f.seconds for f in s.ear.frames]
    assert times == sorted(times)
    values = np.array([f.params for f in s.ear.frames])
    assert np.abs(np.diff(values, axis=0)).max() < 0.1
    assert s.pipeline.state == "playing"


def test_a_frame_is_late_after_a_quarter_of_an_interval(stage: Any) -> None:
    s = stage()
    s.frame(0)
    assert s.pipeline.due_ns == 25_000_001
    s.pipeline.run_until(25_000_001)
    assert len(s.ear.frames) == 1
    s.pipeline.run_until(25_000_002)
    assert [f.seq for f in s.ear.frames] == [0, 1]
    assert s.ear.frames[1].t_ns == 25_000_001


class Falling(StepBackend):
    """A model whose parameters will fall, with an onset due in 250 ms."""

    name, manifest, hidden = "falling", None, 0

    def __init__(self) -> None:
        self.steps = 0

    def step(self, rows: np.ndarray) -> Any:
        self.steps += len(rows)
        hazards = np.zeros((2, 25), np.float32)
        hazards[0, 12] = 0.6
        params = np.linspace(0.8, 0.0, 5)[None].repeat(8, 0).astype(np.float32)
        return StepResult(params, hazards, np.zeros(7, np.float32), 1.0)

    def reset(self) -> None: ...

    def prewarm(self) -> None: ...

    def close(self) -> None: ...


class Notes:
    """A recording in memory."""

    status_words: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.taken: list[tuple[str, int, Any]] = []
        self.calls: list[str] = []

    def raw(self, t_ns: int, source: str, datagram: bytes) -> None:
        self.calls.append(f"raw {source}")
        self.taken.append(("raw", t_ns, datagram))

    def control(self, t_ns: int, name: str, arguments: Any) -> None:
        self.taken.append((name, t_ns, tuple(arguments)))

    def frame(self, *_: Any) -> None:
        self.calls.append("frame")

    def output(self, t_ns: int, seq: int, params: Any, scalars: Any, events: Any, *more: Any) -> None:
        self.calls.append("output")
        self.taken.append(("output", t_ns, (seq, list(params), list(events))))


def test_a_gap_is_bridged_by_the_forecast_and_its_events(stage: Any) -> None:
    s = stage(Falling()).frames(25)
    before = [f.params[0] for f in s.ear.frames]
    assert not any(f.events for f in s.ear.frames)
    s.silence(15)
    bridged = s.ear.frames[25:]
    assert [f.seq for f in bridged] == list(range(25, 40))
    values = [f.params[0] for f in bridged]
    assert min(values) < before[-1] - 0.3, "it does not stand still"
    assert values[:8] == sorted(values[:8], reverse=True)
    # The forecast onset is announced once, at its time, and never after it.
    announced = [(f.t_ns, ahead) for f in s.ear.frames for _, _, ahead in f.events]
    assert len(announced) == 1
    assert announced[0][0] / 1e9 + announced[0][1] == pytest.approx(24 * 0.02 + 0.25, abs=0.06)
    assert s.pipeline.state == "playing"


def test_only_the_first_late_frame_is_imagined(stage: Any, paper_model: Any) -> None:
    s = stage(paper_model())
    s.front.can_imagine = True
    s.frames(25)
    s.model.calls.clear()
    s.silence(3)
    assert s.model.calls == ["imagine"]
    assert [f.seq for f in s.ear.frames[25:]] == [25, 26, 27]
    levels = [f.params[0] for f in s.ear.frames[24:]]
    assert levels[0] == pytest.approx(0.75)
    assert levels == sorted(levels, reverse=True), "what follows is the guess's forecast"
    assert levels[-1] < 0.5
    s.frame(28)
    assert s.model.calls == ["imagine", "step 4"], "the true frames are stepped, the guess is forgotten"


def test_a_model_that_cannot_imagine_gives_its_forecast(stage: Any, paper_model: Any) -> None:
    model = paper_model()
    model.imagine = lambda row: None
    s = stage(model)
    s.front.can_imagine = True
    s.frames(25)
    s.silence(1)
    assert s.ear.frames[25].params == pytest.approx([0.75] * 8)
    assert s.pipeline.counts["bridged"] == 1


def test_without_a_model_the_scalars_of_the_guess_play(stage: Any) -> None:
    s = stage()
    s.front.can_imagine = True
    s.frames(25)
    s.front.imagined_scalars = [0.2, 0.8, 0.5, 0.5, 0.2, 0.9, 0.1]
    s.silence(1)
    assert s.ear.frames[25].scalars == s.front.imagined_scalars
    assert s.ear.frames[25].params != s.ear.frames[24].params


def test_the_performer_is_learned_from_every_true_frame_once(stage: Any, paper_model: Any) -> None:
    """Also from overtaken frames: otherwise a 60 Hz source would have another range than a 50 Hz one."""
    received = []
    s = stage(paper_model())
    s.front.can_imagine = True
    s.pipeline.mixer.performer = PerformerRange()
    s.pipeline.mixer.performer.listener = lambda now, activity, dt: received.append((now[0], dt))
    s.frames(25)
    for n in range(25, 50):
        s.receive(n, (n // 5 + 1) * 100_000_000 + n)
    assert s.pipeline.counts["overtaken"] > 15
    assert [level for level, _ in received] == [0.75] * 50
    assert sum(dt for _, dt in received) == pytest.approx(50 * 0.02, abs=0.021)


def test_a_burst_sends_one_bundle(stage: Any) -> None:
    s = stage(Falling()).frames(25)
    s.clock.advance_to(35 * 20_000_000 + 2)
    for n in range(25, 36):
        s.pipeline.feed(str(n).encode(), s.clock.now_ns())
    assert [f.seq for f in s.ear.frames] == list(range(36))
    assert s.pipeline.counts["overtaken"] == 10
    assert s.model.steps == 36, "all of them are understood"


def test_a_longer_delay_is_adapted_to(stage: Any) -> None:
    """From one frame on everything arrives 200 ms later, permanently."""
    s = stage(Falling())
    for n in range(150):
        s.receive(n, n * 20_000_000 + (200_000_000 if n >= 50 else 0) + 1)
    assert [f.seq for f in s.ear.frames] == list(range(s.ear.frames[-1].seq + 1))
    assert s.pipeline.counts["overtaken"] < 30
    bridged = s.pipeline.counts["bridged"]
    for n in range(150, 200):
        s.receive(n, n * 20_000_000 + 200_000_001)
    assert s.pipeline.counts["bridged"] == bridged


def test_frames_delayed_by_a_stall_are_processed_but_not_sent(stage: Any) -> None:
    s = stage(Falling()).frames(25)
    s.clock.live = True
    # The process stalled for eight seconds; arrival times come from the kernel.
    s.clock.advance_to(425 * 20_000_000)
    for n in range(25, 425):
        s.pipeline.feed(str(n).encode(), n * 20_000_000 + 1)
    assert len(s.ear.frames) <= 25 + 3
    assert s.ear.frames[-1].seq == 424
    assert s.pipeline.counts["superseded"] >= 397
    assert all(ahead >= 0 for f in s.ear.frames for _, _, ahead in f.events)


class Rising(Falling):
    """A model whose parameters rise with each frame, up to 0.9 after eight seconds."""

    def step(self, rows: np.ndarray) -> Any:
        out = super().step(rows)
        level = 0.9 * min(self.steps / 400, 1.0)
        return StepResult(np.full((8, 5), level, np.float32), out.hazards, out.scalars, 1.0)


def test_values_ease_out_of_a_standstill_also_in_a_replay(stage: Any) -> None:
    s = stage(Rising())
    tape = s.pipeline.tape = Notes()
    s.frames(25)
    s.clock.live = True
    s.clock.advance_to(425 * 20_000_000)
    for n in range(25, 425):
        s.pipeline.feed(str(n).encode(), n * 20_000_000 + 1)
    s.frames(425, 460)
    received = np.array([f.params for f in s.ear.frames])
    assert np.abs(np.diff(received, axis=0)).max() < 0.08
    assert received[-1] == pytest.approx([0.9] * 8)
    assert [name for name, *_ in tape.taken].count("resume") == 1
    again = stage(Rising())
    notes = again.pipeline.tape = Notes()
    commands = Commands(again.pipeline, str)
    for name, t, what in tape.taken:
        again.clock.advance_to(t)
        if name == "raw":
            again.pipeline.feed(what, t)
        elif name != "output":
            commands.replay_command(Command(t, name, what))
    assert notes.taken == tape.taken
    # Not after a short stall.
    s.clock.advance_to(463 * 20_000_000)
    for n in range(460, 464):
        s.pipeline.feed(str(n).encode(), n * 20_000_000 + 1)
    assert [name for name, *_ in tape.taken].count("resume") == 1


def test_a_recorded_beat_without_a_phase_has_phase_0_at_time_0(stage: Any) -> None:
    s = stage()
    Commands(s.pipeline, pytest.fail).replay_command(Command(0, "tempo", (120.0,)))
    assert s.pipeline.leading_beat == (120.0, 0.0)


def test_numbers_continue_when_a_sender_restarts(stage: Any) -> None:
    s = stage()
    for n in (100, 101, 102, 0, 1, 2):
        s.pipeline.feed(str(n).encode(), s.clock.now_ns())
        s.clock.advance_to(s.clock.now_ns() + 20_000_000)
    assert [f.seq for f in s.ear.frames] == [0, 1, 2, 3, 4, 5]
    assert s.ear.frames[-1].seconds == pytest.approx(0.1)


def test_the_beat_continues_while_frames_are_missing(stage: Any) -> None:
    s = stage().frames(10)
    assert s.ear.frames[-1].tempo == (120.0, pytest.approx(0.36), 0.9)
    s.silence(60)
    tempi = [f.tempo for f in s.ear.frames[10:]]
    assert len(tempi) > 50
    assert {bpm for bpm, _, _ in tempi} == {120.0}
    for i, (_, phase, trust) in enumerate(tempi):
        assert phase == pytest.approx((0.40 + 0.04 * i) % 1.0, abs=1e-6)
        assert trust == (0.9 if i < 20 else 0.0), "a bridged frame is trusted, silence is not"


def test_the_status_has_the_tempo_while_there_is_one(stage: Any) -> None:
    s = stage()
    assert not any(word.startswith("tempo=") for word in s.pipeline.status())
    s.frame(0)
    assert "tempo=120" in s.pipeline.status()
    s.silence(30)
    assert not any(word.startswith("tempo=") for word in s.pipeline.status())


def test_the_status_comes_once_a_second_and_before_the_first_frame(stage: Any) -> None:
    s = stage()
    s.silence(60)
    assert not s.ear.frames
    assert len(s.ear.statuses) == 2
    assert s.ear.statuses[0][0] == "waiting"
    s.frames(60, 260)
    statuses = s.ear.statuses
    assert len(statuses) == 2 + 4
    assert statuses[-1][0] == "playing"
    assert "lost=3" in statuses[-1]
    assert {"rate=50.0", "jitter_ms=0.5", "from=10.0.0.1:4000", "ignored=1"} <= set(statuses[-1])
    assert "bad=2" in statuses[-1]
    # A panic is reported with the frame in which it begins, for receivers that have to be silent at once.
    s.pipeline.mixer.set_mode("panic")
    s.frame(260)
    assert [one[0] for one in s.ear.statuses[6:]] == ["panic"]


def test_the_tape_gets_everything(stage: Any) -> None:
    s = stage()
    tape = s.pipeline.tape = Notes()
    s.frame(0)
    s.pipeline.feed(b"alien", 1, "10.0.0.2:99")
    assert tape.calls == ["raw mocopi", "frame", "output", "raw mocopi@10.0.0.2:99"]


def test_the_due_time_of_an_event_does_not_depend_on_late_arrival(stage, paper_model):
    """The time of the frame and the suit's delay count, not the arrival of the datagram."""

    class Beat(paper_model):
        def step(self, rows):
            lines = super().step(rows)
            hazards = lines.hazards
            hazards[0, 9] = 0.9
            return StepResult(lines.params, hazards, lines.scalars, lines.gate)

    aheads = {}
    for late_ms in (0, 8, 30):
        here = stage(Beat())
        here.clock.advance_to(20_000_000 + late_ms * 1_000_000)
        here.pipeline.feed(b"1", here.clock.now_ns())
        ((name, _, aheads[late_ms]),) = here.ear.frames[-1].events
        assert name == "onset"
    assert aheads[0] - aheads[8] == pytest.approx(0.008)
    assert aheads[0] - aheads[30] == pytest.approx(0.030)


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


@pytest.mark.parametrize("buffer", [0.0, "auto", 60.0])
@pytest.mark.parametrize("lead_ms", [0.0, 100.0])
def test_a_lead_counts_from_the_moment_of_sending(
    stage: Any, paper_model: Any, buffer: Any, lead_ms: float
) -> None:
    class Ramp(paper_model):
        """Foresees parameters that rise evenly."""

        frames = 0

        def step(self, rows: np.ndarray) -> Any:
            self.frames += len(rows)
            times = 0.02 * (self.frames - 1) + np.array([0.0, 0.04, 0.1, 0.2, 0.4])
            params = np.tile((times / 10).astype(np.float32), (8, 1))
            return StepResult(params, np.zeros((2, 25)), np.zeros(7), 1.0)

    rng = np.random.default_rng(2)
    s = stage(Ramp(), buffer_ms=buffer)
    s.pipeline.mixer.set_smoothing_settings([Smoothing(kind="none")] * 8, Smoothing())
    s.pipeline.mixer.lead_ms = lead_ms
    for n in range(300):
        if n == 0 or rng.random() > 0.2:
            s.receive(n, n * 20_000_000 + int(rng.uniform(0, 15e6)))
    sent = [(f.t_ns / 1e9, f.params[0]) for f in s.ear.frames if f.seq > 100]
    assert len(sent) > 180
    for t, value in sent:
        assert value == pytest.approx((t + lead_ms / 1000) / 10, abs=1e-5)


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
