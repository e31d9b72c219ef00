"""Blending: a mixture of forecasts that is put into the weights, and what it must not touch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pyanticip.models
from pyanticip._core import motion_features
from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.vocabulary import PARAMETERS
from training.data.examples import Example
from training.finish import blend, poor_suits
from training.finish.linear_forecast import LinearForecast, fit_forecast, recent_of
from training.tasks.motion.shrink import draw_towards, slow_hold, take_back


def small(**options):
    torch.manual_seed(0)
    model = MotionTransformer(
        ModelConfig(d_model=32, heads=2, fast_layers=1, slow_layers=1, ff=32, control_hidden=16, **options)
    )
    return model.eval()


def clip(seed, frames=200, subject="a"):
    """A body whose joints swing, as features; the lesson is made up by whoever asks."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames)[:, None] / 50.0
    angle = 0.5 * np.sin(2 * np.pi * rng.uniform(0.3, 1.5, 22) * t + rng.uniform(0, 6, 22))
    quats = np.zeros((frames, 22, 4), np.float32)
    quats[..., 0], quats[..., 1] = np.cos(angle / 2), np.sin(angle / 2)
    root = np.zeros((frames, 3), np.float32)
    features = motion_features(quats, root, np.ones(22, bool))
    blank = np.zeros(0, dtype=np.int64)
    lesson = np.full((frames, 8), 0.5, np.float32)
    return Example(f"{subject}_{seed}", subject, quats, features, lesson, blank, blank)


def some_forecast(model):
    torch.manual_seed(1)
    assert model.control.recent is not None
    return LinearForecast(0.05 * torch.randn_like(model.control.recent.weight), torch.randn(40))


def test_the_weights_say_what_the_mixture_says():
    model, example = small(), clip(0)
    plain = some_forecast(model)
    rng = np.random.default_rng(2)
    held = np.where(np.array(PARAMETERS)[:, None] == "pulse", 0.0, rng.choice([0.0, 0.2], (8, 5)))
    choice = blend.Choice(rng.choice([0.0, 0.4, 1.0], (8, 5)), held, rng.integers(0, 4, (8, 5)))
    rows = torch.from_numpy(example.features)[None]
    recent = recent_of(model, example)
    with torch.no_grad():
        before = torch.logit(model(rows).params[0])
        hidden = model(rows).events
        wanted = before.clone()
        for k, name in enumerate(PARAMETERS):
            for i in range(5):
                a, b = choice.linear_share[k, i], choice.hold_share[k, i]
                mixed = (1 - a) * before[:, k, i] + a * plain.logits(recent)[:, k, i]
                hold = slow_hold(name, int(choice.stretch[k, i]), model.cfg.taps)
                wanted[:, k, i] = mixed if not b else (1 - b) * mixed + b * (recent @ hold)
        blend.apply(model, plain, choice)
        after = model(rows)
    torch.testing.assert_close(after.params[0], torch.sigmoid(wanted), atol=2e-6, rtol=0)
    torch.testing.assert_close(after.events, hidden, atol=0, rtol=0)


def test_a_linear_forecast_finds_what_is_linear_in_the_measures():
    model = small()
    truth = some_forecast(model)
    examples = []
    for seed in range(6):
        example = clip(seed, subject=str(seed % 2))
        now = torch.sigmoid(0.5 * truth.logits(recent_of(model, example)))[:, :, 0]
        examples.append(replace(example, params=now.numpy()))
    found = fit_forecast(model, examples[:5], steps=200)
    recent = recent_of(model, examples[5])[24:]
    error = (torch.sigmoid(found.logits(recent))[:, :, 0] - torch.from_numpy(examples[5].params[24:])).abs()
    spread = torch.from_numpy(examples[5].params[24:]).std(0)
    assert float((error.mean(0) / spread).mean()) < 0.35


