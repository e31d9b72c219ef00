"""The probe of what a model knows about beats: what is learned, what must not change, what is predicted."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pyanticip.models import ModelConfig, MotionTransformer
from training import beat_probe
from training.beat_probe import (
    Line,
    asked,
    judge,
    knowledge,
    listen,
    loss_of,
    main,
    next_arrival,
    teach_hazards,
)
from training.beats import arrivals, ends_of, speed_of
from training.evaluate.events import Announcements, score_clip
from training.evaluate.extrapolator import BEHIND
from training.tasks.motion.losses import event_nll

ONSETS = slice(40, 65)


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "heads": 2, "fast_layers": 1, "slow_layers": 1, "ff": 32, "control_hidden": 48}
    return MotionTransformer(ModelConfig(**sizes)).eval()


@pytest.fixture(scope="module")
def examples(example_of):
    return [example_of(450, seed, subject) for seed, subject in enumerate(("a", "a", "b"))]


@pytest.mark.parametrize("measures", [False, True])
def test_hazards_are_learned_from_what_the_model_says(model, examples, monkeypatch, measures):
    monkeypatch.setattr(beat_probe, "FRAMES", 512)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    heard = listen(model, examples, measures)
    assert heard.read.shape == (1350, 48 + measures * model.control.recent.weight.shape[1])
    assert float(heard.weight[0]) == pytest.approx(900**-0.5)
    bins, seen = asked([e.onsets for e in examples], [len(e) for e in examples])
    early, learned = (teach_hazards(heard, bins, seen, steps=n) for n in (1, 200))
    losses = [float(loss_of(h.logits(heard.read, heard.gate), bins, seen)) for h in (early, learned)]
    assert losses[1] < losses[0] - 0.1
    said = learned.said(heard, examples)
    assert [said[e.name].hazards.shape for e in examples] == [(450, 2, 25)] * 3
    last = torch.sigmoid(learned.logits(heard.read, heard.gate))[-1].numpy()
    np.testing.assert_allclose(said[examples[2].name].hazards[-1, 0], last, rtol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_is_heard_is_what_the_models_own_hazards_are_made_of(model, examples):
    heard = listen(model, examples[:1])
    with torch.no_grad():
        said = model(torch.from_numpy(examples[0].features)[None]).events[0, :, 0]
        evidence = heard.read.float() @ model.control.last.weight[ONSETS].T + model.control.last.bias[ONSETS]
    own = model.control.base[:25] + heard.gate[:, None] * evidence
    torch.testing.assert_close(own, said, atol=5e-3, rtol=0)


def test_the_loss_is_that_of_training():
    logits, bins, seen = torch.randn(7, 25), torch.arange(7), torch.full((7,), 25)
    expected = event_nll(logits[:, None], bins[:, None], seen[:, None]).mean()
    torch.testing.assert_close(loss_of(logits, bins, seen), expected)


def test_what_the_hidden_layer_holds_is_found_in_it(model, examples):
    heard = listen(model, examples)
    column = heard.read[:, 3].float().numpy().astype(np.float64)
    speeds = np.split(2.0 ** (1.0 + column), 3)
    assert knowledge(heard, speeds, heard, speeds, 0) < 0.1
    noise = list(np.exp(np.random.default_rng(0).normal(size=(3, 450))))
    assert knowledge(heard, noise, heard, noise, 0) > 0.8


def test_an_arrival_in_the_predicted_path_is_when_it_falls():
    path = np.full((3, BEHIND + 28), 1.0)
    path[1, BEHIND + 9 :] = 0.5
    path[2, BEHIND + 2 :] = 0.5
    found = next_arrival(path, 0.3, 5.0, 2.0, 4.0)
    # Ten frames ahead on a curve that is two frames late: eight. Too early a fall is none.
    assert found.tolist() == [np.inf, 1 + 10 - 2, np.inf]


def test_a_line_foresees_a_swing_and_does_not_see_ahead(example_of):
    t = np.arange(450) / 50.0
    quats = np.zeros((450, 22, 4), np.float32)
    quats[..., 0] = 1.0
    for joint in (7, 11):
        angle = 0.9 * np.sin(2.0 * np.pi * t)
        quats[:, joint] = np.column_stack([np.cos(angle / 2), 0 * t, np.sin(angle / 2), 0 * t])
    swing = replace(example_of(450), quats=quats, onsets=arrivals(speed_of(ends_of(quats))))
    line = Line([swing], 5)
    told = line.announced(swing)
    assert score_clip(told, swing.onsets, 450, 5.0)[0].f1 > 0.9
    other = quats.copy()
    other[300:] = quats[299]
    again = line.announced(replace(swing, quats=other))
    kept = told.decided < 300
    assert np.array_equal(told.times[kept], again.times[again.decided < 300])
    rows = judge([swing], ["dance"], lambda example, ms: Announcements(example.onsets - 8.0, example.onsets))
    assert rows == {f"dance ({len(swing.onsets) - 1})": [1.0, 1.0, 0.0]} or len(rows) == 1


def test_nobody_to_judge_is_one_line(data_dir, tmp_path, capsys, model, monkeypatch):
    monkeypatch.setattr(beat_probe, "load_motion_model", lambda path: model)
    (tmp_path / "05_01.bvh").symlink_to(data_dir / "cmu" / "05_01.bvh")
    assert main(["--data", str(tmp_path), "--without", "05"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
