import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError

from pyanticip.controls import EventTrigger, LastMoment, Presence, Range, Smoothing, scalar_mapping
from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import EVENTS, PARAMETERS

unit = st.floats(0, 1)


def test_shapes_are_refused() -> None:
    with pytest.raises(ShapeError):
        scalar_mapping(np.zeros(6))
    with pytest.raises(ShapeError):
        EventTrigger().step(np.zeros((3, 25)), 1.0, 0, 0.02)


@given(
    st.floats(0.001, 1e4), st.floats(0.001, 1e4), unit, st.sampled_from(["linear", "exponential", "power"])
)
def test_ranges_map_into_their_ends(a: float, b: float, v: float, curve: str) -> None:
    r = Range(low=a, high=b, curve=curve)  # type: ignore[arg-type]
    low, high = min(a, b), max(a, b)
    assert low * (1 - 1e-9) <= r(v) <= high * (1 + 1e-9)
    assert r(0) == pytest.approx(a)
    assert r(1) == pytest.approx(b)
    assert r(-3) == r(0)
    assert r(7) == r(1)


def hazard(bin_: int, p: float) -> np.ndarray:
    h = np.zeros((2, 25))
    h[0, bin_] = p
    return h


def test_an_open_gate_emits_at_once_and_only_once() -> None:
    t = EventTrigger()
    assert t.step(hazard(2, 0.9), 0.95, 0, 0.02) == [("onset", pytest.approx(0.9), pytest.approx(0.05))]
    for b in (1, 0):
        assert t.step(hazard(b, 0.95), 0.95, 0, 0.02) == []


@pytest.mark.parametrize(
    ("gate", "waits"), [(0.81, 0), (0.8, 1), (0.73, 1), (0.65, 2), (0.57, 3), (0.49, 4), (0.0, 5)]
)
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
def test_an_event_is_announced_at_least_the_lead_ahead(lead: float, gate: float) -> None:
    t = EventTrigger()
    lines = [event for b in range(24, -1, -1) for event in t.step(hazard(b, 0.9), gate, lead, 0.02)]
    ((_, _, ahead),) = lines
    assert max(lead, 100) / 1000 - 0.01 - 1e-9 <= ahead


def test_an_event_nearer_than_the_lead_is_not_announced() -> None:
    assert EventTrigger().step(hazard(7, 1.0), 1.0, 200, 0.02) == []
    assert len(EventTrigger().step(hazard(7, 1.0), 1.0, 100, 0.02)) == 1


def test_a_near_event_needs_a_higher_probability() -> None:
    for chance, announced in ((0.55, 0), (0.65, 1)):
        assert len(EventTrigger().step(hazard(1, chance), 1.0, 0, 0.02)) == announced
        assert len(EventTrigger().step(hazard(6, chance), 1.0, 0, 0.02)) == 1


def test_an_event_is_due_where_its_probability_is_highest() -> None:
    h = np.zeros((2, 25))
    h[0, 3], h[0, 7:10] = 0.2, 0.5
    ((_, _, ahead),) = EventTrigger().step(h, 1.0, 0, 0.02)
    assert ahead == pytest.approx(0.17, abs=0.011)


def test_an_event_whose_probability_drops_is_not_announced() -> None:
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
def test_events_are_bounded_and_refractory(hazards, gates, lead):
    t = EventTrigger()
    last = dict.fromkeys(EVENTS, -1.0)
    for i, (h, g) in enumerate(zip(hazards, gates, strict=False)):
        for name, strength, ahead in t.step(h, g, lead, 0.02):
            assert 0 <= strength <= 1
            assert 0 < ahead <= 0.5
            if last[name] >= 0:
                assert i * 0.02 - last[name] >= 0.12 - 1e-9
            last[name] = i * 0.02


def test_each_scalar_moves_the_fallback_parameters_in_its_direction() -> None:
    """Commitment sets pitch, pressure the right side, pulse the phase, roughness and space oppose calm."""
    calm = {"c": 0.5, "u": 0.4, "t": 0.0, "r": 0.4, "p": 0.5, "n": 0.6, "st": 0.6}
    before = scalar_mapping([*calm.values()])
    assert before[PARAMETERS.index("pan")] == 0.5

    def moved(**change: float) -> dict[str, float]:
        after = scalar_mapping([*(calm | change).values()])
        return {name: b - a for name, a, b in zip(PARAMETERS, before, after, strict=True) if b != a}

    assert moved(t=0.4) == {"pan": pytest.approx(0.2)}
    assert moved(t=-0.4) == {"pan": pytest.approx(-0.2)}
    assert moved(c=0.7) == {"pitch": pytest.approx(0.2)}
    assert moved(st=0.8) == {"roughness": pytest.approx(-0.2)}
    assert [*moved(u=0.6)] == ["density"]
    assert moved(u=0.6)["density"] > 0.0
    assert [*moved(p=0.7)] == ["pulse"]
    assert moved(p=0.7)["pulse"] > 0.0
    louder = moved(n=0.8)
    assert {name for name, by in louder.items() if by > 0.0} == {"loudness", "brightness", "density", "pulse"}
    away = moved(r=0.2)
    assert away.pop("space") == pytest.approx(-0.2)
    assert min(away.values()) > 0.0


