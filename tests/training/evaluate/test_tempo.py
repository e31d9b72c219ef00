"""Evaluation of tempo: steps counted at the feet, the tempo around them, and the baselines."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.clips import turning

from pyanticip import _core
from training.evaluate import tempo


def walker(frames: int = 400, strides: float = 0.9) -> Any:
    """A walk with feet fixed to the ground: 0.9 strides per second."""
    turn = 2.0 * np.pi * strides * np.arange(frames) / 50.0
    quats = turning({14: 0.5 * np.sin(turn), 18: -0.5 * np.sin(turn)}, axis=0)
    # The hips move as fast as the foot on the ground moves back relative to them.
    root = np.zeros((frames, 3), np.float32)
    root[:, 2] = np.cumsum(np.abs(np.gradient(0.96 * np.sin(0.5 * np.sin(turn)))))
    features = np.asarray(_core.motion_features(quats, root, np.ones(22, bool)))
    example = SimpleNamespace(quats=quats, features=features, onsets=np.arange(20, frames, 28))

    class Example(SimpleNamespace):
        def __len__(self) -> int:
            return frames

    piece = SimpleNamespace(root=root, rate=50.0)
    return SimpleNamespace(
        example=Example(**vars(example)), piece=piece, kind="walking", person="x", name="x"
    )


def test_each_foot_passes_and_comes_down_once_a_stride() -> None:
    for found, near in ((tempo.steps(walker()), 0.1), (tempo.landings(walker()), 2.0)):
        assert 11 <= len(found) <= 15
        assert np.diff(found) == pytest.approx(50.0 / 1.8, abs=near)


@pytest.mark.parametrize("growth", [-0.01, 0.01])
def test_steps_that_grow_or_shrink_are_as_far_apart_as_even_ones(growth: float) -> None:
    frames = np.arange(300.0)
    along = np.exp(growth * frames) * np.sin(np.pi * frames / 13.4 + 0.5)
    assert np.diff(tempo.passes(along)) == pytest.approx(13.4, abs=0.02)


def test_feet_that_tremble_side_by_side_take_no_steps() -> None:
    frames = np.arange(200.0)
    assert len(tempo.passes(0.09 * np.sin(np.pi * frames / 13.4))) == 0
    # There may be several zero crossings in between.
    assert tempo.passes(np.array([-0.2, -0.01, 0.01, -0.01, 0.03, 0.2])) == pytest.approx([3.25])


def test_the_tempo_is_that_of_the_nearest_steps_and_none_where_they_keep_none() -> None:
    even = np.arange(30.0, 300.0, 25.0)
    around = tempo.tempo_around(even, 300)
    assert around[100] == pytest.approx(120.0)
    assert np.isnan(around[0])
    uneven = np.array([10.0, 30.0, 70.0, 90.0, 130.0])
    assert np.isnan(tempo.tempo_around(uneven, 150)).all()
    assert np.isnan(tempo.tempo_around(even[:3], 150)).all()
    faster = np.concatenate([even[:5], even[4] + 20.0 * np.arange(1, 6)])
    around = tempo.tempo_around(faster, 220)
    assert around[20] == pytest.approx(120.0)
    assert around[200] == pytest.approx(150.0)


def test_a_steady_walk_is_judged_right_and_a_wrong_tempo_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tempo.judge([walker(), walker(strides=0.7)])
    tracker = {line["after_s"]: line for line in lines if line["who"] == "tracker"}
    assert tracker[3.0]["frames"] > 300
    assert tracker[3.0]["within"] > 0.95
    assert tracker[3.0]["trusted"] > 0.95
    assert {line["who"] for line in lines} == set(tempo.SYSTEMS)
    true = tempo.by_tracker

    def doubled(clip: Any) -> Any:
        told = true(clip)
        told[:, 0] *= 2.0
        return told

    monkeypatch.setattr(tempo, "by_tracker", doubled)
    wrong = next(line for line in tempo.judge([walker()]) if line["after_s"] == 3.0)
    assert wrong["within"] < 0.05
    assert wrong["octave"] > 0.95
    told = tempo.judge([walker(20)])  # too short for a tempo: dashes, and people keep their names
    page = tempo.markdown({"split": "test", "people": ["hernandez"], "lines": lines + told})
    assert "People: hernandez." in page
    assert "| walking, after 3 |" in page
    assert page.splitlines()[-1] == "| walking, after 3 | 0 | - | - | - | - | - | - | - | - |"
