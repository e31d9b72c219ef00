from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyanticip import _core
from pyanticip.controls import NEUTRAL, EventTrigger, Presence, Smoothing, scalar_mapping
from pyanticip.errors import OptionError
from realtime.mapping.mixer import Mixer
from realtime.rig.mapping import SilenceRig
from realtime.step.base import StepResult

DT = 0.02
DANCE = [0.7, 0.3, 0, 0.35, 0.8, 0.2, 0.6]


def step(level: float = 0.8, hazard: float = 0.0) -> StepResult:
    return step_result(np.full((8, 5), level), np.full((2, 25), hazard))


def step_result(params: np.ndarray, hazards: np.ndarray) -> StepResult:
    return StepResult(params, hazards, np.zeros(7), 1.0)


def test_the_first_frame_passes_and_lead_chooses_the_column() -> None:
    params = np.tile(np.linspace(0, 1, 5, dtype=np.float32), (8, 1))
    mixer = Mixer(lead_ms=200)
    values, events = mixer.play(step_result(params, np.zeros((2, 25))), DANCE, DT)
    np.testing.assert_allclose(values, 0.75)
    assert events == []
    assert mixer.by_model


def test_a_late_model_hands_over_to_the_scalars_without_a_jump() -> None:
    mixer = Mixer(smoothing=[Smoothing(kind="none")] * 8)
    last, _ = mixer.play(step(), DANCE, DT)
    seen = [last]
    for model in [None] * 30 + [step()] * 30:
        values, _ = mixer.play(model, DANCE, DT)
        seen.append(values)
    jumps = np.abs(np.diff(np.array(seen), axis=0)).max()
    assert jumps < 1.6 * DT / 0.25
    np.testing.assert_allclose(seen[30], scalar_mapping(DANCE))
    np.testing.assert_allclose(seen[-1], 0.8, atol=1e-6)


def test_bypass_plays_the_scalars_and_no_events() -> None:
    mixer = Mixer()
    mixer.bypass = True
    for _ in range(40):
        values, events = mixer.play(step(hazard=0.9), DANCE, DT)
        assert events == []
    np.testing.assert_allclose(values, scalar_mapping(DANCE), atol=1e-6)
    assert not mixer.by_model


def test_freeze_holds_exactly_and_lets_go_smoothly() -> None:
    mixer = Mixer(smoothing=[Smoothing(kind="none")] * 8)
    held, _ = mixer.play(step(0.3), DANCE, DT)
    mixer.set_mode("frozen")
    for _ in range(60):
        values, events = mixer.play(step(0.9, hazard=0.9), DANCE, DT)
        assert values == held
        assert events == []
    mixer.set_mode("playing")
    values, _ = mixer.play(step(0.9), DANCE, DT)
    assert max(np.abs(np.array(values) - held)) < 0.6 * 1.6 * DT / 0.4


@pytest.mark.parametrize(("mode", "frames"), [("panic", 4), ("stopped", 51)])
def test_stop_and_panic_go_to_neutral(mode: str, frames: int) -> None:
    mixer = Mixer()
    mixer.play(step(), DANCE, DT)
    mixer.set_mode(mode)
    for _ in range(frames):
        values, _ = mixer.play(step(), DANCE, DT)
    np.testing.assert_allclose(values, NEUTRAL)
    mixer.set_mode("playing")
    for _ in range(30):
        values, _ = mixer.play(step(), DANCE, DT)
    np.testing.assert_allclose(values, 0.8, atol=1e-6)


def test_a_stopped_show_is_silent_whatever_neutral_loudness_is() -> None:
    silence = SilenceRig(hold=0.0, fade=0.1, neutral={"loudness": 0.25, "pitch": 0.7})
    neutral, stopped = silence.neutral_vector(), silence.stopped_vector()
    assert (neutral[:2], stopped[:2], neutral[2:]) == ((0.7, 0.25), (0.7, 0.0), stopped[2:])
    mixer = Mixer(presence=silence, neutral=neutral)
    mixer.play(step(), DANCE, DT)
    for _ in range(20):
        values = mixer.silence(DT)
    np.testing.assert_allclose(values, neutral)
    for stop in (lambda: mixer.set_mode("panic"), lambda: mixer.fade_out(0.1)):
        stop()
        for _ in range(20):
            values = mixer.silence(DT)
        np.testing.assert_allclose(values, stopped)
        mixer.set_mode("playing")


def test_gain_is_on_loudness_alone_and_clipped() -> None:
    mixer = Mixer(gain=0.5)
    values, _ = mixer.play(step(), DANCE, DT)
    np.testing.assert_allclose(values, [0.8, 0.4, *[0.8] * 6], atol=1e-7)
    mixer.gain = 4.0
    for _ in range(50):
        values, _ = mixer.play(step(), DANCE, DT)
    assert values[1] == pytest.approx(1.0)


