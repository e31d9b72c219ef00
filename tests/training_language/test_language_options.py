"""Options: ranges, files, schedules."""

import pytest

from pyanticip.errors import OptionError
from training.tasks.token.options import PRESETS, LanguageOptions, from_dict, read_toml


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"step": 3}, r"unknown option 'step'; did you mean 'steps'\?"),
        ({"steps": 0}, "option steps: expected a whole number from 1, given 0"),
        ({"steps": True}, "option steps: expected a whole number"),
        ({"lr": 0.0}, "option lr: expected a number above 0"),
        ({"lr": float("nan")}, "option lr: expected a number"),
        ({"kind": "plain"}, "option kind: expected one of anticipatory, baseline, given 'plain'"),
        ({"kind": "baseline", "scalars": "self"}, "option scalars: 'self' does nothing with kind='baseline'"),
        ({"betas": [0.9]}, r"option betas: expected two numbers"),
        ({"betas": [0.9, 1.0]}, r"option betas: expected two numbers"),
        ({"data": "a.txt"}, "option valid: a text file to validate on is needed beside data='a.txt'"),
        ({"valid": "a.txt"}, "option valid: synthetic data brings its own"),
        ({"vocab": 1}, "option vocab: expected at least 2"),
        ({"model": 3}, "option model: expected fields"),
        ({"sampling_end": 1.5}, "option sampling_end: expected a number from 0 to 1, given 1.5"),
    ],
)
def test_values_out_of_range_are_named(fields, message):
    with pytest.raises(OptionError, match=message):
        from_dict(fields)


def test_options_survive_plain_values():
    options = LanguageOptions(data="a.txt", valid="b.txt", model={"dropout": 0.0}, betas=(0.8, 0.9))
    assert from_dict(options.to_dict()) == options
    assert options.but(model={"heads": 2}).model == {"dropout": 0.0, "heads": 2}
    assert options.differences(options.but(threads=2, accumulate=4)) == {}
    assert options.differences(options.but(steps=7)) == {"steps": (1000, 7)}


def test_a_toml_file_is_checked_key_by_key(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('steps = 70\nbetas = [0.9, 0.99]\n[model]\nbias = "random"\n')
    assert read_toml(path) == {"steps": 70, "betas": [0.9, 0.99], "model": {"bias": "random"}}
    path.write_text("stepz = 70\n")
    with pytest.raises(OptionError, match=r"run\.toml: unknown option 'stepz'; did you mean 'steps'"):
        read_toml(path)
    path.write_text("steps = [\n")
    with pytest.raises(OptionError, match=r"run\.toml: is not TOML"):
        read_toml(path)
    path.write_text('data = "a.txt"\n')
    assert read_toml(path) == {"data": "a.txt"}
    path.write_text('valid = "a.txt"\n')
    assert read_toml(path) == {"valid": "a.txt"}
    with pytest.raises(OptionError, match=r"nowhere\.toml: cannot be read"):
        read_toml(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 50, 1234])
def test_the_schedule_fits_runs_of_any_length(steps):
    options = LanguageOptions(steps=steps)
    rates = [options.rate(step) for step in range(steps)]
    top = rates.index(1.0)
    assert max(rates) == 1.0
    assert min(rates) > 0.0
    assert top + 1 == max(1, round(0.1 * steps))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    if steps > 1:
        assert rates[-1] == pytest.approx(0.1)


def test_scheduled_sampling_rises_to_its_end_share():
    options = LanguageOptions(steps=11, sampling_end=0.5)
    assert [options.sampled(step) for step in range(11)] == pytest.approx([0.05 * n for n in range(11)])


def test_the_smoke_preset_is_the_papers():
    smoke = PRESETS["smoke"]
    assert (smoke.steps, smoke.batch, smoke.lr, smoke.seq_len, smoke.vocab) == (50, 8, 1e-3, 32, 1000)
    assert (smoke.size, smoke.betas, smoke.weight_decay, smoke.clip) == ("small", (0.9, 0.95), 0.01, 1.0)
