"""The performer's range: the map, the running estimate, and what the mixer makes of both."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyanticip.controls import Smoothing
from pyanticip.errors import OptionError
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS
from realtime.mapping.mixer import Mixer
from realtime.mapping.performer import PLACES, STRETCHED, PerformerRange, Reach
from realtime.step.base import StepResult

LOUD = PARAMETERS.index("loudness")
unit = st.floats(0.0, 1.0)


def step_result(params: np.ndarray) -> StepResult:
    return StepResult(params, np.full((2, 25), 0.9), np.zeros(7), 1.0)


def unsmoothed(performer: PerformerRange | None, lead_ms: float = 0.0) -> Mixer:
    return Mixer(smoothing=[Smoothing(kind="none")] * 8, performer=performer, lead_ms=lead_ms)


@given(ends=st.lists(unit, min_size=3, max_size=3).map(sorted), values=st.lists(unit, min_size=2, max_size=9))
def test_the_map_rises_from_silence_to_full(ends: list[float], values: list[float]) -> None:
    reach = Reach(0.3 * ends[0], *ends[1:])
    out = [reach(v) for v in sorted([*values, 0.0, 1.0])]
    assert all(0.0 <= a <= b <= 1.0 for a, b in itertools.pairwise(out))
    assert reach(reach.still) == 0.0
    assert reach(1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("ends", [(0.02, 0.03, 0.17), (0.02, 0.45, 0.66), (0.05, 0.2, 0.9)])
def test_the_performer_s_range_fills_most_of_the_scale(ends: tuple[float, float, float]) -> None:
    reach = Reach(*ends)
    assert reach(ends[1]) == pytest.approx(0.1, abs=0.1)
    assert reach(ends[2]) == pytest.approx(0.75)
    assert reach(ends[0]) == 0.0


@pytest.mark.parametrize(
    "ends", [(0.3, 0.2, 0.8), (-0.1, 0.2, 0.8), (0.0, 0.2, 1.1), (0.4, 0.5, 0.6), (0.0, float("nan"), 1.0)]
)
def test_an_unordered_range_is_refused(ends: tuple[float, float, float]) -> None:
    with pytest.raises(OptionError, match="range: expected"):
        Reach(*ends)


class Running:
    """The running estimate of one parameter."""

    def __init__(self) -> None:
        self._performer = PerformerRange()

    @property
    def reach(self) -> Reach:
        return self._performer.reaches()["loudness"]

    def learn(self, value: float, dt: float) -> None:
        self._performer.core.learn([value] * 8, 1.0, dt)


def test_the_running_estimate_finds_the_range_and_follows_slowly() -> None:
    rng = np.random.default_rng(0)
    running = Running()
    begin = running.reach
    for value in rng.uniform(0.55, 0.8, 3000):
        running.learn(float(value), 0.02)
    assert running.reach.high == pytest.approx(0.79, abs=0.03)
    assert 0.35 < running.reach.low < 0.57
    before = running.reach
    for value in rng.uniform(0.1, 0.2, 50):
        running.learn(float(value), 0.02)
    assert abs(running.reach.high - before.high) < 0.03
    assert begin.high < before.high


def test_small_movements_are_not_amplified() -> None:
    running = Running()
    begin = running.reach
    for value in np.random.default_rng(0).uniform(0.0, 0.1, 3000):
        running.learn(float(value), 0.02)
    assert running.reach(0.1) <= begin(0.1)


@given(st.lists(st.tuples(unit, st.floats(0.0, 5.0)), max_size=40))
def test_the_running_estimate_is_always_a_range(heard: list[tuple[float, float]]) -> None:
    running, again = Running(), Running()
    for value, dt in heard:
        running.learn(value, dt)
        again.learn(value, dt)
    assert running.reach == again.reach
    assert 0.0 < running.reach.still <= running.reach.low <= running.reach.high <= 1.0


def test_nothing_is_learned_while_still_frozen_or_known() -> None:
    known = {"loudness": Reach(0.02, 0.1, 0.3)}
    now = [0.9] * 8
    still, frozen, calibrated = PerformerRange(), PerformerRange(frozen=True), PerformerRange(known)
    begin = PerformerRange().reaches()
    for _ in range(200):
        still.core.learn(now, 0.9, 0.02)
        frozen.core.learn(now, 1.0, 0.02)
        calibrated.core.learn(now, 1.0, 0.02)
    assert still.reaches() == frozen.reaches() == begin
    assert calibrated.reaches()["loudness"] == known["loudness"]
    assert (learned := calibrated.reaches())["brightness"] != begin["brightness"]
    calibrated.set_learned(told := {"brightness": Reach(0.02, 0.2, 0.4)})
    calibrated.frozen = True
    assert calibrated.reaches() == learned | told
    calibrated.frozen = False
    assert calibrated.reaches() == learned


def test_only_amount_parameters_are_stretched() -> None:
    reach = Reach(0.0, 0.01, 0.31)
    performer = PerformerRange(dict.fromkeys(STRETCHED, reach))
    out, _ = unsmoothed(performer).play(step_result(np.full((8, 5), 0.3)), [0.5] * 7, 0.02)
    for place, value in enumerate(out):
        assert value == pytest.approx(reach(0.3) if place in PLACES else 0.3)


def test_every_lead_is_stretched_alike_and_the_range_is_learned_at_lead_0() -> None:
    steps = [step_result(np.tile(np.linspace(0.2, 0.6, 5), (8, 1)) + 0.1 * np.sin(i / 9)) for i in range(100)]
    performers = [PerformerRange() for _ in HORIZONS_MS]
    for place, (lead, performer) in enumerate(zip(HORIZONS_MS, performers, strict=True)):
        mixer = unsmoothed(performer, lead)
        for step in steps:
            out, _ = mixer.play(step, [0.5] * 7, 0.02)
        reach = performer.reaches()["loudness"]
        desk_value = reach(float(steps[-1].params[LOUD, place]))
        assert out[LOUD] == pytest.approx(desk_value, abs=1e-6)
        assert mixer.forecast(steps[-1])[:, place] == pytest.approx(out, abs=1e-6)
    assert len({str(p.reaches()) for p in performers}) == 1


def test_a_still_body_is_silent() -> None:
    mixer = unsmoothed(None)
    step = step_result(np.full((8, 5), 0.6))
    out, events = mixer.play(step, [0.5] * 7, 0.02, None, 0.0)
    assert out[LOUD] == 0.0
    assert events == []
    out, _ = mixer.play(step, [0.5] * 7, 0.02, None, 1.0)
    assert out[LOUD] == pytest.approx(0.6)
    out, _ = mixer.play(None, [0.9, 0.9, 0.0, 0.1, 0.9, 0.9, 0.1], 0.02, None, 0.0)
    assert out[LOUD] < 0.6


def test_a_taught_loudness_sounds_while_the_body_stands() -> None:
    class Teaching:
        names = ("loudness",)
        neutral = (0.0,)

    mixer = unsmoothed(PerformerRange())
    mixer.set_mapping(Teaching())
    out, _ = mixer.play(step_result(np.full((8, 5), 0.6)), [0.5] * 7, 0.02, [0.7], 0.0)
    assert out[LOUD] == pytest.approx(0.7)
    forecast = mixer.forecast(step_result(np.full((8, 5), 0.6)))
    assert [place for place in range(8) if np.isnan(forecast[place]).all()] == [LOUD]
    mixer.set_mapping(None)
    assert not np.isnan(mixer.forecast(step_result(np.full((8, 5), 0.6)))).any()