def test_the_better_forecast_is_chosen_for_each_parameter():
    model = small()
    plain = some_forecast(model)
    examples = []
    for seed in range(3):
        example = clip(seed)
        with torch.no_grad():
            own = model(torch.from_numpy(example.features)[None]).params[0, :, :, 0]
        filtered = torch.sigmoid(plain.logits(recent_of(model, example)))[:, :, 0]
        # The linear forecast is right about the first four parameters now, the model about the others.
        lesson = torch.where(torch.arange(8) < 4, filtered, own).numpy()
        examples.append(replace(example, params=lesson))
    cases = [blend.Case(model, plain, examples)]
    tables = [blend.errors_of(case) for case in cases]
    choice = blend.choose(cases, tables)
    before, after = tables[0][blend.UNMIXED], blend.chosen_errors(tables[0], choice)
    assert choice.linear_share[:4, 0].tolist() == [1.0] * 4
    assert not choice.linear_share[4:, 0].any()
    assert not choice.hold_share[PARAMETERS.index("pulse")].any()
    assert (after <= before + 1e-12).all()
    assert after[:4, 0].max() < 1e-6 < before[:4, 0].min()
    told = {(line["parameter"], line["horizon_ms"]): line for line in choice.described()}
    assert told["pitch", 0] == {"parameter": "pitch", "horizon_ms": 0, "filter": 1.0}
    first, second = blend.judged_choices(cases * 2, tables * 2, choice)
    assert first == second
    assert first["ratio_chosen_on_others"] == first["ratio"]
    assert first["ratio"][0] < 1.0


def test_shrinking_is_taken_back():
    model = small()
    kept = {name: value.clone() for name, value in model.control.state_dict().items()}
    hold = slow_hold("space", 2, model.cfg.taps)
    draw_towards(model, PARAMETERS.index("space") * 5 + 4, 0.2, hold)
    take_back(model, [{"parameter": "space", "horizon_ms": 400, "share": 0.2, "hold_ms": 240}])
    for name, value in model.control.state_dict().items():
        torch.testing.assert_close(value, kept[name], atol=1e-6, rtol=1e-5)


class Takes:
    """As much of a set as :func:`distil` asks for."""

    def __init__(self, count):
        self.clips = [clip(seed) for seed in range(count)]

    def example(self, number):
        return self.clips[number]

    def piece(self, number):
        return type("Piece", (), {"root": np.zeros((len(self.clips[number]), 3), np.float32)})

    def mask(self, number):
        return np.ones(22, dtype=bool)


def test_poor_suits_are_given_back_what_was_said_of_them():
    before, blended, takes = small(), small(), Takes(6)
    choice = blend.Choice(np.full((8, 5), 0.5), np.zeros((8, 5)), np.zeros((8, 5), dtype=np.int64))
    blend.apply(blended, some_forecast(blended), choice)
    rng, still, whole = np.random.default_rng(0), np.zeros((200, 3)), np.ones(22, bool)
    poor = [poor_suits.in_poor_suit(example, still, whole, "six", rng) for example in takes.clips]

    def far(examples):
        with torch.no_grad():
            rows = torch.from_numpy(np.stack([e.features for e in examples]))
            return float((blended(rows).params - before(rows).params).abs().mean())

    hidden, poor_before, whole_before = blended.control.first.weight.clone(), far(poor), far(takes.clips)
    poor_suits.distil(blended, before, takes, range(6), steps=300)
    assert far(poor) < 0.75 * poor_before
    assert far(takes.clips) > 0.85 * whole_before
    assert torch.equal(hidden, blended.control.first.weight)


def test_a_model_that_reads_no_measures_is_refused():
    with pytest.raises(OptionError, match="kinematics"):
        recent_of(small(kinematics=False), clip(0))


def test_the_packaged_model_is_not_blended_twice(tmp_path, capsys):
    packaged = Path(pyanticip.models.__file__).with_name("data") / "motion-v1"
    given = ["--data", str(tmp_path), "--checkpoint", str(packaged), "--out", str(tmp_path / "out")]
    assert blend.main(given) == 1
    assert "was blended already" in capsys.readouterr().err
    assert blend.main([*given, "--fold", "nowhere"]) == 1
    assert "expected CHECKPOINT=SUBJECTS" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_fold_is_a_checkpoint_and_those_it_was_made_without():
    assert blend.parse("runs/a=05,16") == (Path("runs/a"), ("05", "16"))
    for wrong in ("runs/a", "=05", "runs/a="):
        with pytest.raises(OptionError, match="expected CHECKPOINT=SUBJECTS"):
            blend.parse(wrong)
