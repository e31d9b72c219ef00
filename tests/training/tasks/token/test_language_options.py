"""Options of a language run."""

import pytest

from pyanticip.errors import OptionError
from training.tasks.token.options import PRESETS, LanguageOptions


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"step": 3}, r"unknown option 'step'; did you mean steps\?"),
        ({"lr": 0.1}, r"unknown option 'lr'; did you mean peak_lr\?"),
        ({"steps": 0}, "option schedule.steps: expected a whole number from 1, got 0"),
        ({"steps": True}, "option schedule.steps: expected a whole number"),
        ({"peak_lr": 0.0}, "option schedule.peak_lr: expected a number above 0 to 10, got 0.0"),
        ({"peak_lr": float("nan")}, "option schedule.peak_lr: expected a number"),
        ({"kind": "plain"}, "option kind: expected one of anticipatory, baseline, got 'plain'"),
        (
            {"kind": "baseline", "scalars": "self"},
            "option loss.scalars: 'self' does nothing with kind='baseline'",
        ),
        ({"kind": "baseline", "own_scalars": 0.5}, "option loss.own_scalars: 0.5 does nothing with"),
        ({"kind": "baseline", "model": {"bias": "random"}}, "option model.bias: 'random' does nothing with"),
        ({"kind": "baseline", "model": {"paper": True}}, "option model.paper: True does nothing with"),
        ({"betas": [0.9]}, "option schedule.betas: expected two numbers"),
        ({"betas": [0.9, 1.0]}, "option schedule.betas: expected two numbers"),
        (
            {"data": "a.txt"},
            "option data.valid: a text file to validate on is needed beside data='a.txt' .--valid.",
        ),
        ({"valid": "a.txt"}, "option data.valid: synthetic data brings its own"),
        ({"vocab": 1}, "option data.vocab: expected at least 2"),
        ({"warm_up": 1}, "unknown option 'warm_up'; did you mean warm_up_steps"),
        ({"schedule": {"warm_up": 1}}, "unknown option schedule.'warm_up'; did you mean warm_up_steps"),
        ({"final_lr": 0.1}, "option schedule.final_lr: a rate up to peak_lr=0.001 is needed, got 0.1"),
        ({"model": 3}, "option model: expected a table of options, got 3"),
        ({"own_scalars": 1.5}, "option loss.own_scalars: expected a number from 0 to 1, got 1.5"),
    ],
)
def test_values_out_of_range_are_named(fields, message):
    with pytest.raises(OptionError, match=message):
        LanguageOptions(**fields)


def test_options_survive_plain_values():
    options = LanguageOptions(data="a.txt", valid="b.txt", model={"dropout": 0.0}, betas=(0.8, 0.9))
    assert LanguageOptions(**options.to_dict()) == options
    assert options.replace(model={"heads": 2}).model == {"dropout": 0.0, "heads": 2}
    assert options.differences(options.replace(threads=2, accumulate=4)) == {}
    assert options.differences(options.replace(steps=7)) == {"schedule.steps": (1000, 7)}


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 50, 1234])
def test_the_schedule_fits_runs_of_any_length(steps):
    options = LanguageOptions(steps=steps)
    rates = [options.schedule.learning_rate(step) / 1e-3 for step in range(steps)]
    top = rates.index(1.0)
    assert max(rates) == 1.0
    assert min(rates) > 0.0
    assert top + 1 == max(1, round(0.1 * steps))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    if steps > 1:
        assert rates[-1] == pytest.approx(0.1)


def test_scheduled_sampling_rises_to_its_end_share():
    options = LanguageOptions(steps=11, own_scalars=0.5)
    assert [options.sampled(step) for step in range(11)] == pytest.approx([0.05 * n for n in range(11)])


def test_the_smoke_preset_is_the_papers():
    smoke = LanguageOptions.gather(None, under=PRESETS["smoke"])
    schedule, data = smoke.schedule, smoke.data
    assert (schedule.steps, schedule.batch, schedule.peak_lr, data.seq_len, data.vocab) == (
        50,
        8,
        1e-3,
        32,
        1000,
    )
    assert (smoke.size, schedule.betas, schedule.weight_decay) == ("small", (0.9, 0.95), 0.01)
    assert schedule.clip_norm == 1.0


@pytest.mark.parametrize("value", [(3, 2), (0, 2), (1.5, 2), 3, (True, 2)])
def test_repeats_are_two_whole_numbers(value):
    with pytest.raises(OptionError, match="repeats: expected two whole"):
        LanguageOptions(repeats=value)