def test_a_still_performer_is_silent_in_the_fallback() -> None:
    assert scalar_mapping([0.4, 0, 0, 1, 0.5, 0, 1])[1] == 0


@pytest.mark.parametrize(
    ("what", "good", "bad"),
    [
        (Presence, {"hold": 0.0}, {"hold": -0.01}),
        (Presence, {"hold": 1.0}, {"hold": float("nan")}),
        (Presence, {"catch_up": 0.0}, {"catch_up": -0.01}),
        (Presence, {"fade": 0.01}, {"fade": 0.0}),
        (Range, {"exponent": 0.5, "curve": "power"}, {"exponent": float("inf"), "curve": "power"}),
        (Range, {"exponent": 0.01, "curve": "power"}, {"exponent": 0, "curve": "power"}),
        # OSC has 32-bit floats, and the ratio of both ends must be finite.
        (Range, {"exponent": 100.0, "curve": "power"}, {"exponent": 1e39, "curve": "power"}),
        (Range, {"low": 1e-30, "curve": "exponential"}, {"low": 1e-300, "curve": "exponential"}),
        (Range, {"high": 1e9}, {"high": float("inf")}),
        (Range, {"low": 0.5, "curve": "exponential"}, {"low": 0, "curve": "exponential"}),
        (Range, {"low": 0.5, "curve": "exponential"}, {"low": 0.5, "high": 0.0, "curve": "exponential"}),
        (Smoothing, {"kind": "none"}, {"kind": "sprung"}),
        (Smoothing, {"half_life": 60.0}, {"half_life": 60.1}),
        (Smoothing, {"half_life": 1e-3}, {"half_life": 0.0}),
        (Smoothing, {"min_cutoff": 1000.0}, {"min_cutoff": 1000.1}),
        (Smoothing, {"min_cutoff": 1e-3}, {"min_cutoff": 0.0}),
        (Smoothing, {"beta": 0.0}, {"beta": -0.1}),
        (Smoothing, {"beta": 1000.0}, {"beta": 1000.1}),
        (EventTrigger, {"theta": 1.0}, {"theta": 1.01}),
        (EventTrigger, {"theta": 0.01}, {"theta": 0.0}),
        (EventTrigger, {"max_buffer": 1}, {"max_buffer": 0}),
        (EventTrigger, {"threshold": {"onset": 0.5}}, {"threshold": {"beat": 0.5}}),
        (EventTrigger, {"refractory": {"phrase": 2.0}}, {"refractory": {"bar": 2.0}}),
        (LastMoment, {"sure": 0.0}, {"sure": -0.01}),
        (LastMoment, {"sure": 1.0}, {"sure": float("nan")}),
        (LastMoment, {"lead_ms": 0.0}, {"lead_ms": float("inf")}),
        (LastMoment, {"lead_ms": 0.0}, {"lead_ms": -1.0}),
    ],
)
def test_limits_are_inclusive(what, good, bad):
    what(**good)
    with pytest.raises((OptionError, ValidationError)):
        what(**bad)


def test_range_curves_differ_between_their_ends() -> None:
    assert Range(low=10.0, high=1000.0)(0.5) == 505.0
    assert Range(low=10.0, high=1000.0, curve="exponential")(0.5) == pytest.approx(100.0)
    ends = {"low": 10.0, "high": 20.0}
    assert Range(**ends, curve="power")(0.5) == pytest.approx(12.5)
    assert Range(**ends, curve="power", exponent=1.0)(0.3) == Range(**ends)(0.3)


def test_a_beat_may_follow_120_ms_after_the_previous_one() -> None:
    rule = EventTrigger()
    # An event within the next 20 ms, in every frame.
    lines = [rule.step(hazard(0, 0.9), 1.0, 0, 0.02) for _ in range(21)]
    first, *later = (frame for frame, events in enumerate(lines) if events)
    ((_, _, ahead),) = lines[first]
    assert len(later) == 2
    assert ahead + 0.12 <= 0.02 * (later[0] - first) < ahead + 0.14
