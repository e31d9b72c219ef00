"""Teaching a checkpoint's event head: what it says is what was learned, and all else stays as it was."""

import json

import numpy as np
import pytest
import torch

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer, load_motion_model, save_checkpoint
from realtime.step.open import open_backend
from training import beat_probe, strokes, teach_beats
from training.beat_strokes import listen
from training.strokes import BeatHead, Beats
from training.tasks.motion.scores import run_model
from training.teacher.handmade import TEACHER_VERSION

SIZES = {"d_model": 32, "heads": 2, "fast_layers": 1, "slow_layers": 1, "ff": 32, "control_hidden": 48}


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = MotionTransformer(ModelConfig(**SIZES)).eval()
    with torch.no_grad():
        for parameter in model.control.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def a_head(heard):
    """One that says something of everything that it reads."""
    torch.manual_seed(1)
    head = BeatHead(heard.close, heard.seen.shape[1] - heard.close).eval()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    seen = heard.seen.float()
    return Beats(head, seen.mean(0), seen.std(0) + 1e-3)


def test_the_model_says_what_the_head_has_learned_and_else_what_it_said(model, example_of):
    clips = [example_of(200, seed, "a") for seed in range(2)]
    heard = listen(model, clips)
    beats = a_head(heard)
    hearing = teach_beats.with_strokes(model, beats)
    wanted = beats.said(heard, clips)
    for clip in clips:
        got, before = run_model(hearing, clip), run_model(model, clip)
        # What is listened to is kept in half precision.
        np.testing.assert_allclose(got.hazards[:, 0], wanted[clip.name].hazards[:, 0], atol=5e-3)
        assert not np.allclose(got.hazards[:, 0], before.hazards[:, 0], atol=5e-3)
        assert np.array_equal(got.hazards[:, 1], before.hazards[:, 1])
        for name in ("params", "scalars", "gate"):
            assert np.array_equal(getattr(got, name), getattr(before, name))


def test_a_head_for_another_model_is_refused(model, example_of):
    beats = a_head(listen(model, [example_of(60)]))
    other = MotionTransformer(ModelConfig(**{**SIZES, "control_hidden": 16}))
    with pytest.raises(OptionError, match="does not fit the model's control head"):
        teach_beats.with_strokes(other, beats)


def test_the_command_writes_a_checkpoint_that_steps(model, piece_of, data_dir, tmp_path, capsys, monkeypatch):
    pytest.importorskip("onnxscript")
    before = save_checkpoint(tmp_path / "before", model, training={"teacher_version": 2, "options": {"a": 1}})
    people = {"train": [piece_of(260, 0, subject="a"), piece_of(260, 1, subject="b")]}
    people["validation"] = [piece_of(200, 2, subject="c")]
    monkeypatch.setattr(beat_probe, "load_split", lambda data, split, cache: people[split])
    monkeypatch.setattr(strokes, "FRAMES", 64)
    given = ["--data", str(data_dir), "--checkpoint", str(before), "--out", str(tmp_path / "after")]
    assert teach_beats.main([*given, "--copies", "1", "--steps", "20", "--without", "b"]) == 0
    assert "last-moment" in capsys.readouterr().out
    noted = json.loads((tmp_path / "after" / "model.json").read_text())["training"]
    assert (noted["teacher_version"], noted["options"]) == (TEACHER_VERSION, {"a": 1})
    assert noted["beats"]["without"] == ["b"]
    assert load_motion_model(tmp_path / "after").cfg.strokes
    one, two = (open_backend(kind, tmp_path / "after") for kind in ("onnx", "torch"))
    rows = np.ascontiguousarray(listen_rows(people["validation"][0]))
    for row in rows[:80]:
        a, b = one.step(row[None]), two.step(row[None])
        np.testing.assert_allclose(a.hazards, b.hazards, atol=1e-5)
    assert teach_beats.main([*given, "--without", "z"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def listen_rows(piece):
    """Feature rows of a piece as it is."""
    from training.data.examples import plain

    return np.asarray(plain(piece).features)
