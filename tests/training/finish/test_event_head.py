"""The event head: its inputs and training, the model with it, and the rule that uses it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.takes import SMALL, arrivals, small_model

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.models.motion.strokes import STROKES, Strokes
from training.data.batches import event_targets
from training.data.examples import example_from_piece
from training.evaluate.events import announce, score_clip
from training.finish import event_head
from training.finish.beats import sped_up
from training.finish.event_head import (
    WARM_UP_STEPS,
    Frames,
    Head,
    Learned,
    inputs_of,
    learn,
    learning_rate_factor,
    with_strokes,
)
from training.tasks.motion.scores import Predictions, run_model


@pytest.fixture
def model():
    return small_model()


def said(hazards, gate):
    """A model output with only hazards of onsets (T, 25)."""
    both = np.stack((hazards, np.zeros_like(hazards)), 1)
    nothing = np.zeros((len(hazards), 0), np.float32)
    return Predictions(nothing, both, nothing, gate)


def test_a_head_learns_thresholds_and_is_the_same_for_the_same_seed(monkeypatch):
    monkeypatch.setattr(event_head, "BATCH_FRAMES", 256)
    # Ends that all move with one speed, which rises and falls between 0.1 and 1.1 m/s.
    speed = 0.6 + 0.5 * np.sin(2.0 * np.pi * np.arange(1500) / 50.0)
    velocity = torch.zeros(1, 1500, 15)
    velocity[..., :5] = torch.from_numpy(speed)[:, None]
    strokes, _ = Strokes()(velocity)
    inputs = torch.cat((strokes[0].half(), torch.zeros(1500, 4)), 1)
    beats = arrivals(speed)
    frames = Frames(inputs, *map(torch.from_numpy, event_targets(beats, 1500)), torch.ones(1500))
    one, two, other = (learn(frames, 4, steps=20, seed=seed).head.first.weight for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    hazards = torch.sigmoid(learn(frames, 4, steps=300, seed=0).logits(inputs)).numpy()
    announced = announce(said(hazards, np.ones(1500, np.float32)), 0, lead_ms=100.0)
    assert score_clip(announced, beats, 1500, 5)[0].f1 > 0.9


def test_learning_warms_up_and_comes_to_rest():
    factors = np.array([learning_rate_factor(step, 1000) for step in range(1000)])
    assert (np.diff(factors[:WARM_UP_STEPS]) > 0.0).all()
    assert (np.diff(factors[WARM_UP_STEPS:]) < 0.0).all()
    assert 0.0 < factors[0] < 0.02
    assert 0.95 < factors.max() <= 1.0
    assert factors[500] == pytest.approx(0.5)
    assert 0.0 <= factors[-1] < 1e-4


def test_what_is_read_is_strokes_measures_and_units_of_the_frames_up_to_now(model, example_of):
    clip = example_of(120)
    inputs = inputs_of(model, clip)
    assert inputs.shape == (120, STROKES + model.control.recent.in_features + 48)
    features = clip.features.copy()
    features[70:] = 0.0
    assert torch.equal(inputs_of(model, replace(clip, features=features))[:70], inputs[:70])


def some_head(inputs):
    """A head whose output depends on all its inputs."""
    torch.manual_seed(1)
    head = Head(inputs.shape[1] - 48, 48).eval()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return Learned(head, inputs.float().mean(0), inputs.float().std(0) + 1e-3)


def test_the_model_says_what_the_head_has_learned_and_else_what_it_said(model, example_of):
    clip = example_of(200)
    inputs = inputs_of(model, clip)
    learned = some_head(inputs)
    actual, before = run_model(with_strokes(model, learned), clip), run_model(model, clip)
    # The inputs of the head are stored in half precision.
    expected = torch.sigmoid(learned.logits(inputs)).numpy()
    np.testing.assert_allclose(actual.hazards[:, 0], expected, atol=5e-3)
    assert not np.allclose(actual.hazards[:, 0], before.hazards[:, 0], atol=5e-3)
    assert np.array_equal(actual.hazards[:, 1], before.hazards[:, 1])
    for name in ("params", "scalars", "gate"):
        assert np.array_equal(getattr(actual, name), getattr(before, name))


def test_a_head_for_another_model_is_refused(model, example_of):
    learned = some_head(inputs_of(model, example_of(60)))
    other = MotionTransformer(ModelConfig(**{**SMALL, "control_hidden": 16}))
    with pytest.raises(OptionError, match="does not fit the model's control head"):
        with_strokes(other, learned)


def test_copies_that_are_sped_up_are_shorter_and_keep_who_it_is(piece_of):
    piece = piece_of(300, seed=2)
    (one, two) = sped_up([piece], 2)
    usual = len(example_from_piece(piece))
    for copy in (one, two):
        assert copy.subject == piece.subject
        assert usual / 1.62 < len(copy) < usual / 1.13
    assert len(one) != len(two)
    assert not list(sped_up([replace(piece, quats=piece.quats[:60], root=piece.root[:60])], 1))
