"""Baselines without learning: extrapolation, tuning, errors, bootstrap."""

import numpy as np
import pytest
import torch

from pyanticip.errors import FormatError
from pyanticip.models import ModelConfig, MotionTransformer
from training.data.batches import HORIZONS
from training.data.examples import example_from_piece
from training.evaluate.baselines import DELAYS_MS, SETTINGS, Baselines, Twins, simple_forecasts
from training.report.statistics import resampled_within
from training.tasks.motion import scores
from training.tasks.motion.baselines import (
    ParameterBaselines,
    Setting,
    evaluated_frames,
    extrapolate,
    predict,
    tune,
)
from training.tasks.motion.scores import measure
from training.teacher.filters import causal_twin
from training.teacher.kinematic_targets import EDGE


def test_a_straight_line_is_carried_on_exactly():
    y = 0.1 + 0.002 * np.arange(100)
    for n in (1, 4):
        announced = extrapolate(y, Setting(0.0, 0.0, n, 1.0), 10)
        # The slope over n frames is delayed by n/2 frames.
        np.testing.assert_allclose(announced[n:], y[n:] + 0.002 * (10 + n / 2))
    assert np.array_equal(extrapolate(y, Setting(0.0, 0.0), 10), y)
    assert extrapolate(y * 100, Setting(0.0, 0.0, 1, 1.0), 10).max() == 1.0


def test_tuning_beats_any_untuned_setting_and_survives_saving(example_of, tmp_path):
    examples = [example_of(300, seed=s, subject=f"0{s}") for s in range(2)]
    baselines = tune(
        examples, delays=(0.0, 0.08), motion_delays=(0.04,), slope_frames=(1, 4), gains=(0.5, 1.0)
    )
    best = measure(examples, lambda e: predict(Twins(e.quats), baselines.linear, extrapolate)).mean()
    for setting in (Setting(0.0, 0.04, 1, 1.0), Setting(0.08, 0.04, 4, 0.5)):
        table = tuple(tuple(setting for _ in HORIZONS) for _ in range(8))
        other = measure(examples, lambda e, table=table: predict(Twins(e.quats), table, extrapolate)).mean()
        assert (best <= other + 1e-7).all()
    baselines.save(tmp_path / "rivals.json")
    assert ParameterBaselines.load(tmp_path / "rivals.json") == baselines
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(FormatError, match="rivals"):
        ParameterBaselines.load(tmp_path / "bad.json")


def test_the_packaged_rivals_fit_the_teacher():
    baselines = ParameterBaselines.load(SETTINGS / "rivals.json")
    for table in (baselines.hold, baselines.linear):
        assert [len(row) for row in table] == [len(HORIZONS)] * 8
    assert all(setting.gain == 0.0 for row in baselines.hold for setting in row)
    assert all(setting.gain > 0.0 for row in baselines.linear for setting in row)


def test_errors_are_means_over_subjects_not_over_frames(example_of):
    long, short = example_of(500, seed=1, subject="01"), example_of(120, seed=2, subject="02")

    def off(example):
        wrong = 0.1 if example.subject == "01" else 0.3
        ahead = [np.roll(example.params, -h, axis=0) + wrong for h in HORIZONS]
        return np.stack(ahead, axis=-1).astype(np.float32)

    errors = measure([long, short], off)
    np.testing.assert_allclose(errors.mean(), 0.2, atol=1e-5)
    assert evaluated_frames(120, 20) == slice(EDGE, 120 - EDGE - 20)


@pytest.mark.parametrize("chunk", [1, 37, 400])
def test_how_a_clip_is_cut_into_chunks_moves_no_figure(example_of, monkeypatch, chunk):
    torch.manual_seed(0)
    config = ModelConfig(
        d_model=32, heads=4, fast_layers=1, slow_layers=1, ff=64, control_hidden=64, window=16
    )
    model, example = MotionTransformer(config), example_of(150, seed=3)
    with torch.no_grad():
        whole = model.eval()(torch.from_numpy(example.features)[None])
    monkeypatch.setattr(scores, "CHUNK", chunk)
    said = scores.run_model(model, example)
    np.testing.assert_allclose(said.params, whole.params[0].numpy(), atol=1e-5)
    np.testing.assert_allclose(said.hazards, torch.sigmoid(whole.events[0]).numpy(), atol=1e-5)
    np.testing.assert_allclose(said.gate, whole.gate[0].numpy(), atol=1e-5)


def test_a_bootstrap_draws_people_and_the_clips_of_each():
    owners = ["a"] * 6 + ["b"] * 5 + ["c"]
    draws = list(resampled_within(owners, draws=200, seed=0))
    people, clips = set(), set()
    for picks in draws:
        assert len(picks) == 3
        who = [{owners[n] for n in pick} for pick in picks]
        assert all(len(one) == 1 for one in who), "a person's clips are drawn from that person's"
        assert [len(pick) for pick in picks] == [owners.count(next(iter(one))) for one in who]
        people.add(tuple(sorted(next(iter(one)) for one in who)))
        clips |= {tuple(sorted(pick.tolist())) for pick in picks if owners[pick[0]] == "a"}
    assert len(people) == 10, "three of three, with repetitions"
    assert len(clips) > 50, "the clips of a person are drawn again each time"
    again = list(resampled_within(owners, draws=200, seed=1))
    assert any(
        a.tolist() != b.tolist() for x, y in zip(draws, again, strict=True) for a, b in zip(x, y, strict=True)
    )


def test_rivals_hold_and_mean_what_their_names_say(piece_of):
    example = example_from_piece(piece_of(300, seed=4))
    quats, said = example.quats, simple_forecasts(Twins(example.quats), Baselines.load())
    for ms in DELAYS_MS:
        late = causal_twin(quats, ms / 1000.0)
        np.testing.assert_allclose(said[f"hold, {ms} ms late"], np.repeat(late[:, :, None], 3, 2), atol=1e-6)
    calm = causal_twin(quats, 0.02).astype(np.float64)
    for seconds in (1, 2, 4, 8):
        for t in (0, 30, 49, 50, 120, 299):
            mean = calm[max(t + 1 - 50 * seconds, 0) : t + 1].mean(axis=0)
            np.testing.assert_allclose(said[f"mean over {seconds} s"][t, :, 0], mean, atol=1e-6)
    half = 0.5 * (calm[299] + calm[100:300].mean(axis=0))
    np.testing.assert_allclose(said["half hold, half mean over 4 s"][299, :, 2], half, atol=1e-6)
