import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pyanticip.controls import (
    NEUTRAL,
    Crossfade,
    EventTrigger,
    Presence,
    Range,
    Smoother,
    Smoothing,
    at_lead,
    scalar_mapping,
)
from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import EVENTS, HORIZONS_MS, PARAMETERS

unit = st.floats(0, 1)
vectors = hnp.arrays(np.float64, 8, elements=unit)
smoothings = st.one_of(
    st.builds(Smoothing, kind=st.just("spring"), half_life=st.floats(0.001, 2)),
    st.builds(Smoothing, kind=st.just("one-euro"), min_cutoff=st.floats(0.05, 50), beta=st.floats(0, 100)),
    st.just(Smoothing(kind="none")),
)


def test_every_parameter_has_a_neutral_value() -> None:
    assert len(NEUTRAL) == len(PARAMETERS)


def test_lead_hits_the_horizons_and_is_linear_between() -> None:
    p = np.random.default_rng(0).random((8, 5))
    for k, h in enumerate(HORIZONS_MS):
        np.testing.assert_allclose(at_lead(p, h), p[:, k])
    np.testing.assert_allclose(at_lead(p, 300), (p[:, 3] + p[:, 4]) / 2)
    np.testing.assert_allclose(at_lead(p, 50), p[:, 1] + (p[:, 2] - p[:, 1]) / 6)


@pytest.mark.parametrize("lead", [-1, 401, float("nan")])
def test_lead_outside_is_refused(lead: float) -> None:
    with pytest.raises(OptionError, match="0 to 400"):
        at_lead(np.zeros((8, 5)), lead)


def test_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(8, 5\).*\(5, 8\)"):
        at_lead(np.zeros((5, 8)), 0)
    with pytest.raises(ShapeError):
        scalar_mapping(np.zeros(6))
    with pytest.raises(ShapeError):
        Smoother([Smoothing()] * 8).step(np.zeros(7), 0.02)
    with pytest.raises(ShapeError):
        EventTrigger().step(np.zeros((3, 25)), 1.0, 0, 0.02)


@given(hnp.arrays(np.float32, (8, 5), elements=st.floats(-10, 10, width=32)), st.floats(0, 400))
def test_lead_stays_in_range(p: np.ndarray, lead: float) -> None:
    assert all(0 <= x <= 1 for x in at_lead(p, lead))


def test_nan_parameters_become_numbers() -> None:
    out = at_lead(np.full((8, 5), np.nan), 40)
    assert np.all(np.isfinite(out))


@given(st.lists(smoothings, min_size=8, max_size=8), st.lists(vectors, min_size=2, max_size=40), st.data())
def test_smoothing_never_leaves_the_hull_of_its_targets(
    kinds: list[Smoothing], targets: list[np.ndarray], data: st.DataObject
) -> None:
    smoother = Smoother(kinds)
    low, high = targets[0], targets[0]
    for target in targets:
        low, high = np.minimum(low, target), np.maximum(high, target)
        out = np.array(smoother.step(target, data.draw(st.floats(0, 0.2))))
        assert np.all(np.isfinite(out))
        assert np.all(out >= low - 1e-9)
        assert np.all(out <= high + 1e-9)


@given(smoothings, vectors, vectors, st.floats(0.001, 0.1))
def test_a_step_is_approached_from_one_side(kind: Smoothing, a: np.ndarray, b: np.ndarray, dt: float) -> None:
    smoother = Smoother([kind] * 8)
    last = np.array(smoother.step(a, dt))
    for _ in range(50):
        out = np.array(smoother.step(b, dt))
        assert np.all(np.abs(out - b) <= np.abs(last - b) + 1e-12)
        assert np.all((out - b) * (a - b) >= -1e-12)
        last = out


@given(st.floats(0.005, 0.5), st.integers(1, 20))
def test_the_spring_does_not_depend_on_the_frame_rate(half_life: float, pieces: int) -> None:
    one = Smoother([Smoothing(half_life=half_life)])
    many = Smoother([Smoothing(half_life=half_life)])
    one.step([0.0], 0)
    many.step([0.0], 0)
    a = one.step([1.0], 0.1)
    for _ in range(pieces):
        b = many.step([1.0], 0.1 / pieces)
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_half_life_is_the_half_of_a_step() -> None:
    s = Smoother([Smoothing(half_life=0.3)])
    s.step([0.0], 0)
    assert s.step([1.0], 0.3)[0] == pytest.approx(0.5)


def test_one_euro_is_steady_at_rest_and_quick_in_motion() -> None:
    rng = np.random.default_rng(1)
    s = Smoother([Smoothing(kind="one-euro", min_cutoff=1.0, beta=20.0)])
    noise = 0.5 + 0.002 * rng.standard_normal(400)
    still = np.array([s.step([x], 0.02)[0] for x in noise])
    assert still[200:].std() < 0.6 * noise[200:].std()
    slow = Smoother([Smoothing(kind="one-euro", min_cutoff=1.0, beta=0.0)])
    slow.step([0.5], 0.02)
    for x in np.linspace(0.5, 1.0, 25):
        quick_at, slow_at = s.step([x], 0.02)[0], slow.step([x], 0.02)[0]
    assert 1.0 - quick_at < 0.5 * (1.0 - slow_at)