def test_senseless_settings_are_refused() -> None:
    mixer = Mixer()
    for name, value in (("gain", 5.0), ("gain", float("nan")), ("lead_ms", -1.0), ("smoothing", -1.0)):
        with pytest.raises(OptionError, match=name):
            setattr(mixer, name, value)
    with pytest.raises(OptionError, match="mode"):
        mixer.set_mode("loud")
    with pytest.raises(OptionError, match="seconds"):
        mixer.fade_out(float("nan"))


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({"half_life": float("nan")}, "above 0, to 60 s"),
        ({"half_life": 0.0}, "above 0, to 60 s"),
        ({"kind": "one-euro", "min_cutoff": 0.0}, "above 0, to 1000 Hz"),
        ({"kind": "one-euro", "beta": -5.0}, "beta 0 to 1000"),
        ({"silence": (float("nan"), 1.0, 1.0)}, "silence: expected hold >= 0"),
        ({"neutral": [2.0] * 8}, "neutral: expected values in 0..1"),
        ({"taught": float("nan")}, "mapping: expected values in 0..1"),
    ],
)
def test_the_core_refuses_what_would_sound_for_good(odd: dict[str, Any], says: str) -> None:
    """Whatever its source, one non-finite value would affect all outputs."""
    plain = {"kind": "spring", "half_life": 0.02, "min_cutoff": 2.0, "beta": 4.0}
    smoothing = SimpleNamespace(**{**plain, **{key: odd[key] for key in plain.keys() & odd.keys()}})
    rule = _core.EventRule([0.5, 0.5], [0.1, 0.1], theta=0.5, max_buffer=5, reach_ms=200.0)
    silence, neutral = odd.get("silence", (1.0, 2.0, 0.4)), odd.get("neutral", NEUTRAL)

    def play() -> None:
        desk = _core.Desk([smoothing] * 8, silence, neutral, rule, _core.Lead(0.0, [0.0] * 8))
        desk.set_mapping([None], [smoothing], [odd["taught"]], [0.0])

    with pytest.raises(OptionError, match=says):
        play()


actions = st.lists(
    st.tuples(
        st.sampled_from(["model", "scalars", "silence", "playing", "frozen", "stopped", "bypass", "forget"]),
        st.integers(1, 40),
    ),
    max_size=12,
)


@given(actions)
def test_whatever_happens_the_output_is_bounded_and_never_jumps(todo: list[tuple[str, int]]) -> None:
    mixer = Mixer()
    last = np.array(mixer.play(step(), DANCE, DT)[0])
    since = 0.0
    for what, count in todo:
        if what in ("playing", "frozen", "stopped"):
            mixer.set_mode(what)
        elif what == "bypass":
            mixer.bypass = not mixer.bypass
        elif what == "forget":
            mixer.core.restart()
        for _ in range(count):
            since += DT
            passed = DT if what == "silence" or since > 0.1 + 1e-9 else since
            if what == "silence":
                out = np.array(mixer.silence(DT))
            else:
                out = np.array(mixer.play(None if what == "scalars" else step(), DANCE, since)[0])
                since = 0.0
            assert np.all((out >= 0) & (out <= 1))
            # Steepest are a switch and two releases at once, each under 1.5 / seconds of its way: after a
            # pause of up to a tenth all the way that it took; after a longer one it begins again.
            assert np.abs(out - last).max() < 1.5 * passed * (1 / 0.25 + 1 / 0.4 + 1 / 0.4)
            last = out


def test_what_was_announced_is_called_off_when_the_performer_stops() -> None:
    mixer = Mixer(trigger=EventTrigger())
    hazards = np.zeros((2, 25), np.float32)
    hazards[0, 9] = 0.95
    step, quiet = (step_result(np.full((8, 5), 0.5), row) for row in (hazards, np.zeros((2, 25))))
    _, lines = mixer.play(step, [0.5] * 7, 0.02)
    ((name, _, ahead),) = lines
    assert name == "onset"
    assert mixer.play(quiet, [0.5] * 7, 0.02)[1] == []
    mixer.set_mode("panic")
    assert mixer.play(quiet, [0.5] * 7, 0.02)[1] == [("onset/cancel", 0.0, pytest.approx(ahead - 0.04))]
    assert mixer.play(step, [0.5] * 7, 0.02)[1] == []


@pytest.mark.parametrize("times", [(0.0, 0.01, 0.0), (0.5, 0.5, 0.5)])
def test_silence_may_begin_at_once_and_be_as_short_as_wanted(times: tuple[float, float, float]) -> None:
    hold, fade, catch_up = times
    mixer = Mixer(presence=Presence(hold=hold, fade=fade, catch_up=catch_up))
    mixer.play(None, [0.9] * 7, 0.02)
    assert np.allclose(mixer.silence(hold + fade + 0.02), NEUTRAL, atol=1e-6)
