"""Shapes of an output by the rig: range, inversion, gate, toggle, steps."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pyanticip.controls import NEUTRAL, Shape, Shaper, Smoothing
from pyanticip.vocabulary import PARAMETERS
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.mapping.mixer import Mixer
from realtime.rig.tree import Rig
from realtime.sources.replay import Command
from realtime.stage import assemble, build_mixer
from realtime.step.base import StepResult

UNIT = st.floats(0.0, 1.0)
COURSE = st.lists(UNIT, min_size=1, max_size=60)
LOUDNESS = PARAMETERS.index("loudness")


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    low, high = sorted(draw(st.lists(UNIT, min_size=2, max_size=2, unique=True)))
    threshold = draw(st.none() | st.floats(0.01, 1.0))
    most = threshold or 0.5
    return Shape(
        span=(low, high),
        invert=draw(st.booleans()),
        threshold=threshold,
        hysteresis=draw(st.floats(0.0, most, exclude_max=True)),
        toggle=draw(st.booleans()),
        steps=draw(st.none() | st.integers(2, 50)),
    )


@given(shapes(), COURSE)
def test_any_shape_stays_in_its_range_and_repeats(shape, course):
    one, two = Shaper(shape), Shaper(shape)
    shaped = [one(value) for value in course]
    assert all(0.0 <= value <= 1.0 for value in shaped)
    if shape.steps is not None:
        assert set(shaped) <= {i / (shape.steps - 1) for i in range(shape.steps)}
    if shape.toggle or shape.threshold is not None:
        assert set(shaped) <= {0.0, 1.0}
    assert [two(value) for value in course] == shaped


@given(COURSE)
def test_inverting_twice_is_the_identity(course: list[float]) -> None:
    one, two = Shaper(Shape(invert=True)), Shaper(Shape(invert=True))
    assert [two(one(value)) for value in course] == pytest.approx(course, abs=2**-53)


@given(UNIT, st.lists(UNIT, min_size=2, max_size=2, unique=True))
def test_the_input_span_maps_to_the_whole_range(value: float, ends: list[float]) -> None:
    low, high = sorted(ends)
    shaped = Shaper(Shape(span=(low, high)))(value)
    assert (shaped == 0.0) if value <= low else (shaped == 1.0) if value >= high else 0.0 <= shaped <= 1.0


@given(COURSE, st.floats(0.05, 1.0), st.floats(0.0, 0.04))
def test_a_toggle_changes_only_when_the_gate_opens(course, threshold, hysteresis):
    gate = Shaper(Shape(threshold=threshold, hysteresis=hysteresis))
    toggle = Shaper(Shape(threshold=threshold, hysteresis=hysteresis, toggle=True))
    was, stood = 0.0, 0.0
    for value in course:
        is_open, stands = gate(value), toggle(value)
        assert (stands != stood) == (is_open > was)
        was, stood = is_open, stands


@given(st.floats(0.1, 0.9), st.floats(0.01, 0.09), st.data())
def test_changes_within_the_hysteresis_never_chatter(threshold, hysteresis, data):
    near = st.floats(threshold - 0.99 * hysteresis, threshold + hysteresis)
    gate = Shaper(Shape(threshold=threshold, hysteresis=hysteresis))
    shaped = [gate(value) for value in data.draw(st.lists(near, min_size=2, max_size=60))]
    assert int(np.count_nonzero(np.diff(shaped))) <= 1


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"in": (0.5, 0.5)}, "in: expected 0 <= low < high <= 1, got 0.5, 0.5"),
        ({"in": (0.5, 1.1)}, "in: expected 0 <= low < high <= 1, got 0.5, 1.1"),
        ({"threshold": 0.0}, "threshold: expected 0 to 1 (above 0), got 0"),
        ({"threshold": 1.1}, "threshold: expected 0 to 1 (above 0), got 1.1"),
        ({"threshold": 0.2, "hysteresis": 0.2}, "less than the threshold (0.2), got 0.2"),
        ({"toggle": True, "hysteresis": 0.5}, "less than the threshold (0.5), got 0.5"),
        ({"steps": 1}, "steps: expected 2 to 1024, got 1"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(table, says) -> None:
    with pytest.raises(ValidationError, match=re.escape(says)):
        Shape.model_validate(table)


def step(level: float) -> StepResult:
    return StepResult(np.full((8, 5), level), np.zeros((2, 25)), np.zeros(7), 0.0)


class Taught:
    names = ("light", "pitch")
    neutral = (0.25, 0.5)


def test_the_mixer_shapes_parameters_and_taught_outputs_but_not_neutral() -> None:
    rig = Rig.model_validate(
        {
            "smoothing": {"default": {"kind": "none"}},
            "performer": {"enabled": False},
            "shape": {
                "loudness": {"invert": True},
                "pitch": {"steps": 3},
                "taught/light": {"threshold": 0.5},
            },
        }
    )
    mixer = build_mixer(rig)
    mixer.set_mapping(Taught())
    for _ in range(30):
        params, _ = mixer.play(step(0.875), [0.5] * 7, 0.02, [0.75, 0.625])
    assert params[LOUDNESS] == 0.125
    assert params[PARAMETERS.index("pitch")] == 0.5
    assert params[PARAMETERS.index("density")] == 0.875
    assert mixer.extras == [1.0]
    mixer.set_mode("panic")
    for _ in range(10):
        params, _ = mixer.play(step(0.875), [0.5] * 7, 0.02, [0.75, 0.625])
    assert params == list(NEUTRAL)
    assert mixer.extras == [0.25]


def test_a_gate_is_sharp_behind_a_slow_smoothing() -> None:
    mixer = Mixer(smoothing=[Smoothing(half_life=0.2)] * 8, shapes={"density": Shape(threshold=0.5)})
    levels = [0.0] * 5 + [0.9] * 60
    density = [mixer.play(step(level), [0.5] * 7, 0.02)[0][PARAMETERS.index("density")] for level in levels]
    assert set(density) == {0.0, 1.0}
    assert int(np.count_nonzero(np.diff(density))) == 1


def test_a_change_of_shape_is_no_leap_and_a_slider_is_followed() -> None:
    mixer = Mixer(smoothing=[Smoothing(kind="none")] * 8, shapes={"loudness": Shape(steps=2)})

    def play(frames: int) -> list[list[float]]:
        return [mixer.play(step(0.9), [0.5] * 7, 0.02)[0] for _ in range(frames)]

    density = PARAMETERS.index("density")
    played = play(30)
    for shape, goal in ((Shape(invert=True), 0.1), (Shape(threshold=0.5), 1.0), (None, 0.9)):
        mixer.reshape("density", shape)
        mixer.reshape("loudness", shape)
        played += play(14)
        assert played[-1][density] == played[-1][LOUDNESS] == pytest.approx(goal)
    leaps = np.abs(np.diff(np.array(played)[25:, [density, LOUDNESS]], axis=0))
    assert leaps.max() < 0.1
    for low in np.linspace(0.0, 0.8, 50):
        mixer.reshape("density", Shape(span=(low, 1.0)))
        played += play(1)
    assert played[-1][density] < 0.75  # at 0.5 in the end
    assert len({frame[PARAMETERS.index("pan")] for frame in played[30:]}) == 1


def test_a_later_recording_has_the_state_of_toggles() -> None:
    rig = Rig.model_validate(
        {
            "model": {"enabled": False},
            "memory": {"enabled": False},
            "shape": {"loudness": {"toggle": True}, "pitch": {"threshold": 0.1}},
        }
    )
    here, there = (assemble(rig, OfflineClock(0), sinks=[]) for _ in range(2))
    for level in (0.0, 0.9, 0.9):
        here.mixer.shapers["loudness"](level)
    commands = Commands(here).state_as_commands(7)
    assert Command(7, "shape", ("loudness", 1, 1)) in commands
    again = Commands(there, pytest.fail)
    for command in commands:
        again.replay_command(command)
    course = [0.9, 0.2, 0.9, 0.1]
    assert [here.mixer.shapers["loudness"](v) for v in course] == [
        there.mixer.shapers["loudness"](v) for v in course
    ]