def test_the_amount_scales_all_smoothing() -> None:
    s = Smoother([Smoothing(half_life=0.1)])
    s.step([0.0], 0)
    s.amount = 3.0
    assert s.step([1.0], 0.3)[0] == pytest.approx(0.5)
    s.amount = 0.0
    assert s.step([0.25], 0.02)[0] == 0.25
    with pytest.raises(OptionError):
        s.amount = float("nan")


def test_a_target_that_is_not_finite_is_held() -> None:
    s = Smoother([Smoothing()])
    s.step([0.4], 0)
    assert s.step([float("nan")], 0.02)[0] == pytest.approx(0.4)


@given(st.lists(st.tuples(st.booleans(), vectors), min_size=5, max_size=300))
def test_silence_and_return_never_jump(frames: list[tuple[bool, np.ndarray]]) -> None:
    """The performer's own changes pass, but what silence adds is bounded by the slope of its fades."""
    dt = 0.02
    p = Presence()
    steady = [0.8] * 8
    last = np.array(p.live(steady, dt))
    since = 0.0
    for is_live, _ in frames:
        since += dt
        out = np.array(p.live(steady, since) if is_live else p.silence(dt))
        if is_live:
            since = 0.0
        assert np.all(np.abs(out - last) <= 1.5 * dt / min(p.fade, 0.4) + 1e-9)
        assert np.all((out >= 0) & (out <= 1))
        last = out


@given(st.lists(st.tuples(st.floats(0.001, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_how_often_silence_is_asked_does_not_matter(gaps: list[tuple[float, int]]) -> None:
    asked, never = Presence(), Presence()
    for n, (dt, ticks) in enumerate(gaps):
        for _ in range(ticks):
            asked.silence(dt / (ticks + 1))
        values = [(n % 7) / 7] * 8
        assert asked.live(values, dt) == never.live(values, dt)


def test_silence_holds_one_second_then_fades_in_two() -> None:
    p = Presence()
    p.live([1.0] * 8, 0.02)
    for _ in range(50):
        out = p.silence(0.02)
    np.testing.assert_allclose(out, 1.0)
    for _ in range(50):
        out = p.silence(0.02)
    np.testing.assert_allclose(out, (1 + np.array(NEUTRAL)) / 2)
    for _ in range(51):
        out = p.silence(0.02)
    np.testing.assert_allclose(out, NEUTRAL)
    back = [p.live([1.0] * 8, 3.04 if n == 0 else 0.02)[1] for n in range(30)]
    assert back[0] < 0.05
    assert np.all(np.diff(back) >= 0)
    assert back[-1] == 1.0


def test_crossfade_arrives() -> None:
    c = Crossfade(0.1)
    live = [1.0]
    assert c.step(live, 0.02) is live
    c.start([0.0])
    seen = [float(c.step(live, 0.02)[0]) for _ in range(6)]
    assert seen == sorted(seen)
    assert 0 < seen[0] < 0.2
    assert seen[4:] == [1.0, 1.0]
    assert not c.running


@given(
    st.floats(0.001, 1e4), st.floats(0.001, 1e4), unit, st.sampled_from(["linear", "exponential", "power"])
)
def test_ranges_map_into_their_ends(a: float, b: float, v: float, curve: str) -> None:
    r = Range(a, b, curve)  # type: ignore[arg-type]
    low, high = min(a, b), max(a, b)
    assert low * (1 - 1e-9) <= r(v) <= high * (1 + 1e-9)
    assert r(0) == pytest.approx(a)
    assert r(1) == pytest.approx(b)
    assert r(-3) == r(0)
    assert r(7) == r(1)


@pytest.mark.parametrize(
    "bad", [{"low": 0, "curve": "exponential"}, {"high": float("inf")}, {"exponent": 0, "curve": "power"}]
)
def test_senseless_ranges_are_refused(bad: dict) -> None:
    with pytest.raises(OptionError):
        Range(**bad)


def hazard(bin_: int, p: float) -> np.ndarray:
    h = np.zeros((2, 25))
    h[0, bin_] = p
    return h


def test_an_open_gate_emits_at_once_and_only_once() -> None:
    t = EventTrigger()
    assert t.step(hazard(2, 0.9), 0.95, 0, 0.02) == [("onset", pytest.approx(0.9), pytest.approx(0.05))]
    for b in (1, 0):
        assert t.step(hazard(b, 0.95), 0.95, 0, 0.02) == []


def test_a_closed_gate_waits_max_buffer_frames() -> None:
    t = EventTrigger()
    for _ in range(5):
        assert t.step(hazard(1, 0.9), 0.0, 0, 0.02) == []
    assert len(t.step(hazard(1, 0.9), 0.0, 0, 0.02)) == 1


@pytest.mark.parametrize(("gate", "waits"), [(0.81, 0), (0.8, 1), (0.73, 1), (0.65, 2), (0.57, 3), (0.49, 4)])
def test_the_threshold_falls_while_waiting(gate: float, waits: int) -> None:
    t = EventTrigger()
    for _ in range(waits):
        assert t.step(hazard(1, 0.9), gate, 0, 0.02) == []
    assert len(t.step(hazard(1, 0.9), gate, 0, 0.02)) == 1


def test_lead_looks_further_ahead() -> None:
    far = hazard(16, 0.9)
    assert EventTrigger().step(far, 1.0, 0, 0.02) == []
    ((name, strength, ahead),) = EventTrigger().step(far, 1.0, 300, 0.02)
    assert (name, strength) == ("onset", pytest.approx(0.9))
    assert ahead == pytest.approx(0.33)


@pytest.mark.parametrize("lead", [0, 100, 150, 200, 400])
@pytest.mark.parametrize("gate", [0.0, 0.6, 1.0])
def test_what_is_foreseen_in_time_is_announced_at_least_the_lead_before(lead: float, gate: float) -> None:
    t = EventTrigger()
    said = [event for b in range(24, -1, -1) for event in t.step(hazard(b, 0.9), gate, lead, 0.02)]
    ((_, _, ahead),) = said
    assert max(lead, 100) / 1000 - 0.01 - 1e-9 <= ahead


def test_an_event_nearer_than_the_lead_is_not_announced() -> None:
    assert EventTrigger().step(hazard(7, 1.0), 1.0, 200, 0.02) == []
    assert len(EventTrigger().step(hazard(7, 1.0), 1.0, 100, 0.02)) == 1


def test_what_may_come_at_once_must_be_surer() -> None:
    for chance, announced in ((0.55, 0), (0.65, 1)):
        assert len(EventTrigger().step(hazard(1, chance), 1.0, 0, 0.02)) == announced
        assert len(EventTrigger().step(hazard(6, chance), 1.0, 0, 0.02)) == 1


def test_an_event_is_said_to_come_where_most_of_its_chance_lies() -> None:
    h = np.zeros((2, 25))
    h[0, 3], h[0, 7:10] = 0.2, 0.5
    ((_, _, ahead),) = EventTrigger().step(h, 1.0, 0, 0.02)
    assert ahead == pytest.approx(0.17, abs=0.011)


def test_a_foreseen_event_is_announced_at_least_100_ms_ahead_whatever_the_gate() -> None:
    for gate in (0.0, 0.5, 0.7, 1.0):
        t = EventTrigger()
        # An event that comes nearer by a bin every frame, as sure all the time.
        said = [event for b in range(24, -1, -1) for event in t.step(hazard(b, 0.9), gate, 0, 0.02)]
        ((_, _, ahead),) = said
        assert 0.09 - 1e-9 <= ahead <= 0.2  # the middle of its bin


def test_an_event_that_is_taken_back_is_not_announced() -> None:
    t = EventTrigger()
    assert t.step(hazard(1, 0.9), 0.0, 0, 0.02) == []
    assert t.step(hazard(1, 0.1), 0.9, 0, 0.02) == []
    for _ in range(5):
        assert t.step(hazard(1, 0.9), 0.0, 0, 0.02) == []


@given(
    st.lists(hnp.arrays(np.float64, (2, 25), elements=unit), min_size=1, max_size=60),
    st.lists(st.floats(0, 1), min_size=60, max_size=60),
    st.floats(0, 400),
)
@settings(max_examples=50)
def test_events_are_bounded_and_refractory(
    hazards: list[np.ndarray], gates: list[float], lead: float
) -> None:
    t = EventTrigger()
    last = dict.fromkeys(EVENTS, -1.0)
    for i, (h, g) in enumerate(zip(hazards, gates, strict=False)):
        for name, strength, ahead in t.step(h, g, lead, 0.02):
            assert 0 <= strength <= 1
            assert 0 < ahead <= 0.5
            if last[name] >= 0:
                assert i * 0.02 - last[name] >= 0.12 - 1e-9
            last[name] = i * 0.02


@given(hnp.arrays(np.float64, 7, elements=st.floats(-5, 5) | st.just(float("nan"))))
def test_the_fallback_mapping_is_bounded(s: np.ndarray) -> None:
    out = scalar_mapping(s)
    assert len(out) == 8
    assert all(0 <= x <= 1 for x in out)


def test_a_still_performer_is_silent_in_the_fallback() -> None:
    assert scalar_mapping([0.4, 0, 0, 1, 0.5, 0, 1])[1] == 0
